"""Tables of experiments on the simulated cluster.

For the terminal, for the page, and for docs/studies/rush.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pipelines.report.table import Cell, Row, Table
from pipelines.report.wording import signed, tone
from pipelines.workflows.cluster_experiments import (
    ALL,
    STRATA,
    UNLEARNED,
    Conducted,
    asked_of,
    decisions,
    label,
    maxima,
)
from sim.metrics.names import TRIAL

SIMULATED = "simulated cluster"
BY_APPLICATION = ("varied", "varied_pooled", "worst", "wait_s", "wait_later_s")
"""Metrics shown by application, too."""
BY_STORM = ("varied", "makespan_s", "wait_s")
"""Metrics shown of trials without and with a storm, too."""
_SHORTENED_S = (18, 66)
_LOWER_MAXIMUM = 0.058
_F1 = 0.95


def looked_up(found: pd.DataFrame, stratum: str = ALL) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Return rows of :func:`pipelines.workflows.cluster_experiments.compared` by their keys.

    Of one ``stratum``; keys are (scheduler, application, metric).
    """
    of_stratum = found[found["stratum"] == stratum]
    rows = [{str(name): value for name, value in row.items()} for row in of_stratum.to_dict("records")]
    return {(row["scheduler"], row["application"], row["metric"]): row for row in rows}


def cell(row: Mapping[str, Any], baseline: str) -> Cell:
    """Return a mean; below it the difference with its interval, and the same in per cent.

    For all metrics less is better.
    """
    form = TRIAL[row["metric"]].form
    mean = format(row["mean"], form)
    if row["scheduler"] == baseline:
        return Cell(mean)
    sure = tone(row["low"], row["high"])
    change = signed(row["difference"], form)
    if np.isfinite(row["low"]):
        change += f" [{signed(row['low'], form)}, {signed(row['high'], form)}]"
    percent = ""
    if np.isfinite(row["relative"]):
        percent = f"{signed(100 * row['relative'], '.1f')} %"
        if np.isfinite(row["relative_low"]):
            percent += f" [{signed(100 * row['relative_low'], '.1f')}, {signed(100 * row['relative_high'], '.1f')}]"
    return Cell(mean, ((change, sure), (percent, sure)))


def overall(made: Conducted) -> Table:
    """Return each metric over all applications, a column a scheduler."""
    wanted = [(name, ALL, metric.title) for name, metric in TRIAL.items()]
    return _table(made, f"{made.trials} trials", "simulated, a trial", wanted)


def changed(row: Mapping[str, Any], baseline: str) -> Cell:
    """Return a mean; below it the change from the baseline's in per cent with its standard error.

    The baseline has the mean's own standard error. For all metrics less is better.
    """
    form = TRIAL[row["metric"]].form
    mean = format(row["mean"], form)
    if row["scheduler"] == baseline:
        return Cell(mean, ((f"± {format(row['mean_error'], form)}", ""),) if np.isfinite(row["mean_error"]) else ())
    change = signed(100 * row["relative"], ".1f") if np.isfinite(row["relative"]) else ""
    if np.isfinite(row["relative_error"]):
        change += f" ± {100 * row['relative_error']:.1f}"
    return Cell(mean, ((f"{change} %", tone(row["low"], row["high"])),) if change else ())


def by_storm(made: Conducted) -> Table:
    """Return what changes in trials without and with a storm, a row a stratum and metric, a column a scheduler.

    No rows where all trials are of one stratum.
    """
    counts = made.strata.drop_duplicates("stratum").set_index("stratum")["trials"]
    rows: list[Row] = []
    for stratum in counts.index[1:] if len(counts) == len(STRATA) else ():
        at = looked_up(made.strata, stratum)
        rows += [
            [
                f"{stratum}: {TRIAL[metric].short}",
                *(changed(at[scheduler, ALL, metric], made.baseline) for scheduler in made.schedulers),
            ]
            for metric in BY_STORM
        ]
    title = f"Trials {' and '.join(f'{stratum} ({counts[stratum]})' for stratum in counts.index[1:])}"
    return Table(title, ["± standard error", *heads(made)], rows)


def by_application(made: Conducted, metric: str) -> Table:
    """Return one metric of each application, a column a scheduler."""
    return _table(made, TRIAL[metric].title, "application", [(metric, name, name) for name in made.experiment.applications])


def _table(made: Conducted, title: str, corner: str, wanted: Sequence[tuple[str, str, str]]) -> Table:
    at = looked_up(made.found)
    rows: list[Row] = [
        [words, *(cell(at[scheduler, application, metric], made.baseline) for scheduler in made.schedulers)]
        for metric, application, words in wanted
    ]
    return Table(title, [corner, *heads(made)], rows)


def heads(made: Conducted) -> list[str]:
    """Return the schedulers' names for the heads of columns."""
    return [label(scheduler) for scheduler in made.schedulers]


