"""The page, pictures and data of :mod:`benchmarks.papers.legrand2018`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from benchmarks.common.pages import STUDIES, made_by
from benchmarks.common.tables import Table, cells, markdown, write_page
from benchmarks.papers.legrand2018 import SOURCES, Studies
from benchmarks.papers.legrand2018_pictures import PAPER_TAU, pictures, weekly
from pipelines.report.policies import spans
from pipelines.storage.atomic import replacing
from pipelines.workflows.policy_study import Study, asked
from sim.search.claims import BARELY, HOLDS, changed, claims, percent, probability, pure_sums, recorded
from sim.search.pure import BASELINE, PURE, THRESHOLDS, USUAL
from sim.search.study import GREEDY, ORACLE, TRAINED
from sim.search.transfer import TESTING, TRAINING, Split, by_policy, sums

PAGE = STUDIES / "legrand-2018.md"
FITTING_TAU = 60.0
"""What the paper's sums fit."""
OURS = {"w*_oracle": ORACLE, "w*_train": TRAINED, "w_greedy": GREEDY}
"""The paper's names of what is learned, in the table of published numbers."""
LONGEST = (
    (28663, 510209),
    (28664, 508420),
    (8040, 474510),
    (25891, 452520),
    (9036, 227033),
    (31620, 162564),
    (31623, 162536),
    (17, 118561),
    (14408, 114369),
    (34441, 112013),
)
"""Job and runtime in seconds, of the paper's table 7."""

