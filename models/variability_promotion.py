"""The rule of promotion for classifiers of variation: as for runtime models (``models.promotion``), with F1 in place of accuracy.

Judged are the runs that started in the last ``JUDGED_DAYS`` days and after all that the champion learned from had ended; they are labelled by what
was known before. F1 is no mean over runs, but near its value it is one: of run i with n_i twice its hits and d_i its predictions plus its variations,
F1 = sum n / sum d has the linear form F1 + (n_i - F1 d_i) / mean d, whose mean is F1 itself and whose errors are those of F1 to first order (the delta
method for ratios; Cochran, "Sampling Techniques", 1977, section 6). So the same paired difference and clustered interval serve; runs of one day share
the machine's state and count as one.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from models.promotion import FEWEST_JOBS, Comparison, compare, said, verdict

JUDGED_DAYS = 90
"""Control runs are few: some twenty a day, of which one or two vary."""
FEWEST_VARIED = 10
"""Judged runs that must have varied: with fewer F1 says nothing, and its linear form even less."""


def f1_scores(varies: np.ndarray, varied: np.ndarray) -> np.ndarray:
    """Scores of runs whose mean is F1, float64 [runs]; ``varies`` (predicted) and ``varied`` bool [runs]. NaN where nothing varied or was said to."""
    doubled, counted = 2.0 * (varies & varied), varies.astype(np.float64) + varied
    if not counted.any():
        return np.full(len(varied), np.nan)
    f1 = doubled.sum() / counted.sum()
    return f1 + (doubled - f1 * counted) / counted.mean()


def duel(challenger: np.ndarray, champion: np.ndarray, varied: np.ndarray, day: np.ndarray, candidates: int = 1) -> Comparison:
    """Compare two lists of predictions, bool [runs], of the same runs; ``day`` int [runs] numbers the days."""
    return compare(f1_scores(challenger, varied), f1_scores(champion, varied), day, candidates)


def decide(found: Comparison, varied: int, checks: Mapping[str, bool]) -> tuple[bool, str]:
    """Whether the challenger is promoted over the champion, by ``found`` and how many of the judged runs ``varied``, and why, in one sentence."""
    if found.jobs < FEWEST_JOBS:
        return False, (
            f"only {found.jobs:,} runs of the last {JUDGED_DAYS} days started after what the champion learned from; {FEWEST_JOBS} must judge"
        )
    if varied < FEWEST_VARIED:
        return False, f"only {varied} of the {found.jobs:,} judged runs varied; {FEWEST_VARIED} must"
    return verdict(found, checks, f"{said(found, 'F1', 'runs')}, {varied:,} of which varied")