def decision_table(made: Conducted) -> Table:
    """Return each scheduler's mean numbers of decisions and skips, a row a scheduler.

    Schedulers without start decisions are left out.
    """
    rows = []
    for row in decisions(made.runs, made.schedulers).to_dict("records"):
        if row["asked"] > 0:
            numbers = f"{row['asked']:,.0f}", f"{row['skipped']:,.0f}", f"{row['share']:.0%}", f"{row['jobs_skipped']:,.0f}"
            rows.append([label(str(row["scheduler"])), *numbers, str(row["most_skips"])])
    headings = ("scheduler", "asked", "skipped", "share", "jobs skipped at all", "most skips of a job")
    return Table("Start decisions, means over trials", headings, rows)


def largest_table(made: Conducted) -> Table:
    """Return application (and nodes), and each scheduler's largest runtime of all trials.

    With the difference from the baseline's.
    """
    rows, found = [], {}
    for row in maxima(made.runs, made.baseline).to_dict("records"):
        found[row["application"], row["nodes"], row["scheduler"]] = row
    for name in made.experiment.applications:
        for nodes in made.experiment.nodes:
            cells = []
            for scheduler in made.schedulers:
                row = found[name, nodes, scheduler]
                lower = "" if scheduler == made.baseline else f" ({signed(-100 * row['improvement'], '.1f')} %)"
                cells.append(f"{row['max_s']:,.0f}{lower}")
            rows.append([name if len(made.experiment.nodes) == 1 else f"{name}, {nodes} nodes", *cells])
    return Table("Largest runtime of all trials, s", ["application", *heads(made)], rows)


def models_of(made: Conducted) -> list[str]:
    """Return the schedulers that ask a model."""
    return [scheduler for scheduler in made.schedulers if asked_of(scheduler) not in ("", *UNLEARNED)]


def beside(conducted: Sequence[Conducted]) -> Table:
    """Return statements of Nichols et al., with their value and the first model's here.

    Only experiments that were run have rows.
    """
    rows: list[tuple[str, str, str]] = []
    for made in conducted:
        if not models_of(made):
            continue
        rush = models_of(made)[0]
        if made.experiment.name == "ADAA":
            rows += _adaa(made.found, rush)
        row = looked_up(made.found)[rush, ALL, "makespan_s"]
        shortest, longest = _SHORTENED_S
        rows.append((f"{made.experiment.name}: makespan shorter by, s", f"{shortest} to {longest}", _seconds(row, -1.0)))
        largest = maxima(made.runs, made.baseline)
        lower = largest.loc[largest["scheduler"] == rush, "improvement"].to_numpy(np.float64)
        rows.append(
            (
                f"{made.experiment.name}: largest runtime of an application lower by",
                f"up to {100 * _LOWER_MAXIMUM:g} %",
                f"{signed(100 * lower.min(), '.1f')} % to {signed(100 * lower.max(), '.1f')} %",
            )
        )
    if rows:
        rows.append(
            ("F1 of the model in cross-validation", f"{_F1:g}", "not part of the experiments: queuecast variability evaluate")
        )
    headings = ("what", "the paper's text", "simulated here")
    return Table("beside Nichols et al.", headings, rows, left=headings)


def _adaa(found: pd.DataFrame, rush: str) -> list[tuple[str, str, str]]:
    rows = []
    for metric, way in (("varied_pooled", "by EASY's runs"), ("varied", "by control runs")):
        row = looked_up(found)[rush, ALL, metric]
        theirs = "17 to 4" if metric == "varied_pooled" else "does not say"
        rows.append((f"ADAA: runs with variation a trial, {way}", theirs, f"{row['baseline']:.1f} to {row['mean']:.1f}"))
    apart = found[(found["metric"] == "varied_pooled") & (found["application"] != ALL)]
    of_rush = apart[apart["scheduler"] == rush]
    rows.append(
        (
            "ADAA: the same of an application",
            "1.5 to 3.5; under RUSH 0 to 1.5",
            f"{of_rush['baseline'].min():.1f} to {of_rush['baseline'].max():.1f}; under RUSH {of_rush['mean'].min():.1f} to {of_rush['mean'].max():.1f}",
        )
    )
    later = found[(found["metric"] == "wait_later_s") & (found["application"] != ALL) & (found["scheduler"] == rush)]
    waits = later["difference"].to_numpy(np.float64)
    rows.append(
        (
            "ADAA: mean wait of an application changes by, s",
            "within a minute",
            f"{signed(waits.min(), '.0f')} to {signed(waits.max(), '.0f')}",
        )
    )
    return rows


def _seconds(row: Mapping[str, Any], sign: float) -> str:
    text = signed(sign * row["difference"], ".0f")
    if not np.isfinite(row["low"]):
        return text
    low, high = sorted((sign * row["low"], sign * row["high"]))
    return f"{text} [{signed(low, '.0f')}, {signed(high, '.0f')}]"
