"""The rule of promotion for classifiers of variation, with F1 instead of accuracy.

Otherwise as for runtime models (``models.registry.promotion``). A run judges once if it started after the end of all
runs that the champion learned from; it is labelled by what was known before. The evidence uses the runs on which the
two differ. Let f be the champion's F1 of the days before. An extra prediction of the challenger is p (-1, 0 or 1), and
v (0 or 1) says whether the run varied. The challenger's F1 is higher if the mean of p (2 v - f) is above 0 (F1 = sum n
/ sum d, of run i with n_i twice its hits and d_i its predictions plus its variations, so the sign of the difference is
that of sum n - f d). The unit is the sum over the runs of one day, because these share the machine's state. It is
divided by the largest sum of magnitudes of a day so far, so that it lies in [-1, 1]. For equals we assume, given the
past and the runs they differ on, units of at most 0 in expectation, on average since each starting time. (The mean over
a day's runs would weigh days unlike F1: of 60 simulated years with a challenger of equal F1 that warns less often, 6
promoted it.)

Beside the evidence the last ``JUDGED_DAYS`` days must show a higher F1, shown with an interval that decides nothing. F1
is no mean over runs, but has the linear form F1 + (n_i - F1 d_i) / mean d, whose mean is F1 itself and whose errors are
those of F1 to first order (the delta method for ratios; Cochran, "Sampling Techniques", 1977, section 6).
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from features.clock import DAY_S
from models.registry.promotion import FEWEST_JOBS, Comparison, Evidence, compare, evidence

JUDGED_DAYS = 90
"""Long, because control runs are few: some twenty a day, of which one or two vary."""
FEWEST_VARIED = 10
"""Min number of judged runs that varied: with fewer, F1 and its linear form mean nothing."""

_PRIOR = 2.0 * FEWEST_VARIED
"""Weight of the champion's recorded F1, in predictions plus variations, beside the judged days before."""


def f1_scores(varies: np.ndarray, varied: np.ndarray) -> np.ndarray:
    """Return scores of runs whose mean is F1, float64 [runs].

    ``varies`` (predicted) and ``varied`` bool [runs]. NaN if nothing varied or was predicted to vary.
    """
    doubled, counted = 2.0 * (varies & varied), varies.astype(np.float64) + varied
    if not counted.any():
        return np.full(len(varied), np.nan)
    f1 = doubled.sum() / counted.sum()
    return f1 + (doubled - f1 * counted) / counted.mean()


def f1_evidence(
    challenger: np.ndarray,
    champion: np.ndarray,
    varied: np.ndarray,
    start_s: np.ndarray,
    *,
    since_s: int,
    last_s: int,
    recorded_f1: float,
    candidates: int = 1,
) -> Evidence:
    """Return the evidence of two arrays of predictions, bool [runs], after ``since_s``.

    ``varied`` bool and ``start_s`` int [runs]. ``since_s`` is the end of the champion's training, ``last_s`` the
    instant up to which all runs are known, ``recorded_f1`` the champion's F1 when it was first judged. Days count from
    ``since_s``; a day that is not over does not count yet.
    """
    day, days = (start_s - since_s) // DAY_S, max((last_s - since_s) // DAY_S, 0)
    over = day < days
    day, challenger, champion, varied = (column[over] for column in (day, challenger, champion, varied))
    hits, counted = (
        np.bincount(day, weights, days) for weights in (2.0 * (champion & varied), champion.astype(np.float64) + varied)
    )
    before = _PRIOR * recorded_f1 + np.cumsum(hits) - hits
    f1 = before / (_PRIOR + np.cumsum(counted) - counted)
    worth = (challenger.astype(np.float64) - champion) * (2.0 * varied - f1[day])
    total, size = np.bincount(day, worth, days), np.bincount(day, np.abs(worth), days)
    judging = np.flatnonzero(size)
    scale = np.maximum.accumulate(np.maximum(size, 1.0))
    return evidence((total / scale)[judging], judging, int(days), candidates)


@dataclass(frozen=True)
class ClassifierComparison(Comparison):
    """A comparison of classifiers by F1 over ``jobs`` runs, ``varied`` of which varied."""

    varied: int

    measure: ClassVar[str] = "F1"
    things: ClassVar[str] = "runs"

    @property
    def too_few(self) -> str:
        if self.jobs < FEWEST_JOBS:
            return (
                f"only {self.jobs:,} runs of the last {JUDGED_DAYS} days started after what the champion learned from; "
                f"{FEWEST_JOBS} are needed"
            )
        return (
            f"only {self.varied} of the {self.jobs:,} judged runs varied; {FEWEST_VARIED} are needed"
            if self.varied < FEWEST_VARIED
            else ""
        )

    @property
    def numbers(self) -> str:
        return f"{super().numbers}, {self.varied:,} of which varied"


def compare_classifiers(
    challenger: np.ndarray, champion: np.ndarray, varied: np.ndarray, day: np.ndarray, evidence: Evidence, candidates: int = 1
) -> ClassifierComparison:
    """Compare two arrays of predictions, bool [runs], of the same runs.

    ``day`` int [runs] numbers the days.
    """
    comparison = compare(f1_scores(challenger, varied), f1_scores(champion, varied), day, evidence, candidates)
    return ClassifierComparison(**vars(comparison), varied=int(varied.sum()))
