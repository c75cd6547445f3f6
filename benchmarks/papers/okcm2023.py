"""Repeat OKCM (Li & Zhang): its accuracy, and its protocol of seven samples of 30 days and eight policies.

Li & Zhang, "OKCM: improving job scheduling of high-performance computing using efficiency runtime prediction model".
``python -m benchmarks.papers.okcm2023`` prints the card docs/studies/okcm.md; ``--write`` makes it, its picture and its data, the cells of all
tables. Needs the traces and the published numbers under ``--shared``. Accuracies: :mod:`benchmarks.papers.okcm_accuracy`, and over whole traces
under EASY for four traces; what else the paper shows: :mod:`benchmarks.papers.okcm_beside`.

Of the protocol the paper leaves open, and here is done:

* Samples: windows of 30 days from the first submission that the trace fills; seven are drawn without replacement (seed 0), each simulated by itself
  from an empty machine, to the end of its last job. What the luck of the draw is worth: 2,000 other draws of seven from the same windows.
* Policies: the queue is sorted by priority and backfilled in the same order around one reservation; F1 to F4 count time from the sample's first
  submission. FAT, named once, has no table and no formula. Per-second semantics; SimGrid's platform model has no part in it.
* Predictors know nothing when a sample begins; "learning before" predicts what OKCM, having learned from the trace's past under EASY, predicts for
  these jobs. An outlived prediction becomes the request. OKCM's constants were chosen on the first half of KTH-SP2, and are the same on every trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from benchmarks.common.card import Card, parser, study
from benchmarks.common.logs import load
from benchmarks.common.pages import STUDIES
from benchmarks.common.tables import cells, kept_table, markdown
from benchmarks.papers.okcm_accuracy import FROM_LAST, GRID, LAST, MOST, Walked, walked, walks_table
from benchmarks.papers.okcm_accuracy import TRACES as WALKED
from benchmarks.papers.okcm_beside import beside_tables
from features.jobs.cleaning import CleanTrace
from models.runtime.evaluation import evaluate_predictions
from models.runtime.protocol import TablePredictor
from pipelines.report.page import INK, MUTED, encode, figure
from sim import Campaign, run_campaign, simulate, split_windows
from sim.campaigns.windows import Windows

TRACES = {"SDSC-SP2": "sdsc-sp2", "KTH-SP2": None, "LANL-CM5": None, "ALCF-Theta": None}
"""With the paper's name of the trace where it has it."""
POLICIES = {
    "FCFS": "EASY",
    "WFP": "WFP3-EASY-WFP3",
    "UNI": "UNICEF-EASY-UNICEF",
    "SPT": "SPF-EASY-SPF",
    "F4": "F4-EASY-F4",
    "F3": "F3-EASY-F3",
    "F2": "F2-EASY-F2",
    "F1": "F1-EASY-F1",
}
"""The paper's policies, in its order, as schedulers here: the queue is sorted by priority and backfilled in that order."""
PREDICTORS = ("requested", "okcm", "knn", "last2", "hierarchy", "sp2", "nag", "cv-triple", "clairvoyant")
SHOWN = ("requested", "okcm", "clairvoyant")
"""Those with a table of their own."""
METRICS = {"mean_bounded_slowdown": "bounded_slowdown", "mean_wait_s": "wait_s"}
TITLES = {"mean_bounded_slowdown": "Average bounded slowdown", "mean_wait_s": "Average wait, s"}
STATISTICS = ("median", "mean")
SAMPLES, DAYS, SEED, REDRAWN = 7, 30, 0, 2000
WARM = "okcm, learning before"


@dataclass(frozen=True)
class Results:
    """Results of one trace.

    ``values`` are by window, policy and predictor (a row each, both metrics); ``drawn`` numbers the sampled windows.
    """

    title: str
    trace: CleanTrace
    published: str | None
    windows: Windows
    drawn: tuple[int, ...]
    values: pd.DataFrame
    accuracy: pd.DataFrame


def whole_windows(trace: CleanTrace) -> Windows:
    """Return the 30-day windows that the trace fills to the end and has jobs in.

    They count from the first submission; no job is left out for where it ends.
    """
    split = split_windows(trace.jobs, "months", skip_first=False, drop="none")
    last = int(trace.jobs["submit_s"].iloc[-1])
    return replace(split, windows=tuple(window for window in split.windows if window.end_s <= last))