HEAD = r"""# Do the results of Legrand et al. (2018) come out?

Legrand, Trystram & Zrigui, "Adapting batch scheduling to workload characteristics: what can we expect from online learning?" (Inria report 9212,
2018), order EASY's queue by twelve pure policies, and by mixed ones: weighted sums of processors n, requested time r and wait. Every week is simulated
by itself, jobs are backfilled shortest first, and a job that has waited for 200,000 s goes to the head. They find that smallest area first (SAF) is hard
to beat: each week has a far better order of its own (w\*), but neither the best of the training weeks (w_train) nor that of the week before (w_greedy)
beats SAF on other weeks.

**What is learned on training weeks {beaten}.** {verdict}

{answer} What lies between as recorded and shaken is luck of one replay.

![Sums over the testing weeks, relative to SAF](legrand-2018-transfer.png)

Sums of weekly mean bounded slowdowns over the testing weeks, relative to SAF's. Circles: submissions as recorded. Bars and marks: 95 % interval and mean
over weeks and twenty replays with every submission moved by up to 60 s. w_test is the best single direction of the testing weeks, in hindsight; xnes3 and
xnes6 are what the optimiser xNES finds for each week, with three weights and with six.

What differs from the paper, and is known:

* The paper states tau = 10 s. Its sums fit tau = 60 s: on KTH-SP2 FCFS is {sixty} here with tau 60, published as 850, and {ten} with tau 10. Both are shown.
* The files differ. In the SDSC-SP2 at hand no job runs longer than its request, in the paper's some ran for days on a request of half an hour (table 7).
  The paper has 27,670 and 49,809 jobs; no reading of its rules gives these, so ratios and ranks are compared, not sums.
* The paper's named weeks do not match ours. In its week 73 of SDSC-SP2, w\* is 2.5 times better than SAF and 3 times better than FCFS; in ours {week73}. {best}
* Of equally good directions the paper does not say which it takes. Here it is the one in their middle. Before the first week w_greedy is FCFS.
* Of xNES the paper gives no settings. Here each search has 1,000 simulations, starts at random points of the sphere with a step of 0.5, and has
  lambda = 1; [policy-optimisers.md](policy-optimisers.md) has others.
* SDSC-BLUE and CTC-SP2 are not at hand. With their files, `queuecast policies FILE --out FOLDER --report PAGE.html` makes all of this for them.

{made} `queuecast policies` makes the same tables and figures for any trace. Traces: KTH-SP2 by Lars Malinowsky, SDSC-SP2 by the San Diego
Supercomputer Center (the 54,006 jobs of Gaussier et al. 2015), both by way of the Parallel Workloads Archive (D. Feitelson). All cells of all tables are
in [data/legrand-2018.csv](data/legrand-2018.csv), what the figures show in [data/legrand-2018-weeks.csv](data/legrand-2018-weeks.csv) and
[data/legrand-2018-landscapes.parquet](data/legrand-2018-landscapes.parquet).
"""
WORKLOADS = {
    "KTH-SP2": (27_670, 8_579, 8),
    "CTC-SP2": (68_687, 9_807, 10),
    "SDSC-SP2": (49_809, 6_318, 12),
    "SDSC-BLUE": (208_716, 3_184, 40),
}
"""Jobs, their mean duration in seconds and their mean processors, of the paper's table 1."""
TABLE_1 = "## Table 1: the workloads"
WORKLOADS_TOLD = """The paper's numbers beside those of the files at hand: of all cleaned jobs, and of those that the weeks keep, which are simulated. Whether
the paper counts before or after it leaves jobs out is not said. CTC-SP2 and SDSC-BLUE are not at hand."""
TRANSFER_TOLD = """Sums over weeks 28 to 64 and 65 to 100, and the change of the testing sum to SAF's: the paper's, ours as recorded, and ours over shaken
replays with its 95 % interval over weeks and replays. It agrees where that interval holds the paper's change. The last column is the share of
resamples in which the policy's sum is below SAF's."""
STARVATION_TOLD = """The longest wait of any job in any week in hours, and in brackets what 99 % of all jobs do not exceed. 200,000 s are 55.6 h: a job
that has waited so long goes to the head, and still waits for processors."""
LONGEST_TOLD = """The paper's jobs, and what the file at hand says of them, where a job ends with its request at the latest. Times in seconds."""
MONTHS_TOLD = (
    """Months are 30 days from the first submission, the first left out: ten for training, the others for testing (figure 15)."""
)
FIGURES = r"""## Figures

![Pure policies: distributions over weeks, and SAF against the best of each week](legrand-2018-pure.png)

Figures 1, 2 and 12: weekly mean bounded slowdowns of the pure policies, and SAF against the best pure policy of each week (tau = 10 s); the bars name
the best where SAF is more than a quarter above.

![Policies by week](legrand-2018-weeks.png)

Figures 3 and 13 (tau = 10 s, as recorded); training weeks on grey.

![Landscapes of weeks](legrand-2018-landscapes.png)

Figure 4: every cell is a mixed policy, lighter is better, with the lowest and highest value above; the two faces of a week have weights of n below and
above 0. The weight of r grows to the upper left, that of wait to the upper right, and both are 0 in the middle. Dot: w\*. The faces look alike, as n is
at most 128 and r and wait are thousands of seconds: raw features leave n a say in the very middle alone.

![xNES against the grid](legrand-2018-search.png)

Figures 5 and 14 (tau = 10 s): xNES with three and six weights against the optimum of the grid of three.

![Policies by month](legrand-2018-months.png)

Figure 15 for both traces (tau = 10 s, as recorded); training months on grey.
"""


def published(shared: Path, table: int) -> pd.DataFrame:
    """Return the paper's numbers of a table: ``policy column published``."""
    rows = pd.read_csv(shared / "reference" / "mixed_policies_published.csv")
    rows = rows[rows["table"] == table].replace({"policy": OURS})
    return rows.rename(columns={"sum_of_weekly_mean_bounded_slowdown": "published"})[["policy", "column", "published"]]


