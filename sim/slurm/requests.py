"""The requests of the jobs of a replay, as arrays.

These are their columns, the limits they count against, and the jobs they may preempt.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from features.errors import InputError
from sim.slurm.limits import PER_START, Slots
from sim.slurm.nodesets import Suits, as_set, suitable
from sim.slurm.phases import origin_of
from sim.slurm.priority import Fixed
from sim.slurm.site import Site
from sim.slurm.state import CANCEL, CPUS, NODES, NONE, OFF, OTHER, REQUEUE, Ask, Preemption

COLUMNS = {
    **{"job_id": "its number, with its task: 12 or 12_3", "group": "number of the job or array", "task": "task, -1: none"},
    **{
        "submit_s": "Unix second",
        "eligible_s": "Unix second, -1: as submitted",
        "held_s": "Unix second from which it is held until it is eligible, 0: from the beginning, -1: it is not",
        "runtime_s": "seconds that it ran",
    },
    **{"limit_s": "seconds", "user": "", "account": "", "partition": "one or more, comma between", "qos": "", "cpus": "processors"},
    **{"min_nodes": "nodes", "max_nodes": "nodes, 0: any", "memory_node": "MiB a node, 0: none stated"},
    **{
        "memory_cpu": "MiB a processor, 0: none stated",
        "gpus": "a node",
        "features": "as --constraint takes them",
        "exclusive": "whole nodes",
    },
    **{
        "throttle": "tasks that may run, 0: all",
        "after": "groups that must have ended, comma between",
        "nice": "",
        "reservation": "",
    },
    **{
        "least_limit_s": "seconds with which it may be planned",
        "licenses": "name:count, comma between",
        "requeues": "whether it waits again after preemption or a failed node",
        "cancel_s": "Unix second, -1: it is not",
    },
    "killed": "whether slurmctld ended it: its limit was over, or it was cancelled",
}
"""Columns of the jobs of a replay."""
OPTIONAL = {
    "nodelist": "nodes among which it must run",
    "exclude": "nodes on which it must not",
    "other_qos": "further QOS with which it may run, comma between",
    "node_cpus": "processors that its tasks can use on a node, 0: any",
    "het": "number of the heterogeneous job that it is a component of, -1: none",
    "withdrawn_s": "Unix second at which it is cancelled with others if it still waits, -1: it is not",
}
"""Columns that may be missing: then no job asks for this."""
_MODES = {"requeue": REQUEUE, "cancel": CANCEL}


def preemption(site: Site, jobs: pd.DataFrame) -> Preemption:
    """Return which kinds of jobs, by QOS or partition, may preempt which others."""
    requeues = np.array(jobs["requeues"], np.int64)
    if site.preempts_by == "partition":
        parts = list(site.partitions.values())
        beats = [[one.tier > other.tier for other in parts] for one in parts]
        rules = [(part.preempt_mode, part.grace_s, part.tier) for part in parts]
    else:
        every_qos = list(site.qos.values())
        beats = [[other.name in one.preempts for other in every_qos] for one in every_qos]
        rules = [(qos.preempt_mode, qos.grace_s, min(qos.priority, 0xFFFF)) for qos in every_qos]
    general = site.settings.get("preemptmode", "off").lower()
    modes = [next((mode for word, mode in _MODES.items() if word in (rule[0] or general)), OFF) for rule in rules]
    return Preemption(
        requeues, np.array(beats, np.int64), np.array(modes), *(np.array([rule[at] for rule in rules]) for at in (1, 2))
    )  # fmt: skip


class SlurmRequests(NamedTuple):
    """The requests of jobs, the nodes that suit them, and the limits they count against.

    ``suits`` is int64 [sets, words]. Only the times of ``ask`` change if the jobs are submitted at other times, so
    replays may share the rest.
    """

    ask: Ask
    suits: np.ndarray
    slots: Slots

    def of_rows(self, rows: np.ndarray, jobs: pd.DataFrame) -> Ask:
        """Return the requests of the jobs in ``rows``.

        ``jobs`` are these jobs, in this order, with their times.
        """
        ask, columns = self.ask, dict[str, np.ndarray]()
        for begins, names in _LISTED.items():
            first = getattr(ask, begins)
            counts = (first[1:] - first[:-1])[rows]
            columns[begins] = np.concatenate(([0], np.cumsum(counts)))
            at = np.arange(columns[begins][-1]) + np.repeat(first[rows] - columns[begins][:-1], counts)
            columns |= {name: getattr(ask, name)[at] for name in names}
        columns["job"] = np.repeat(np.arange(len(rows)), columns["records"][1:] - columns["records"][:-1])
        columns["resources"] = columns["limits"][:-1] + (ask.resources - ask.limits[:-1])[rows]
        plain = {name: getattr(ask, name)[rows] for name in Ask._fields if name not in columns}
        return ask._replace(**{**plain, **columns, **times(jobs)})


_LISTED = {
    "records": ("job", "partition", "qos", "admitted", "fixed"),
    "limits": ("slot", "amount", "kind", "limit_qos"),
    "afters": ("after",),
}
"""Fields of ``Ask`` that say where a job's rows begin, each with the arrays that have these rows."""


