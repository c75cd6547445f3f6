"""Vetoes against a more accurate challenger: worse quantiles or schedules.

A veto can only keep the champion, so it adds nothing to the chance of a wrong promotion, and its interval needs no validity over
all nights.

* Quantiles, where both have them, must not be inferior: the upper limit of the paired difference, at ``CONFIDENCE`` one-sided, jobs of one user and
  day as one observation, must lie below a margin. For the pinball loss, averaged over the levels, it is ``PINBALL_MARGIN`` of the champion's; for
  calibration, at each level the share of jobs that run at most as long, on the side of the level on which the challenger's lies, it is
  ``CALIBRATION_MARGIN``.
* Of the schedules made with the answers of both, bounded slowdown, AWF and P2SF must not be worse beyond their intervals: the lower end of the paired
  interval must not lie above 0.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from models.registry.promotion import FEWEST_CLUSTERS, clustered_mean
from models.runtime.evaluation import pinball

CONFIDENCE = 0.95
PINBALL_MARGIN = 0.10
CALIBRATION_MARGIN = 0.05
VETOING = {"mean_bounded_slowdown": "mean bounded slowdown", "awf_s": "AWF", "p2sf_s": "P2SF"}


def upper_limit(values: np.ndarray, cluster: np.ndarray) -> float:
    """Return the one-sided upper limit at ``CONFIDENCE`` of the mean of ``values`` [jobs].

    Unbounded with fewer than ``FEWEST_CLUSTERS`` clusters.
    """
    mean = clustered_mean(values, cluster)
    if mean.clusters < FEWEST_CLUSTERS:
        return float("inf")
    return mean.value + float(stdtrit(mean.clusters - 1, CONFIDENCE)) * mean.error


def of_quantiles(
    challenger: Mapping[float, np.ndarray], champion: Mapping[float, np.ndarray], runtime_s: np.ndarray, cluster: np.ndarray
) -> list[str]:
    """Return reasons against the challenger's quantiles; empty without common levels.

    Quantiles are float64 seconds [jobs] by level, over jobs for which all are given.
    """
    levels = [level for level in champion if level in challenger]
    if not levels:
        return []
    there = np.isfinite([*(champion[level] for level in levels), *(challenger[level] for level in levels)]).all(axis=0)
    runtime, cluster = runtime_s[there], cluster[there]
    if not len(runtime):
        return []
    ours, theirs = (
        np.mean([pinball(each[level][there], runtime, level) for level in levels], axis=0) for each in (challenger, champion)
    )
    found = []
    if not upper_limit(ours - (1.0 + PINBALL_MARGIN) * theirs, cluster) <= 0:
        found.append(
            f"the pinball loss of its quantiles, {ours.mean():,.0f} s against {theirs.mean():,.0f} s, may be worse by over {PINBALL_MARGIN:.0%}"
        )
    for level in levels:
        held = [(runtime <= each[level][there]).astype(np.float64) for each in (challenger, champion)]
        away = np.sign(held[0].mean() - level) * (held[0] - held[1])
        if not upper_limit(away, cluster) <= CALIBRATION_MARGIN:
            shares = " against ".join(f"{each.mean():.1%}" for each in held)
            found.append(
                f"its {level:.0%} quantiles hold for {shares} of jobs and may be off by over {100 * CALIBRATION_MARGIN:g} points more"
            )
    return found


def of_schedules(comparison: pd.DataFrame) -> list[str]:
    """Return reasons against the challenger's schedules.

    Rows ``scheduler metric relative low high`` against the champion's, from ``sim.metrics.comparison.compare``.
    """
    found = []
    for each in comparison[comparison["metric"].isin(VETOING)].to_dict("records") if len(comparison) else []:
        if each["low"] > 0:
            change = f"{each['relative']:+.1%} [{each['low']:+.1%}, {each['high']:+.1%}]"
            found.append(
                f"{each['scheduler']} with its predictions has a worse {VETOING[each['metric']]} beyond its interval: {change}"
            )
    return found
