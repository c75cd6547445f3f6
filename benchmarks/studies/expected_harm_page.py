"""Make the page of :mod:`benchmarks.studies.expected_harm`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.common.tables import Table, markdown, write_page
from benchmarks.studies.expected_harm_pictures import AWF, P2SF, SLOWDOWN, draw, draw_groups, titles_of
from benchmarks.studies.expected_harm_protocol import protocol, wrapped
from benchmarks.studies.expected_harm_tables import (
    HEADLINE,
    LEARNED,
    METRICS,
    REQUESTS,
    RIVALS,
    RIVALS_PREDICTORS,
    TRACES,
    Counts,
)
from features.statistics import covers, surely

NAME = "expected-harm"

TOP = """# Does a scheduler that weighs distributions pay for slowdown with packing or fairness?

{answer}

![Change of slowdown against change of AWF and P2SF](expected-harm.png)

*A circle is one of {rivals} with one of four predictors, a star is `Harm`, its lines
are intervals. Left is less slowdown, down is better packing (AWF) and fairness (P2SF); shaded is 25 % less slowdown at
no price. Vertical axes are linear up to 10 %, and logarithmic beyond.*

{made}
"""
LIMITS = """## What it does not show

* Not modelled: partitions, nodes, memory, users who react. Jobs run on one pool of processors.
* The table `told` is as of a run under EASY. Under `Harm` jobs end in another order, and the learner inside knows other ends.
* Strategic users keep the same runtimes, and the table does not learn from their requests.
* Traces of 1994 to 2022, of four sites. Runtimes are cut at the request.
* An interval that holds 0 does not show that nothing is lost: on SDSC-SP2 P2SF is known within 20 % only.

Traces: KTH-SP2 by Lars Malinowsky, SDSC-SP2 by the San Diego Supercomputer Center, LANL-CM5 by Curt Canada, all by way of the Parallel Workloads Archive
(D. Feitelson); ALCF.
"""


def write(
    found: Mapping[str, pd.DataFrame],
    judged: Sequence[Any],
    counts: Counts,
    half: str,
    made: str,
    looks: Path,
    pages: Path | None,
    say: Callable[[str], None],
) -> None:
    """Print the page, or write it with its pictures and its data below ``pages``."""
    text = page(found, judged, counts, half, made, looks)
    if pages is None:
        say(text)
        return
    (pages / "data").mkdir(parents=True, exist_ok=True)
    write_page(pages / f"{NAME}.md", text, matters)
    keep(found, made, pages / "data" / f"{NAME}.parquet")
    draw(found, pages / f"{NAME}.png")
    draw_groups(found["groups"], pages / f"{NAME}-who.png")


def keep(found: Mapping[str, pd.DataFrame], made: str, path: Path) -> None:
    """Keep all tables, and how they were made, in one file: the column ``section`` tells them apart."""
    rows = pd.concat([table.assign(section=name) for name, table in found.items()], ignore_index=True).assign(made=made)
    rows["group"], rows["sure"] = rows["group"].astype("string"), rows["sure"].astype("boolean")
    rows.to_parquet(path, index=False, compression="zstd")


def kept(path: Path) -> tuple[dict[str, pd.DataFrame], str]:
    """Return the tables that :func:`keep` wrote, and how they were made."""
    rows = pd.read_parquet(path)
    made = str(rows.pop("made").iloc[0])
    found = {}
    for name, mine in rows.groupby("section", sort=False):
        table = mine.drop(columns="section").reset_index(drop=True)
        exact = {"sure": "bool", "weeks": "int64", "replicates": "int64", "units": "int64"}
        found[str(name)] = table.astype({column: kind for column, kind in exact.items() if table[column].notna().all()})
    return found, made


def page(found: Mapping[str, pd.DataFrame], judged: Sequence[Any], counts: Counts, half: str, made: str, looks: Path) -> str:
    """Return everything as Markdown; :func:`matters` says which of its tables stay on the page."""
    headline, sure = found["headline"], only_sure(found["constants"])
    constants = by_trace(sure, "constant") if len(sure) else "No constant has one."
    lines = [
        TOP.format(answer=wrapped(f"{answer(headline, half)} {missed(judged)}"), rivals=", ".join(RIVALS), made=made),
        *_section("In short", SHORT, in_short(found)),
        *_section("Where it fails, and at whose cost", fails(found)),
        *_section("Targets", "Claims of the protocol, with their figures (changes in %, with intervals).", targets(judged)),
        *_section("Intervals", "Change against EASY with requested times.", intervals(headline)),
        *_section("Other schedulers", RIVALRY),
        *(line for title in titles_of(headline) for line in [f"{title}:", "", rivals_table(found["rivals"], title), ""]),
        *_section("Plain orders", PLAINLY, by_trace(found["plain"], "order")),
        *_section("Other parts of the traces", ELSEWHERE, by_trace(found["elsewhere"], "judged")),
        *_section("What each part is worth", PARTS, by_trace(found["parts"], "without")),
        *_section("What it depends on", CONSTANTS, constants),
        *_section("", "Scenarios, against EASY with requested times:", by_trace(found["scenarios"], "scenarios")),
        *_section("", "Load, against EASY with requested times at the same load:", by_trace(found["loads"], "load, predictions")),
        *_section("", "Predictions, against EASY with requested times:", by_trace(found["qualities"], "predictions")),
        *_section("Which jobs gain, which lose", WHO),
        *(line for each in product(titles_of(headline), (LEARNED, REQUESTS)) for line in groups_section(found["groups"], *each)),
        *_section("", WORST, worst_table(found["worst"])),
        *_section("", "The longest waits in hours, means over replicates:", longest_table(found["longest"])),
        *_section("Strategic users", STRATEGY, strategy_table(found["strategy"])),
        *_section("Cost", "Microseconds a job, beside the predictor:", cost_table(found["cost"])),
        protocol(counts, half, looks),
        LIMITS,
    ]
    return "\n".join(lines).rstrip() + "\n"


SHORT = "Change of slowdown, AWF, P2SF against EASY with requested times in %, bold where it is sure (Holm's correction over all of the table's data)."
PLAINLY = """By requested times; jobs that have waited for a day go first. Bold where it is sure."""
ELSEWHERE = """`Harm` without a model where other jobs are judged than the second half of them:"""
RIVALRY = "The same changes. Columns are what the scheduler goes by."
PARTS = """Each part is left out alone, by its option at 0; `told` quantiles. Change of slowdown, AWF, P2SF against the whole rule in %: a part that
is worth something has positive numbers. Bold where it is sure."""
CONSTANTS = """Each constant at half and at double, against the rule as it is; `told` quantiles. On the page are the rows with a sure change on some trace."""
WHO = """From EASY with requested times to `Harm` with `quantile` inside, and to `Harm` without a model. Parts are of the change of
the mean over all jobs, and add up to it.

