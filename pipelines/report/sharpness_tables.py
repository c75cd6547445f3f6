"""Tables of predicted distributions: scores, coverage, and windows outside chance."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pipelines.report.table import Cell, Table
from pipelines.report.wording import group_name, tone
from sim.metrics.formats import number, signed
from sim.metrics.names import Kind
from sim.predictions.quality import Quality
from sim.predictions.sharpness import outside

LEVELS = (0.05, 0.2, 0.5, 0.8, 0.95)
"""Levels whose losses are shown; JSON and the Parquet file have them all."""


def sharpness_tables(quality: Quality) -> list[Table]:
    """Return scores, coverage of each distribution, and windows; none without distributions."""
    if quality.calibration.empty:
        return []
    predictors = dict.fromkeys(quality.calibration["predictor"])
    return [scores(quality), *(coverage(quality, str(predictor)) for predictor in predictors), windows(quality)]


def compared(
    row: Mapping[Any, Any], kind: Kind, lower_is_better: bool | None, baseline: bool = False, words: Sequence[str] = ()
) -> Cell:
    """Return a value; below it its interval, its difference to the baseline, and ``words``.

    The difference is coloured if its interval leaves out 0. ``lower_is_better`` is None if neither direction is better.
    """
    between = "" if pd.isna(row["low"]) else f"[{number(row['low'], kind)}, {number(row['high'], kind)}]"
    low, high = row["difference_low"], row["difference_high"]
    sure = "" if lower_is_better is None else tone(low, high, lower_is_better)
    change = "" if baseline or pd.isna(row["difference"]) else difference(row, kind)
    return Cell(number(row["value"], kind), ((between, ""), (change, sure), *((text, "") for text in words)))


def difference(row: Mapping[Any, Any], kind: Kind) -> str:
    """Format a difference in percentage points or seconds, with its interval if it has one."""
    scale, form = (100.0, ".1f") if kind == "share" else (1.0, ",.0f")
    value, low, high = (scale * row[name] for name in ("difference", "difference_low", "difference_high"))
    return signed(value, form) + ("" if pd.isna(low) else f" [{signed(low, form)}, {signed(high, form)}]")


def scores(quality: Quality, levels: Sequence[float] = LEVELS) -> Table:
    """Return CRPS and quantile losses, one row per predictor and reference.

    A point prediction counts as the quantile at every level.
    """
    by_name = quality.sharpness.losses.pivot(index="predictor", columns="level", values="pinball_s")
    all_levels = by_name.columns.to_numpy(np.float64)
    rows = []
    for row in quality.sharpness.scores.to_dict("records"):
        losses = by_name.loc[row["predictor"]].to_numpy()
        crps = compared({**row, "value": row["crps_s"]}, "seconds", True, baseline=row["predictor"] == "requested")
        rows.append([row["predictor"], crps, *(number(losses[np.abs(all_levels - level).argmin()], "seconds") for level in levels)])
    return Table(
        "predicted distributions: CRPS, and quantile loss by level, s",
        ("predictor", "CRPS", *(f"loss at {level:g}" for level in levels)),
        rows,
        "lower is better; in brackets references without features: all runtimes so far, and one constant or a random number "
        "through the same calibration",
    )


def coverage(quality: Quality, predictor: str) -> Table:
    """Return shares of jobs and processor-seconds within the quantiles of ``predictor``."""
    mine = quality.sharpness.coverage
    mine = mine[mine["predictor"] == predictor]
    levels = sorted(mine["level"].unique())
    rows = []
    groups: Any = mine.groupby(["by", "begin"], sort=False)
    for (by, begin), group in groups:
        by_level = group.set_index("level")
        shares = [f"{100 * by_level.at[level, name]:.1f}" for name in ("at_most", "work_at_most") for level in levels]
        rows.append([group_name(by, begin), number(group["jobs"].iloc[0], "count"), *shares])
    return Table(
        f"{predictor}: % at most as long as the quantile",
        ("jobs with", "jobs", *(f"{level:g} {of}" for of in ("jobs", "work") for level in levels)),
        rows,
        "per cent of jobs, and of work: of processor-seconds",
    )


def windows(quality: Quality) -> Table:
    """Return how often the rate of jobs that outlive a quantile left the band of chance.

    It counts windows of 30 days; bands are without and with the update's feedback.
    """
    rows = []
    for row in outside(quality.sharpness.windows).to_dict("records"):
        counts = ["–" if pd.isna(row[name]) else f"{row[name]} of {row['windows']}" for name in ("by_chance", "with_feedback")]
        rows.append([row["predictor"], f"{row['level']:g}", f"{row['rate']:.1%}", f"{row['worst']:.1%}", *counts])
    return Table(
        "30-day windows outside the 99 % band",
        ("predictor", "level", "outlived", "worst", "by chance", "with feedback"),
        rows,
        "by chance: jobs of a user's day go wrong together; with feedback: and the level is moved after each job, which by itself "
        "keeps rates near the level",
    )
