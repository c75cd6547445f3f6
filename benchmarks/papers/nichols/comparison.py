"""Comparison of schedulers on paired trials of the simulated cluster.

Trials are paired by their seed, which decides the submissions, the background and each run's own noise. So differences within
trials are compared, with intervals from a bootstrap over trials (:mod:`features.statistics`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtr, stdtrit

from features.statistics import FEWEST_BLOCKS, drawn, remark
from sim.metrics.names import Metric

NICHOLS = "Nichols et al., Resource utilization aware job scheduling to mitigate performance variability"
TRIAL: dict[str, Metric] = {
    "varied": Metric(
        "runs with variation", "count", "Runs that took longer than most runs of the same application.", NICHOLS, form=".2f"
    ),
    "makespan_s": Metric("makespan, s", "seconds", "From the first submission to the last end.", NICHOLS, form=",.0f"),
    "wait_s": Metric("mean wait, s", "seconds", "From submission to start.", NICHOLS, form=",.0f"),
    "runtime": Metric("mean runtime, as a share of the usual", "ratio", "Over that of control runs.", NICHOLS, form=".3f"),
    "worst": Metric("largest runtime, as a share of the usual", "ratio", "Over that of control runs.", NICHOLS, form=".2f"),
}
"""Metrics of each trial on the simulated cluster; the makespan is that of whole trials only."""
ALL = "all"
_RESAMPLES = 2000
_CONFIDENCE = 0.95


def tail(confidence: float, blocks: int) -> float:
    """Return the probability to cut off at each side of a percentile interval.

    For resampled statistics that are not ratios of sums: percentiles of n = ``blocks`` blocks then cover as a t interval would
    (Hesterberg, "What teachers should know about the bootstrap", The American Statistician 69(4), 2015).
    """
    t = stdtrit(blocks - 1.0, (1.0 + confidence) / 2.0)
    return float(ndtr(-t * (blocks / (blocks - 1)) ** 0.5))


def by_trial(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the metrics :data:`TRIAL`, float64, a row a trial.

    Index ``seed``, columns (``scheduler``, ``application`` or ``all``, metric).
    """
    parts = []
    for application, rows in [(ALL, runs), *runs.groupby("application", sort=True)]:
        groups = rows.groupby(["scheduler", "seed"], sort=False)
        table = pd.DataFrame(
            {
                "varied": groups["varied"].sum(),
                "wait_s": groups["wait_s"].mean(),
                "runtime": groups["relative"].mean(),
                "worst": groups["relative"].max(),
            },
            dtype=np.float64,
        )
        if application == ALL:
            end = (rows["start_s"] + rows["runtime_s"]).groupby([rows["scheduler"], rows["seed"]], sort=False)
            table["makespan_s"] = end.max() - groups["submit_s"].min()
        wide = {
            (scheduler, application, metric): table.loc[scheduler, metric]
            for metric in table.columns
            for scheduler in table.index.unique("scheduler")
        }
        parts.append(pd.DataFrame(wide).rename_axis(columns=["scheduler", "application", "metric"]))
    return pd.concat(parts, axis=1).sort_index()


def compared(values: pd.DataFrame, baseline: str, seed: int = 0) -> pd.DataFrame:
    """Return means over trials and paired differences from the ``baseline``'s.

    ``values`` come from :func:`by_trial`. Columns: ``scheduler application metric mean baseline difference low high relative
    relative_low relative_high trials note mean_error error relative_error``. Ends of 95 % intervals and standard errors (of the
    mean, the difference and ``relative``) are from a bootstrap over trials, NaN with fewer than five. ``relative`` is NaN if the
    baseline's mean is 0.
    """
    columns: list[Any] = list(values.columns)
    count = len(values)
    own = values.to_numpy()
    base = values[[(baseline, application, metric) for _, application, metric in columns]].to_numpy()
    mean, reference = own.mean(axis=0), base.mean(axis=0)
    table = pd.DataFrame(columns, columns=["scheduler", "application", "metric"])
    table = table.assign(mean=mean, baseline=reference, difference=mean - reference)
    draws, cut, wide = np.full((1, count), np.nan), 0.0, 1.0
    if count >= FEWEST_BLOCKS:
        draws, cut = drawn(count, _RESAMPLES, seed), tail(_CONFIDENCE, count)
        wide = (count / (count - 1)) ** 0.5  # resamples spread a little less than trials do
    means, references, differences = (draws @ each / count for each in (own, base, own - base))
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(reference == 0, np.nan, mean / reference - 1.0)
        ratios = np.where((references == 0).any(axis=0), np.nan, differences / references)
    ends = [np.quantile(each, [cut, 1.0 - cut], axis=0) for each in (differences, ratios)]
    errors = [wide * each.std(axis=0) for each in (means, differences, ratios)]
    return table.assign(
        low=ends[0][0],
        high=ends[0][1],
        relative=relative,
        relative_low=ends[1][0],
        relative_high=ends[1][1],
        trials=count,
        note=remark(count, "trial"),
        mean_error=errors[0],
        error=errors[1],
        relative_error=errors[2],
    )
