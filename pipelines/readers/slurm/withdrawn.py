"""Cancellations of all jobs that waited, by one command.

``scancel --state=PENDING`` and the like leave running jobs alone. In a replay other jobs wait at that time than in the record, and
such a command meets these.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

_KINDS = ("name", "qos", "partition", "account", "user")
"""Columns by which a command may choose the jobs."""
_FEWEST = 2
"""Min number of jobs or arrays that one command cancels."""


def with_withdrawn(jobs: pd.DataFrame) -> pd.DataFrame:
    """Add when jobs are cancelled with all others of their kind, if they still wait.

    ``withdrawn_s`` is a Unix second, -1: never. At least two jobs were cancelled together, over seconds that follow each other, and
    no other job of the kind went on waiting. A kind is the whole queue, or the jobs of one name, QOS, partition, account or user.
    """
    submit_s, start_s, gone_s = (jobs[name].to_numpy(np.int64) for name in ("submit_s", "start_s", "cancel_s"))
    waited = (start_s < 0) & (gone_s >= 0)
    left_s = np.where(start_s >= 0, start_s, np.where(gone_s >= 0, gone_s, np.iinfo(np.int64).max))
    codes = [np.zeros(len(jobs), np.int64), *(pd.factorize(jobs[name])[0] for name in _KINDS)]
    withdrawn_s = np.full(len(jobs), -1)

    seconds = np.unique(gone_s[waited])
    for together in np.split(seconds, np.flatnonzero(np.diff(seconds) > 1) + 1) if len(seconds) else []:
        first, last = int(together[0]), int(together[-1])
        waiting = np.flatnonzero((submit_s < first) & ((left_s > last) | (waited & (gone_s >= first))))
        cancelled = waited[waiting] & (gone_s[waiting] <= last)
        groups = jobs["group"].to_numpy()[waiting]
        for code in codes:
            of_waiting = code[waiting]
            for kind in np.unique(of_waiting[cancelled]):
                own = of_waiting == kind
                if cancelled[own].all() and len(np.unique(groups[own])) >= _FEWEST:
                    withdrawn_s[(code == kind) & (submit_s < first) & (withdrawn_s < 0)] = first

    return jobs.assign(withdrawn_s=withdrawn_s)