def simulated(title: str, shared: Path) -> Results:
    """Every policy and predictor in every 30-day window, and which seven are drawn."""
    published, trace = TRACES[title], load(title, shared)
    windows = whole_windows(trace)
    numbers = [window.number for window in windows.windows]
    drawn = tuple(sorted(np.random.default_rng(SEED).choice(numbers, SAMPLES, replace=False).tolist()))
    before = simulate(trace.jobs, procs=trace.procs, predictor="okcm", clock=trace.clock).jobs["predicted_s"].to_numpy(np.float64)
    sources = (*PREDICTORS, TablePredictor(WARM, lambda jobs: before))
    results = run_campaign(
        trace.jobs,
        Campaign(schedulers=tuple(POLICIES.values()), predictors=sources),
        procs=trace.procs,
        windows=windows,
        clock=trace.clock,
    )
    names = {scheduler: policy for policy, scheduler in POLICIES.items()}
    results["policy"] = results["scheduler"].map(names)
    values = results[["window", "policy", "predictor", "jobs", *METRICS]]
    return Results(title, trace, published, windows, drawn, values, accuracies(trace))


def accuracies(trace: CleanTrace) -> pd.DataFrame:
    """Return accuracy and share of under-predicted jobs, one row a predictor.

    Walking forward over the whole trace under EASY.
    """
    rows = {}
    for name in PREDICTORS:
        jobs = simulate(trace.jobs, procs=trace.procs, predictor=name, clock=trace.clock).jobs
        rows[name] = evaluate_predictions(jobs["predicted_s"].to_numpy(), jobs["runtime_s"].to_numpy())
    return pd.DataFrame(rows).T[["accuracy", "underprediction_rate"]]


def statistic(results: Results, predictor: str, metric: str, how: str) -> pd.Series:
    """Median or mean over the drawn samples, by policy in the paper's order."""
    rows = results.values[(results.values["predictor"] == predictor) & results.values["window"].isin(results.drawn)]
    return rows.groupby("policy")[metric].agg(how).reindex(list(POLICIES))


def ratio_range(results: Results, predictor: str, metric: str, how: str) -> pd.DataFrame:
    """Return what the luck of the draw is worth: ``low high`` by policy.

    5 % to 95 % of the ratio to requested times over other draws of seven samples.
    """
    rng = np.random.default_rng(SEED + 1)
    count = len(results.windows.windows)
    draws = np.array([rng.choice(count, SAMPLES, replace=False) for _ in range(REDRAWN)])
    ends = {}
    for policy in POLICIES:
        rows = results.values[results.values["policy"] == policy].pivot(index="window", columns="predictor", values=metric)
        above, below = (getattr(np, how)(rows[each].to_numpy()[draws], axis=1) for each in (predictor, "requested"))
        ends[policy] = np.quantile(above / below, [0.05, 0.95])
    return pd.DataFrame(ends, index=["low", "high"]).T


def published(shared: Path, name: str, metric: str, how: str, estimate: str) -> pd.Series:
    """The paper's row, by policy."""
    table = pd.read_csv(shared / "reference" / "okcm_published.csv")
    row = table[(table["trace"] == name) & (table["metric"] == METRICS[metric])]
    row = row[(row["statistic"] == how) & (row["estimate"] == estimate)]
    return row.set_index("policy")["value"].astype(float).reindex(list(POLICIES))


def by_policy(table: pd.DataFrame, form: str) -> str:
    """A Markdown table with the policies as columns."""
    rows = [[str(name), *("" if pd.isna(value) else form.format(value) for value in row)] for name, row in table.iterrows()]
    return markdown(["", *map(str, table.columns)], rows)


