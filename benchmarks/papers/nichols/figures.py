"""Figures of RUSH: what its parts are worth, patience, and figures 4 to 11 of Nichols et al. for simulated experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle

import numpy as np
import pandas as pd
from matplotlib.ticker import FuncFormatter, NullFormatter

from benchmarks.papers.nichols.experiments import ALL, EASY, STRATA, Conducted
from benchmarks.papers.nichols.tables import looked_up
from pipelines.report.page import INK, MUTED, encode, figure
from sim.metrics.verdict import signed

SIMULATED = "simulated cluster"
_COLOURS = {"model": "#0072b2", "nowcast": "#e3c94b", "oracle": "#e69f00"}
_PALETTE = (INK, "#0072b2", "#009e73", "#cc79a7", "#e3c94b", "#e69f00", "#d55e00", "#b8c0c8")
PUBLISHED = {
    "figures-4-5": ("varied_pooled", "mean", "runs with variation a trial"),
    "figure-9": ("worst", "relative", "change of the largest runtime, as a share"),
    "figure-10": ("makespan_s", "mean", "makespan, s"),
    "figure-11": ("wait_later_s", "difference", "mean wait longer by, s"),
}
"""Metric, column of the comparison and axis of the figures that are bars."""


def published(conducted: Sequence[Conducted]) -> dict[str, bytes]:
    """Return figures 4 to 11 of the paper as PNG, a panel an experiment."""
    images = {}
    for name, (metric, column, words) in PUBLISHED.items():
        with figure(10.5, 2.7 * len(conducted), True, SIMULATED) as drawing:
            for panel, each in zip(drawing.subplots(len(conducted), 1, squeeze=False).ravel(), conducted, strict=True):
                at = looked_up(each.strata)
                of = (ALL,) if metric == "makespan_s" else each.experiment.applications
                for place, (scheduler, colour) in enumerate(zip(each.schedulers, cycle(_PALETTE), strict=False)):
                    x = np.arange(len(of)) + 0.8 * place / len(each.schedulers)
                    heights = [at[scheduler, application, metric][column] for application in of]
                    panel.bar(x, heights, 0.8 / len(each.schedulers), color=colour, label=scheduler)
                panel.set_xticks(range(len(of)), of)
                panel.set(title=each.experiment.name, ylabel=words)
            panel.legend(fontsize=7)
            images[name] = encode(drawing, "png")
    with figure(10.5, 2.7 * len(conducted), True, SIMULATED) as drawing:
        for panel, each in zip(drawing.subplots(len(conducted), 1, squeeze=False).ravel(), conducted, strict=True):
            usual = each.runs[each.runs["scheduler"] == EASY].groupby(["application", "nodes"])["runtime_s"].median()
            for place, (scheduler, colour) in enumerate(zip((EASY, "model"), _PALETTE, strict=False)):
                runs = each.runs[each.runs["scheduler"] == scheduler].groupby(["application", "nodes"])["runtime_s"]
                boxes = [runs.get_group(kind).to_numpy() / usual[kind] for kind in usual.index]
                at_x = np.arange(len(boxes)) + 0.36 * place
                panel.boxplot(boxes, positions=at_x, whis=(0, 100), manage_ticks=False, boxprops={"color": colour})
            panel.set_xticks(range(len(usual)), [f"{name} {nodes}" for name, nodes in usual.index], fontsize=7, rotation=45)
            panel.set(title=each.experiment.name, ylabel="runtime over EASY's median", yscale="log")
            panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            panel.yaxis.set_minor_formatter(NullFormatter())
        images["figures-6-8"] = encode(drawing, "png")
    return images


def ladder(steps: Mapping[str, pd.DataFrame]) -> bytes:
    """Draw runs with variation a trial, rung by rung, with standard errors; those of trials without storm are dark."""
    with figure(10.5, 3.6, True, SIMULATED) as drawing:
        panels = drawing.subplots(1, len(steps), sharex=True, squeeze=False).ravel()
        for panel, (model, table) in zip(panels, steps.items(), strict=True):
            names = list(table["scheduler"].unique())
            at = {stratum: looked_up(table, stratum) for stratum in STRATA[:2]}
            rows, calm = ([at[stratum][name, ALL, "varied"] for name in names] for stratum in STRATA[:2])
            share = calm[0]["trials"] / rows[0]["trials"]
            places, heights, errors = range(len(rows)), *(np.array([row[key] for row in rows]) for key in ("mean", "mean_error"))
            panel.barh(places, heights, 0.7, color="#b8c0c8", label="in trials with storm")
            panel.barh(places, [share * row["mean"] for row in calm], 0.7, color=_COLOURS[model], label="in trials without storm")
            panel.hlines(places, heights - errors, heights + errors, color=INK, linewidth=1)
            for place, row in list(enumerate(rows))[1:]:
                change, end = f"{signed(100 * row['relative'], '.0f')} %", (heights + errors)[place]
                panel.annotate(change, (end, place), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8.5)
            panel.set_yticks(range(len(names)), names, fontsize=8.5)
            panel.set(title=model, xlabel="runs with variation a trial, ± standard error")
            panel.grid(axis="y", visible=False)
            panel.legend(fontsize=8, loc="lower right")
            panel.margins(x=0.14)
            panel.invert_yaxis()
        return encode(drawing, "png")


def patience(tables: Mapping[str, pd.DataFrame]) -> bytes:
    """Draw changes of runs with variation, makespan and mean wait over patience, with standard errors."""
    metrics = {"varied": "runs with variation, %", "makespan_s": "makespan, %", "wait_s": "mean wait, %"}
    with figure(10.5, 3.2, True, SIMULATED) as drawing:
        for panel, (metric, words) in zip(drawing.subplots(1, len(metrics)), metrics.items(), strict=True):
            for place, (model, rows) in enumerate(tables.items()):
                at = looked_up(rows)
                names = [name for name in rows["scheduler"].unique() if name != EASY]
                seconds = [int(name.removesuffix(" s").replace(",", "")) for name in names]
                values = [at[name, ALL, metric] for name in names]
                changes, errors = (100 * np.array([row[column] for row in values]) for column in ("relative", "relative_error"))
                x = np.add(seconds, 25 * place)
                panel.errorbar(x, changes, errors, color=_COLOURS[model], marker="o", markersize=4, linewidth=1.4, label=model)
            panel.axhline(0, color=MUTED, linewidth=0.8)
            panel.set(xlabel="patience, s", ylabel=words, xticks=[600, 1200, 2400, 3600])
        handles, names = panel.get_legend_handles_labels()
        drawing.legend(handles, names, loc="outside lower center", ncols=len(names))
        return encode(drawing, "png")
