"""Why a job waits: the class of the reason, limits that are used up, and jobs ahead.

Slurm's own word for the reason (squeue's column REASON) decides where a snapshot has it. Otherwise the reason is what
the snapshot itself shows: jobs ahead, or too few free processors. The rules of a site say more
(:mod:`sim.site.reasons`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from models.packed.submitted import ASIDE, stand_aside

SURE = 0.9
"""Share of scenarios in which a change, or a partition, must start the job sooner, for the answer to call it sure."""
CLASSES = {
    "never": "a job that it depends on did not end as it asked, so it never starts",
    "dependency": "another job has to end first",
    "begin time": "it asked not to begin before a time",
    "held": "it is held, by its user, an administrator or Slurm",
    "refused": "its account, QOS, reservation or constraints are not allowed or do not exist any more",
    "request": "it asks for more, or less, than a limit allows a single job: it starts only once the request or the limit has changed",
    "licenses": "licenses that it asks for are in use",
    "limit": "a limit of its user, account, QOS, partition or array is used up",
    "maintenance": "nodes that it needs are reserved for maintenance",
    "planned": "its nodes are reserved for another job that is planned, or for a reservation; none of them is down",
    "reservation": "its reservation has not begun, or nodes are reserved for others",
    "partition": "its partition is down or inactive",
    "node": "a node that it needs is down or drained",
    "unavailable": "nodes that it needs are down, drained or reserved for other jobs",
    "resources": "too few processors, or other resources, are free",
    "priority": "jobs ahead of it come first",
    "other": "the scheduler names something else than processors, jobs ahead or limits",
    "next": "nothing: it starts in one of the next passes of the scheduler",
}
"""Classes of reasons, and what they mean."""
_WORDS = tuple(
    (re.compile(pattern), of_class)
    for pattern, of_class in (
        *((pattern, of_class) for of_class, pattern in ASIDE.items()),
        ("Licenses", "licenses"),
        ("QOS|Assoc|Max|JobArrayTaskLimit|AccountingPolicy|Job is at or exceeds", "limit"),
        ("ReqNodeNotAvail, ?Reserved for maintenance", "maintenance"),
        ("ReqNodeNotAvail, ?May be reserved", "planned"),
        ("ReqNodeNotAvail, ?UnavailableNodes:.|NodeDown", "node"),
        ("ReqNodeNotAvail|Nodes required for job are", "unavailable"),
        ("Reservation", "reservation"),
        ("Partition(Down|Inactive)", "partition"),
        ("Resources", "resources"),
        ("Priority", "priority"),
        ("(?!None$).", "other"),
    )
)
"""Beginnings of Slurm's words, and their classes; the first that fits counts.

They are those of ``job_state_reason.c``, and the texts that ``node_scheduler.c`` and others write in their place:
without a node that is down, ReqNodeNotAvail says "May be reserved for other job".
"""
STANDING_STILL = ("held", "never")
"""Classes of jobs that do not start until a person changes them."""


@dataclass(frozen=True)
class Reason:
    """Why a job waits.

    ``by_slurm`` is Slurm's own word, or "". ``limit`` is a sentence on a limit that is used up, or "". ``ahead`` counts
    waiting jobs that come first, ``ahead_hours`` the processor-hours that they ask for, ``ahead_in_queue`` those of its
    own queue. ``free`` processors are idle. ``first`` are the running jobs that have to end for it to fit, by the ends
    of their limits, of which the last is in ``first_s`` seconds at the latest. At a Slurm site ``parts`` are those of
    its priority.
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
    """Return the class of Slurm's word for a reason; "" for a word that says nothing.

    Some of its texts have underscores for blanks.
    """
    word = by_slurm.replace("_", " ")
    return next((of_class for pattern, of_class in _WORDS if pattern.match(word)), "")


def class_by_queue(ahead: int, procs: int, free: int) -> str:
    """Return the class of a job that nothing but the queue keeps.

    ``ahead`` counts the jobs that come first; of its ``procs`` processors, ``free`` are idle.
    """
    return "priority" if ahead else "resources" if procs > free else "next"


def reasons(queue: pd.DataFrame, job_ids: Sequence[str], procs: int, now_s: int) -> list[Reason]:
    """Return why each of ``job_ids`` waits.

    ``queue`` is a snapshot (columns of :class:`pipelines.readers.queue_file.QueueFile`, one row a job, times in Unix
    seconds) of a machine of ``procs`` processors at ``now_s``. Jobs are ahead by their priority where the snapshot has
    it of all, else by submission; jobs that are held, or wait for others or for a time, are ahead of none.
    """
    runs, waits = queue[queue["runs"].astype(bool)], queue[~queue["runs"].astype(bool)]
    free = max(procs - int(runs["procs"].sum()), 0)
    words = waits["reason"].fillna("").astype(str) if "reason" in waits else pd.Series("", waits.index)
    counts = ~stand_aside(words.tolist())
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
    """Return the running jobs that give ``wanted`` processors back first by their limits, and the seconds until the
    last."""
    ends = (runs["start_unix_s"].astype(np.float64) + runs["requested_s"].astype(np.float64)).sort_values(kind="stable")
    given_back = runs.loc[ends.index, "procs"].astype(np.int64).cumsum().to_numpy()
    count = min(int(np.searchsorted(given_back, wanted)) + 1, len(ends))
    if wanted <= 0 or not len(ends):
        return (), 0
    first = ends.index[:count]
    return tuple(runs.loc[first, "job_id"].astype(str)), max(int(ends[first[-1]]) - now_s, 0)