def section(results: Results, shared: Path) -> list[str]:
    """One trace as Markdown."""
    chosen = [window for window in results.windows.windows if window.number in results.drawn]
    jobs = [len(window.jobs) for window in chosen]
    numbers = ", ".join(str(window.number) for window in chosen)
    lines = [f"## {results.title}", ""]
    lines += [
        f"{len(results.windows.windows)} windows of {DAYS} days; drawn are number {numbers}, with {min(jobs):,} to {max(jobs):,} jobs. "
        f"Of the trace, {len(results.trace.jobs):,} of {results.trace.jobs_read:,} jobs can be simulated.",
        "",
    ]
    for metric, title in TITLES.items():
        form = "{:.1f}" if metric == "mean_bounded_slowdown" else "{:,.0f}"
        table = {}
        for how in STATISTICS:
            for name in (*SHOWN, WARM):
                if results.published and name in ("requested", "okcm"):
                    table[f"{how}, {name}, published"] = published(shared, results.published, metric, how, name)
                table[f"{how}, {name}"] = statistic(results, name, metric, how)
        lines += [f"**{title}** over the seven samples:", "", by_policy(pd.DataFrame(table).T, form), ""]
    lines += [
        "**Ratio to requested times**, in brackets 5 to 95 % of other draws of seven samples, which are no interval of the number "
        "before them and need not hold it:",
        "",
    ]
    rows = []
    for metric, title in (("mean_bounded_slowdown", "slowdown"), ("mean_wait_s", "wait")):
        for how in STATISTICS:
            if results.published:
                ratios = published(shared, results.published, metric, how, "okcm") / published(
                    shared, results.published, metric, how, "requested"
                )
                rows.append([f"{how} {title}, okcm, published", *(f"{value:.2f}" for value in ratios)])
            for name in ("okcm", WARM, "clairvoyant"):
                ends = ratio_range(results, name, metric, how)
                ratio = statistic(results, name, metric, how) / statistic(results, "requested", metric, how)
                cells = [
                    f"{value:.2f} [{low:.2f}, {high:.2f}]"
                    for value, low, high in zip(ratio, ends["low"], ends["high"], strict=True)
                ]
                rows.append([f"{how} {title}, {name}", *cells])
    lines += [markdown(["", *POLICIES], rows), "", "**Other predictors**, ratio of mean slowdown to requested times:", ""]
    others = [name for name in PREDICTORS if name not in SHOWN]
    metric = "mean_bounded_slowdown"
    table = {name: statistic(results, name, metric, "mean") / statistic(results, "requested", metric, "mean") for name in others}
    return [*lines, by_policy(pd.DataFrame(table).T, "{:.2f}"), ""]


def accuracy_table(studied: Sequence[Results], shared: Path) -> str:
    """Accuracy by predictor and trace, published beside ours."""
    table = pd.read_csv(shared / "reference" / "okcm_published.csv")
    table = table[table["metric"] == "accuracy"]
    theirs = dict(zip(table["trace"], table["value"].astype(float), strict=True))
    columns: dict[str, pd.Series] = {}
    for results in studied:
        if results.published:
            columns[f"{results.title}, published"] = pd.Series([theirs[results.published]], ["okcm"])
        columns[results.title] = results.accuracy["accuracy"]
        columns[f"{results.title}, under-predicted"] = results.accuracy["underprediction_rate"]
    return by_policy(pd.DataFrame(columns).reindex(list(PREDICTORS)), "{:.1%}")


def tables(results: Sequence[Results], walks: Sequence[Walked], shared: Path) -> str:
    """Return all tables under their headings, in Markdown."""
    lines = [
        f"# {ACCURACY}",
        "",
        walks_table(walks),
        "",
        accuracy_table(results, shared),
        "",
        f"# {BESIDE}",
        "",
        *beside_tables(shared),
        "",
    ]
    return "\n".join([*lines, *(line for each in results for line in section(each, shared))])


ACCURACY, BESIDE = "Accuracy: published, and here", "What else the paper shows"
SHOWN_WALKS = (
    "`requested`",
    f"`{LAST}`, the last runtime",
    "`last2`",
    "`knn`",
    "`hierarchy`",
    "`nag`",
    "`okcm`",
    f"`{FROM_LAST[0]}`",
)
FAILS = (
    "The paper uses another version of the trace (73,496 jobs; here 54,006), with unknown effect. OKCM's constants and the days drawn are "
    "unpublished. Samples differ: seven of 24 windows say little."
)


