"""Adaptive calibration on a constant prediction, and chance bands of its window rates.

Adaptive conformal inference (Gibbs & Candes 2021) moves a level by ``rate`` times the error whenever a job ends: up if the job
outlived its quantile, down if it did not. The errors since the start add up to the level's move divided by the rate. So the
long-run share of under-predicted jobs meets its target for any prediction: the update forces it, and it says nothing about the
prediction. The rates of windows also vary less than those of independent jobs, so a band for them must come from the process with
its feedback.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from features.jit import njit
from models.runtime.calibration import BAND

REPLICATES = 500
_AT_ONCE = 50


def order_of_events(submit_s: np.ndarray, end_s: np.ndarray) -> np.ndarray:
    """Return the order in which a predictor sees submissions and ends, int64 [2 x jobs].

    Job j is listed as j when it is submitted and as -1 - j when it ends. Within one second, ends come before submissions.
    """
    jobs = np.arange(len(submit_s))
    events = np.concatenate([-1 - jobs, jobs])
    return events[np.lexsort((np.concatenate([jobs, jobs]), events >= 0, np.concatenate([end_s, submit_s])))]


def adapted(
    points_s: np.ndarray, events: np.ndarray, runtime_s: np.ndarray, requested_s: np.ndarray, levels: np.ndarray, rate: float
) -> np.ndarray:
    """Calibrate a constant point by the adaptive update alone: quantiles [jobs, levels] in s.

    ``points_s`` float64 [jobs], cut at the request, is each job's quantile of all levels; ``events``: :func:`order_of_events`. A
    moved level above 1 gives the request, one of at most 0 a second, else the point. ``levels`` and quantiles ascend.
    """
    requested = np.asarray(requested_s, np.float64)
    points = np.minimum(np.asarray(points_s, np.float64), requested)
    return _adapted(points, events, np.asarray(runtime_s, np.float64), requested, np.asarray(levels, np.float64), float(rate))


@njit
def _adapted(points, events, runtime, requested, levels, rate):
    moved = levels.copy()
    quantiles = np.empty((len(points), len(levels)))
    for event in events:
        if event >= 0:
            least = 1.0
            for i in range(len(levels)):
                seconds = requested[event] if moved[i] > 1.0 else points[event] if moved[i] > 0.0 else 1.0
                least = max(least, seconds)
                quantiles[event, i] = least
        else:
            job = -1 - event
            for i in range(len(levels)):
                outlived = 1.0 if runtime[job] > quantiles[job, i] else 0.0
                moved[i] += rate * (outlived - (1.0 - levels[i]))
    return quantiles


def together(under: np.ndarray, target: float, cluster: np.ndarray) -> float:
    """Return the correlation of errors within clusters, in 0..1.

    It is the mean product of two errors of a cluster's jobs, over the variance of one. ``under`` bool [jobs], ``target`` the
    target rate, ``cluster`` int [jobs]. 0 if no cluster has two jobs.
    """
    error = np.asarray(under, np.float64) - target
    member = np.unique(cluster, return_inverse=True)[1].ravel()
    size = np.bincount(member)
    pairs = float((size * (size - 1)).sum())
    products = float((np.bincount(member, error) ** 2).sum() - (error**2).sum())
    return min(max(products / (pairs * target * (1.0 - target)), 0.0), 1.0) if pairs else 0.0


def feedback_band(
    under: np.ndarray,
    target: float,
    window: np.ndarray,
    cluster: np.ndarray,
    events: np.ndarray,
    rate: float,
    rng: np.random.Generator,
    replicates: int = REPLICATES,
) -> pd.DataFrame:
    """Return each window's under-prediction rate with the chance band of an adaptive level.

    The band is simulated. In each of ``replicates`` every job's runtime lies at a uniform place of its distribution, as if that
    were correct. The level starts at 1 - ``target`` and moves by ``rate`` times the error when the job ends, in the order of
    ``events``. Jobs of a ``cluster`` share one place with the probability that makes their errors as correlated as those observed
    (:func:`together`). Jobs with a negative ``window`` are learned from but not counted. One row per window: ``window jobs
    clusters rate low high inside``.
    """
    judged = window >= 0
    number, place = np.unique(window[judged], return_inverse=True)
    member = np.unique(cluster, return_inverse=True)[1].ravel()
    jobs, clusters = np.bincount(place), int(member.max(initial=-1)) + 1
    where = np.full(len(window), -1)
    where[judged] = place
    shared = np.sqrt(together(under[judged], target, member[judged]))
    counts = []
    for begin in range(0, replicates, _AT_ONCE):
        shape = min(_AT_ONCE, replicates - begin)
        own, common = rng.random((len(member), shape), np.float32), rng.random((clusters, shape), np.float32)
        counts.append(_outlived(events, own, common, member, shared, where, len(number), 1.0 - target, rate))
    low, high = np.quantile(np.hstack(counts) / jobs[:, None], [0.5 - BAND / 2, 0.5 + BAND / 2], axis=1)
    rate_of = np.bincount(place, under[judged]) / jobs
    groups = np.unique(np.column_stack([place, member[judged]]), axis=0)
    return pd.DataFrame(
        {
            "window": number,
            "jobs": jobs,
            "clusters": np.bincount(groups[:, 0], minlength=len(number)),
            "rate": rate_of,
            "low": low,
            "high": high,
            "inside": (low <= rate_of) & (rate_of <= high),
        }
    )


@njit
def _outlived(events, own, common, member, shared, window, windows, level, rate):
    """Count each window's jobs that outlive the moving level, int64 [windows, replicates].

    ``own`` [jobs, replicates] and ``common`` [clusters, replicates] are uniform draws. A job whose own draw is below ``shared``
    takes its cluster's draw; other jobs take the rest of their own draw, stretched to 0..1.
    """
    replicates = own.shape[1]
    outlived = np.zeros(own.shape, np.bool_)
    counts = np.zeros((windows, replicates), np.int64)
    moved = np.full(replicates, level)
    stretch = 1.0 / max(1.0 - shared, 1e-9)
    for event in events:
        if event >= 0:
            for i in range(replicates):
                drawn = own[event, i]
                place = common[member[event], i] if drawn < shared else (drawn - shared) * stretch
                outlived[event, i] = place > moved[i]
                if window[event] >= 0:
                    counts[window[event], i] += outlived[event, i]
        else:
            for i in range(replicates):
                moved[i] += rate * ((1.0 if outlived[-1 - event, i] else 0.0) - (1.0 - level))
    return counts