![Parts of the change by group of jobs](expected-harm-who.png)

*`Harm` with `quantile` inside: bars are each group's part of the change of mean slowdown (blue) and of AWF (orange);
left is better. Below is one trace; [data/expected-harm.csv](data/expected-harm.csv) has all.*
"""
WORST = """The tenth of the jobs, users and widths that wait longest compared with EASY, in hours: how long they waited under EASY, how much longer they
wait, and how much longer the worst tenth waits between two sets of replicates of EASY, which is chance; beside it the best tenth, and all:"""
STRATEGY = """Change of mean slowdown in % from honest requests: of the strategic users / of all others, with the standard error over replicates."""


def _section(heading: str, text: str, table: str = "") -> list[str]:
    return [*([f"## {heading}", ""] if heading else []), text, "", *([table, ""] if table else [])]


def matters(table: Table) -> bool:
    """Keep all tables but those of which jobs gain on traces other than the first."""
    return table.section != "Which jobs gain, which lose" or not table.caption.startswith(TRACES[1:])


def answer(headline: pd.DataFrame, half: str) -> str:
    """Say in two sentences what ``Harm`` gives on the half."""
    rows = (
        headline[headline["name"] == LEARNED].pivot(index="trace", columns="metric", values="relative").reindex(titles_of(headline))
    )
    told = [
        f"{100 * row[SLOWDOWN]:+.0f} / {100 * row[AWF]:+.1f} / {100 * row[P2SF]:+.1f} % on {title}"
        for title, row in rows.iterrows()
    ]
    mine = headline[headline["name"] == LEARNED]
    return (
        f"At the recorded load of {half} halves, `Harm` with the distributions of `quantile` changes slowdown / packing (AWF) / "
        f"fairness (P2SF) against EASY with requested times by {'; '.join(told)}. {certain(mine)}"
    )


def certain(rows: pd.DataFrame) -> str:
    """Say what is surely lower or higher, corrected for all of ``rows``."""
    sure = surely(rows["p"].where(rows["replicates"] > 1))
    parts = []
    for chosen in (rows["relative"] < 0, rows["relative"] > 0):
        by = rows[sure & chosen].groupby("metric", sort=False)["trace"].agg(list)
        parts.append("; ".join(f"{metric} on {', '.join(titles)}" for metric, titles in by.items()) or "none")
    return f"Corrected for these {len(rows)} comparisons (Holm), sure decreases are: {parts[0]}; sure increases: {parts[1]}."


def missed(judged: Sequence[Any]) -> str:
    """Say how many claims are met, and which are not."""
    wrong = "; ".join(f"{each.target} ({each.where})" for each in judged if not each.met)
    met = sum(each.met for each in judged)
    return f"Of {len(judged)} claims {met} are met" + (f", and missed is: {wrong}." if wrong else ".")


def fails(found: Mapping[str, pd.DataFrame]) -> str:
    """Say where the interval of AWF or P2SF lies above EASY's, and which jobs and users pay."""
    rise = {name: _higher(found[name]) for name in ("loads", "qualities")}
    last = found["longest"].set_index(["name", "trace"])["worst_percent_h"]
    before, after = last["EASY / requests"], last[f"Harm / {LEARNED}"]
    waits = "; ".join(f"{before[title]:.1f} to {after[title]:.1f} h on {title}" for title in before.index)
    jobs = found["worst"].query("unit == 'jobs'").set_index("trace")
    each = "; ".join(f"{row['share_over_an_hour']:.1%} on {title}" for title, row in jobs.iterrows())
    asked = found["strategy"].query("side == 'strategic' and metric == 'slowdown' and asking == 'exact'")
    easy, told = (asked[(asked["name"] == "EASY / requests") == plain]["relative"] for plain in (True, False))
    lines = [
        "Below, `told` is a table of `quantile`'s distributions, and `prior` no model.",
        "",
        f"* **At other loads** the interval of AWF or P2SF lies above EASY's: {rise['loads'] or 'nowhere'}.",
        f"* **With other predictions**: {rise['qualities'] or 'nowhere'}.",
        f"* **The longest 1 % of waits** are no shorter on the mean: from {waits}.",
        f"* **Jobs that wait over an hour longer** than under EASY, means over replicates: {each}.",
        f"* **Users who ask for just what they use** have {-told.max():.0%} to {-told.min():.0%} less slowdown themselves, "
        f"under EASY {-easy.max():.0%} to {-easy.min():.0%}; what others lose by them is below.",
    ]
    return wrapped("\n".join(lines))


