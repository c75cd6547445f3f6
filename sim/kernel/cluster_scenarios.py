"""Scenarios on a machine of clusters: when the head could start, and what delays it.

The questions are those of :mod:`sim.kernel.scenarios` about the single pool; one cluster of one node gives the same
answers. In scenario k running jobs free their nodes at their ends in k, all jobs that end in one second together. The
head starts as soon as it fits into a cluster, in the first such cluster and on the first nodes with room: these are its
nodes in k. A job delays the head by what it would hold on the nodes that it would take now. It could start beside the
head once it fits into what is left.

The ends of a scenario are applied to the node tables and undone: copies for each scenario take several times as long. A
job that shares no node frees the same room in each scenario, which is counted once. Scenarios that cannot change a
decision are skipped.
"""

from __future__ import annotations

from typing import NamedTuple

from features.jit import apart, kernel
from sim.kernel.cluster_room import reserve_ahead
from sim.kernel.clusters import RESERVED_FOR, RESERVED_IN, SHADOW_AT, choose_now
from sim.kernel.scenarios import AVAILABLE, FOUND, FOUND_AT, FOUND_FOR, LISTED, OUT_OF_REACH, POSITION, STAMP, START, STARTS
from sim.machine.nodes import NO_LIMIT, NOWHERE, change, choose, fits, room_on, take, within_limits

UNKNOWN = -1
"""Value in ``Tables.delayed``: not computed yet; in ``Room.gain``: to be computed on the job's nodes."""

WIDE = 3
"""Min nodes of a job for which counting the room it frees once is faster than doing so in each scenario."""

NO_JOB, SEVERAL = -1, -2
"""Values in ``Tables.sole``: no running job on the node, more than one."""


@apart
def find_head_starts_on_nodes(head, now, scenarios, clusters):
    """Find when, and in which cluster, ``head`` could start in each scenario."""
    nodes, numbers, room, row = clusters.nodes, scenarios.numbers, scenarios.tables.head, clusters.nodes.row[head]
    numbers[STAMP] += 1
    numbers[STARTS] = 0
    count_room(row, nodes, room)
    count_gains(row, scenarios, nodes, room)
    for k in range(scenarios.head.shape[1]):
        start, ended = first_fit(k, now, OUT_OF_REACH, row, scenarios, nodes, room)
        cluster = first_with_room(row, nodes, room)
        scenarios.head[START, k] = start
        scenarios.head[POSITION, k] = cluster
        scenarios.head[AVAILABLE, k] = room.total[cluster] - nodes.requests.chunks[row]
        numbers[STARTS] += start
        take_back(k, ended, row, scenarios, nodes, room)


@kernel
def count_room(row, nodes, room):
    """Count the chunks of a job that have room on each node and in each cluster."""
    for cluster in range(len(room.total)):
        total = 0
        if nodes.requests.eligible[row] >> cluster & 1 != 0:
            for node in range(nodes.first[cluster], nodes.first[cluster + 1]):
                more = room_on(node, row, nodes, nodes.free)
                room.node[node] = room.first[node] = more
                total += more
        room.total[cluster] = room.first_total[cluster] = total


@kernel
def count_gains(row, scenarios, nodes, room):
    """Count, for each running job, how many more chunks of a job have room once it has ended."""
    running, sole, listed, most = scenarios.running, scenarios.tables.sole, scenarios.numbers[LISTED], 0
    for i in range(listed):
        most = max(most, nodes.held[nodes.row[running[i]]])
        room.gain[running[i]] = UNKNOWN
    for node in range(len(sole)):
        sole[node] = NO_JOB
    if most < WIDE:
        return
    for i in range(listed):
        other = nodes.row[running[i]]
        for at in range(nodes.begin[other], nodes.begin[other] + nodes.held[other]):
            node = nodes.node[at]
            sole[node] = running[i] if sole[node] == NO_JOB else SEVERAL
    for i in range(listed):
        room.gain[running[i]] = gained(running[i], row, sole, nodes, room)