def page(studies: Studies, shared: Path) -> str:
    """Return the page as Markdown, with every table."""
    lines = [HEAD.format(made=made_by("papers.legrand2018"), **_told(studies)), *workloads(shared), ""]
    for name, source in SOURCES.items():
        lines += [
            f"## The claims on {source.title}",
            "",
            _simulated(studies[name]["weeks"]),
            "",
            claims_of(studies[name]["weeks"]),
            "",
        ]
    study = studies["sdsc-sp2"]["weeks"]
    lines += ["## Table 2: what is learned on SDSC-SP2", "", TRANSFER_TOLD, "", table_2(study, shared), ""]
    for name, source in SOURCES.items():
        lines += [f"## Table {source.table}: thresholds on {source.title}", ""]
        lines += [*thresholds(studies[name]["weeks"], published(shared, source.table)), ""]
    lines += ["## Starvation", "", STARVATION_TOLD, "", starvation({name: each["weeks"] for name, each in studies.items()}), ""]
    lines += ["## Table 7: the longest jobs of SDSC-SP2", "", LONGEST_TOLD, "", longest(SOURCES["sdsc-sp2"].read(shared).jobs), ""]
    lines += ["## Months", "", *months({name: each["months"] for name, each in studies.items()}), FIGURES]
    return "\n".join(lines)


def _verdict(studies: Studies) -> str:
    """Return how many claims come out, and which do not everywhere."""
    found: dict[str, list[str]] = {}
    for units in studies.values():
        for each in claims(units["weeks"].tables, units["weeks"].settings):
            found.setdefault(each.claim, []).append(each.verdict)
    doubted = [f'"{claim}"' for claim, verdicts in found.items() if not {*verdicts} <= {HOLDS, BARELY}]
    text = f"Of the paper's {len(found)} claims {len(found) - len(doubted)} come out on both traces with both taus"
    return f"{text}; not everywhere {', '.join(doubted)}." if doubted else f"{text}."


def _beaten(studies: Studies) -> str:
    """Return where what is learned on training weeks beats SAF beyond its interval."""
    where = []
    for name, units in studies.items():
        study = units["weeks"]
        transfer = sums(study.tables.replays, study.settings.split, seed=study.settings.seed)
        taus_s = [tau_s for tau_s in study.settings.taus_s if by_policy(transfer, tau_s, TESTING)[TRAINED]["high"] < 0]
        where += [f"{SOURCES[name].title} with tau = {tau_s:g} s" for tau_s in taus_s]
    return (
        f"beats SAF beyond its interval on the testing weeks of {' and '.join(where)}"
        if where
        else "beats SAF beyond its interval on the testing weeks of neither trace"
    )


def _told(studies: Studies) -> dict[str, str]:
    """Return the sentences of the head that hold numbers."""
    said = []
    for name, source in SOURCES.items():
        study = studies[name]["weeks"]
        found = by_policy(sums(study.tables.replays, study.settings.split, seed=study.settings.seed), PAPER_TAU, TESTING)
        best, trained = found[ORACLE], found[TRAINED]
        as_recorded = best["sum"] / found[BASELINE]["sum"] - 1.0
        said.append(
            f"On the testing weeks of {source.title} the sum of w\\* differs from SAF's by {percent(as_recorded)} % as recorded, and by {changed(best)} in "
            f"replays with every submission moved by up to a minute; that of w_train by {changed(trained)} there, and it is lower with a probability of "
            f"{probability(trained['better'])} (tau = 10 s)."
        )
    kth, sdsc = (studies[name]["weeks"] for name in ("kth-sp2", "sdsc-sp2"))
    ten, sixty = (f"{pure_sums(kth.tables.pure, None, tau_s)[USUAL]:,.0f}" for tau_s in (PAPER_TAU, FITTING_TAU))
    weekly = recorded(sdsc.tables.replays, PAPER_TAU)
    gains = pd.DataFrame({policy: weekly[policy] / weekly[ORACLE] for policy in (BASELINE, USUAL)})
    most = gains.loc[gains[BASELINE].idxmax()]
    return {
        "beaten": _beaten(studies),
        "verdict": _verdict(studies),
        "answer": " ".join(said),
        "ten": ten,
        "sixty": sixty,
        "week73": f"{gains.loc[73, BASELINE]:.1f} and {gains.loc[73, USUAL]:.1f} times (tau = 10 s)",
        "best": f"Such weeks exist: in {int(((gains[BASELINE] >= 2.5) & (gains[USUAL] >= 3)).sum())} of 100 it is at least 2.5 and 3 times better, in "
        f"week {gains[BASELINE].idxmax()} {most[BASELINE]:.1f} and {most[USUAL]:.1f} times.",
    }


