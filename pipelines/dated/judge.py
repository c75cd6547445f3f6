"""Choose a challenger and judge it against the champion, on answers as served.

The rule is in ``models.registry.promotion``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from features.clock import DAY_S
from models.registry.as_served import CHAMPION, quantile_columns
from models.registry.evidence import EPOCH_DAYS
from models.registry.judged_window import STRAGGLERS, JudgedWindow
from models.registry.promotion import TIE, Duel, duel, served_evidence, user_days
from models.registry.promotion_vetoes import of_quantiles, of_schedules
from models.runtime.evaluation import accuracy

Schedules = Callable[[str], pd.DataFrame]
"""Compares a method's schedules with the champion's: rows as of ``models.registry.promotion_vetoes.of_schedules``."""


@dataclass(frozen=True)
class Judged:
    """The challenger's name, its duel with the champion, and further reasons against it."""

    challenger: str
    found: Duel
    vetoes: tuple[str, ...]


def judge(
    served: pd.DataFrame,
    window: pd.DataFrame,
    names: Sequence[str],
    trained: tuple[str, int],
    until_s: int,
    schedules: Schedules | None = None,
) -> Judged:
    """Judge the candidates ``names`` tonight, at ``until_s``.

    ``served`` has the jobs of :func:`models.registry.as_served.predict_served` and ``window`` those of them that ended in the last
    days; of both the jobs count that the champion answered whose training is ``trained``: version and instant. Of the candidates
    for which there is enough evidence, or else of all, the challenger is the most accurate in the window, within ``TIE`` the
    simplest. ``schedules`` are made only where they could decide.
    """
    version, trained_until_s = trained
    mine, judged = (rows[rows["champion_version"] == version] for rows in (served, window))
    first_s = int(served["at_s"].min()) if len(served) else until_s
    known_from_s = trained_until_s if first_s <= trained_until_s else first_s + STRAGGLERS * DAY_S
    user, end = pd.factorize(mine["user"])[0], mine["end_s"].to_numpy(np.int64)
    scores = {name: _accuracies(mine, name) for name in (CHAMPION, *names)}
    found = {
        name: served_evidence(scores[name] - scores[CHAMPION], user, end, trained_until_s, until_s, len(names), known_from_s)
        for name in names
    }
    challenger = best(judged if len(judged) else window, [name for name in names if found[name].enough] or names)
    runtime, cluster = judged["runtime_s"].to_numpy(np.float64), clusters(judged)
    fought = duel(
        judged[challenger].to_numpy(), judged[CHAMPION].to_numpy(), runtime, cluster, found[challenger], candidates=len(names)
    )
    vetoes = of_quantiles(_quantiles(judged, challenger), _quantiles(judged, CHAMPION), runtime, cluster)
    if fought.evidence.enough and schedules is not None:
        vetoes += of_schedules(schedules(challenger))
    return Judged(challenger, fought, tuple(vetoes))


def judging_instants(window: JudgedWindow, trained_until_s: int | None) -> list[int]:
    """Return instants in place of the nights before a retraining, ascending, a day apart.

    They reach back over the judged ``window`` and, with a champion, another time to begin at of its evidence, and are counted
    from its training: so retrainings on several days use the same nights.
    """
    if trained_until_s is None:
        return window.nights
    first_s = min(window.first_s, max(window.first_s - EPOCH_DAYS * DAY_S, trained_until_s))
    first_s -= (first_s - trained_until_s) % DAY_S
    return list(range(first_s, max(window.last_s, first_s + 1), DAY_S))


def best(judged: pd.DataFrame, names: Sequence[str]) -> str:
    """Return the name of the highest mean accuracy, within TIE the simplest."""
    scores = {name: mean_accuracy(judged, name) for name in names}
    highest = max(scores.values())
    return next((name for name in names if scores[name] >= highest - TIE), names[0])


def mean_accuracy(rows: pd.DataFrame, name: str) -> float:
    """Return the mean accuracy of a column of ``served``; NaN over no jobs."""
    return float(_accuracies(rows, name).mean()) if len(rows) else float("nan")


def clusters(rows: pd.DataFrame) -> np.ndarray:
    """Return user and day of submission of the jobs of ``served``, int64 [jobs]."""
    return user_days(pd.factorize(rows["user"])[0], rows["submit_s"].to_numpy(np.int64))


def _accuracies(rows: pd.DataFrame, name: str) -> np.ndarray:
    return accuracy(rows[name].to_numpy(), rows["runtime_s"].to_numpy(np.float64))


def _quantiles(rows: pd.DataFrame, name: str) -> dict[float, np.ndarray]:
    return {level: rows[column].to_numpy() for level, column in quantile_columns(name).items()}