def _higher(table: pd.DataFrame) -> str:
    rows = table[(table["metric"] != SLOWDOWN) & (table["low"] > 0)]
    told = []
    for (title, name), mine in rows.groupby(["trace", "name"], sort=False):
        changes = " and ".join(f"{row['metric']} {row['relative']:+.1%}" for row in mine.to_dict("records"))
        told.append(f"{title}, {name}: {changes}")
    return "; ".join(told)


def _cell(row: Mapping[str, Any]) -> str:
    if pd.isna(row["relative"]):
        return ""
    text = f"{100 * row['relative']:+.1f}"
    return f"**{text}**" if row["sure"] else text


def bounded(*rows: Mapping[str, Any]) -> str:
    """Return changes in % with their intervals, where there are any."""
    each = [
        f" [{100 * row['low']:+.1f}, {100 * row['high']:+.1f}]{covers(row.get('coverage'))}" if pd.notna(row["low"]) else ""
        for row in rows
    ]
    return ", ".join(f"{100 * row['relative']:+.1f}{interval}" for row, interval in zip(rows, each, strict=True))


def triple(rows: pd.DataFrame) -> str:
    """Return the changes of the three metrics in %, of the rows of one name."""
    by = {row["metric"]: row for row in rows.to_dict("records")}
    return " / ".join(_cell(by[metric]) for metric in METRICS.values() if metric in by)


def in_short(found: Mapping[str, pd.DataFrame]) -> str:
    """Return Harm by what it knows beside EASY and the usual rival, a row a trace."""
    chosen = {
        "EASY, exact runtimes": "EASY / clairvoyant",
        "EASY-SJBF, quantile": "EASY-SJBF / quantile",
        "EASY-WFP3, quantile": "EASY-WFP3 / quantile",
    }
    headings, rows = ["trace", *chosen, *(f"Harm, {name}" for name in HEADLINE)], []
    for title in titles_of(found["headline"]):
        mine, theirs = (found[name][found[name]["trace"] == title] for name in ("headline", "rivals"))
        cells = [triple(theirs[theirs["name"] == name]) for name in chosen.values()]
        rows.append([title, *cells, *(triple(mine[mine["name"] == name]) for name in HEADLINE)])
    return markdown(headings, rows)


def targets(judged: Sequence[Any]) -> str:
    """Return each claim as met or missed."""
    return markdown(
        ["claim", "on", "figures", ""],
        [[each.target, each.where, each.figures, "met" if each.met else "**missed**"] for each in judged],
        keys=4,
    )


