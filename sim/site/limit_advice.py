"""Shorter time limits for users' jobs, and how much sooner the jobs would have started.

The limits are those of a change that predicts them (:mod:`sim.site.changes`): of jobs alike, the runtime that 95 % of
them keep to, as predicted at each submission from what had ended. The starts are replays with these limits, paired with
replays without.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from features.statistics import CONFIDENCE, mean_intervals
from sim.site.changes import Changed

FEWEST, RISK, WORTH = 20, 0.05, 0.9
"""Min number of jobs of a group, max share of them that ran longer than their limit, and max share of the request that
is advised."""
ALIKE = ["user", "account", "cpus", "limit_s"]
"""Jobs with the same values are alike."""


class LimitAdvice(NamedTuple):
    """A shorter limit for the jobs of a user that ask for the same.

    ``used`` is the median of runtime over request. ``jobs`` of them were given a shorter limit at submission, of which
    ``longer`` ran longer; ``limit_s`` is that of the last. They start ``sooner_s`` seconds sooner in the mean,
    ``low_s`` to ``high_s`` over replays, for all groups together.
    """

    user: str
    account: str
    procs: int
    requested_s: int
    jobs: int
    used: float
    limit_s: int
    longer: int
    sooner_s: float
    low_s: float
    high_s: float

    @property
    def sure(self) -> bool:
        """Tell whether few jobs ran longer than such limits, and replays surely start them sooner."""
        return self.longer <= RISK * self.jobs and self.low_s > 0 and self.limit_s <= WORTH * self.requested_s


def limit_advice(today: Changed, changed: Changed, before: np.ndarray, after: np.ndarray) -> list[LimitAdvice]:
    """Return advice for each group of jobs alike.

    A group has at least ``FEWEST`` jobs that were given a shorter limit.

    ``changed`` has the jobs of ``today`` with other limits; ``before`` and ``after`` are their starts, float64
    [replicates, jobs].
    """
    jobs, limit_s = today.jobs, changed.jobs["limit_s"].to_numpy(np.int64)
    shorter = (
        (limit_s < jobs["limit_s"]) & (jobs["start_s"] >= 0) & np.isfinite(before).all(axis=0) & np.isfinite(after).all(axis=0)
    )
    groups = [rows for rows in jobs[shorter].groupby(ALIKE, sort=True).indices.values() if len(rows) >= FEWEST]
    if not groups:
        return []
    places = [np.flatnonzero(shorter)[rows] for rows in groups]
    sooner_s = np.stack([(before - after)[:, rows].mean(axis=1) for rows in places], axis=1)
    low_s, high_s = mean_intervals(sooner_s, np.arange(len(sooner_s)), 1 - (1 - CONFIDENCE) / len(groups))
    killed = jobs["job_id"].astype(str).isin(changed.kills).to_numpy(bool)
    advice = []
    for number, rows in enumerate(places):
        last = jobs.iloc[rows[-1]]
        advice.append(
            LimitAdvice(
                user=str(last["user"]),
                account=str(last["account"]),
                procs=int(last["cpus"]),
                requested_s=int(last["limit_s"]),
                jobs=len(rows),
                used=float((jobs["runtime_s"] / jobs["limit_s"]).iloc[rows].median()),
                limit_s=int(limit_s[rows[-1]]),
                longer=int(killed[rows].sum()),
                sooner_s=float(sooner_s[:, number].mean()),
                low_s=float(low_s[number]),
                high_s=float(high_s[number]),
            )
        )
    return advice
