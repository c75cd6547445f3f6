"""Make the tables and pictures of docs/studies/rush.md from what ``papers.rush`` found.

The text of the page is written by hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from benchmarks.common import tables as pages
from benchmarks.common.pages import STUDIES
from benchmarks.common.tables import write_parts
from benchmarks.papers.rush import EASY, PRICE, Bench, first_trials
from pipelines.report import cluster_plots
from pipelines.report.cluster_tables import beside, by_application, cell, decision_table, looked_up, overall
from pipelines.report.table import Cell, Table
from pipelines.report.wording import signed
from pipelines.workflows.cluster_experiments import ALL, Conducted, label

_BRIEF = {
    "varied": "runs with variation, by control runs",
    "varied_pooled": "by EASY's runs",
    "worst": "largest runtime",
    "makespan_s": "makespan",
    "wait_s": "mean wait",
}
PUBLISHED = ("settings", "beside", "experiments")
"""Parts of the page that stands beside the paper; the others ask what the results depend on."""
PICTURES = ("varied", "runtimes", "improvements", "makespans", "waits")


def parts(
    bench: Bench,
    cutoff: float,
    made: Mapping[str, Conducted],
    stormy: Conducted,
    *,
    chosen_on: pd.DataFrame,
    measured: pd.DataFrame,
    thresholds: pd.DataFrame,
    oracles: pd.DataFrame,
    lasting: Mapping[str, pd.DataFrame],
    month: pd.DataFrame,
    timed: pd.DataFrame,
) -> dict[str, str]:
    """Every table by the name of its place in the page."""
    adaa = made["ADAA"]
    return {
        "settings": _settings(bench, cutoff),
        "beside": _beside(list(made.values())),
        "experiments": "\n\n".join(_experiment(each) for each in made.values()),
        "cutoffs": "\n".join(_ladder(chosen_on, measured, cutoff)),
        "skips": _compared("a job is skipped at most", thresholds),
        "oracles": _compared("the oracle skips beyond z of", oracles),
        "lasting": "\n\n".join(_compared(f"{times} times as long", found) for times, found in lasting.items()),
        "clusters": "\n".join(_clusters({"congested": adaa, "stormy": stormy})),
        "month": _month(month),
        "time": _time(timed, month),
    }


def write(tables: Mapping[str, str]) -> None:
    """Put the tables into the two pages, the longest of them only as data."""
    published = {name: tables[name] for name in PUBLISHED}
    write_parts(STUDIES / "rush.md", published, matters)
    write_parts(STUDIES / "rush-assumptions.md", {name: tables[name] for name in tables if name not in PUBLISHED}, matters)


def matters(table: pages.Table) -> bool:
    """Keep the first experiment, and of the cutoffs the trials they are chosen on."""
    if table.section.startswith("experiments"):
        return table.section.startswith("experiments: ADAA") and table.number == 1
    return table.section != "cutoffs" or table.number == 1


def draw(conducted: Sequence[Conducted], folder: Path) -> None:
    """The pictures, ``rush-<what>.png``."""
    for name in PICTURES:
        (folder / f"rush-{name}.png").write_bytes(getattr(cluster_plots, name)(conducted, image="png"))


def _settings(bench: Bench, cutoff: float) -> str:
    nodes = "all nodes" if bench.scope == "all" else "the nodes a job would get"
    return (
        f"Measured with `{bench.classifier}`, three classes, counters of {nodes}, learned from {bench.days:g} days of control runs. Its cutoff (`chosen`) is "
        f"{cutoff:g}; another with its name has the one of highest F1 on these runs. {bench.trials} trials of each experiment; the cutoff was "
        f"chosen on {bench.chosen_on} others."
    )


def _beside(made: Sequence[Conducted]) -> str:
    few, many = beside([first_trials(each) for each in made]), beside(made)
    rows = [[*row, more] for row, (_, _, more) in zip(few.rows, many.rows, strict=True)]
    headings = ["", "paper, text", *(f"simulated, {each.trials} trials" for each in (first_trials(made[0]), made[0]))]
    return Table("", headings, rows, left=headings).markdown()


def _experiment(made: Conducted) -> str:
    """Return one experiment as Markdown.

    All metrics over all applications, runs with variation by application, decisions.
    """
    of = made.experiment
    scales = f" on {', '.join(map(str, of.nodes))} nodes, {of.scaling} scaling" if len(of.nodes) > 1 else ""
    lines = [
        f"### {of.name}: {of.title}",
        "",
        f"{of.jobs} jobs of {', '.join(of.applications)}{scales}; the model learned from {', '.join(of.trained_on)}.",
        "",
    ]
    varied, pooled = by_application(made, "varied"), by_application(made, "varied_pooled")
    rows = [
        [name.text, *(f"{one.text} / {other.text}" for one, other in zip(first, second, strict=True))]
        for (name, *first), (_, *second) in zip(varied.cells, pooled.cells, strict=True)
    ]
    lines += [_overall(made), "", "Runs with variation a trial, by control runs / by EASY's runs:", ""]
    lines += [replace(varied, rows=rows).markdown(), "", decision_table(made).markdown()]
    return "\n".join(lines)


def _overall(made: Conducted) -> str:
    table = overall(made)
    rows = [[_text(each) for each in row] for row in table.cells]
    return replace(table, headings=[f"simulated, {made.trials} trials", *table.headings[1:]], rows=rows).markdown()


def _text(each: Cell) -> str:
    """A mean with its change, bold where the interval leaves out 0."""
    if not each.below:
        return each.text
    (change, tone), (percent, _) = each.below
    change = percent if "[" in percent else change
    return f"{each.text}, {f'**{change}**' if tone else change}"


def _compared(what: str, found: pd.DataFrame) -> str:
    """A row a scheduler of :func:`benchmarks.papers.rush.beside_easy`."""
    rows = looked_up(found)
    lines = []
    for name in found["scheduler"].unique():
        cells = [_text(cell(rows[name, ALL, metric], EASY)) for metric in _BRIEF]
        lines.append([name, *cells, "" if name == EASY else f"{100 * rows[name, ALL, 'varied']['skipped']:.0f} %"])
    return Table("", [what, *_BRIEF.values(), "skipped of asked"], lines).markdown()


def _ladder(chosen_on: pd.DataFrame, measured: pd.DataFrame, cutoff: float) -> list[str]:
    counts = [int(found["trials"].iloc[0]) for found in (chosen_on, measured)]
    price = f"{100 * PRICE:g} %"
    return [
        f"Trials to choose on ({counts[0]}). Chosen, as the one with the fewest runs with variation by control runs whose makespan and mean wait are at most "
        f"{price} longer: **{cutoff:g}**.",
        "",
        _compared("cutoff", chosen_on),
        "",
        f"The same on the {counts[1]} trials that everything else is measured on:",
        "",
        _compared("cutoff", measured),
    ]


def _clusters(made: Mapping[str, Conducted]) -> list[str]:
    lines = []
    for name, each in made.items():
        lines += [f"`{name}`, ADAA:", "", _overall(each), ""]
    return lines[:-1]


def _month(found: pd.DataFrame) -> str:
    rows = []
    for load, of_load in found.groupby("load"):
        easy = of_load[of_load["scheduler"] == EASY].iloc[0]
        for row in of_load.to_dict("records"):
            changes = row["scheduler"] != EASY and easy["varied"] > 0
            fewer = f", {signed(100 * (row['varied'] / easy['varied'] - 1), '.0f')} %" if changes else ""
            rows.append(
                [
                    f"{load:g}",
                    label(str(row["scheduler"])),
                    f"{row['jobs']:,}",
                    f"{row['varied']:,} ({100 * row['varied'] / row['jobs']:.1f} %{fewer})",
                    f"{row['wait_s']:,.0f}",
                    f"{row['runtime']:.3f}",
                    f"{row['worst']:.2f}",
                    f"{100 * row['utilization']:.1f} %",
                    f"{row['skipped']:,} of {row['asked']:,}",
                    f"{row['seconds']:.1f}",
                ]
            )
    columns = ["load", "scheduler", "jobs", "runs with variation, by control runs", "mean wait, s", "mean runtime / usual"]
    columns += ["99th percentile", "utilization", "skipped of asked", "simulated in, s"]
    return Table("", columns, rows, keys=2).markdown()


def _time(timed: pd.DataFrame, month: pd.DataFrame) -> str:
    rows = [[f"a trial of ADAA, 190 jobs: {row['what']}", f"{row['seconds']:.2f}", "1"] for row in timed.to_dict("records")]
    slowest = month[month["asked"] > 0].sort_values("seconds").iloc[-1]
    what = f"continuous load {slowest['load']:g}, {slowest['jobs']:,} jobs with decisions, {label(str(slowest['scheduler']))}: the slowest"
    rows.append([what, f"{slowest['seconds']:.1f}", "60"])
    return Table("", ["", "seconds", "aim"], rows).markdown()
