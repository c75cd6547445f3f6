"""Make the tables and pictures of docs/studies/rush.md and rush-assumptions.md from what ``papers.rush`` found.

The text of the pages is written by hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.common import tables as pages
from benchmarks.common.pages import STUDIES
from benchmarks.common.tables import write_parts
from benchmarks.papers import rush_plots
from benchmarks.papers.rush import CHOICES, CUTOFFS, EASY, PRICE, Bench, Settings, by_themselves, first_trials, of_month
from benchmarks.papers.rush_trials import LEARNERS
from pipelines.report import cluster_plots
from pipelines.report.cluster_published import beside
from pipelines.report.cluster_tables import by_application, changed, decision_table, looked_up, models_of, overall
from pipelines.report.table import Cell, Table
from pipelines.report.wording import signed, tone
from pipelines.workflows.cluster_experiments import Conducted
from sim.cluster.comparison import ALL, STRATA, asking_rate

PUBLISHED = ("settings", "ladder", "beside", "experiments")
"""Parts of the page that stands beside the paper."""
ASSUMED = ("cutoffs", "patience", "everies", "oracles", "lasting", "clusters", "month", "time")
"""Parts of the page that asks what the results depend on."""
PICTURES = ("varied", "runtimes", "improvements", "makespans", "waits")
_COLUMNS = (
    ("runs with variation", "varied", STRATA[0]),
    ("without storm", "varied", STRATA[1]),
    ("with storm", "varied", STRATA[2]),
    ("makespan, s", "makespan_s", STRATA[0]),
    ("mean wait, s", "wait_s", STRATA[0]),
)
_SHOWN = ("EASY", "model", "model, informed", "oracle, harm", "coin")
"""What the page shows of other experiments than ADAA."""


def parts(
    bench: Bench,
    settings: Settings,
    made: Mapping[str, Conducted],
    found: Mapping[str, pd.DataFrame],
    *,
    stormy: Conducted,
    patience: Mapping[str, pd.DataFrame],
    lasting: Mapping[str, pd.DataFrame],
    month: pd.DataFrame,
    timed: pd.DataFrame,
) -> dict[str, str]:
    """Return every table by the name of its place in the pages."""
    return {
        "settings": _settings(bench, settings),
        "ladder": _ladder(found),
        "beside": _beside(settings, list(made.values())),
        "experiments": _experiments(settings, made),
        "cutoffs": _cutoffs(found, settings),
        "patience": "\n\n".join(f"{model}:\n\n{_compared('patience', rows)}" for model, rows in patience.items()),
        "everies": _compared("asked again after", found["everies"]),
        "oracles": _compared("the oracle skips beyond z of", found["oracles"]),
        "lasting": "\n\n".join(_compared(f"{times} times as long", rows) for times, rows in lasting.items()),
        "clusters": _rows_of(settings, {"stormy": stormy}),
        "month": _month(month),
        "time": _time(timed),
    }


def write(tables: Mapping[str, str]) -> None:
    """Put the tables into the two pages, the longest of them only as data."""
    for page, names in (("rush.md", PUBLISHED), ("rush-assumptions.md", ASSUMED)):
        write_parts(STUDIES / page, {name: tables[name] for name in names}, matters, shown)


def matters(table: pages.Table) -> bool:
    """Keep of the experiments the first table, of all of them."""
    return not table.section.startswith("experiments: ")


def shown(table: pages.Table, cells: list[str]) -> bool:
    """Keep of the experiments but ADAA, and of the choices, the rows that matter."""
    if table.section == "experiments":
        return cells[0] == "ADAA" or cells[1] in _SHOWN
    return True


def draw(made: Sequence[Conducted], found: Mapping[str, pd.DataFrame], patience: Mapping[str, pd.DataFrame], folder: Path) -> None:
    """Write the pictures, ``rush-<what>.png``."""
    for name in PICTURES:
        (folder / f"rush-{name}.png").write_bytes(getattr(cluster_plots, name)(made, image="png"))
    steps = {model: found[f"steps {model}"] for model in ("model", "oracle")}
    (folder / "rush-ladder.png").write_bytes(rush_plots.ladder(steps))
    (folder / "rush-patience.png").write_bytes(rush_plots.patience(patience))


def _settings(bench: Bench, settings: Settings) -> str:
    model, shipped = LEARNERS["model"], LEARNERS["shipped"]
    chosen, harming = settings.chosen, settings.harming
    return (
        f"`model`: {model.classifier} (classes of delay), {len(model.columns or ())} features, learned from {model.each:,} control runs of each application "
        f"in {model.days:g} days; its cutoff is {chosen.cutoff:g} ({harming.cutoff:g} with harm) and its patience {chosen.patience:,} s, chosen on "
        f"{bench.chosen_on} other trials. `model of 282 features`, `as published`: {shipped.classifier}, three classes, {shipped.each} control runs of each "
        f"in {shipped.days:g} days, cutoff 0.8, ten skips. {bench.trials} trials of each experiment."
    )


def _ladder(found: Mapping[str, pd.DataFrame]) -> str:
    """Return every part alone and the ladders, against EASY with best fit and with first fit."""
    first = looked_up(found["first"])
    rows = _lines(found["apart"])
    for row in rows:
        row.insert(1, in_line(changed(first[row[0], ALL, "varied"], "EASY, first fit")).partition(", ")[2])
    headings = ["ADAA", "against first fit", *(words for words, *_ in _COLUMNS), "skipped of asked"]
    text = [Table("", headings, rows).markdown()]
    text += [
        f"The {model}'s ladder, each rung with all before it:\n\n{_compared(model, found[f'steps {model}'])}"
        for model in ("model", "oracle")
    ]
    return "\n\n".join(text)


def _beside(settings: Settings, made: Sequence[Conducted]) -> str:
    places = models_of(made[0])
    model, shipped = (places.index(setting.scheduler) for setting in (settings.model(), settings.shipped()))
    few, many, published = beside([first_trials(each) for each in made], model), beside(made, model), beside(made, shipped)
    rows = [
        [what, stated, first, value, other]
        for (what, stated, first), (_, _, value), (_, _, other) in zip(few.rows, many.rows, published.rows, strict=True)
    ]
    counts = [each.trials for each in (first_trials(made[0]), made[0])]
    headings = ["", "paper, text", *(f"`model`, {count} trials" for count in counts), f"as published, {counts[1]} trials"]
    return Table("", headings, rows, left=headings).markdown()


def _experiments(settings: Settings, made: Mapping[str, Conducted]) -> str:
    """Return a table of all experiments, and each with all metrics and by application."""
    return "\n\n".join([_rows_of(settings, made), *map(_experiment, made.values())])


def _rows_of(settings: Settings, made: Mapping[str, Conducted]) -> str:
    rows = []
    for name, each in made.items():
        alone = by_themselves(each)
        names = {setting.scheduler: words for words, setting in settings.conducted().items()}
        at = {stratum: looked_up(each.strata, stratum) for stratum in STRATA}
        for scheduler in each.schedulers:
            cells = [in_line(changed(at[stratum][scheduler, ALL, metric], EASY)) for _, metric, stratum in _COLUMNS]
            share = "" if scheduler == EASY else f"{100 * asking_rate(each.runs, scheduler):.0f} %"
            rows.append([name, names.get(scheduler, "coin"), *cells, share, f"{alone[scheduler]:.2f}"])
    headings = ["", "scheduler", *(words for words, *_ in _COLUMNS), "skipped of asked", "vary by themselves"]
    return Table("", headings, rows, keys=2).markdown()


def _experiment(made: Conducted) -> str:
    """Return one experiment: all metrics over all applications, runs with variation by application, decisions."""
    of = made.experiment
    varied, pooled = by_application(made, "varied"), by_application(made, "varied_pooled")
    rows = [
        [name.text, *(f"{one.text} / {other.text}" for one, other in zip(first, second, strict=True))]
        for (name, *first), (_, *second) in zip(varied.cells, pooled.cells, strict=True)
    ]
    lines = [
        f"### {of.name}: {of.title}",
        "",
        overall(made).markdown(),
        "",
        "Runs with variation a trial, by control runs / by EASY's runs:",
        "",
    ]
    return "\n".join([*lines, replace(varied, rows=rows).markdown(), "", decision_table(made).markdown()])


def in_line(each: Cell) -> str:
    """Return a mean with its change or error on one line, bold where the interval leaves out 0."""
    if not each.below:
        return each.text
    change, sure = each.below[0]
    return f"{each.text} {change}" if change.startswith("±") else f"{each.text}, {f'**{change}**' if sure else change}"


def _compared(what: str, found: pd.DataFrame) -> str:
    """Return a row a setting of :func:`benchmarks.papers.rush.beside_easy`."""
    return Table("", [what, *(words for words, *_ in _COLUMNS), "skipped of asked"], _lines(found)).markdown()


def _lines(found: pd.DataFrame) -> list[list[str]]:
    at = {stratum: looked_up(found, stratum) for stratum in found["stratum"].unique()}
    baseline, lines = found["against"].iloc[0], []
    for name in found["scheduler"].unique():
        cells = [
            in_line(changed(at[stratum][name, ALL, metric], baseline)) if stratum in at else "" for _, metric, stratum in _COLUMNS
        ]
        share = at[ALL][name, ALL, "varied"]["skipped"]
        lines.append([name, *cells, "" if share == 0 else f"{100 * share:.0f} %"])
    return lines


def _chosen(tried: pd.DataFrame, settings: Settings) -> str:
    """Return runs with variation, makespan and wait by cutoff and patience, on the trials to choose on."""
    rows = looked_up(tried)
    lines = []
    for cutoff in CUTOFFS:
        cells = []
        for patience in CHOICES:
            values = [rows[f"{cutoff:g}, {patience:,} s", ALL, metric] for metric in ("varied", "makespan_s", "wait_s")]
            cell = " / ".join(f"{100 * row['relative']:+.1f}".replace("-", "−") for row in values)
            cells.append(f"**{cell}**" if settings.chosen == (cutoff, patience) else cell)
        lines.append([f"{cutoff:g}", *cells])
    trials = int(tried["trials"].max())
    largest = max(row["relative_error"] for key, row in rows.items() if key[2] == "varied")
    return (
        f"Change of runs with variation / makespan / mean wait in per cent, on {trials} trials to choose on (standard errors of the first up to "
        f"{100 * largest:.1f}). Chosen, as the one with the fewest runs with variation whose makespan and mean wait are at most {100 * PRICE:g} % longer: "
        f"cutoff **{settings.chosen.cutoff:g}**, patience **{settings.chosen.patience:,} s**.\n\n"
        + Table("", ["cutoff", *(f"{patience:,} s" for patience in CHOICES)], lines).markdown()
    )


def _cutoffs(found: Mapping[str, pd.DataFrame], settings: Settings) -> str:
    """Return what was chosen on other trials, and how the cutoffs do on the trials that are judged."""
    few = found["harm cutoffs"]["trials"].max()
    return "\n\n".join(
        [
            _chosen(found["cutoffs"], settings) + _placed(found["placements"]),
            f"With harm and the same patience, on {few} of the trials to choose on; chosen: cutoff **{settings.harming.cutoff:g}**.",
            _compared("cutoff, harm", found["harm cutoffs"]),
            f"The cutoffs with patience {settings.chosen.patience:,} s on the trials that are judged, which chose nothing:",
            _compared("cutoff", found["judged cutoffs"]),
        ]
    )


def _placed(found: pd.DataFrame) -> str:
    """Say whether informed placement is chosen: where it leaves fewer runs with variation beyond its interval."""
    row = looked_up(found)["informed", ALL, "varied"]
    better = "are" if row["high"] < 0 else "are not"
    change = f"{signed(100 * row['relative'], '.1f')} % ± {100 * row['relative_error']:.1f}"
    return (
        f"\n\nThere, with informed placement runs with variation {better} fewer beyond the interval than with best fit: {change}."
    )


def _month(found: pd.DataFrame) -> str:
    rows = []
    for load, of_load in found.groupby("load"):
        at = looked_up(of_month(of_load))
        jobs = of_load[of_load["scheduler"] == EASY]["jobs"].sum()
        days = of_load["day"].nunique()
        easy_s = float(of_load[of_load["scheduler"] == EASY]["seconds"].iloc[0])
        for name in of_load["scheduler"].unique():
            whole = of_load[of_load["scheduler"] == name].iloc[0]
            varied, wait = at[name, ALL, "varied"], at[name, ALL, "wait_s"]
            share = f"{100 * varied['mean'] * days / jobs:.2f} %"
            more = 1e6 * (whole["seconds"] - easy_s)
            cost = "" if not whole["asked"] else f"{more / whole['asked']:.0f}" if more > 0 else "not to be told"
            rows.append(
                [
                    f"{load:g}",
                    name,
                    in_line(Cell(share, changed(varied, EASY).below if name != EASY else ())),
                    f"{wait['mean'] * days / jobs:,.0f}" + ("" if name == EASY else f", {_waited(wait, days / jobs)}"),
                    f"{at[name, ALL, 'runtime']['mean'] * days / jobs:.3f}",
                    f"{whole['worst']:.2f}",
                    f"{100 * whole['utilization']:.1f} %",
                    f"{whole['asked']:,}",
                    f"{whole['skipped'] / max(whole['asked'], 1):.0%}" if whole["asked"] else "",
                    cost,
                ]
            )
    columns = ["load", "scheduler", "runs with variation", "mean wait, s", "mean runtime / usual", "99th percentile", "utilization"]
    columns += ["asked", "skipped", "µs a decision"]
    return Table("", columns, rows, keys=2).markdown()


def _waited(row: Mapping[str, Any], scale: float) -> str:
    """Return the change of the mean wait in seconds with its error over days."""
    error = f" ± {scale * row['error']:,.0f}" if np.isfinite(row["error"]) else ""
    text = signed(scale * row["difference"], ",.0f") + error
    return f"**{text}**" if tone(row["low"], row["high"]) else text


def _time(timed: pd.DataFrame) -> str:
    rows = [[f"a trial of ADAA, 190 jobs: {row['what']}", f"{row['seconds']:.3f}", "1"] for row in timed.to_dict("records")]
    return Table("", ["", "seconds", "aim"], rows).markdown()
