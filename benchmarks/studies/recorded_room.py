"""Split recorded waits by what kept a job from starting: no processors, nodes or memory, or nothing of a machine.

CERIT's log lists the node of every processor a job ran on, so that what was free on each node is known at every moment. While a job
waits it is asked, at each event of the log, whether it would have fitted: on all processors together, in a cluster it may use, on
nodes with so many free processors, with its memory, without others where it asks for that. A node is in service from its first to
its last use. No scheduler is simulated.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from features.jit import kernel
from sim.kernel.scratch import Scratch
from sim.machine.description import Cluster, Machine
from sim.machine.nodes import NOWHERE, choose, fits, take

COMES, ENDS, SUBMITTED, STARTS, GOES = range(5)
"""Kinds of events, in their order within a second."""


class Log(NamedTuple):
    """Events by time, and on what jobs ran, int64.

    ``time``, ``kind`` and ``of`` (a row, or a node) [events]. Job ``row`` ran on ``node`` from ``begin[row]`` to ``begin[row + 1]``,
    on ``procs`` of each, with ``memory`` KiB.
    """

    time: np.ndarray
    kind: np.ndarray
    of: np.ndarray
    begin: np.ndarray
    node: np.ndarray
    procs: np.ndarray
    memory: np.ndarray


def node_lists(path: Path) -> dict[int, list[int]]:
    """Return the node of each processor of each job, by job number, from MetaCentrum's 19th column."""
    with gzip.open(path, "rt") as file:
        lines = (line.split() for line in file)
        return {int(line[0]): [int(node) for node in line[18].strip("{}").split(",")] for line in lines}


def used(machine: Machine, lists: dict[int, list[int]]) -> tuple[Machine, list[int]]:
    """Return the machine with as many nodes as were ever used, and their numbers in its order.

    A node belongs to the smallest cluster whose nodes are as large as the largest part of a job on it.
    """
    largest: dict[int, int] = {}
    for nodes in lists.values():
        for node, procs in zip(*np.unique(nodes, return_counts=True), strict=True):
            largest[int(node)] = max(largest.get(int(node), 0), int(procs))
    small = min(cluster.nodes[0].procs for cluster in machine.clusters)
    order: list[int] = []
    clusters = []
    for cluster in machine.clusters:
        kind = cluster.nodes[0]
        mine = sorted(node for node, procs in largest.items() if (procs > small) == (kind.procs > small))
        order += mine
        clusters.append(Cluster(cluster.name, (replace(kind, count=len(mine)),)))
    return replace(machine, clusters=tuple(clusters)), order


