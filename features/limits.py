"""The limits of what Queuecast takes in, all in one place.

They lie far beyond any machine, job and log known, and low enough that arithmetic on them is exact: over :data:`JOBS` jobs, sums of
seconds and of processors fit an int64, and so does a product of processors and seconds, also of all processors of a machine. Only sums
of such products do not: they are added as float64. Readers enforce the limits where files are read,
:mod:`features.jobs.cleaning` in tables (rule ``beyond-limits``), the simulator in what it is given.
"""

from __future__ import annotations

JOBS = 10**8
"""Max jobs of a trace."""
PROCESSORS = 10**8
"""Max processors of a machine, and of a job."""
SECONDS = 10**10
"""Max seconds (300 years) of a time since the trace's origin or since 1970, of a wait, a runtime and a request."""
JOB_ID = 2**53 - 1
"""Max number of a job: exact also where a table, a page or a program keeps it as a float64."""
NODES = 10**7
"""Max nodes of a machine, and of a job."""
MEMORY_KIB = 10**12
"""Max memory of a node, and of a job, in KiB (a petabyte)."""
NODE_NAMES = 10**7
"""Max nodes that the different node lists of a file of control runs name, all together."""
LINE_BYTES = 8 << 20
"""Max bytes of a line of a text file."""
UNPACKED_BYTES = 8 << 30
"""Max bytes that a file may unpack to; a site raises it by $QUEUECAST_MAX_UNPACKED_BYTES."""
EXPANSION = 100
"""Max ratio of unpacked to packed bytes, above :data:`EXPANSION_FREE_BYTES`; the site's own max bytes replace it."""
EXPANSION_FREE_BYTES = 64 << 20
"""Unpacked bytes up to which the ratio does not matter."""
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
"""Max absolute value of each numeric column of the canonical jobs table; a job beyond is dropped."""

ASKED: dict[str, int] = {"nodes": NODES, "procs_per_node": PROCESSORS, "memory_kib": MEMORY_KIB, "gpus": PROCESSORS}
"""The same of what a job may ask for beside processors and time; what lies beyond is taken as missing."""
