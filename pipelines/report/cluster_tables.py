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
from pipelines.workflows.cluster_experiments import UNLEARNED, Conducted, asked_of, label
from sim.cluster.comparison import ALL, STRATA, decisions, maxima
from sim.metrics.names import TRIAL

SIMULATED = "simulated cluster"
BY_APPLICATION = ("varied", "varied_pooled", "worst", "wait_s", "wait_later_s")
"""Metrics shown by application, too."""
BY_STORM = ("varied", "makespan_s", "wait_s")
"""Metrics shown of trials without and with a storm, too."""


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
    """Return a mean; below it the change from the baseline's with its standard error.

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
    """Return what changes in trials without and with a storm.

    A row a stratum and metric, a column a scheduler.


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
