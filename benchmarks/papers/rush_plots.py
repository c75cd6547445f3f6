"""Pictures of what parts of RUSH are worth, and of patience."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from pipelines.report.cluster_tables import SIMULATED, looked_up
from pipelines.report.style import INK, MUTED, encode, figure
from pipelines.workflows.cluster_experiments import ALL, STRATA

_COLOURS = {"model": "#0072b2", "nowcast": "#e3c94b", "oracle": "#e69f00", "oracle, harm": "#d55e00"}


def ladder(steps: Mapping[str, pd.DataFrame]) -> bytes:
    """Draw runs with variation a trial, rung by rung, with standard errors; those of trials without storm are dark."""
    with figure(10.5, 3.6, True, SIMULATED) as drawing:
        panels = drawing.subplots(1, len(steps), sharey=True, squeeze=False).ravel()
        for panel, (who, found) in zip(panels, steps.items(), strict=True):
            names = list(found["scheduler"].unique())
            at = {stratum: looked_up(found, stratum) for stratum in STRATA}
            for stratum, colour in ((STRATA[0], "#b8c0c8"), (STRATA[1], _COLOURS[who])):
                rows = [at[stratum].get((name, ALL, "varied")) for name in names] if at[stratum] else []
                trials = found["trials"].max()
                weights = [row["trials"] / trials for row in rows]
                heights = np.array([row["mean"] * weight for row, weight in zip(rows, weights, strict=True)])
                errors = np.array([row["mean_error"] * weight for row, weight in zip(rows, weights, strict=True)])
                panel.barh(
                    range(len(rows)), heights, 0.7, color=colour, label="with storm" if stratum == STRATA[0] else "without storm"
                )
                panel.hlines(range(len(rows)), heights - errors, heights + errors, color=INK, linewidth=1)
                if stratum == STRATA[0]:
                    for place, (row, height, error) in enumerate(zip(rows, heights, errors, strict=True)):
                        change = f"{100 * row['relative']:+.0f} %".replace("-", "−") if place else ""
                        panel.annotate(
                            change, (height + error, place), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8.5
                        )
            panel.set_yticks(range(len(names)), names, fontsize=8.5)
            panel.tick_params(axis="y", labelleft=True)
            panel.set_title(who)
            panel.set_xlabel("runs with variation a trial, ± standard error")
            panel.grid(axis="y", visible=False)
            panel.legend(fontsize=8, loc="lower right")
            panel.margins(x=0.14)
        panels[0].invert_yaxis()
        return encode(drawing, "png")


def patience(found: Mapping[str, pd.DataFrame]) -> bytes:
    """Draw changes of runs with variation, makespan and mean wait over patience, with standard errors."""
    metrics = {"varied": "runs with variation, %", "makespan_s": "makespan, %", "wait_s": "mean wait, %"}
    with figure(10.5, 3.2, True, SIMULATED) as drawing:
        for panel, (metric, words) in zip(drawing.subplots(1, len(metrics)), metrics.items(), strict=True):
            for who, rows in found.items():
                at = looked_up(rows)
                names = [name for name in rows["scheduler"].unique() if name != "EASY"]
                seconds = [int(name.removesuffix(" s").replace(",", "")) for name in names]
                values = [at[name, ALL, metric] for name in names]
                changes, errors = (100 * np.array([row[column] for row in values]) for column in ("relative", "relative_error"))
                panel.errorbar(seconds, changes, errors, color=_COLOURS[who], marker="o", markersize=4, linewidth=1.4, label=who)
            panel.axhline(0, color=MUTED, linewidth=0.8)
            panel.set_xlabel("patience, s")
            panel.set_ylabel(words)
            panel.set_xticks([600, 1200, 2400, 3600])
        handles, names = panel.get_legend_handles_labels()
        drawing.legend(handles, names, loc="outside lower center", ncols=len(names))
        return encode(drawing, "png")
