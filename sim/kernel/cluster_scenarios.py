"""Scenarios on a machine of clusters: when the head could start, and what delays it.

The questions of :mod:`sim.kernel.scenarios` about the one pool, with the same answers on one cluster of one node. In scenario k
running jobs give back what they hold at their ends there, all that end at one second together. The head starts as soon as it fits
into a cluster, in the first of these, on the first nodes with room: these are its nodes in k. A job delays it by what it holds on
the nodes that it would take now. It could itself start beside the head as soon as it fits into what the head's nodes leave, from now on.
"""

from __future__ import annotations

from features.jit import apart, kernel
from sim.kernel.cluster_passes import reserve_ahead, room_on_its_nodes
from sim.kernel.clusters import HEAD, RESERVED_IN, SHADOW_AT
from sim.kernel.scenarios import FOUND, FOUND_AT, FOUND_FOR, LISTED, NEVER, POSITION, STAMP, START, STARTS
from sim.machine.nodes import NOWHERE, change, choose, fits, room_on, within_limits

UNKNOWN = -1
"""Value in ``Tables.delayed``: not asked for yet."""


@apart
def find_head_starts_on_nodes(head, now, scenarios, clusters):
    """Find when, and on which nodes, ``head`` could start in each scenario."""
    nodes, numbers, tables, row = clusters.nodes, scenarios.numbers, scenarios.tables, clusters.nodes.row[head]
    numbers[STAMP] += 1
    numbers[STARTS] = 0
    count_room(row, nodes, nodes.free, tables.spare_room)
    for k in range(scenarios.head.shape[1]):
        free, left, room, beside = tables.free[k], tables.left[k], tables.room[k], tables.beside[k]
        copy(nodes.free, free)
        copy(nodes.left, left)
        for cluster in range(len(room)):
            room[cluster] = tables.spare_room[cluster]
        start, i = first_fit(k, 0, now, NEVER, row, scenarios, nodes, free, left, room)
        scenarios.head[START, k] = start
        scenarios.head[POSITION, k] = i
        numbers[STARTS] += start
        choose(row, first_with_room(row, nodes, left, room), nodes, free)
        copy(nodes.free, beside)
        copy(nodes.left, tables.beside_left[k])
        change(row, -1, nodes, beside, tables.beside_left[k])


@kernel
def copy(table, other):
    """Copy ``table`` to ``other``."""
    for i in range(table.shape[0]):
        for j in range(table.shape[1]):
            other[i, j] = table[i, j]


@kernel
def count_room(row, nodes, free, room):
    """Count the chunks of a job for which each cluster has room."""
    for cluster in range(len(room)):
        room[cluster] = 0
        if nodes.requests.eligible[row] >> cluster & 1 != 0:
            for node in range(nodes.first[cluster], nodes.first[cluster + 1]):
                room[cluster] += room_on(node, row, nodes, free)


@kernel
def first_with_room(row, nodes, left, room):
    """Return the first cluster in which a job fits by the ``room`` counted, or NOWHERE."""
    for cluster in range(len(room)):
        if (
            nodes.requests.eligible[row] >> cluster & 1 != 0
            and room[cluster] >= nodes.requests.chunks[row]
            and within_limits(row, cluster, nodes, left)
        ):
            return cluster
    return NOWHERE


@kernel
def first_fit(k, i, start, before, row, scenarios, nodes, free, left, room):
    """Give back what ends in scenario k, from the i-th end on, until a job fits; return when.

    And the number of the next end. It fits from ``start`` on if nothing has to end; NEVER if not ``before`` a second.
    """
    ends, owner, listed = scenarios.ends, scenarios.owner, scenarios.numbers[LISTED]
    while first_with_room(row, nodes, left, room) == NOWHERE:
        if i == listed or ends[k, i] >= before:
            return NEVER, i
        start = ends[k, i]
        while i < listed and ends[k, i] == start:
            other = nodes.row[owner[k, i]]
            i += 1
            cluster = nodes.cluster[other]
            if nodes.requests.eligible[row] >> cluster & 1 != 0:
                room[cluster] -= room_on_its_nodes(other, row, nodes, free)
                change(other, 1, nodes, free, left)
                room[cluster] += room_on_its_nodes(other, row, nodes, free)
    return start, i


