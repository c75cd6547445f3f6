"""The page and the table of trials on the simulated cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd

from pipelines.report.page import data_uri, stated, template
from pipelines.report.style import INK, encode, figure
from pipelines.report.table import Cell, Row, Table
from pipelines.report.wording import tone
from pipelines.workflows.variability_trials import Plan
from sim.cluster.comparison import ALL
from sim.metrics.formats import sentence, signed
from sim.metrics.names import TRIAL

_COLOURS = (INK, "#0072b2", "#e69f00", "#009e73", "#cc79a7")


def render_cluster(plan: Plan, runs: pd.DataFrame, table: pd.DataFrame, provenance: Mapping[str, object]) -> str:
    """Return the page of the trials of ``plan`` as one self-contained HTML file.

    ``runs`` and ``table`` come from :func:`pipelines.workflows.variability_trials.try_model`; ``provenance`` is printed in its order.
    """
    varied = [row for row in _rows(table, ALL) if row["metric"] == "varied"]
    return template("cluster.html.j2").render(
        cluster=plan.cluster.name,
        facts=[
            (f"{plan.trials}", "trials, paired"),
            (f"{len(plan.schedulers)}", "schedulers"),
            (f"{plan.workload.jobs}", "jobs a trial"),
            (f"{len(runs):,}", "simulated runs"),
        ],
        baseline=plan.baseline,
        summary=[
            f"{row['scheduler']}: {row['mean']:.1f} runs with variation a trial, {plan.baseline} {row['baseline']:.1f}."
            for row in varied
            if row["scheduler"] != plan.baseline
        ],
        notes=[text for text in (sentence(table["note"].iloc[0]),) if text],
        overall=overall(table, plan.baseline),
        applications=by_application(table, plan.baseline),
        image=data_uri(varied_runs(table)),
        described=[*TRIAL.values()],
        provenance=stated({**provenance, "schedulers": plan.schedulers, "seed": plan.seed, "cluster": asdict(plan.cluster)}),
    )


def overall(table: pd.DataFrame, baseline: str, title: str = "") -> Table:
    """Return each metric over all applications, a row a scheduler.

    Below each mean stands its difference from the baseline's.
    """
    at = {(row["scheduler"], row["metric"]): row for row in _rows(table, ALL)}
    rows: list[Row] = [
        [name, *(_cell(at[name, metric], baseline) for metric in TRIAL)] for name in dict.fromkeys(table["scheduler"])
    ]
    return Table(title, ["scheduler", *(Cell(metric.title, tip=metric.meaning) for metric in TRIAL.values())], rows)


def by_application(table: pd.DataFrame, baseline: str) -> Table:
    """Return the runs with variation of each application, a column a scheduler."""
    schedulers = list(dict.fromkeys(table["scheduler"]))
    rows: list[Row] = []
    for name in sorted(set(table["application"]) - {ALL}):
        at = {row["scheduler"]: row for row in _rows(table, name) if row["metric"] == "varied"}
        rows.append([name, *(_cell(at[scheduler], baseline) for scheduler in schedulers)])
    return Table("Runs with variation a trial, by application", ["application", *schedulers], rows)


def varied_runs(table: pd.DataFrame) -> bytes:
    """Draw the runs with variation a trial by application, a bar a scheduler; return SVG."""
    varied = table[(table["metric"] == "varied") & (table["application"] != ALL)]
    means = varied.pivot(index="application", columns="scheduler", values="mean")[list(dict.fromkeys(varied["scheduler"]))]
    with figure(10.5, 3.2, True, "simulated cluster") as drawing:
        panel, width = drawing.subplots(), 0.8 / len(means.columns)
        for place, (name, colour) in enumerate(zip(means, cycle(_COLOURS), strict=False)):
            x = np.arange(len(means)) + (place - (len(means.columns) - 1) / 2) * width
            panel.bar(x, means[name], width, color=colour, label=name)
        panel.set_xticks(range(len(means)), list(means.index))
        panel.set_ylabel("runs with variation a trial")
        panel.grid(axis="x", visible=False)
        drawing.legend(loc="outside lower center", ncols=3)
        return encode(drawing, "svg")


def _rows(table: pd.DataFrame, application: str) -> list[dict[Any, Any]]:
    return table[table["application"] == application].to_dict("records")


def _cell(row: Mapping[Any, Any], baseline: str) -> Cell:
    """Return a mean; below it the difference with its interval, and the same in per cent. Less is better for all metrics."""
    form = TRIAL[row["metric"]].form
    mean = format(row["mean"], form)
    if row["scheduler"] == baseline:
        return Cell(mean)
    sure = tone(row["low"], row["high"])
    change = signed(row["difference"], form)
    if np.isfinite(row["low"]):
        change += f" [{signed(row['low'], form)}, {signed(row['high'], form)}]"
    percent = f"{signed(100 * row['relative'], '.1f')} %" if np.isfinite(row["relative"]) else ""
    return Cell(mean, ((change, sure), (percent, sure)))
