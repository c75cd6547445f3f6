"""Plans of clusters: when jobs leave and come, and the first gap for a job.

A cluster's plan is a list of events in order of time. Running jobs leave at their predicted ends; planned jobs come and
leave, on the nodes chosen for them. What is free now is ``Nodes.free``; events up to now, if there are any, count as
past.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from features.jit import apart, kernel
from sim.machine.nodes import NO_LIMIT, NOWHERE, room_on, take

LEAVES, COMES = range(2)
"""Kinds of events. At one moment jobs leave before others come."""

NO_START = 1 << 60
"""A start that never comes."""


class Plan(NamedTuple):
    """Events of each cluster, int64, and the working arrays of a search.

    ``size`` [clusters] events: ``when`` [clusters, entries] is time << 1 | kind, ascending, ``row`` [clusters, entries]
    is the job. A search has ``free`` [nodes, resources] and ``left`` [kinds] of limits at its moment. A node's last few
    levels of room, ascending, are ``room`` [nodes, levels], each held since ``since`` [nodes, levels]. ``levels``
    [nodes] counts them; ``kept`` [nodes] of them are older than the start under consideration, and ``least`` [nodes] is
    the node's room from that start on.
    """

    size: np.ndarray
    when: np.ndarray
    row: np.ndarray
    free: np.ndarray
    left: np.ndarray
    room: np.ndarray
    since: np.ndarray
    levels: np.ndarray
    kept: np.ndarray
    least: np.ndarray


@kernel
def insert(row, time, kind, cluster, plan):
    """Insert an event of a job."""
    event = time << 1 | kind
    i = plan.size[cluster]
    plan.size[cluster] = i + 1
    while i > 0 and plan.when[cluster, i - 1] > event:
        plan.when[cluster, i] = plan.when[cluster, i - 1]
        plan.row[cluster, i] = plan.row[cluster, i - 1]
        i -= 1
    plan.when[cluster, i] = event
    plan.row[cluster, i] = row


@kernel
def remove(row, time, kind, cluster, plan):
    """Remove an event of a job, which must be there."""
    event = time << 1 | kind
    low, high = 0, plan.size[cluster]
    while low < high:
        middle = (low + high) >> 1
        if plan.when[cluster, middle] < event:
            low = middle + 1
        else:
            high = middle
    while plan.row[cluster, low] != row:
        low += 1
    plan.size[cluster] -= 1
    for i in range(low, plan.size[cluster]):
        plan.when[cluster, i] = plan.when[cluster, i + 1]
        plan.row[cluster, i] = plan.row[cluster, i + 1]


@kernel
def foresee_end(row, end, nodes, plan):
    """Plan the end of a job that runs."""
    insert(row, end, LEAVES, nodes.cluster[row], plan)


@kernel
def drop_past(now, plan):
    """Drop the events up to ``now``: they have happened."""
    for cluster in range(len(plan.size)):
        past = 0
        while past < plan.size[cluster] and plan.when[cluster, past] >> 1 <= now:
            past += 1
        if past > 0:
            plan.size[cluster] -= past
            for i in range(plan.size[cluster]):
                plan.when[cluster, i] = plan.when[cluster, i + past]
                plan.row[cluster, i] = plan.row[cluster, i + past]


@kernel
def reserve(row, start, seconds, nodes, plan):
    """Plan a job on the nodes chosen for it."""
    insert(row, start, COMES, nodes.cluster[row], plan)
    insert(row, start + seconds, LEAVES, nodes.cluster[row], plan)


@kernel
def withdraw(row, start, seconds, nodes, plan):
    """Take a planned job out of the plan."""
    remove(row, start, COMES, nodes.cluster[row], plan)
    remove(row, start + seconds, LEAVES, nodes.cluster[row], plan)


@apart
def earliest(row, seconds, begin, latest, cluster, nodes, plan):
    """Return the earliest start of a job that stays ``seconds`` in ``cluster``, or NO_START.

    The start is from ``begin`` to ``latest``. From start to end enough room must lie on nodes that keep it, and no
    limit may be passed. Call :func:`settle_on` to choose the nodes. The events are passed once: the start under
    consideration moves on when too little of its room is left.
    """
    requests, size = nodes.requests, plan.size[cluster]
    chunks, start, i = requests.chunks[row], begin, 0
    if requests.eligible[row] >> cluster & 1 == 0:
        return NO_START
    begin_search(row, cluster, nodes, plan)
    while i < size and plan.when[cluster, i] >> 1 <= begin:
        happen(i, row, cluster, nodes, plan)
        i += 1
    within = begin if limits_hold(row, nodes, plan) else NO_START  # time since which limits hold
    room = 0  # now, on all nodes
    for node in range(nodes.first[cluster], nodes.first[cluster + 1]):
        least = room_on(node, row, nodes, plan.free)
        plan.levels[node] = plan.kept[node] = 1 if least > 0 else 0
        plan.room[node, 0], plan.since[node, 0] = least, begin
        plan.least[node] = least
        room += least
    kept = room  # room held from the considered start on
    now = begin
    while True:
        after = plan.when[cluster, i] >> 1 if i < size else NO_START
        if kept >= chunks and within < NO_START:
            if max(start, within) > latest:
                return NO_START
            if max(start, within) + seconds <= after:
                break
        elif now >= latest or i == size:
            return NO_START
        now = after
        happen(i, row, cluster, nodes, plan)
        if not limits_hold(row, nodes, plan):
            within = NO_START
        elif within == NO_START:
            within = now
        other = plan.row[cluster, i]
        for at in range(nodes.begin[other], nodes.begin[other] + nodes.held[other]):
            node = nodes.node[at]
            least = plan.least[node]
            before = plan.room[node, plan.levels[node] - 1] if plan.levels[node] > 0 else 0
            current = room_on(node, row, nodes, plan.free)
            if current > before:
                rise(node, current, now, plan)
            elif current < before:
                fall(node, current, plan)
            room += current - before
            kept += plan.least[node] - least
        while kept < chunks <= room:
            start, more = move_on(cluster, nodes, plan)
            kept += more
        i += 1
    start = max(start, within)
    for node in range(nodes.first[cluster], nodes.first[cluster + 1]):
        while plan.kept[node] < plan.levels[node] and plan.since[node, plan.kept[node]] <= start:
            plan.least[node] = plan.room[node, plan.kept[node]]
            plan.kept[node] += 1
    return start


@kernel
def begin_search(row, cluster, nodes, plan):
    """Begin a search with what is free and left now."""
    for node in range(nodes.first[cluster], nodes.first[cluster + 1]):
        for resource in range(nodes.free.shape[1]):
            plan.free[node, resource] = nodes.free[node, resource]
    for kind in range(nodes.requests.limit.shape[1]):
        limit = nodes.requests.limit[row, kind]
        if limit != NO_LIMIT:
            plan.left[kind] = nodes.left[cluster, limit]


@kernel
def happen(i, row, cluster, nodes, plan):
    """Apply event ``i`` to what is free, and to what is left for job ``row``."""
    other, requests = plan.row[cluster, i], nodes.requests
    sign = 1 if plan.when[cluster, i] & 1 == LEAVES else -1
    take(other, sign, nodes, plan.free)
    for kind in range(requests.limit.shape[1]):
        if requests.limit[other, kind] != NO_LIMIT and requests.limit[other, kind] == requests.limit[row, kind]:
            plan.left[kind] += sign * requests.weight[other, kind]


@kernel
def limits_hold(row, nodes, plan):
    """Tell whether all limits hold if the job runs at the moment of the search."""
    requests = nodes.requests
    hold = True
    for kind in range(requests.limit.shape[1]):
        hold = hold and (requests.limit[row, kind] == NO_LIMIT or plan.left[kind] >= requests.weight[row, kind])
    return hold


@kernel
def rise(node, room, now, plan):
    """Note that the room on ``node`` rises."""
    top = plan.levels[node]
    if top > 0 and plan.since[node, top - 1] == now and plan.kept[node] < top:
        top -= 1  # a level of this moment has not lasted
    plan.room[node, top] = room
    plan.since[node, top] = now
    plan.levels[node] = top + 1


@kernel
def fall(node, room, plan):
    """Note that the room on ``node`` falls: no level above it lasts."""
    top, kept, since = plan.levels[node], plan.kept[node], 0
    while top > 0 and plan.room[node, top - 1] > room:
        top -= 1
        since = plan.since[node, top]
    plan.kept[node] = min(kept, top)
    if room > 0 and (top == 0 or plan.room[node, top - 1] < room):
        plan.room[node, top] = room
        plan.since[node, top] = since
        if top < kept:
            plan.kept[node] = top + 1
        top += 1
    plan.levels[node] = top
    plan.least[node] = min(plan.least[node], room)


@kernel
def move_on(cluster, nodes, plan):
    """Move to the next start at which some node has more room; return it and how much."""
    start, more = NO_START, 0
    for node in range(nodes.first[cluster], nodes.first[cluster + 1]):
        if plan.kept[node] < plan.levels[node]:
            start = min(start, plan.since[node, plan.kept[node]])
    for node in range(nodes.first[cluster], nodes.first[cluster + 1]):
        if plan.kept[node] < plan.levels[node] and plan.since[node, plan.kept[node]] == start:
            room = plan.room[node, plan.kept[node]]
            more += room - plan.least[node]
            plan.least[node] = room
            plan.kept[node] += 1
    return start, more


@kernel
def settle_on(row, cluster, nodes, plan):
    """Choose the first nodes that keep room for a job; take nothing yet.

    They keep it from the start that was last found in ``cluster``.
    """
    needed, at, node = nodes.requests.chunks[row], nodes.begin[row], nodes.first[cluster]
    while needed > 0:
        room = min(plan.least[node], needed)
        if room > 0:
            nodes.node[at] = node
            nodes.chunk[at] = room
            at += 1
            needed -= room
        node += 1
    nodes.held[row] = at - nodes.begin[row]
    nodes.cluster[row] = cluster


@kernel
def seat(row, seconds, begin, latest, nodes, plan):
    """Choose nodes for the earliest start of a job; return the start, or NO_START.

    It is from ``begin`` to ``latest``, in the first such cluster. The job is not put into the plan.
    """
    best, start = NOWHERE, NO_START
    for cluster in range(len(nodes.first) - 1):
        if start > begin:
            start_here_s = earliest(row, seconds, begin, min(latest, start - 1), cluster, nodes, plan)
            if start_here_s < start:
                best, start = cluster, start_here_s
    if best != NOWHERE:
        settle_on(row, best, nodes, plan)
    return start