@kernel
def gained(job, row, sole, nodes, room):
    """Return how many more chunks of ``row`` have room once ``job`` has ended.

    UNKNOWN if it holds few nodes, shares a node, or counts against a limit; the last two depend on which other jobs
    have ended.
    """
    requests, other, more = nodes.requests, nodes.row[job], 0
    if nodes.held[other] < WIDE:
        return UNKNOWN
    for kind in range(requests.limit.shape[1]):
        if requests.limit[other, kind] != NO_LIMIT:
            return UNKNOWN
    begin, end = nodes.begin[other], nodes.begin[other] + nodes.held[other]
    for at in range(begin, end):
        if sole[nodes.node[at]] != job:
            return UNKNOWN
    take(other, 1, nodes, nodes.free)
    for at in range(begin, end):
        more += room_on(nodes.node[at], row, nodes, nodes.free) - room.node[nodes.node[at]]
    take(other, -1, nodes, nodes.free)
    return more


@kernel
def first_with_room(row, nodes, room):
    """Return the first cluster in which a job fits by the counted room, or NOWHERE."""
    for cluster in range(len(room.total)):
        if room.total[cluster] >= nodes.requests.chunks[row] and within_limits(row, cluster, nodes, nodes.left):
            return cluster
    return NOWHERE


@apart
def first_fit(k, now, before, row, scenarios, nodes, room):
    """End jobs as in scenario k until job ``row`` fits; return when, and how many have ended.

    The time is NEVER if the job does not fit ``before`` that second. Undo the ends with :func:`take_back`.
    """
    ends, owner, listed, start, i = scenarios.ends, scenarios.owner, scenarios.numbers[LISTED], now, 0
    while first_with_room(row, nodes, room) == NOWHERE:
        if i == listed or ends[k, i] >= before:
            return OUT_OF_REACH, i
        start = ends[k, i]
        while i < listed and ends[k, i] == start:
            let_end(owner[k, i], row, nodes, room)
            i += 1
    return start, i


@kernel
def let_end(job, row, nodes, room):
    """End a running job, and update the room for job ``row``."""
    other = nodes.row[job]
    if room.gain[job] == UNKNOWN:
        move(other, 1, row, nodes, room)
    elif nodes.requests.eligible[row] >> nodes.cluster[other] & 1 != 0:
        room.total[nodes.cluster[other]] += room.gain[job]


@kernel
def move(other, sign, row, nodes, room):
    """Give back (``sign`` 1) or take (-1) what a job holds; update the room for job ``row``.

    Nothing happens in a cluster in which job ``row`` may not run.
    """
    cluster = nodes.cluster[other]
    if nodes.requests.eligible[row] >> cluster & 1 != 0:
        change(other, sign, nodes, nodes.free, nodes.left)
        for at in range(nodes.begin[other], nodes.begin[other] + nodes.held[other]):
            node = nodes.node[at]
            counted = room_on(node, row, nodes, nodes.free)
            room.total[cluster] += counted - room.node[node]
            room.node[node] = counted


@kernel
def take_back(k, ended, row, scenarios, nodes, room):
    """Undo the first ``ended`` ends of scenario k."""
    for i in range(ended):
        other = nodes.row[scenarios.owner[k, i]]
        if room.gain[scenarios.owner[k, i]] == UNKNOWN and nodes.requests.eligible[row] >> nodes.cluster[other] & 1 != 0:
            change(other, -1, nodes, nodes.free, nodes.left)
            for at in range(nodes.begin[other], nodes.begin[other] + nodes.held[other]):
                room.node[nodes.node[at]] = room.first[nodes.node[at]]
    for cluster in range(len(room.total)):
        room.total[cluster] = room.first_total[cluster]


@kernel
def put(other, sign, row, nodes, room):
    """Take or give back what a job holds; change the room before any end, too."""
    move(other, sign, row, nodes, room)
    cluster = nodes.cluster[other]
    room.first_total[cluster] = room.total[cluster]
    for at in range(nodes.begin[other], nodes.begin[other] + nodes.held[other]):
        room.first[nodes.node[at]] = room.node[nodes.node[at]]


@kernel
def found_for(key, table, scenarios):
    """Return the row of a table for a key.

    The row is reset to UNKNOWN if it holds another key or is older than the head's starts.
    """
    at = key & (len(table) - 1)
    if table[at, FOUND_AT] != scenarios.numbers[STAMP] or table[at, FOUND_FOR] != key:
        table[at, FOUND_AT] = scenarios.numbers[STAMP]
        table[at, FOUND_FOR] = key
        for k in range(scenarios.head.shape[1]):
            table[at, FOUND + k] = UNKNOWN
    return at


