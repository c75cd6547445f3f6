"""The limits of Queuecast's input, all in one place.

They lie far beyond any known machine, job and log, and low enough for exact arithmetic: over :data:`JOBS` jobs, sums of
seconds and of processors fit an int64, and so does a product of processors and seconds, even of all processors of a
machine. Only sums of such products do not fit: they are added as float64. Readers enforce the limits on files,
:mod:`features.jobs.cleaning` on tables (rule ``beyond-limits``), and the simulator on its input.

Beside them stand the rules and bounds of what people choose about a trace: commands declare their options from these,
and refuse a wrong one before pandas is imported.
"""

from __future__ import annotations

from typing import Literal, get_args

JOBS = 10**8
"""Max jobs of a trace."""
PROCESSORS = 10**8
"""Max processors of a machine, and of a job."""
SECONDS = 10**10
"""Max seconds (300 years) of a time since the trace's origin or since 1970, of a wait, a runtime and a request."""
JOB_ID = 2**53 - 1
"""Max number of a job: still exact where a table, a page or a program stores it as a float64."""
NODES = 10**7
"""Max nodes of a machine, and of a job."""
MEMORY_KIB = 10**12
"""Max memory of a node, and of a job, in KiB (a petabyte)."""
NODE_NAMES = 10**7
"""Max nodes named by the different node lists of one file of control runs, all together."""
LINE_BYTES = 8 << 20
"""Max bytes of a line of a text file."""
MESSAGE = 300
"""Max characters of an error on the terminal."""

COLUMNS: dict[str, int] = {
    "job_id": JOB_ID,
    "submit_s": SECONDS,
    "wait_s": SECONDS,
    "runtime_s": SECONDS,
    "procs": PROCESSORS,
    "allocated_procs": PROCESSORS,
    "requested_s": SECONDS,
    "preceding_job": JOB_ID,
    "think_s": SECONDS,
}
"""Max absolute value of each numeric column of the canonical jobs table; a job beyond it is dropped."""

ASKED: dict[str, int] = {"nodes": NODES, "procs_per_node": PROCESSORS, "memory_kib": MEMORY_KIB, "gpus": PROCESSORS}
"""Max of each request beside processors and time; a value beyond it is treated as missing."""


MissingRequest = Literal["drop", "runtime", "queue-max"]
MISSING_REQUEST: tuple[str, ...] = get_args(MissingRequest)
"""What becomes of jobs that state no requested time (:mod:`features.jobs.cleaning`)."""
LARGEST = 1e6
"""Max factor of :mod:`features.jobs.workload_changes`."""
SHAKE_S = 60
"""Default max seconds by which :mod:`features.jobs.workload_changes` moves submissions."""
