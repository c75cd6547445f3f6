"""Why a job waits: the class of the reason, limits that are used up, and jobs ahead.

Slurm's own word for the reason (squeue's column REASON) decides where a snapshot has it. Otherwise the reason is what the
snapshot itself shows: jobs ahead, or too few free processors. The rules of a site say more (:mod:`sim.site.reasons`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

CLASSES = {
    "dependency": "another job has to end first",
    "begin time": "it asked not to begin before a time",
    "held": "it is held, by its user or by an administrator",
    "limit": "a limit of its user, account, QOS or partition is used up",
    "reservation": "its reservation has not begun, or nodes are reserved for others",
    "node": "a node that it needs is down or drained, or its partition is closed",
    "resources": "too few processors are free",
    "priority": "jobs ahead of it come first",
    "next": "nothing: it starts in one of the next passes of the scheduler",
}
"""Classes of reasons, the first that holds first, and what they mean."""
_WORDS = (
    ("Dependency", "dependency"),
    ("BeginTime", "begin time"),
    ("JobHeld", "held"),
    ("Reservation", "reservation"),
    ("ReqNodeNotAvail", "node"),
    ("NodeDown", "node"),
    ("PartitionDown", "node"),
    ("PartitionInactive", "node"),
    ("Priority", "priority"),
    ("Resources", "resources"),
    *((word, "limit") for word in ("QOS", "Assoc", "Max", "JobArrayTaskLimit", "Licenses", "Partition")),
)
"""Beginnings of Slurm's words, and their classes; the first that fits counts (slurm.h, ``job_state_reason``)."""
_NOT_AHEAD = ("dependency", "begin time", "held")


@dataclass(frozen=True)
class Reason:
    """Why a job waits.

    ``by_slurm`` is Slurm's own word, or "". ``limit`` is a sentence on a limit that is used up, or "". ``ahead`` counts waiting
    jobs that come first, ``ahead_hours`` the processor-hours that they ask for, ``ahead_in_queue`` those of its own queue.
    ``free`` processors are idle. ``first`` are the running jobs that have to end for it to fit, by the ends of their limits, of
    which the last is in ``first_s`` seconds at the latest. At a Slurm site ``parts`` are those of its priority.
    """

    why: str
    by_slurm: str = ""
    limit: str = ""
    ahead: int = 0
    ahead_hours: float = 0.0
    ahead_in_queue: int = 0
    free: int = 0
    first: tuple[str, ...] = field(default=())
    first_s: int = 0
    parts: Mapping[str, float] = field(default_factory=dict)


def class_of(by_slurm: str) -> str:
    """Return the class of Slurm's word for a reason; "" for a word that says nothing."""
    return next((of_class for word, of_class in _WORDS if by_slurm.startswith(word)), "")


def class_by_queue(ahead: int, procs: int, free: int) -> str:
    """Return the class of a job that nothing but the queue keeps.

    ``ahead`` counts the jobs that come first; of its ``procs`` processors, ``free`` are idle.
    """
    return "priority" if ahead else "resources" if procs > free else "next"


def reasons(queue: pd.DataFrame, job_ids: Sequence[str], procs: int, now_s: int) -> list[Reason]:
    """Return why each of ``job_ids`` waits.

    ``queue`` is a snapshot (columns of :class:`pipelines.ingest.queue_file.QueueFile`, one row a job, times in Unix seconds) of
    a machine of ``procs`` processors at ``now_s``. Jobs are ahead by their priority where the snapshot has it of all,
    else by submission; jobs that are held, or wait for others or for a time, are ahead of none.
    """
    runs, waits = queue[queue["runs"].astype(bool)], queue[~queue["runs"].astype(bool)]
    free = max(procs - int(runs["procs"].sum()), 0)
    words = waits["reason"].fillna("").astype(str) if "reason" in waits else pd.Series("", waits.index)
    counts = ~words.map(class_of).isin(_NOT_AHEAD).to_numpy(bool)
    by_priority = "priority" in waits and counts.any() and waits.loc[counts, "priority"].notna().all()
    rank = waits["submit_unix_s"].astype(np.float64)
    if by_priority:
        rank = (-waits["priority"].astype(np.float64)).fillna(rank)
    order = np.argsort(rank.to_numpy(), kind="stable")
    line = waits.iloc[order].assign(counts=counts[order].astype(np.int64), word=words.iloc[order], queue=waits["queue"].fillna(""))
    work = line["counts"] * line["procs"].astype(np.float64) * line["requested_s"].astype(np.float64) / 3600
    line = line.assign(
        ahead=line["counts"].cumsum() - line["counts"],
        ahead_hours=work.cumsum() - work,
        ahead_in_queue=line.groupby("queue")["counts"].cumsum() - line["counts"],
    )
    columns = ["procs", "word", "ahead", "ahead_hours", "ahead_in_queue"]
    rows = dict(zip(line["job_id"], line[columns].astype(object).to_numpy().tolist(), strict=True))
    answers = []
    for job_id in job_ids:
        own_procs, word, ahead, hours, in_queue = rows[job_id]
        why = class_of(word) or class_by_queue(ahead, int(own_procs), free)
        first, first_s = _first_ends(runs, int(own_procs) - free, now_s) if why == "resources" else ((), 0)
        answers.append(
            Reason(
                why=why,
                by_slurm=word if word.lower() != "none" else "",
                ahead=ahead,
                ahead_hours=hours,
                ahead_in_queue=in_queue,
                free=free,
                first=first,
                first_s=first_s,
            )
        )
    return answers


def _first_ends(runs: pd.DataFrame, wanted: int, now_s: int) -> tuple[tuple[str, ...], int]:
    """Return the running jobs that give ``wanted`` processors back first by their limits, and the seconds until the last."""
    ends = (runs["start_unix_s"].astype(np.float64) + runs["requested_s"].astype(np.float64)).sort_values(kind="stable")
    given_back = runs.loc[ends.index, "procs"].astype(np.int64).cumsum().to_numpy()
    count = min(int(np.searchsorted(given_back, wanted)) + 1, len(ends))
    if wanted <= 0 or not len(ends):
        return (), 0
    first = ends.index[:count]
    return tuple(runs.loc[first, "job_id"].astype(str)), max(int(ends[first[-1]]) - now_s, 0)
