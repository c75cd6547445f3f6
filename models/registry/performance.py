"""Performance drift: a champion's accuracy and under-prediction against its promotion.

Both means come with a standard error that treats jobs of one user on one day as one cluster
(``models.registry.promotion.clustered_mean``). The difference of two windows is judged by Student's t at ``FALSE_ALARMS``,
one-sided: only a worse value is reported.
"""

import re
from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from models.registry.promotion import FEWEST_CLUSTERS, FEWEST_JOBS, Mean, clustered_mean, user_days
from models.runtime.evaluation import accuracy

FALSE_ALARMS = 0.01
"""Chance of an alarm in a window where nothing has changed, shared by the two measures."""
MEASURES = {"accuracy": -1.0, "underprediction_rate": 1.0}
"""Measures by name, with the sign of worse."""


def clusters(rows: pd.DataFrame) -> np.ndarray:
    """Return a number for each user and day of submission in ``served``, int64 [jobs]."""
    return user_days(pd.factorize(rows["user"])[0], rows["submit_s"].to_numpy(np.int64))


def served_means(rows: pd.DataFrame, name: str) -> dict[str, Mean]:
    """Return :data:`MEASURES` of a column of ``served``, with clustered errors."""
    seconds, runtime, cluster = rows[name].to_numpy(), rows["runtime_s"].to_numpy(np.float64), clusters(rows)
    return {
        "accuracy": clustered_mean(accuracy(seconds, runtime), cluster),
        "underprediction_rate": clustered_mean((seconds < runtime).astype(np.float64), cluster),
    }


def record(rows: pd.DataFrame, name: str) -> dict[str, str]:
    """Return :func:`served_means` as tags of a version; no tags without jobs."""
    means = served_means(rows, name) if len(rows) else {}
    return {f"recorded_{measure}": f"{mean.value!r} {mean.error!r} {mean.clusters}" for measure, mean in means.items()}


def recorded_means(tags: Mapping[str, str]) -> dict[str, Mean]:
    """Return the means that a version recorded when it was judged."""
    means = {}
    for measure in MEASURES:
        if recorded := re.fullmatch(r"(\S+) (\S+) (\d+)", tags.get(f"recorded_{measure}", "")):
            means[measure] = Mean(float(recorded[1]), float(recorded[2]), int(recorded[3]))
    return means


def performance_drift(now: Mapping[str, Mean], then: Mapping[str, Mean], jobs: int) -> pd.DataFrame:
    """Return one row for each of :data:`MEASURES`.

    Columns ``measure then now limit jobs drifted note``; ``limit`` is the worst value that chance allows, NaN without verdict.
    """
    rows = []
    for name, worse in MEASURES.items():
        if name not in then:
            rows.append(_row(name, np.nan, now[name].value, jobs, "no verdict: nothing was recorded at promotion"))
            continue
        row = _row(name, then[name].value, now[name].value, jobs, "")
        fewest = min(now[name].clusters, then[name].clusters)
        if jobs < FEWEST_JOBS or fewest < FEWEST_CLUSTERS:
            rows.append(row | {"note": f"no verdict: {jobs} jobs since it was trained are too few"})
            continue
        t = -float(stdtrit(fewest - 1, FALSE_ALARMS / len(MEASURES)))
        limit = then[name].value + worse * t * float(np.hypot(now[name].error, then[name].error))
        rows.append(row | {"limit": limit, "drifted": bool(worse * (now[name].value - limit) > 0)})
    return pd.DataFrame(rows)


def _row(name: str, then: float, now: float, jobs: int, note: str) -> dict[str, object]:
    return {"measure": name, "then": then, "now": now, "limit": np.nan, "jobs": jobs, "drifted": False, "note": note}