class Offer(NamedTuple):
    """A job that would pass the head of the queue: rows of both, and what its start is worth.

    ``gain`` grows by ``worth`` for each second that the job would wait otherwise; a second of the head's delay costs
    ``weight``. All are in processor-seconds.
    """

    head: int
    job: int
    gain: float
    worth: float
    weight: float


@apart
def mean_delay_on_nodes(offer, cluster, now, most, scenarios, clusters):
    """Return the head's mean delay in seconds if the job starts now in ``cluster``.

    If the harm is at most the gain, or above ``most``, another delay of which that is true may be returned.
    """
    head, job, least, weight = offer.head, offer.job, offer.gain, offer.weight
    starts, delayed, nodes, room = scenarios.head, scenarios.tables.delayed, clusters.nodes, scenarios.tables.head
    row, head_row, count = nodes.row[job], nodes.row[head], scenarios.head.shape[1]
    at = found_for(clusters.refusals.kind[row] * (len(nodes.first) - 1) + cluster, delayed, scenarios)
    delays, longest, lost, taken = 0, 0, UNKNOWN, False
    for k in range(count):
        longest += max(now + scenarios.seconds[job, k] - starts[START, k], 0)
    for k in range(count):
        if delays / count * weight > most or longest / count * weight <= least:
            break
        end = now + scenarios.seconds[job, k]
        if end <= starts[START, k]:
            continue
        if delayed[at, FOUND + k] == UNKNOWN and starts[POSITION, k] != cluster:
            delayed[at, FOUND + k] = starts[START, k]
        if delayed[at, FOUND + k] == UNKNOWN:
            if lost == UNKNOWN:
                choose_now(row, cluster, clusters)
                lost = most_lost(row, head_row, nodes)
            if starts[AVAILABLE, k] >= lost:
                delayed[at, FOUND + k] = starts[START, k]
            else:
                if not taken:
                    put(row, -1, head_row, nodes, room)
                    look_up_beside(row, head_row, True, scenarios.tables.sole, nodes, room)
                    taken = True
                delayed[at, FOUND + k], ended = first_fit(k, now, OUT_OF_REACH, head_row, scenarios, nodes, room)
                take_back(k, ended, head_row, scenarios, nodes, room)
        delays += min(delayed[at, FOUND + k], end) - starts[START, k]
        longest -= end - min(delayed[at, FOUND + k], end)
    if taken:
        put(row, 1, head_row, nodes, room)
        look_up_beside(row, head_row, False, scenarios.tables.sole, nodes, room)
    return longest / count if longest / count * weight <= least else delays / count


@kernel
def look_up_beside(row, head_row, placed, sole, nodes, room):
    """Mark the gains of jobs on nodes of ``row`` as UNKNOWN while it is ``placed``.

    Count them again afterwards.
    """
    last = NO_JOB
    for at in range(nodes.begin[row], nodes.begin[row] + nodes.held[row]):
        job = sole[nodes.node[at]]
        if job >= 0 and job != last:
            last = job
            room.gain[job] = UNKNOWN if placed else gained(job, head_row, sole, nodes, room)


