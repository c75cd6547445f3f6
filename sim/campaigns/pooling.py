"""Comparisons of several traces pooled into one, and mean ranks over them.

Traces are a random sample: the change on a trace is drawn around a mean, which is estimated. Each counts the same, as windows do.
So the pooled ratio is that of geometric means, and its interval is Student's t of the traces' logarithms, whose spread contains
the variance between and within traces, known or not. That is the random-effects model with the interval of Hartung & Knapp
(Statistics in Medicine 20, 2001) under equal weights; unequal variances only make it too wide (Ibragimov & Müller, Journal of
Business & Economic Statistics 28(4), 2010). Weights by the traces' variances, which few windows hardly determine, cover less
often (docs/studies/intervals.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from features.statistics import CONFIDENCE, Interval, interval_of_mean
from sim.campaigns.window_comparison import POLICY, SETTING
from sim.metrics.verdict import sure_changes

FEWEST_TRACES = 3
"""With fewer traces there is no interval."""


def over_traces(summary: pd.DataFrame, named: Mapping[str, str]) -> pd.DataFrame:
    """Pool the traces of ``summary``: one row per setting, policy and metric.

    ``summary`` comes from :func:`sim.campaigns.window_comparison.over_windows`. ``named`` maps each of its
    traces to the name of the suite, with its load: the ``trace`` of the pooled rows. Columns are the summary's, without ``tied``,
    and ``traces``. ``value`` is the geometric mean over traces and ``relative`` that of their ratios, minus 1; ``windows``
    is the min over traces. ``rank`` is the mean rank; ties share the mean of their places.
    ``traces``, and so ``replicates``, counts traces with a ratio above 0; only these are in ``relative``. ``note`` tells of other
    traces, and of fewer than ``FEWEST_TRACES``, which have no interval. ``sure`` as in the summary, among all pooled rows.
    """
    rows: list[dict[str, Any]] = []
    groups = summary.assign(trace=summary["trace"].map(named)).groupby([*SETTING, "metric"], sort=False, dropna=False)
    for (*setting, metric), part in groups:
        ranks = part.assign(place=part["rank"] + part["tied"] / 2.0).groupby(POLICY, sort=False)["place"].mean().to_dict()
        for policy, of_policy in part.groupby(POLICY, sort=False):
            identity = dict(zip([*SETTING, *POLICY], [*setting, *policy], strict=True)) | {"metric": metric}
            rows.append(identity | _pooled(of_policy) | {"rank": ranks[policy]})
    pooled = pd.DataFrame(rows).astype({"starvation_s": "Int64"})
    numbers = ["value", "relative", "low", "high", "coverage", "p"]
    pooled[numbers] = pooled[numbers].astype("float64")
    first = summary[POLICY].iloc[0]
    base = (str(first.iloc[0]), str(first.iloc[1]), str(first.iloc[2]))
    return pooled.assign(sure=sure_changes(pooled, base, CONFIDENCE, SETTING))


def _pooled(rows: pd.DataFrame) -> dict[str, Any]:
    """Pool the ``rows`` of a policy and metric, one per trace."""
    ratios = 1.0 + rows["relative"].to_numpy(np.float64)
    kept = ratios > 0
    interval, note = Interval(), ""
    if (count := int(kept.sum())) >= FEWEST_TRACES:
        interval = interval_of_mean(ratios[kept])
    else:
        note = f"no interval: {count} {'trace is' if count == 1 else 'traces are'} too few"
    if count < len(rows):
        note = "; ".join(filter(None, (note, f"{len(rows) - count} of {len(rows)} traces have no ratio, or 0, and are left out")))
    values = rows["value"].to_numpy(np.float64)
    return {
        "traces": count,
        "replicates": count,
        "windows": int(rows["windows"].min()),
        "value": float(np.exp(np.log(values).mean())) if values.min() > 0 else np.nan,
        "relative": float(np.expm1(np.log(ratios[kept]).mean())) if count else None,
        **interval._asdict(),
        "note": note,
    }
