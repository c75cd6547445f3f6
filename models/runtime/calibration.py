"""Calibration of predicted distributions: curve, loss, under-prediction over time.

A quantile of level q is calibrated if a share q of jobs runs no longer than it. If many jobs end exactly at a quantile (for
example at their request), that share may jump past q: then q should lie between the share below and the share at or below. The
quantile loss averaged over evenly spaced levels is, up to a factor of two, the continuous ranked probability score (Gneiting &
Raftery 2007): the lower the better.
"""

from statistics import NormalDist

import numpy as np
import pandas as pd

from models.runtime.evaluation import pinball

BAND = 0.99
"""Probability with which chance leaves a window's rate within its band."""


def calibration_curve(quantiles: np.ndarray, levels: np.ndarray, runtime_s: np.ndarray) -> pd.DataFrame:
    """Return one row per level: ``level at_most below above pinball_s``.

    ``at_most``, ``below`` and ``above`` are the shares of jobs that run at most, less than and longer than their quantile,
    ``pinball_s`` the level's mean quantile loss. ``quantiles`` float64 [jobs, levels] seconds, ``levels`` in (0, 1),
    ``runtime_s`` float64 [jobs]. Raises ValueError for shapes that do not fit, levels outside (0, 1), and quantiles that are not
    finite.
    """
    predicted, runtime, chances = (np.asarray(values, np.float64) for values in (quantiles, runtime_s, levels))
    if predicted.shape != (len(runtime), len(chances)):
        raise ValueError(f"quantiles have the shape {predicted.shape}, not that of {len(runtime)} jobs at {len(chances)} levels")
    if not ((chances > 0) & (chances < 1)).all():
        raise ValueError(f"quantile levels {chances.tolist()} are not all between 0 and 1")
    if not np.isfinite(predicted).all():
        row = int((~np.isfinite(predicted)).any(axis=1).argmax())
        raise ValueError(f"row {row}: a quantile is not a finite number of seconds")
    longer = runtime[:, None]
    return pd.DataFrame(
        {
            "level": chances,
            "at_most": (longer <= predicted).mean(axis=0),
            "below": (longer < predicted).mean(axis=0),
            "above": (longer > predicted).mean(axis=0),
            "pinball_s": [
                float(pinball(column, runtime, level).mean()) for column, level in zip(predicted.T, chances, strict=True)
            ],
        }
    )


def chance_band(under: np.ndarray, target: float, window: np.ndarray, cluster: np.ndarray) -> pd.DataFrame:
    """Return each window's under-prediction rate with the band that chance allows.

    ``under`` bool [jobs], ``target`` the target rate. ``window`` and ``cluster`` int [jobs] number each job's window, such as 30
    days, and cluster, such as a user's jobs of a day, whose errors are correlated. One row per window with jobs: ``window jobs
    clusters rate low high inside``. With e = under - target, summed over each cluster within the window, the standard error is
    sqrt(sum e^2) / jobs (the cluster-robust variance of Liang & Zeger 1986 at the target), and the band is target ± z times that.
    With fewer than ceil(z^2) clusters (seven at 99 %) no rate can leave it.
    """
    number, place = np.unique(window, return_inverse=True)
    error = np.asarray(under, np.float64) - target
    pairs = np.column_stack([place, np.unique(cluster, return_inverse=True)[1]])
    groups, member = np.unique(pairs, axis=0, return_inverse=True)
    squares = np.bincount(member.ravel(), error) ** 2
    jobs = np.bincount(place)
    deviation = np.sqrt(np.bincount(groups[:, 0], squares, len(number))) / jobs
    reach = NormalDist().inv_cdf(0.5 + BAND / 2) * deviation
    rate = np.bincount(place, error + target) / jobs
    return pd.DataFrame(
        {
            "window": number,
            "jobs": jobs,
            "clusters": np.bincount(groups[:, 0], minlength=len(number)),
            "rate": rate,
            "low": target - reach,
            "high": target + reach,
            "inside": np.abs(rate - target) <= reach,
        }
    )
