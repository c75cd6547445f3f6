"""Until when a file of jobs tells: its own clock, which a few damaged rows cannot move.

An export lists what had happened when it was made, so a submission or an end long after everything else is a damaged row (a wait of three years), not
news. The clock is the last submission and what a job may plausibly stay after it; both leave out the few rows that reach farthest.
"""

from __future__ import annotations

import numpy as np

from features.clock import DAY_S

LEFT_OUT = 10
"""Rows that do not set the clock, however far they reach; in small files one in ``JOBS_PER_LEFT_OUT``."""
JOBS_PER_LEFT_OUT = 50
SILENCE_S = 30 * DAY_S
"""After the last submission a job may end this much later at least, and a longer silence between submissions ends a file."""
STAYS = 2.0
"""Times the longest stay (wait and runtime) of the rows that set the clock, after which a job may still end."""


def file_clock(submit_s: np.ndarray, stay_s: np.ndarray) -> float:
    """The latest plausible second of a file, from submissions and stays (end minus submission), float64 [jobs]: infinity for under 50 jobs.

    On nine logs of the Parallel Workloads Archive and of other sites the last end lies at most 0.4 of the way from the last submission to it.
    """
    left_out = min(LEFT_OUT, len(submit_s) // JOBS_PER_LEFT_OUT)
    if left_out == 0:
        return float("inf")
    last, longest = (np.partition(values, -left_out - 1)[-left_out - 1] for values in (submit_s, stay_s))
    return float(last + max(SILENCE_S, STAYS * longest))