def card(rows: pd.DataFrame, made_by: str) -> Card:
    """Return the card, a row a predictor; ``rows`` are cells of all tables."""
    walk = kept_table(rows, ACCURACY).set_index("row")
    walk.columns = [name.removesuffix(", %") for name in walk]
    of_traces = kept_table(rows, ACCURACY, "2").set_index("row")
    published = float(of_traces.at["okcm", "SDSC-SP2, published"].rstrip("%"))
    once, end = walk["SDSC-SP2: known at once"], walk["SDSC-SP2: known at the end"]
    ratios = kept_table(rows, "SDSC-SP2", "3").set_index("row")
    mean, theirs = (
        ratios.loc[f"mean slowdown, {name}"].str.partition(" ")[0].astype(float) for name in ("okcm", "okcm, published")
    )
    rivals = kept_table(rows, BESIDE).set_index("accuracy, %")["SDSC-SP2"]
    return Card(
        question="Does OKCM's published accuracy come out?",
        answer=f"No: the paper published {published} % for SDSC-SP2; `okcm` gets {end['`okcm`']} % if a runtime is known once the job has ended, "
        f"and {once['`okcm`']} % if it is known before the next submission, which is impossible on a real system ({once[MOST]} % at most with {len(GRID)} "
        f"other choices of constants). With runtimes known at once, the user's last runtime alone gets {once[SHOWN_WALKS[1]]} %, and with OKCM's regression "
        f"added, at a rate at which the regression hardly learns, {once[SHOWN_WALKS[-1]]} %.",
        picture="okcm.png",
        picture_caption="Mean slowdown relative to requested times by OKCM's protocol; lines: 5 to 95 % of other draws of seven samples",
        table=walk.loc[list(SHOWN_WALKS)].rename(index=str.strip).rename_axis("predictor").reset_index().replace("", EMPTY),
        table_caption="OKCM (Li & Zhang) predicts runtimes by online regression or nearest neighbours. Mean accuracy min(p / r, r / p) in %, whole traces:",
        fails=f"{FAILS} By OKCM's protocol, eight policies on SDSC-SP2 have with OKCM {mean.min():.2f} to {mean.max():.2f} times the mean slowdown with "
        f"requested times; published: {theirs.min():.2f} to {theirs.max():.2f}. The paper puts OKCM above SVR and LightGBM; here these have "
        f"{rivals['svr']} and {rivals['lightgbm']} %, with our settings.",
        data=["okcm.csv"],
        made_by=made_by,
    )


EMPTY = "–"


def draw(studied: Sequence[Results], shared: Path, path: Path) -> None:
    """Draw the ratio of the mean slowdown with OKCM to that with requested times.

    With the range over other draws; a panel a trace.
    """
    with figure(9.6, 3.0 * ((len(studied) + 1) // 2) + 0.4, generated=False) as canvas:
        panels = np.atleast_1d(canvas.subplots((len(studied) + 1) // 2, 2, sharey=True)).ravel()
        for axes, results in zip(panels, studied, strict=False):
            _panel(axes, results, shared)
        for axes in panels[len(studied) :]:
            axes.set_visible(False)
        canvas.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
        path.write_bytes(encode(canvas, "png"))


def _panel(axes: Axes, results: Results, shared: Path) -> None:
    metric, how = "mean_bounded_slowdown", "mean"
    base = statistic(results, "requested", metric, how)
    places = np.arange(len(POLICIES))
    looks = {"okcm": ("o", "#d55e00", -0.12), "clairvoyant": ("*", "#e69f00", 0.12)}
    if results.published:
        ratios = published(shared, results.published, metric, how, "okcm") / published(
            shared, results.published, metric, how, "requested"
        )
        axes.plot(places, ratios, "D", color=INK, label="okcm, published", markersize=5, zorder=4)
    for name, (mark, colour, shift) in looks.items():
        ratio = (statistic(results, name, metric, how) / base).to_numpy()
        ends = ratio_range(results, name, metric, how)
        axes.vlines(places + shift, ends["low"], ends["high"], color=colour, linewidth=1.2)
        axes.plot(places + shift, ratio, mark, color=colour, label=name, markersize=6)
    warm = (statistic(results, WARM, metric, how) / base).to_numpy()
    axes.plot(places, warm, "x", color=MUTED, label=WARM, markersize=5)
    axes.axhline(1.0, color=INK, linewidth=0.8, linestyle=":")
    axes.set_xticks(places, list(POLICIES))
    axes.set_title(results.title)
    axes.set_ylabel("mean slowdown, × requested times")


def main(argv: Sequence[str] | None = None) -> None:
    options = parser(__doc__).parse_args(argv)

    def compute() -> pd.DataFrame:
        results = [simulated(title, options.shared) for title in TRACES]
        walks = [walked(title, load(title, options.shared)) for title in WALKED]
        if options.write:
            draw(results, options.shared, STUDIES / "okcm.png")
        return cells(tables(results, walks, options.shared))

    study(options, "papers.okcm2023", "okcm.csv", compute, card)


if __name__ == "__main__":
    main()
