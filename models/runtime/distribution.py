"""Quality of predicted distributions: quantile losses, CRPS, coverage, and a baseline.

Calibration alone proves nothing: a quantile that is right for a share q of jobs may be useless for each of them. A proper score
tells sharp distributions from wide ones: the quantile (pinball) loss of Koenker & Bassett 1978, and the continuous ranked
probability score (Gneiting & Raftery 2007), which is twice the integral of that loss over all levels. A predicted distribution is
a table of quantiles, float64 [jobs, levels] seconds; a point prediction is the same number at every level.
"""

from __future__ import annotations

from bisect import insort

import numpy as np

from features.deferred import pd

LEVELS = np.arange(1, 20) / 20
"""Levels at which distributions are compared: 0.05 to 0.95."""
SHOWN = (0.5, 0.8, 0.95)
"""Levels whose coverage is reported: the median, and two upper ones."""
DECILES = 10


def at_levels(quantiles: pd.DataFrame, levels: np.ndarray) -> np.ndarray:
    """Return the quantiles at ``levels``, float64 [jobs, levels], from a table by level.

    Linear interpolation between two levels of the table; the outermost levels also stand for those beyond them.
    """
    table_levels = np.array(quantiles.columns, np.float64)
    values = quantiles.to_numpy(np.float64)
    if np.array_equal(table_levels, levels):
        return values
    probabilities = np.clip(np.asarray(levels, np.float64), table_levels[0], table_levels[-1])
    above = np.clip(np.searchsorted(table_levels, probabilities), 1 if len(table_levels) > 1 else 0, len(table_levels) - 1)
    below = np.maximum(above - 1, 0)
    gap = table_levels[above] - table_levels[below]
    share = np.divide(probabilities - table_levels[below], gap, out=np.ones(len(probabilities)), where=gap > 0)
    # a level in the table is returned unchanged
    share = np.where(np.isclose(share, 0.0), 0.0, np.where(np.isclose(share, 1.0), 1.0, share))
    return values[:, below] * (1.0 - share) + values[:, above] * share


def point(predicted_s: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return a point prediction as a distribution: equal at every level, [jobs, levels]."""
    return np.repeat(np.asarray(predicted_s, np.float64)[:, None], len(levels), axis=1)


def losses(quantiles: np.ndarray, levels: np.ndarray, runtime_s: np.ndarray) -> np.ndarray:
    """Return each job's quantile loss at each level, float64 [jobs, levels] seconds.

    ``quantiles`` is [jobs, levels].
    """
    short = np.asarray(runtime_s, np.float64)[:, None] - quantiles
    return np.maximum(levels * short, (levels - 1.0) * short)


def crps(quantiles: np.ndarray, levels: np.ndarray, runtime_s: np.ndarray) -> np.ndarray:
    """Return each job's continuous ranked probability score, float64 [jobs] seconds.

    The lower the better; for a point prediction it is the absolute error. Twice the mean quantile loss, where each level is
    weighted by the range of levels nearest to it; the outermost also stand for the tails, out to 0 and 1. ``levels`` ascend. Many
    equal quantiles, as for jobs that run to their request, are an atom: a runtime equal to it costs nothing at those levels.
    """
    edges = np.concatenate([[0.0], (levels[1:] + levels[:-1]) / 2.0, [1.0]])
    return 2.0 * losses(quantiles, levels, runtime_s) @ np.diff(edges)


def runtimes_so_far(
    submit_s: np.ndarray, end_s: np.ndarray, runtime_s: np.ndarray, requested_s: np.ndarray, levels: np.ndarray
) -> np.ndarray:
    """Return the distribution without features: quantiles of ended runtimes, [jobs, levels].

    For each job these are the runtimes ended by its submission, cut at its request. All arrays are int64 [jobs] seconds, by
    submission; ``end_s`` are the ends in the schedule of the compared predictions. A quantile is the smallest runtime that a
    share ``level`` of the ended jobs does not exceed; until a job has ended it is the request.
    """
    quantiles_s = np.empty((len(submit_s), len(levels)))
    by_end = np.argsort(end_s, kind="stable")
    known_by = np.searchsorted(end_s[by_end], submit_s, "right")
    ended: list[int] = []
    for job, count in enumerate(known_by):
        while len(ended) < count:
            insort(ended, int(runtime_s[by_end[len(ended)]]))
        if ended:
            place = np.ceil(levels * len(ended) - 1e-9).astype(np.int64) - 1
            quantiles_s[job] = [ended[at] for at in place]
        else:
            quantiles_s[job] = requested_s[job]
    return np.minimum(quantiles_s, np.asarray(requested_s, np.float64)[:, None])


def coverage(quantiles: np.ndarray, levels: np.ndarray, runtime_s: np.ndarray, group: np.ndarray, work: np.ndarray) -> pd.DataFrame:
    """Return coverage of the quantiles, one row per group and level.

    Columns: ``group level jobs at_most below work_at_most work_below``. ``group`` int [jobs] numbers each job's group, ``work``
    float64 [jobs] is its weight: its processor-seconds. ``at_most`` is the share of jobs that run no longer than the quantile,
    ``below`` of those that run shorter; both also as shares of ``work``. With an atom at the quantile, the true level lies
    between the two. Shares of no work are NaN.
    """
    number, place = np.unique(group, return_inverse=True)
    runtime, weight = np.asarray(runtime_s, np.float64), np.asarray(work, np.float64)
    jobs, total = np.bincount(place), np.bincount(place, weight)
    tables = []
    for column, level in zip(quantiles.T, levels, strict=True):
        holds = {"at_most": runtime <= column, "below": runtime < column}
        shares = {name: np.bincount(place, held) / jobs for name, held in holds.items()}
        with np.errstate(invalid="ignore"):
            shares |= {f"work_{name}": np.bincount(place, weight * held) / total for name, held in holds.items()}
        tables.append(pd.DataFrame({"group": number, "level": level, "jobs": jobs, **shares}))
    return pd.concat(tables, ignore_index=True)


def deciles(values: np.ndarray) -> np.ndarray:
    """Return the tenth that each of ``values`` lies in, int64 [jobs], 0 for the smallest.

    Equal values lie in one tenth, so some tenths may be missing.
    """
    ordered = np.sort(values)
    return DECILES * np.searchsorted(ordered, values, "left") // max(len(ordered), 1)
