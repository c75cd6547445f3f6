"""Performance drift: a champion's accuracy and under-prediction against its promotion.

Both means carry the error that chance allows where the jobs of a user on a day resemble each other
(``models.registry.promotion.clustered_mean``); the difference of two windows is judged by Student's t at ``FALSE_ALARMS``,
one-sided: only worse is reported.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from models.registry.promotion import FEWEST_CLUSTERS, FEWEST_JOBS, Mean

FALSE_ALARMS = 0.01
"""Chance of an alarm in a window where nothing has changed, shared by the two measures."""
MEASURES = {"accuracy": -1.0, "underprediction_rate": 1.0}
"""Measures by name, with the sign of worse."""


def performance_drift(now: dict[str, Mean], then: dict[str, Mean], jobs: int) -> pd.DataFrame:
    """Return a row for each of :data:`MEASURES`: ``measure then now limit jobs drifted note``.

    ``limit`` is the worst that chance allows, NaN without verdict.
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
