"""The last plausible second of a job file, robust against a few damaged rows.

A file lists only what had happened when it was exported. A submission or an end long after all others is therefore a damaged row
(for example a wait of three years). The clock is the last submission plus a plausible stay, both without the few extreme rows.
"""

import numpy as np

from features.clock import DAY_S

LEFT_OUT = 10
"""Number of most extreme rows that do not set the clock; in small files one in ``JOBS_PER_LEFT_OUT``."""
JOBS_PER_LEFT_OUT = 50
SILENCE_S = 30 * DAY_S
"""Min time after the last submission in which jobs may end. A longer gap between submissions ends a file."""
STAYS = 2.0
"""Multiple of the longest stay (wait and runtime) within which a job may still end after the last submission."""


def file_clock(submit_s: np.ndarray, stay_s: np.ndarray) -> float:
    """Return the latest plausible second of a file; infinity for under 50 jobs.

    ``submit_s`` and ``stay_s`` (end minus submission) are float64 [jobs]. On nine logs of the Parallel Workloads Archive and of
    other sites the last end lies at most 0.4 of the way from the last submission to it.
    """
    left_out = min(LEFT_OUT, len(submit_s) // JOBS_PER_LEFT_OUT)
    if left_out == 0:
        return float("inf")
    last, longest = (np.partition(values, -left_out - 1)[-left_out - 1] for values in (submit_s, stay_s))
    return float(last + max(SILENCE_S, STAYS * longest))
