"""Pictures of what parts of RUSH are worth, and of patience."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from pipelines.report.cluster_tables import SIMULATED, looked_up
from pipelines.report.style import INK, MUTED, encode, figure
from pipelines.report.wording import signed
from sim.cluster.comparison import ALL, STRATA

_COLOURS = {"model": "#0072b2", "nowcast": "#e3c94b", "oracle": "#e69f00", "oracle, harm": "#d55e00"}


def ladder(steps: Mapping[str, pd.DataFrame]) -> bytes:
    """Draw runs with variation a trial, rung by rung, with standard errors; those of trials without storm are dark."""
    with figure(10.5, 3.6, True, SIMULATED) as drawing:
        panels = drawing.subplots(1, len(steps), sharex=True, squeeze=False).ravel()
        for panel, (model, found) in zip(panels, steps.items(), strict=True):
            names = list(found["scheduler"].unique())
            at = {stratum: looked_up(found, stratum) for stratum in STRATA[:2]}
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
            panel.set_title(model)
            panel.set_xlabel("runs with variation a trial, ± standard error")
            panel.grid(axis="y", visible=False)
            panel.legend(fontsize=8, loc="lower right")
            panel.margins(x=0.14)
            panel.invert_yaxis()
        return encode(drawing, "png")


def patience(found: Mapping[str, pd.DataFrame]) -> bytes:
    """Draw changes of runs with variation, makespan and mean wait over patience, with standard errors."""
    metrics = {"varied": "runs with variation, %", "makespan_s": "makespan, %", "wait_s": "mean wait, %"}
    with figure(10.5, 3.2, True, SIMULATED) as drawing:
        for panel, (metric, words) in zip(drawing.subplots(1, len(metrics)), metrics.items(), strict=True):
            for place, (model, rows) in enumerate(found.items()):
                at = looked_up(rows)
                names = [name for name in rows["scheduler"].unique() if name != "EASY"]
                seconds = [int(name.removesuffix(" s").replace(",", "")) for name in names]
                values = [at[name, ALL, metric] for name in names]
                changes, errors = (100 * np.array([row[column] for row in values]) for column in ("relative", "relative_error"))
                panel.errorbar(
                    np.add(seconds, 25 * place),
                    changes,
                    errors,
                    color=_COLOURS[model],
                    marker="o",
                    markersize=4,
                    linewidth=1.4,
                    label=model,
                )
            panel.axhline(0, color=MUTED, linewidth=0.8)
            panel.set_xlabel("patience, s")
            panel.set_ylabel(words)
            panel.set_xticks([600, 1200, 2400, 3600])
        handles, names = panel.get_legend_handles_labels()
        drawing.legend(handles, names, loc="outside lower center", ncols=len(names))
        return encode(drawing, "png")
