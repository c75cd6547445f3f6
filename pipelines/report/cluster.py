"""The page and the table of trials on the simulated cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pipelines.report.page import Front, Picture, data_uri, render
from pipelines.report.style import BLUE, GREEN, INK, ORANGE, PURPLE, figure
from pipelines.report.table import Cell, Row, Table
from pipelines.report.wording import tone
from pipelines.workflows.variability_trials import Plan
from sim.cluster.comparison import ALL
from sim.kernel.start_decision import WAKE_S
from sim.metrics.formats import sentence, signed
from sim.metrics.names import TRIAL

_GAINS = {"varied": "runs with variation a trial", "wait_s": "s of mean wait"}
"""Metrics of the gain and the cost of waiting, with their words."""
_COLOURS = (INK, BLUE, ORANGE, GREEN, PURPLE)


def render_cluster(plan: Plan, runs: pd.DataFrame, table: pd.DataFrame, provenance: Mapping[str, object]) -> str:
    """Return the page of the trials of ``plan`` as one self-contained HTML file.

    ``runs`` and ``table`` come from :func:`pipelines.workflows.variability_trials.try_model`; ``provenance`` is printed in its order.
    """
    front = Front(
        title=f"Waiting for a quiet machine: trials on the simulated cluster {plan.cluster.name}",
        answer=gains(table, plan.baseline),
        table=overall(table, plan.baseline),
        hint=f"Means over trials; below each, the paired difference from {plan.baseline} with its 95 % interval, and the same in per cent. Coloured where "
        "the interval leaves out 0. For each job that could start, a model that reads counters, probes and the type of the application predicts "
        "whether its run would vary; if so, the job waits (after RUSH, Nichols et al.).",
        picture=Picture("", data_uri(varied_runs(table)), "Runs with variation a trial, by application: means over trials."),
        warnings=[
            "Simulated: cluster, counters and runtimes come from a simulator, not from a machine. They show what the method does there, and say "
            "nothing about any site. The columns that the model reads were chosen on such simulations, of other seeds.",
            f"A skip here lasts at most {WAKE_S} s: then the scheduler asks again, ten times at most by default.",
        ],
        facts=[
            (f"{plan.trials}", "trials, paired"),
            (f"{len(plan.schedulers)}", "schedulers"),
            (f"{plan.workload.jobs}", "jobs a trial"),
            (f"{len(runs):,}", "simulated runs"),
        ],
        notes=[text for text in (sentence(table["note"].iloc[0]),) if text],
        provenance={**provenance, "schedulers": plan.schedulers, "seed": plan.seed, "cluster": asdict(plan.cluster)},
    )
    return render("cluster.html.j2", front, applications=by_application(table, plan.baseline), described=[*TRIAL.values()])


def gains(table: pd.DataFrame, baseline: str) -> list[str]:
    """Return a sentence on the gain and the cost of each scheduler that waits.

    There are at most three sentences, and none on bounds.
    """
    at = {(row["scheduler"], row["metric"]): row for row in _rows(table, ALL)}
    names = [name for name in dict.fromkeys(table["scheduler"]) if name != baseline and "oracle" not in name]
    return [
        f"{name}: {' and '.join(_in_place(at[name, metric], words) for metric, words in _GAINS.items())}, instead of {baseline}'s "
        f"{' and '.join(format(at[name, metric]['baseline'], TRIAL[metric].form) for metric in _GAINS)}."
        for name in names[:3]
    ]


def _in_place(row: Mapping[Any, Any], words: str) -> str:
    sure = [] if tone(row["low"], row["high"]) else ["not sure"]
    return f"{format(row['mean'], TRIAL[row['metric']].form)} {words} ({', '.join([*_changed(row), *sure])})"


def overall(table: pd.DataFrame, baseline: str, title: str = "") -> Table:
    """Return each metric over all applications, one row per scheduler.

    Below each mean is its difference from the baseline's.
    """
    at = {(row["scheduler"], row["metric"]): row for row in _rows(table, ALL)}
    rows: list[Row] = [
        [name, *(_cell(at[name, metric], baseline) for metric in TRIAL)] for name in dict.fromkeys(table["scheduler"])
    ]
    classes = ["bound" if "oracle" in str(row[0]) else "" for row in rows]
    return Table(
        title, ["scheduler", *(Cell(metric.title, tip=metric.meaning) for metric in TRIAL.values())], rows, classes=classes
    )


def by_application(table: pd.DataFrame, baseline: str) -> Table:
    """Return the runs with variation of each application, one column per scheduler."""
    schedulers = list(dict.fromkeys(table["scheduler"]))
    rows: list[Row] = []
    for name in sorted(set(table["application"]) - {ALL}):
        at = {row["scheduler"]: row for row in _rows(table, name) if row["metric"] == "varied"}
        rows.append([name, *(_cell(at[scheduler], baseline) for scheduler in schedulers)])
    return Table("Runs with variation a trial, by application", ["application", *schedulers], rows)


def varied_runs(table: pd.DataFrame) -> Figure:
    """Draw the runs with variation per trial by application, one bar per scheduler."""
    varied = table[(table["metric"] == "varied") & (table["application"] != ALL)]
    means = varied.pivot(index="application", columns="scheduler", values="mean")[list(dict.fromkeys(varied["scheduler"]))]
    with figure(6.8, 3.4, True, "simulated cluster") as drawing:
        panel, width = drawing.subplots(), 0.8 / len(means.columns)
        for place, (name, colour) in enumerate(zip(means, cycle(_COLOURS), strict=False)):
            x = np.arange(len(means)) + (place - (len(means.columns) - 1) / 2) * width
            panel.bar(x, means[name], width, color=colour, label=name)
        panel.set_xticks(range(len(means)), list(means.index))
        panel.set_ylabel("runs with variation a trial")
        panel.grid(axis="x", visible=False)
        drawing.legend(loc="outside lower center", ncols=3)
    return drawing


def _rows(table: pd.DataFrame, application: str) -> list[dict[Any, Any]]:
    return table[table["application"] == application].to_dict("records")


def _cell(row: Mapping[Any, Any], baseline: str) -> Cell:
    """Return a mean, below it the difference, its interval and per cent; less is better."""
    form = TRIAL[row["metric"]].form
    mean = format(row["mean"], form)
    if row["scheduler"] == baseline:
        return Cell(mean)
    sure = tone(row["low"], row["high"])
    return Cell(mean, tuple((text, sure) for text in _changed(row)))


def _changed(row: Mapping[Any, Any]) -> list[str]:
    """Return the difference with its interval, and the difference in per cent, if finite."""
    form = TRIAL[row["metric"]].form
    change = signed(row["difference"], form)
    if np.isfinite(row["low"]):
        change += f" [{signed(row['low'], form)}, {signed(row['high'], form)}]"
    return [change, *([f"{signed(100 * row['relative'], '.1f')} %"] if np.isfinite(row["relative"]) else [])]