def _simulated(study: Study) -> str:
    facts, split = study.facts, study.settings.split
    dropped = " and ".join(f"{count:,} ({rule})" for rule, count in facts["dropped"].items())
    return (
        f"Weeks {spans(facts['windows'])}, {facts['simulated_jobs']:,} jobs; training {spans(split.training)}, testing {spans(split.testing)}. "
        f"Of the whole trace {dropped} jobs were left out, by {facts['drop_basis']}. Threshold 200,000 s, {facts['directions']:,} directions."
    )


def claims_of(study: Study) -> str:
    """Return the claims with what was found and a verdict for each tau."""
    found: dict[str, list[str]] = {}
    for each in claims(study.tables, study.settings):
        found.setdefault(each.claim, []).append(f"**{each.verdict}**: {each.found}")
    return markdown(
        ["claim", *(f"τ = {tau_s:g} s" for tau_s in study.settings.taus_s)],
        [[claim, *cells] for claim, cells in found.items()],
        left=["τ = 10 s", "τ = 60 s"],
    )


def table_2(study: Study, shared: Path) -> str:
    """Return sums over training and testing weeks beside the published ones, and whether the changes to SAF agree."""
    told = published(shared, 2)
    parts = {part: told[told["column"].str.startswith(part)].set_index("policy")["published"] for part in (TRAINING, TESTING)}
    transfer = sums(study.tables.replays, study.settings.split, seed=study.settings.seed)
    ours = {tau_s: {part: by_policy(transfer, tau_s, part) for part in parts} for tau_s in study.settings.taus_s}
    rows = []
    for policy in parts[TESTING].sort_values(kind="stable").index:
        row = [policy, *(f"{parts[part][policy]:,.0f}" for part in parts)]
        row += [f"{ours[tau_s][part][policy]['sum']:,.0f}" for tau_s in ours for part in parts]
        change = parts[TESTING][policy] / parts[TESTING][BASELINE] - 1.0
        mine = ours[FITTING_TAU][TESTING][policy]
        here = mine["sum"] / ours[FITTING_TAU][TESTING][BASELINE]["sum"] - 1.0
        changes = [f"{percent(change)} %", f"{percent(here)} %", *_agrees(mine, change), probability(mine["better"])]
        row += ["–"] * 5 if policy == BASELINE else changes
        rows.append(row)
    headings = [f"{by}, {part}" for by in ("paper", "τ 10", "τ 60") for part in parts]
    return markdown(["policy", *headings, "paper, to SAF", "τ 60, to SAF", "and shaken", "agrees", "P(below SAF)"], rows)


def _agrees(row: Mapping[str, Any], value: float) -> list[str]:
    """Return a change with its interval, and whether that holds the published ``value``."""
    return [changed(row), "yes" if row["low"] <= value <= row["high"] else "no"]


