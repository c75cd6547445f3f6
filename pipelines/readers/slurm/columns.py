"""The columns of sacct that replays read, and what replaces one that is missing."""

from __future__ import annotations

from typing import NamedTuple

from pipelines.readers.slurm.requests import CPUS, GPUS, NODES
from pipelines.readers.slurm.sacct import REQUESTED, RUNTIME
from pipelines.readers.slurm.times import END, START, SUBMIT

NAMES = {
    **{name: (name,) for name in ("user", "account", "partition", "qos", "state", "eligible", "reqmem", "reqtres", "nodelist")},
    **{name: (name,) for name in ("constraints", "flags", "reservation", "priority", "reason")},
    **{"jobid": ("jobid", "job_id"), "submit": SUBMIT, "start": START, "end": END, "submitline": ("submitline", "submit_line")},
    **{"reqcpus": CPUS, "reqnodes": NODES, "gpus": GPUS},
    **{"elapsed": tuple(RUNTIME), "limit": tuple(REQUESTED)},
}
"""Names of each column: sacct's, then those of exports; the first present one is read."""
NEEDED = {
    **{"jobid": "JobID", "user": "User", "account": "Account", "partition": "Partition", "qos": "QOS", "submit": "Submit"},
    **{"start": "Start", "end": "End", "elapsed": "ElapsedRaw", "limit": "TimelimitRaw", "reqcpus": "ReqCPUS"},
}


class Absent(NamedTuple):
    """What a replay takes in place of a missing column, and how far that moved recorded runs.

    Of ``runs``, the mean wait moved by ``median_percent`` in the median and ``most_percent`` at most; of the recorded starts,
    up to ``most_points`` points fewer were decided as recorded. ``docs/studies/data/slurm-columns.csv`` has the figures.
    """

    taken: str
    runs: int
    median_percent: float
    most_percent: int
    most_points: int

    def note(self, name: str) -> str:
        """Return the sentences on the missing column ``name``."""
        return (
            f"The file has no column {name}: {self.taken}. Without it the mean wait of {self.runs} recorded runs moves by "
            f"{self.median_percent:g} % in the median and {self.most_percent} % at most, and up to {self.most_points} of 100 starts are "
            "no longer decided as recorded."
        )


ABSENT = {
    "State": Absent("all jobs have completed", 8, 0.0, 4, 0),
    "Eligible": Absent("jobs are eligible at their submission, and holds and begin times are not seen", 8, 0.3, 21, 20),
    "ReqMem": Absent("memory is what ReqTRES says, or the partition's default", 8, 0.0, 0, 0),
    "ReqTRES": Absent(
        "nodes, memory and GPUs are what other columns say, or one node, the partition's default and none", 8, 0.0, 3, 0
    ),
    "NodeList": Absent(
        "a running job holds all nodes, so that decisions from recorded states mean nothing, nor do drains", 8, 0.0, 11, 52
    ),
    "Priority": Absent("starts of one second are followed in order of submission", 8, 0.0, 0, 1),
    "Flags": Absent("which scheduler started a job is unknown", 8, 0.0, 0, 0),
    "Reservation": Absent("no job runs in a reservation", 7, 0.0, 0, 0),
    "Reason": Absent("only the holds in SubmitLine are seen", 7, 0.0, 2, 0),
    "Constraints": Absent("all nodes suit each job", 8, 0.0, 0, 0),
    "SubmitLine": Absent(
        "dependencies and throttles are taken from when jobs became eligible, and its other options are not seen", 7, 3.3, 11, 14
    ),
}
"""Columns that a file may lack; the eight runs are the first of each pair that has a log."""
