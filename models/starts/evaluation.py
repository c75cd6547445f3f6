"""Quality of predicted starts: ranked scores, and figures for tables of answers.

Waits and quantiles are seconds from the time of the question. :func:`quality` leaves out jobs that still wait.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from models.packed.start_distribution import EDGES_S

INTERVALS = {0.5: (0.25, 0.75), 0.8: (0.1, 0.9), 0.9: (0.05, 0.95)}
"""Shares that intervals should cover, and the levels of their ends."""
WAITED_S = 60.0
"""A job that waits longer than this did not start at once."""
MONTH_S = 30 * 86_400


def ranked_scores(chances: np.ndarray, waited_s: np.ndarray) -> np.ndarray:
    """Return one minus the ranked probability score of each answer, in [0, 1], float64 [jobs].

    The mean over the edges of the squared difference between the chance to have started and whether the job had
    (Epstein 1969); proper, and bounded whatever the waits.
    """
    return 1.0 - ((chances - (waited_s[:, None] <= EDGES_S)) ** 2).mean(axis=1)


def quality(rows: pd.DataFrame) -> dict[str, float]:
    """Return figures of the answers whose ``waited_s`` is known.

    Without any, only ``answers`` (0). Else the median error of the median, the share of 80 % intervals that held, and
    for starts within 1 h the mean chance given and the share that came true.
    """
    judged = rows[rows["waited_s"].notna()] if "waited_s" in rows else rows[:0]
    if judged.empty:
        return {"answers": 0}
    waited = judged["waited_s"]
    figures = {"median_error_s": (judged["wait_50_s"] - waited).abs().median()}
    figures |= {"held_80": waited.between(judged["wait_10_s"], judged["wait_90_s"]).mean()}
    figures |= {"told_1h": judged["chance_1h"].mean(), "came_1h": (waited <= 3_600).mean()}
    return {"answers": len(judged), **{name: float(value) for name, value in figures.items()}}
