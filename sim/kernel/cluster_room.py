"""Where a job has room on clusters: now, or behind the head of the queue under EASY.

The shadow time is the earliest predicted end by which the head fits into a cluster. No nodes are set aside for it: a
job that runs beyond the shadow time may take what room the head can spare in its whole cluster.
"""

from __future__ import annotations

from features.jit import apart, kernel
from sim.kernel.clusters import (
    GAINS,
    MOST_GAINS,
    RESERVATIONS,
    RESERVED_FOR,
    RESERVED_IN,
    SHADOW_AT,
    TAKES,
    UNKNOWN,
    choose_now,
    closed,
    start_planned,
)
from sim.kernel.state import FREE, NEVER, PLANS
from sim.machine.nodes import NO_LIMIT, NOWHERE, change, fits, room_on, take_on, within_limits


@kernel
def first_room(job, clusters):
    """Return the first cluster in which ``job`` fits now, or NOWHERE."""
    nodes, refusals, gains = clusters.nodes, clusters.refusals, clusters.numbers[GAINS]
    row = nodes.row[job]
    kind = refusals.kind[row]
    if refusals.refused[kind] == gains:
        return NOWHERE
    if refusals.fitted[kind] == gains + clusters.numbers[TAKES]:
        return refusals.room[kind]
    return look_for_room(row, kind, clusters)


@apart
def look_for_room(row, kind, clusters):
    """Return the first cluster in which a job fits now, or NOWHERE.

    The result is noted in ``Refusals`` for all jobs of its kind.
    """
    nodes, refusals = clusters.nodes, clusters.refusals
    note_gains(row, kind, clusters)
    chunks, begin, counted = nodes.requests.chunks[row], len(nodes.free), 0
    if refusals.most[kind] >= chunks:
        for cluster in range(len(nodes.first) - 1):
            if nodes.requests.eligible[row] >> cluster & 1 == 0:
                continue
            if not within_limits(row, cluster, nodes, nodes.left):
                begin = min(begin, nodes.first[cluster])
                continue
            room, node = 0, max(nodes.first[cluster], refusals.begin[kind])
            while room < chunks and node < nodes.first[cluster + 1]:
                more = room_on(node, row, nodes, nodes.free)
                if more > 0:
                    begin = min(begin, node)
                room += more
                node += 1
            counted += room
            if room >= chunks:
                refusals.begin[kind], refusals.most[kind] = max(refusals.begin[kind], begin), NEVER
                refusals.fitted[kind] = clusters.numbers[GAINS] + clusters.numbers[TAKES]
                refusals.room[kind] = cluster
                return cluster
        refusals.begin[kind], refusals.most[kind] = max(refusals.begin[kind], begin), min(counted, chunks - 1)
    refusals.refused[kind] = clusters.numbers[GAINS]
    return NOWHERE


@kernel
def note_gains(row, kind, clusters):
    """Note how many more chunks of a job may have room since the last look, and where.

    Only nodes given back since then are looked at.
    """
    nodes, refusals, gains = clusters.nodes, clusters.refusals, clusters.numbers[GAINS]
    since = refusals.looked[kind]
    refusals.looked[kind] = gains
    if since == UNKNOWN or gains - since > min(MOST_GAINS, len(refusals.gained)):
        refusals.begin[kind], refusals.most[kind] = 0, NEVER
        return
    for gain in range(since, gains):
        other = refusals.gained[gain % len(refusals.gained)]
        if nodes.requests.eligible[row] >> nodes.cluster[other] & 1 == 0:
            continue
        for at in range(nodes.begin[other], nodes.begin[other] + nodes.held[other]):
            more = room_on(nodes.node[at], row, nodes, nodes.free)
            if more > 0:
                refusals.begin[kind] = min(refusals.begin[kind], nodes.node[at])
                refusals.most[kind] += more
        for column in range(nodes.requests.limit.shape[1]):
            limit = nodes.requests.limit[row, column]
            if limit != NO_LIMIT and limit == nodes.requests.limit[other, column]:
                refusals.most[kind] = NEVER


@kernel
def fits_somewhere(job, jobs, state, clusters):
    """Tell whether ``job`` fits now, on clusters or on the single pool."""
    if clusters is None:
        return jobs.procs[job] <= state.counters[FREE]
    return first_room(job, clusters) != NOWHERE


@kernel
def known_to_wait(kind, fit, now, clusters):
    """Tell whether jobs of a kind are known to have no room now.

    Also if they have none beside the reservation and this job would run beyond the shadow time.
    """
    numbers, refusals = clusters.numbers, clusters.refusals
    return refusals.refused[kind] == numbers[GAINS] or (
        refusals.beside[kind] == numbers[RESERVATIONS] + numbers[TAKES] and now + fit > numbers[SHADOW_AT]
    )