def times(jobs: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return the times of ``Ask``, the order of ties, and the next component of each job."""
    submit, task, group, eligible, held = (
        np.array(jobs[name], np.int64) for name in ("submit_s", "task", "group", "eligible_s", "held_s")
    )
    origin, order = origin_of(jobs), np.empty(len(jobs), np.int64)
    order[np.lexsort((task, group, submit))] = np.arange(len(jobs))
    begin_ms, following = np.where(eligible >= 0, (eligible - origin) * 1000, 0), np.full(len(jobs), NONE)
    if "het" in jobs:
        rows = pd.Series(np.arange(len(jobs)))
        number = jobs["het"].where(jobs["het"] != NONE).to_numpy(np.float64)  # NaN is no group
        of_job = rows.groupby([number, submit])
        next_one = of_job.shift(-1).fillna(of_job.transform("min"))
        following = next_one.where(of_job.transform("size") > 1, NONE).fillna(NONE).to_numpy(np.int64)
    return {"held_ms": (held - origin) * 1000 + 999, "begin_ms": begin_ms, "order": order, "het": following}


class _RequestRows:
    """The columns of ``Ask`` in which a job has any number of rows, as lists."""

    def __init__(self, site: Site) -> None:
        self.slots = Slots(site)
        self._site, self._priorities = site, Fixed(site)
        self._partitions, self._qos = list(site.partitions), list(site.qos)
        self._lists: dict[str, list[float]] = {"resources": []}
        for begins, names in _LISTED.items():
            self._lists |= {begins: [0], **{name: [] for name in names}}

    def add(self, at: int, row: Any, after: list[int]) -> None:
        """Add the rows of the job ``at``, and the groups ``after`` which it runs.

        Raises InputError for an unknown partition or QOS.
        """
        site_qos = self._site.qos
        every_qos = [row.qos, *filter(None, row.other_qos.split(","))]
        if unknown := [name for name in every_qos if name not in site_qos]:
            raise InputError(
                f"job {row.job_id} has the QOS {unknown[0]}, which the site's files do not name; known: {', '.join(site_qos)}"
            )
        every_qos.sort(key=lambda name: -site_qos[name].priority)  # as Slurm tries them
        tried = [row._replace(qos=name) for name in every_qos]
        # the higher tier first (priority_sort_part_tier): where preemption makes their order intransitive, the list of jobs counts
        names = sorted(row.partition.split(","), key=self._falling_tier)
        for with_qos, partition in itertools.product(tried, names):
            self._record(at, with_qos, partition)
        # a limit of the only QOS counts whichever record starts the job
        tagged = [(self._qos.index(with_qos.qos) if row.other_qos else NONE, with_qos) for with_qos in tried]
        self._count(tagged)
        self._lists["after"] += after
        for begins, names in _LISTED.items():
            self._lists[begins].append(len(self._lists[names[0]]))

    def _falling_tier(self, name: str) -> int:
        partition = self._site.partitions.get(name)
        return 0 if partition is None else -partition.tier

    def _record(self, at: int, row: Any, name: str) -> None:
        """Add the record of a job in the partition ``name``."""
        if name not in self._site.partitions:
            raise InputError(
                f"job {row.job_id} asks for the partition {name}, which slurm.conf does not name; "
                f"known: {', '.join(self._partitions)}"
            )
        partition, flags = self._site.partitions[name], self._site.qos[row.qos].flags
        limit_s = 0 if "PartitionTimeLimit" in flags else row.limit_s
        self._append(
            job=at,
            partition=self._partitions.index(name),
            qos=self._qos.index(row.qos),
            admitted=partition.admits(limit_s, 0 if "PartitionMaxNodes" in flags else row.min_nodes),
            fixed=self._priorities.of(row, partition),
        )

    def _count(self, tagged: list[tuple[int, Any]]) -> None:
        """Add the limits that a job counts against, those by start first."""
        counted = [(*limit, tag) for tag, row in tagged for limit in self.slots.of(row)]
        self._lists["resources"].append(len(self._lists["slot"]) + sum(name in PER_START for name, _, _, _ in counted))
        for name, slot, amount, tag in sorted(counted, key=lambda limit: limit[0] not in PER_START):
            self._append(slot=slot, amount=amount, kind=_KINDS.get(name, OTHER), limit_qos=tag)

    def _append(self, **values: float) -> None:
        for name, value in values.items():
            self._lists[name].append(value)

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: np.array(values, np.float64 if name == "fixed" else np.int64) for name, values in self._lists.items()}


_KINDS = {"cpu": CPUS, "node": NODES}
_PLAIN = ("cpus", "min_nodes", "max_nodes", "memory_node", "memory_cpu", "gpus", "throttle")
"""Columns of a replay that are fields of ``Ask`` as they stand."""


def requests(site: Site, jobs: pd.DataFrame) -> SlurmRequests:
    """Return what ``jobs``, in any order, ask for; InputError for an unknown partition or QOS."""
    jobs = jobs.astype(object)  # Arrow would make each string anew at each access
    groups, group = np.unique(np.array(jobs["group"], np.int64), return_inverse=True)
    of_group = {int(number): at for at, number in enumerate(groups)}
    task = np.array(jobs["task"], np.int64)
    whole = {name: part.exclusive for name, part in site.partitions.items()}
    linear = site.settings.get("selecttype", "select/cons_tres") == "select/linear"
    listed, of_wish = _RequestRows(site), dict[Suits, int]()
    exclusive, suits = list[bool](), list[int]()
    rows: Iterator[Any] = jobs.reindex(columns=[*COLUMNS, *OPTIONAL], fill_value="").itertuples(index=False)
    for at, row in enumerate(rows):
        listed.add(at, row, [of_group[int(number)] for number in row.after.split(",") if number and int(number) in of_group])
        exclusive.append(bool(row.exclusive) or linear or whole[row.partition.partition(",")[0]])
        suits.append(of_wish.setdefault(Suits(row.features, row.nodelist, row.exclude, row.memory_node), len(of_wish)))
    reservations = {reservation.name: at for at, reservation in enumerate(site.reservations)}
    without_plans = {name for name, qos in site.qos.items() if "NoReserve" in qos.flags}
    names = {node.name: at for at, node in enumerate(site.nodes)}
    sets = np.array([as_set([names[name] for name in suitable(site, wish)], len(names)) for wish in of_wish])
    ask = Ask(
        **{name: np.array(jobs[name], np.int64) for name in _PLAIN},
        most_there=np.array(jobs["node_cpus"].fillna(0) if "node_cpus" in jobs else np.zeros(len(jobs)), np.int64),
        suits=np.array(suits, np.int64),
        exclusive=np.array(exclusive, np.int64),
        limit=np.array(jobs["limit_s"], np.int64),
        least=np.array(jobs["least_limit_s"], np.int64),
        user=pd.factorize(jobs["user"])[0].astype(np.int64),
        group=group.astype(np.int64),
        array=np.where(task >= 0, group, NONE),
        reservation=np.array([reservations.get(name, NONE) for name in jobs["reservation"]], np.int64),
        plain=np.array(jobs["qos"].isin(without_plans), np.int64),
        leaf=np.array([site.rows.get(pair, NONE) for pair in zip(jobs["account"], jobs["user"], strict=True)], np.int64),
        usage=np.array(jobs["qos"].map({name: qos.usage_factor for name, qos in site.qos.items()}), np.float64),
        counted=np.array(jobs["cpus"], np.int64),
        **listed.arrays(),
        **times(jobs),
    )
    return SlurmRequests(ask, sets, listed.slots)