def thresholds(study: Study, told: pd.DataFrame) -> list[str]:
    """Return sums relative to FCFS beside the published ones, by threshold, and what matches in a sentence each."""
    lines: list[str] = []
    whole = Split(tuple(study.facts["windows"]), tuple(study.facts["windows"]))
    against = sums(study.tables.replays, whole, USUAL, PURE, seed=study.settings.seed)
    for threshold in THRESHOLDS:
        column = "no threshold" if threshold is None else f"{threshold} s"
        paper = told[told["column"] == column].set_index("policy")["published"].sort_values(kind="stable")
        ours = {tau_s: pure_sums(study.tables.pure, threshold, tau_s) for tau_s in study.settings.taus_s}
        ratios = pd.DataFrame(
            {"paper": paper / paper[USUAL]} | {f"τ {tau_s:g}": each / each[USUAL] for tau_s, each in ours.items()}
        )
        ratios = ratios.loc[paper.index]
        heading = "No threshold" if threshold is None else f"Threshold {threshold:,} s"
        lines += [f"**{heading}.** {' '.join(_matches(ratios, name) for name in ratios.columns[1:])}", ""]
        rows = []
        for policy, row in ratios.iterrows():
            cells = [str(policy), *(f"{value:.3f}" for value in row)]
            if threshold == study.settings.starvation_s:
                each = by_policy(against, FITTING_TAU, TESTING)[str(policy)]
                cells += ["–", "–"] if policy == USUAL else _agrees(each, row["paper"] - 1.0)
            rows.append(cells)
        rows.append(["sum of FCFS", f"{paper[USUAL]:,.0f}", *(f"{each[USUAL]:,.0f}" for each in ours.values())])
        rows[-1] += ["", ""] if threshold == study.settings.starvation_s else []
        headings = ["ratio to FCFS", *ratios.columns]
        headings += ["τ 60, change, shaken", "agrees"] if threshold == study.settings.starvation_s else []
        lines += [markdown(headings, rows), ""]
    return lines[:-1]


def _matches(ratios: pd.DataFrame, column: str) -> str:
    """Return in a sentence which neighbours of the published order stand the other way round, and by how much ratios differ."""
    apart = (ratios[column] - ratios["paper"]).abs()
    pairs = zip(ratios.index[:-1], ratios.index[1:], strict=True)
    swapped = [f"{first} and {second}" for first, second in pairs if ratios.loc[first, column] > ratios.loc[second, column]]
    order = f"neighbours exchanged: {', '.join(swapped)}" if swapped else "the published order"
    rho = float(spearmanr(ratios["paper"], ratios[column])[0])
    return (
        f"With {column} s {order} (rank correlation {rho:.3f}); ratios differ by {apart.median():.3f} in the median and {apart.max():.3f} "
        f"at most ({apart.idxmax()})."
    )


def starvation(studies: Mapping[str, Study]) -> str:
    """Return the longest wait and the 99th percentile, hours, by policy, trace and threshold."""
    shown, rows = (None, 200_000), []
    tables = {(name, threshold): _waits(study.tables.waits, threshold) for name, study in studies.items() for threshold in shown}
    order = tables["sdsc-sp2", None]["max_wait_s"].sort_values(kind="stable").index
    for policy in order:
        row = [str(policy)]
        for table in tables.values():
            row.append(f"{table.loc[policy, 'max_wait_s'] / 3600:,.0f} ({table.loc[policy, 'p99_wait_s'] / 3600:,.0f})")
        rows.append(row)
    told = {None: "no threshold", 200_000: "200,000 s"}
    return markdown(["policy", *(f"{SOURCES[name].title}, {told[threshold]}" for name, threshold in tables)], rows)


def _waits(waits: pd.DataFrame, threshold: int | None) -> pd.DataFrame:
    same = waits["starvation_s"].isna() if threshold is None else waits["starvation_s"].eq(threshold).fillna(False)
    return waits[same.astype(bool)].set_index("policy")


def longest(jobs: pd.DataFrame) -> str:
    """Return the paper's longest jobs beside what the file at hand says of them."""
    known = jobs.set_index("job_id")
    rows = []
    for job, runtime in LONGEST:
        ours = (
            [f"{int(known.loc[job, name]):,}" for name in ("runtime_s", "requested_s", "submit_s", "procs")]
            if job in known.index
            else ["–"] * 4
        )
        rows.append([str(job), f"{runtime:,}", *ours])
    return markdown(["job", "runtime, paper", "runtime here", "requested here", "submitted", "processors"], rows)


