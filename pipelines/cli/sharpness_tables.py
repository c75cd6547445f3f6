"""The tables of ``queuecast evaluate`` on distributions: scores, coverage and windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pipelines.report.wording import group_name
from sim.predictions.sharpness import outside

if TYPE_CHECKING:
    from rich.console import Console

    from sim.predictions.quality import Quality

_LOSSES = (0.05, 0.2, 0.5, 0.8, 0.95)
"""Levels whose losses are printed; JSON, the Parquet file and the page have them all."""


def print_sharpness(quality: Quality, to: Console | None = None) -> None:
    """Print all predictors' scores as distributions; then coverage and windows, if any.

    Coverage and windows are of predictors that answer with a distribution.
    """
    if quality.calibration.empty:
        return
    print_scores(quality, to)
    for predictor in dict.fromkeys(quality.calibration["predictor"]):
        print_coverage(quality, str(predictor), to)
    print_windows(quality, to)


def print_scores(quality: Quality, to: Console | None = None) -> None:
    """Print CRPS and quantile losses, a row a predictor and reference.

    A point prediction is that number at every level.
    """
    from pipelines.report.terminal import print_table

    by_name = quality.sharpness.losses.pivot(index="predictor", columns="level", values="pinball_s")
    levels = by_name.columns.to_numpy(np.float64)
    cells = []
    for row in quality.sharpness.scores.to_dict("records"):
        losses = by_name.loc[row["predictor"]].to_numpy()
        shown = [losses[np.abs(levels - level).argmin()] for level in _LOSSES]
        cells.append([row["predictor"], f"{row['crps_s']:,.0f}", *(f"{loss:,.0f}" for loss in shown)])
    print_table(
        ("predictor", "CRPS", *map(_form, _LOSSES)),
        cells,
        title="predicted distributions: CRPS, and quantile loss by level, s",
        caption="lower is better; in brackets references without features: all runtimes so far, and one constant or a random number "
        "through the same calibration",
        to=to,
    )


def print_coverage(quality: Quality, predictor: str, to: Console | None = None) -> None:
    """Print shares of jobs and processor-seconds within the quantiles of ``predictor``."""
    from pipelines.report.terminal import print_table

    mine = quality.sharpness.coverage
    mine = mine[mine["predictor"] == predictor]
    levels = sorted(mine["level"].unique())
    cells = []
    groups: Any = mine.groupby(["by", "begin"], sort=False)
    for (by, begin), rows in groups:
        found = rows.set_index("level")
        shares = [f"{100 * found.at[level, column]:.1f}" for column in ("at_most", "work_at_most") for level in levels]
        cells.append([group_name(by, begin), f"{int(rows['jobs'].iloc[0]):,}", *shares])
    print_table(
        ("jobs with", "jobs", *(f"{_form(level)} {of}" for of in ("jobs", "work") for level in levels)),
        cells,
        title=f"{predictor}: % at most as long as the quantile",
        caption="of jobs, and of work: of processor-seconds",
        to=to,
    )


def print_windows(quality: Quality, to: Console | None = None) -> None:
    """Print how often the rate of jobs that outlive a quantile left the band of chance.

    Over all 30 days, without and with the update's feedback.
    """
    from pipelines.report.terminal import print_table

    cells = []
    for row in outside(quality.sharpness.windows).to_dict("records"):
        counts = ["–" if pd.isna(row[name]) else f"{row[name]} of {row['windows']}" for name in ("by_chance", "with_feedback")]
        cells.append([row["predictor"], _form(row["level"]), f"{row['rate']:.1%}", f"{row['worst']:.1%}", *counts])
    print_table(
        ("predictor", "level", "outlived", "worst", "by chance", "with feedback"),
        cells,
        title="30-day windows outside the 99 % band",
        caption="by chance: jobs of a user's day go wrong together; with feedback: and the level is moved after each job, which by itself "
        "keeps rates near the level",
        to=to,
    )


def _form(level: float) -> str:
    return f"{level:g}"