@apart
def mean_delay_on_nodes(head, job, cluster, now, weight, most, scenarios, clusters):
    """Return the head's mean delay in seconds if ``job`` starts now in ``cluster``.

    Or a part of it that alone, times ``weight``, is above ``most``.
    """
    starts, delayed, nodes = scenarios.head, scenarios.tables.delayed, clusters.nodes
    asked = clusters.known.kind[nodes.row[job]] * (len(nodes.first) - 1) + cluster
    at, delays, chosen = asked & (len(delayed) - 1), 0, False
    if delayed[at, FOUND_AT] != scenarios.numbers[STAMP] or delayed[at, FOUND_FOR] != asked:
        delayed[at, FOUND_AT] = scenarios.numbers[STAMP]
        delayed[at, FOUND_FOR] = asked
        for k in range(starts.shape[1]):
            delayed[at, FOUND + k] = UNKNOWN
    for k in range(starts.shape[1]):
        end = now + scenarios.seconds[job, k]
        if end > starts[START, k]:
            if delayed[at, FOUND + k] == UNKNOWN:
                if not chosen:
                    chosen = choose(nodes.row[job], cluster, nodes, nodes.free)
                delayed[at, FOUND + k] = start_behind(k, nodes.row[head], nodes.row[job], scenarios, nodes)
            delays += min(delayed[at, FOUND + k], end) - starts[START, k]
            if delays / starts.shape[1] * weight > most:
                break
    return delays / starts.shape[1]


@kernel
def start_behind(k, head_row, row, scenarios, nodes):
    """Return when the head could start if a job never left the nodes that are chosen for it."""
    tables, cluster, start = scenarios.tables, nodes.cluster[row], scenarios.head[START, k]
    if nodes.requests.eligible[head_row] >> cluster & 1 == 0:
        return start
    free, left, room = tables.free[k], tables.left[k], tables.spare_room
    for each in range(len(room)):
        room[each] = tables.room[k, each]
    room[cluster] -= room_on_its_nodes(row, head_row, nodes, free)
    change(row, -1, nodes, free, left)
    room[cluster] += room_on_its_nodes(row, head_row, nodes, free)
    if first_with_room(head_row, nodes, left, room) == NOWHERE:
        copy(free, tables.spare)
        copy(left, tables.spare_left)
        start, _ = first_fit(
            k, scenarios.head[POSITION, k], start, NEVER, head_row, scenarios, nodes, tables.spare, tables.spare_left, room
        )
    change(row, 1, nodes, free, left)
    return start


@apart
def mean_wait_else_on_nodes(head, job, now, scenarios, clusters):
    """Return the mean time until ``job`` could start beside or after the head."""
    until, row = scenarios.until, clusters.nodes.row[job]
    kind = clusters.known.kind[row]
    at, waits = kind & (len(until) - 1), 0
    known = until[at, FOUND_AT] == scenarios.numbers[STAMP] and until[at, FOUND_FOR] == kind
    until[at, FOUND_AT] = scenarios.numbers[STAMP]
    until[at, FOUND_FOR] = kind
    for k in range(scenarios.head.shape[1]):
        if not known:
            until[at, FOUND + k] = fits_beside(k, head, row, now, scenarios, clusters.nodes)
        waits += max(until[at, FOUND + k], now) - now
    return waits / scenarios.head.shape[1]


@kernel
def fits_beside(k, head, row, now, scenarios, nodes):
    """Return when a job fits beside the head's nodes, or the head has ended."""
    tables, headed = scenarios.tables, scenarios.head[START, k] + scenarios.seconds[head, k]
    copy(tables.beside[k], tables.spare)
    copy(tables.beside_left[k], tables.spare_left)
    count_room(row, nodes, tables.spare, tables.spare_room)
    start, _ = first_fit(k, 0, now, headed, row, scenarios, nodes, tables.spare, tables.spare_left, tables.spare_room)
    return min(start, headed)


@kernel
def longest_wait_else(head, now, scenarios):
    """Return the mean time until the head has ended: no job has to wait longer for its nodes."""
    starts, waits = scenarios.head, 0
    for k in range(starts.shape[1]):
        waits += starts[START, k] + scenarios.seconds[head, k] - now
    return waits / starts.shape[1]


@apart
def easy_would_start_on_nodes(head, job, cluster, now, jobs, state, clusters, bits):
    """Tell whether EASY by requested times would let ``job`` start in ``cluster``.

    It would where the head, which does not fit now, could still start when it can without the job.
    """
    nodes, ahead, numbers, row = clusters.nodes, clusters.ahead, clusters.numbers, clusters.nodes.row[job]
    if numbers[HEAD] != head + 1:
        reserve_ahead(head, bits, state, clusters)
    if cluster != numbers[RESERVED_IN] or now + jobs.requested[job] <= numbers[SHADOW_AT]:
        return True
    choose(row, cluster, nodes, nodes.free)
    change(nodes.row[head], 1, nodes, ahead.free, ahead.left)
    change(row, -1, nodes, ahead.free, ahead.left)
    fitting = False
    for other in range(len(nodes.first) - 1):
        fitting = fitting or fits(nodes.row[head], other, nodes, ahead.free, ahead.left)
    change(row, 1, nodes, ahead.free, ahead.left)
    change(nodes.row[head], -1, nodes, ahead.free, ahead.left)
    return fitting