def months(studies: Mapping[str, Study]) -> list[str]:
    """Return what was learned on months, and in a sentence where it beats SAF."""
    rows, said = [], []
    for name, study in studies.items():
        transfer = sums(study.tables.replays, study.settings.split, seed=study.settings.seed)
        for tau_s in study.settings.taus_s:
            found = by_policy(transfer, tau_s, TESTING)
            row = [SOURCES[name].title, f"{tau_s:g}", spans(study.settings.split.training), spans(study.settings.split.testing)]
            row += [f"{found[policy]['sum']:,.0f}" for policy in (USUAL, BASELINE, TRAINED, GREEDY, ORACLE)]
            trained = found[TRAINED]
            rows.append([*row, changed(trained)])
            if trained["high"] < 0:
                said.append(f"on {SOURCES[name].title} with τ = {tau_s:g} s")
    headings = ["trace", "τ, s", "training", "testing", USUAL, BASELINE, TRAINED, GREEDY, ORACLE, "w_train to SAF, shaken"]
    beats = (
        f"w_train beats SAF beyond its interval {' and '.join(said)}."
        if said
        else "Nowhere does w_train beat SAF beyond its interval."
    )
    return [f"{MONTHS_TOLD} {beats}", "", markdown(headings, rows, keys=2, left=headings[-1:]), ""]


def workloads(shared: Path) -> list[str]:
    """Return table 1 of the paper beside the traces at hand, in paragraphs."""
    rows = []
    sources = {source.title: source for source in SOURCES.values()}
    for title, (jobs, duration_s, size) in WORKLOADS.items():
        rows.append([title, "the paper", f"{jobs:,}", f"{duration_s:,}", f"{size}"])
        if title in sources:
            trace = sources[title].read(shared)
            weeks = asked(trace, "weeks")[0].windows
            for told, table in (("all jobs here", trace.jobs), ("jobs in weeks here", pd.concat([week.jobs for week in weeks]))):
                rows.append([title, told, f"{len(table):,}", f"{table['runtime_s'].mean():,.0f}", f"{table['procs'].mean():.1f}"])
    heads = ["trace", "of", "jobs", "mean runtime, s", "mean processors"]
    return [TABLE_1, "", WORKLOADS_TOLD, "", markdown(heads, rows, keys=2)]


def write_workloads(shared: Path) -> None:
    """Write table 1 of a page that is there, and its cells in the data beside it."""
    text, page_now = "\n".join(workloads(shared)), PAGE.read_text(encoding="utf-8")
    before, rest = page_now.split(TABLE_1) if TABLE_1 in page_now else page_now.split("## The claims on", 1)
    after = rest[rest.index("\n## ") :] if TABLE_1 in page_now else f"\n## The claims on{rest}"
    made = made_by("papers.legrand2018")
    data = STUDIES / "data" / "legrand-2018.csv"
    known = pd.read_csv(data, dtype=str, keep_default_na=False)
    found = pd.concat([cells(text), known[known["section"] != TABLE_1.removeprefix("## ")]])
    for path, content in ((PAGE, f"{before}{text}\n\n{made}\n{after}"), (data, found.to_csv(index=False, lineterminator="\n"))):
        with replacing(path) as unfinished:
            unfinished.write_bytes(content.encode())


def write(studies: Studies, shared: Path) -> None:
    """Write the page, its pictures and the data beside it."""
    write_page(PAGE, page(studies, shared), _keep)
    for name, image in pictures(studies).items():
        with replacing(STUDIES / name) as unfinished:
            unfinished.write_bytes(image)
    with replacing(STUDIES / "data" / "legrand-2018-weeks.csv") as unfinished:
        weekly(studies).to_csv(unfinished, index=False, float_format="%.6g", lineterminator="\n")
    drawn = [each["weeks"].tables.landscapes.assign(trace=SOURCES[name].title) for name, each in studies.items()]
    table = pd.concat(drawn).query("tau_s == @PAPER_TAU").drop(columns="tau_s").astype({"value": np.float32})
    with replacing(STUDIES / "data" / "legrand-2018-landscapes.parquet") as unfinished:
        table.to_parquet(unfinished, index=False, compression="zstd")


def _keep(table: Table) -> bool:
    """Tell whether a table stays on the page: of three thresholds the one that the study has."""
    return not table.section.startswith(("Table 3", "Table 5")) or table.number == 2