@kernel
def most_lost(row, other, nodes):
    """Return an upper bound on the chunks of ``other`` that lose their room to job ``row``.

    The bound holds at any time; NEVER means no bound.
    """
    requests, lost = nodes.requests, 0
    if share_a_limit(row, other, nodes):
        return OUT_OF_REACH
    if requests.apart[other] != 0:
        return nodes.held[row]
    if requests.whole[row] != 0 or requests.whole[other] != 0:
        return OUT_OF_REACH
    for at in range(nodes.begin[row], nodes.begin[row] + nodes.held[row]):
        most = 0
        for resource in range(requests.per_chunk.shape[1]):
            per_chunk = requests.per_chunk[other, resource]
            if per_chunk > 0:
                most = max(most, -(-nodes.chunk[at] * requests.per_chunk[row, resource] // per_chunk))
        lost += most
    return lost


@kernel
def share_a_limit(row, other, nodes):
    """Tell whether both jobs count against the same limit."""
    limit, shared = nodes.requests.limit, False
    for kind in range(limit.shape[1]):
        shared = shared or (limit[row, kind] != NO_LIMIT and limit[row, kind] == limit[other, kind])
    return shared


@apart
def waits_long_else(offer, now, harm, scenarios, clusters):
    """Tell whether the wait that the job avoids by starting now outweighs its ``harm``.

    The wait is the mean time until it could start beside or after the head: gain + worth * wait must reach ``harm``.
    """
    head, job, gain, worth = offer.head, offer.job, offer.gain, offer.worth
    until, starts, row, count = scenarios.until, scenarios.head, clusters.nodes.row[job], scenarios.head.shape[1]
    at, waits, longest, counted = found_for(clusters.refusals.kind[row], until, scenarios), 0, 0, False
    for k in range(count):
        longest += starts[START, k] + scenarios.seconds[head, k] - now
    for k in range(count):
        if harm <= gain + worth * (waits / count) or harm > gain + worth * (longest / count):
            break
        if until[at, FOUND + k] == UNKNOWN and not counted:
            count_room(row, clusters.nodes, scenarios.tables.other)
            counted = True
        if until[at, FOUND + k] == UNKNOWN:
            until[at, FOUND + k] = fits_beside(k, head, row, now, scenarios, clusters.nodes)
        wait = max(until[at, FOUND + k], now) - now
        waits += wait
        longest -= starts[START, k] + scenarios.seconds[head, k] - now - wait
    return harm <= gain + worth * (waits / count)


@kernel
def fits_beside(k, head, row, now, scenarios, nodes):
    """Return when job ``row`` fits beside the head in scenario k, at most the head's end."""
    tables, head_row, begun = scenarios.tables, nodes.row[head], scenarios.head[START, k]
    headed = begun + scenarios.seconds[head, k]
    let_all_end(k, begun, 1, scenarios, nodes)
    choose(head_row, scenarios.head[POSITION, k], 0, nodes, nodes.free)
    let_all_end(k, begun, -1, scenarios, nodes)
    if fits_apart(row, head_row, nodes, tables.other):
        return now
    put(head_row, -1, row, nodes, tables.other)
    start, ended = first_fit(k, now, headed, row, scenarios, nodes, tables.other)
    take_back(k, ended, row, scenarios, nodes, tables.other)
    put(head_row, 1, row, nodes, tables.other)
    return min(start, headed)


@kernel
def fits_apart(row, other, nodes, room):
    """Tell whether a job fits now on nodes other than those of ``other``.

    False if both jobs count against the same limit.
    """
    cluster = nodes.cluster[other]
    if share_a_limit(row, other, nodes):
        return False
    if nodes.requests.eligible[row] >> cluster & 1 != 0:
        for at in range(nodes.begin[other], nodes.begin[other] + nodes.held[other]):
            room.total[cluster] -= room.node[nodes.node[at]]
    fitting = first_with_room(row, nodes, room) != NOWHERE
    room.total[cluster] = room.first_total[cluster]
    return fitting


@kernel
def let_all_end(k, by, sign, scenarios, nodes):
    """Give back (``sign`` 1) or take (-1) nodes of jobs that end ``by`` then in scenario k."""
    i = 0
    while i < scenarios.numbers[LISTED] and scenarios.ends[k, i] <= by:
        take(nodes.row[scenarios.owner[k, i]], sign, nodes, nodes.free)
        i += 1


@kernel
def longest_wait_else(head, now, scenarios):
    """Return the mean time until the head has ended; no job waits longer for the head's nodes."""
    starts, waits = scenarios.head, 0
    for k in range(starts.shape[1]):
        waits += starts[START, k] + scenarios.seconds[head, k] - now
    return waits / starts.shape[1]


@apart
def easy_would_start_on_nodes(head, job, cluster, now, jobs, state, clusters, bits):
    """Tell whether EASY by requested times would let ``job`` start in ``cluster``.

    The head does not fit now. EASY starts the job if the head could still start at its shadow time.
    """
    nodes, ahead, numbers, row = clusters.nodes, clusters.ahead, clusters.numbers, clusters.nodes.row[job]
    if numbers[RESERVED_FOR] != head + 1:
        reserve_ahead(head, bits, state, clusters)
    if cluster != numbers[RESERVED_IN] or now + jobs.requested[job] <= numbers[SHADOW_AT]:
        return True
    choose_now(row, cluster, clusters)
    change(row, -1, nodes, ahead.free, ahead.left)
    fitting = False
    for other in range(len(nodes.first) - 1):
        fitting = fitting or fits(nodes.row[head], other, nodes, ahead.free, ahead.left)
    change(row, 1, nodes, ahead.free, ahead.left)
    return fitting