def intervals(headline: pd.DataFrame) -> str:
    """Return the headline's changes with intervals, and the extremes of single replicates."""
    rows = []
    for (title, name), each in headline.groupby(["trace", "name"], sort=False):
        cells = [f"{bounded(row)} ({100 * row['minimum']:+.1f} to {100 * row['maximum']:+.1f})" for row in each.to_dict("records")]
        rows.append([str(title), f"Harm, {name}", *cells])
    return markdown(
        ["trace", "scheduler, what it knows", *(f"{metric} [95 %] (single replicates)" for metric in METRICS.values())],
        rows,
        keys=2,
    )


def rivals_table(rivals: pd.DataFrame, title: str) -> str:
    """Return every scheduler with every predictor on one trace."""
    mine = rivals[rivals["trace"] == title]
    rows = []
    for name in RIVALS:
        rows.append([name, *(triple(mine[mine["name"] == f"{name} / {each}"]) or "0" for each in RIVALS_PREDICTORS)])
    return markdown(["scheduler", *RIVALS_PREDICTORS], rows)


def only_sure(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of names that change a metric surely on some trace."""
    return table[table.groupby("name")["sure"].transform("any")]


def by_trace(table: pd.DataFrame, heading: str) -> str:
    """Return a row a variant, a column a trace."""
    titles = titles_of(table)
    groups = dict(iter(table.groupby(["name", "trace"], sort=False)))
    names = table["name"].unique()
    return markdown([heading, *titles], [[name, *(triple(groups[name, title]) for title in titles)] for name in names])


def groups_section(groups: pd.DataFrame, title: str, name: str) -> list[str]:
    """Return who gains on one trace from ``Harm`` with what ``name`` says it knows."""
    mine = groups[(groups["trace"] == title) & (groups["name"] == name)]
    rows = [
        [
            str(row["by"]), str(row["group"]), f"{row['jobs']:.0%}", f"{row['area']:.0%}",
            f"{row['slowdown_before']:.1f} to {row['slowdown_after']:.1f}", f"{row['wait_before'] / 3600:.2f} to {row['wait_after'] / 3600:.2f}",
            *(f"{100 * row[f'{name}_part']:+.1f}" for name in ("slowdown", "wait", "weighted")),
        ]
        for row in mine.to_dict("records")
    ]  # fmt: skip
    headings = ["by", "group", "jobs", "area", "slowdown", "wait, h", "part of slowdown, %", "part of wait, %", "part of AWF, %"]
    return [f"{title}, {name}:", "", markdown(headings, rows, keys=2), ""]


def worst_table(worst: pd.DataFrame) -> str:
    """Return the worst tenths, a row a trace and unit."""
    numbers = ("waited_h", "longer_h", "by_chance_h", "shorter_h", "all_h")
    rows = [
        [
            row["trace"],
            row["unit"],
            f"{row['units']:,}",
            *(f"{row[name]:.2f}" for name in numbers),
            f"{row['share_over_an_hour']:.1%}",
        ]
        for row in worst.to_dict("records")
    ]
    headings = [
        "trace",
        "of",
        "number",
        "waited",
        "now longer by",
        "by chance",
        "best tenth: shorter by",
        "all: longer by",
        "share over 1 h longer",
    ]
    return markdown(headings, rows, keys=2)


def longest_table(longest: pd.DataFrame) -> str:
    """Return the longest waits: the longest / the 99.9 % quantile / the mean of the longest 1 %."""
    titles = titles_of(longest)
    groups = {
        (row["name"], row["trace"]): f"{row['max_h']:.0f} / {row['thousandth_h']:.0f} / {row['worst_percent_h']:.1f}"
        for row in longest.to_dict("records")
    }
    rows = [[name, *(groups[name, title] for title in titles)] for name in longest["name"].unique()]
    return markdown(["longest / 99.9 % / mean of the longest 1 %", *titles], rows)


def strategy_table(strategy: pd.DataFrame) -> str:
    """Return what strategic users gain and others lose, side by side."""
    mine = strategy[strategy["metric"] == "slowdown"].set_index(["trace", "asking", "name", "side"])
    names, rows = list(strategy["name"].unique()), []
    for title, asking in mine.index.droplevel(["name", "side"]).unique():
        both = lambda name: [mine.loc[(title, asking, name, side)] for side in ("strategic", "others")]  # noqa: E731, B023
        rows.append(
            [
                title,
                asking,
                *(" / ".join(f"{100 * row['relative']:+.1f} ± {100 * row['error']:.1f}" for row in both(name)) for name in names),
            ]
        )
    return markdown(["trace", "asked for", *names], rows, keys=2)


def cost_table(cost: pd.DataFrame) -> str:
    """Return microseconds a job, a row a workload."""
    table = cost.pivot(index="jobs_of", columns="name", values="us")[list(cost["name"].unique())]
    return markdown(
        ["jobs of", *map(str, table.columns)],
        [[str(name), *(f"{value:.1f}" for value in row)] for name, row in zip(table.index, table.to_numpy(), strict=True)],
    )