@apart
def start_behind(head, job, now, jobs, estimates, state, clusters, bits):
    """Start ``job`` in the first cluster where it fits now and does not delay ``head``.

    Return whether a cluster was found.
    """
    nodes, ahead, numbers = clusters.nodes, clusters.ahead, clusters.numbers
    row, last = nodes.row[job], len(nodes.first) - 1
    cluster = first_room(job, clusters)
    if cluster == NOWHERE or closed(job, estimates.fit[job], now, clusters):
        return False
    if numbers[RESERVED_FOR] != head + 1:
        reserve_ahead(head, bits, state, clusters)
    head_row = nodes.row[head]
    beside = cluster == numbers[RESERVED_IN] and now + estimates.fit[job] > numbers[SHADOW_AT]
    if beside and not choose_beside(row, head_row, cluster, clusters):
        beside = False
        cluster += 1
        while cluster < last and not fits(row, cluster, nodes, nodes.free, nodes.left):
            cluster += 1
    if cluster == last:
        clusters.refusals.beside[clusters.refusals.kind[row]] = numbers[RESERVATIONS] + numbers[TAKES]
        return False
    if beside:
        before = room_on_its_nodes(row, head_row, nodes, ahead.free)
        change(row, -1, nodes, ahead.free, ahead.left)
        ahead.room[cluster] += room_on_its_nodes(row, head_row, nodes, ahead.free) - before
    else:
        choose_now(row, cluster, clusters)
    start_planned(job, now, jobs, estimates, state, clusters, bits)
    return True


@kernel
def choose_beside(row, head_row, cluster, clusters):
    """Choose nodes for a job beside the head; return whether there are enough.

    The job runs beyond the shadow time. It takes the first nodes with room on which it leaves enough for the head, and
    may take what room the head can spare in the whole cluster.
    """
    nodes, ahead, requests = clusters.nodes, clusters.ahead, clusters.nodes.requests
    for kind in range(requests.limit.shape[1]):
        limit = requests.limit[head_row, kind]
        weight = requests.weight[row, kind] if requests.limit[row, kind] == limit else 0
        if limit != NO_LIMIT and ahead.left[cluster, limit] < requests.weight[head_row, kind] + weight:
            return False
    at, needed, spare = nodes.begin[row], requests.chunks[row], ahead.room[cluster] - requests.chunks[head_row]
    node = max(nodes.first[cluster], clusters.refusals.begin[clusters.refusals.kind[row]])
    while needed > 0 and node < nodes.first[cluster + 1]:
        room = min(room_on(node, row, nodes, nodes.free), needed)
        heads = room_on(node, head_row, nodes, ahead.free) if room > 0 else 0
        if heads > spare:
            take_on(node, head_row, -1, heads - spare, nodes, ahead.free)
            room = min(room, room_on(node, row, nodes, ahead.free))
            take_on(node, head_row, 1, heads - spare, nodes, ahead.free)
        if room > 0:
            nodes.node[at], nodes.chunk[at] = node, room
            at += 1
            needed -= room
            if heads > 0:
                take_on(node, row, -1, room, nodes, ahead.free)
                spare -= heads - room_on(node, head_row, nodes, ahead.free)
                take_on(node, row, 1, room, nodes, ahead.free)
        node += 1
    nodes.held[row], nodes.cluster[row] = at - nodes.begin[row], cluster
    return needed == 0


@apart
def reserve_ahead(head, bits, state, clusters):
    """Reserve for the ``head``; with cluster NOWHERE at NEVER if no known time does.

    The shadow time is the earliest predicted end after which it fits into a cluster; all jobs predicted to end in that
    very second count as ended. ``Clusters.ahead`` is what the head finds then.
    """
    nodes, ahead, numbers, head_row = clusters.nodes, clusters.ahead, clusters.numbers, clusters.nodes.row[head]
    numbers[RESERVED_FOR], numbers[RESERVED_IN], numbers[SHADOW_AT] = head + 1, NOWHERE, NEVER
    for node in range(len(nodes.free)):
        for resource in range(nodes.free.shape[1]):
            ahead.free[node, resource] = nodes.free[node, resource]
    for cluster in range(len(nodes.left)):
        for limit in range(nodes.left.shape[1]):
            ahead.left[cluster, limit] = nodes.left[cluster, limit]
        ahead.room[cluster] = 0
        if nodes.requests.eligible[head_row] >> cluster & 1 != 0:
            for node in range(nodes.first[cluster], nodes.first[cluster + 1]):
                ahead.room[cluster] += room_on(node, head_row, nodes, ahead.free)
    i = 0
    while i < state.counters[PLANS]:
        shadow = state.plan[i] >> bits
        while i < state.counters[PLANS] and state.plan[i] >> bits == shadow:
            row = nodes.row[state.running[state.plan[i] & ((1 << bits) - 1)]]
            i += 1
            if nodes.requests.eligible[head_row] >> nodes.cluster[row] & 1 == 0:
                continue
            more = -room_on_its_nodes(row, head_row, nodes, ahead.free)
            change(row, 1, nodes, ahead.free, ahead.left)
            ahead.room[nodes.cluster[row]] += more + room_on_its_nodes(row, head_row, nodes, ahead.free)
        for cluster in range(len(nodes.left)):
            if (
                nodes.requests.eligible[head_row] >> cluster & 1 != 0
                and ahead.room[cluster] >= nodes.requests.chunks[head_row]
                and within_limits(head_row, cluster, nodes, ahead.left)
            ):
                numbers[RESERVED_IN], numbers[SHADOW_AT] = cluster, shadow
                return


@kernel
def room_on_its_nodes(other, row, nodes, free):
    """Return how many chunks of job ``row`` have room on the nodes of job ``other``."""
    room = 0
    for at in range(nodes.begin[other], nodes.begin[other] + nodes.held[other]):
        room += room_on(nodes.node[at], row, nodes, free)
    return room