def log_of(jobs: pd.DataFrame, lists: dict[int, list[int]], order: Sequence[int]) -> Log:
    """Return the log of a cleaned table; times as in it."""
    place = {node: row for row, node in enumerate(order)}
    submit = jobs["submit_s"].to_numpy(np.int64)
    start = submit + jobs["wait_s"].to_numpy(np.int64)
    end = start + jobs["runtime_s"].to_numpy(np.int64) + jobs["overrun_s"].to_numpy(np.int64)
    memory = jobs["memory_kib"].to_numpy(np.int64)
    parts = [np.unique([place[node] for node in lists[job]], return_counts=True) for job in jobs["job_id"]]
    begin = np.concatenate(([0], np.cumsum([len(nodes) for nodes, _ in parts])))
    node, procs = (np.concatenate([part[which] for part in parts]).astype(np.int64) for which in (0, 1))
    row = np.repeat(np.arange(len(jobs)), np.diff(begin))
    share = -(-memory[row] * procs // jobs["procs"].to_numpy(np.int64)[row])
    rows, nodes = np.arange(len(jobs)), np.arange(len(order))
    comes, goes = (pd.Series(times[row]).groupby(node).agg(how).to_numpy() for times, how in ((start, "min"), (end, "max")))
    time = np.concatenate([comes, end, submit, start, goes])
    kind = np.repeat([COMES, ENDS, SUBMITTED, STARTS, GOES], [len(nodes), len(rows), len(rows), len(rows), len(nodes)])
    of = np.concatenate([nodes, rows, rows, rows, nodes])
    sorted_ = np.lexsort((kind, time))
    return Log(time[sorted_], kind[sorted_], of[sorted_], begin, node, procs, share)


def on_all(machine: Machine, used: Machine, log: Log) -> Log:
    """Return a log of the nodes ``used`` as one of all nodes of ``machine``; those never used are in service throughout."""
    counts = [(cluster.count, there.count) for cluster, there in zip(machine.clusters, used.clusters, strict=True)]
    first = np.cumsum([0, *(count for count, _ in counts)])
    place = np.concatenate([np.arange(begin, begin + there) for begin, (_, there) in zip(first[:-1], counts, strict=True)])
    spare = np.setdiff1d(np.arange(first[-1]), place)
    of = np.where(np.isin(log.kind, (COMES, GOES)), place[np.minimum(log.of, len(place) - 1)], log.of)
    return log._replace(
        time=np.concatenate([np.full(len(spare), log.time[0]), log.time, np.full(len(spare), log.time[-1])]),
        kind=np.concatenate([np.full(len(spare), COMES), log.kind, np.full(len(spare), GOES)]),
        of=np.concatenate([spare, of, spare]),
        node=place[log.node],
    )


class Holders(NamedTuple):
    """What each user, or other holder, holds: ``of`` [rows] the holder of a job, and for how much it counts there (``weight``).

    ``held`` and ``peak`` [holders] are now and the most ever, int64.
    """

    of: np.ndarray
    weight: np.ndarray
    held: np.ndarray
    peak: np.ndarray


class Rule(NamedTuple):
    """Whether idle nodes count, whether waiting jobs take room from each other, and the rank [rows] by which they are asked."""

    idle: bool
    together: bool
    rank: np.ndarray


class WaitSeconds(NamedTuple):
    """Seconds [rows] in which a waiting job has no room, and has room but passes its holder's peak; ``waiting`` is for work."""

    without: np.ndarray
    kept: np.ndarray
    waiting: np.ndarray


def by_outcome(machine: Machine, jobs: pd.DataFrame, log: Log) -> tuple[Machine, pd.DataFrame]:
    """Return machine and jobs so that a job's class and properties are had by the nodes alone on which such jobs ever ran."""
    texts = jobs["properties"].astype("object").where(jobs["properties"].notna(), "").astype(str)
    words = [[f"class={queue}", *filter(None, text.split(":"))] for queue, text in zip(jobs["queue"], texts, strict=True)]
    had: list[set[str]] = [set() for _ in range(sum(cluster.count for cluster in machine.clusters))]
    for row, asked in enumerate(words):
        for node in log.node[log.begin[row] : log.begin[row + 1]]:
            had[node].update(word for word in asked if not word.startswith("^"))
    clusters, first = [], 0
    for cluster in machine.clusters:
        kind = cluster.nodes[0]
        mine = had[first : first + cluster.count]
        first += cluster.count
        clusters.append(Cluster(cluster.name, tuple(replace(kind, count=1, properties=tuple(sorted(words))) for words in mine)))
    return replace(machine, clusters=tuple(clusters)), jobs.assign(properties=pd.Categorical([":".join(asked) for asked in words]))


def seconds_of_waits(
    machine: Machine,
    jobs: pd.DataFrame,
    log: Log,
    columns: Sequence[str] = ("user",),
    *,
    in_jobs: bool = False,
    idle: bool = True,
    together: np.ndarray | None = None,
) -> WaitSeconds:
    """Return recorded seconds of each job's wait without room on ``machine``, and with room where a limit may have kept it.

    The latter are those in which the holder of the job (its user, or user and queue: ``columns``) would have held more processors,
    or jobs, than it ever did. Without ``idle``, nodes on which nothing runs count as out of service. Each job is asked alone; or all
    by the ranks ``together`` [jobs], the lowest first, each taking room from those after it.
    """
    layout, requests = machine.arrays_for(jobs)
    of = jobs.groupby(list(columns), observed=True, dropna=False).ngroup().to_numpy(np.int64)
    weight = np.ones(len(jobs), np.int64) if in_jobs else jobs["procs"].to_numpy(np.int64)
    now, peak = np.zeros(of.max() + 1, np.int64), np.zeros(of.max() + 1, np.int64)
    for kind, row in zip(log.kind, log.of, strict=True):
        if kind in (ENDS, STARTS):
            now[of[row]] += weight[row] if kind == STARTS else -weight[row]
            peak[of[row]] = max(peak[of[row]], now[of[row]])
    seconds = WaitSeconds(*(np.zeros(len(jobs), np.int64) for _ in WaitSeconds._fields))
    free, seen = np.zeros_like(layout.capacity), np.zeros_like(layout.capacity)
    nodes = Scratch().nodes(layout, requests, np.arange(len(jobs)))
    rank = np.arange(len(jobs)) if together is None else together
    _follow(log, nodes, free, seen, Rule(idle, together is not None, rank), Holders(of, weight, now, peak), seconds)
    return seconds


@kernel
def _follow(log, nodes, free, seen, rule, holders, waits_s):
    """Follow the log and add up seconds of waits."""
    count = 0
    for i in range(len(log.time)):
        row = log.of[i]
        if log.kind[i] == COMES or log.kind[i] == GOES:
            sign = 1 if log.kind[i] == COMES else -1
            for resource in range(free.shape[1]):
                free[row, resource] += sign * nodes.capacity[row, resource]
        elif log.kind[i] == SUBMITTED:
            place = count
            while place > 0 and rule.rank[waits_s.waiting[place - 1]] > rule.rank[row]:
                waits_s.waiting[place] = waits_s.waiting[place - 1]
                place -= 1
            waits_s.waiting[place] = row
            count += 1
        else:
            sign = 1 if log.kind[i] == ENDS else -1
            for at in range(log.begin[row], log.begin[row + 1]):
                free[log.node[at], 0] += sign * log.procs[at]
                if free.shape[1] > 1:
                    free[log.node[at], 1] += sign * log.memory[at]
            holders.held[holders.of[row]] -= sign * holders.weight[row]
            if sign == -1:
                place = 0
                while waits_s.waiting[place] != row:
                    place += 1
                count -= 1
                for later in range(place, count):
                    waits_s.waiting[later] = waits_s.waiting[later + 1]
        seconds = log.time[i + 1] - log.time[i] if i + 1 < len(log.time) else 0
        if seconds == 0:
            continue
        for node in range(len(free)):
            for resource in range(free.shape[1]):
                hidden = not rule.idle and free[node, 0] == nodes.capacity[node, 0]
                seen[node, resource] = 0 if hidden else free[node, resource]
        for place in range(count):
            row = waits_s.waiting[place]
            room = NOWHERE
            for cluster in range(len(nodes.first) - 1):
                if room == NOWHERE and fits(row, cluster, nodes, seen, nodes.left):
                    room = cluster
            if room != NOWHERE and rule.together:
                choose(row, room, 0, nodes, seen)
                take(row, -1, nodes, seen)
            if room == NOWHERE:
                waits_s.without[row] += seconds
            elif holders.held[holders.of[row]] + holders.weight[row] > holders.peak[holders.of[row]]:
                waits_s.kept[row] += seconds
