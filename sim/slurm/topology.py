"""Choices of nodes other than the tightest fit: least loaded nodes, or few switches.

From cons_tres/job_test.c, ``_eval_nodes_lln`` and ``_eval_nodes_topo``.
"""

from __future__ import annotations

from features.jit import apart, kernel
from sim.slurm.state import LOW, NONE, SHIFT, TRIED

FAR = 1 << 30
"""The distance between switches that are not connected."""
_NEED, _BUDGET, _NODES, _MOST, _CHOSEN = range(5)
"""Slots of ``left``: processors needed, processors that further nodes may take, nodes needed, max nodes, nodes chosen."""


@apart
def choose_otherwise(job, nodes, small, slurm):
    """Choose ``nodes`` among those with more than ``small`` processors; return how many.

    Return 0 if they do not suffice.
    """
    ask, room = slurm.ask, slurm.room
    most = min(ask.max_nodes[job] if ask.max_nodes[job] > 0 else len(room.room), max(ask.cpus[job], ask.min_nodes[job]))
    left = room.left
    left[_NEED] = left[_BUDGET] = ask.cpus[job]
    left[_NODES], left[_MOST], left[_CHOSEN] = min(nodes, most), most, 0
    for node in range(len(room.room)):
        room.first[node] = room.room[node] > small
    if slurm.hardware.least_loaded[slurm.numbers[TRIED]] != 0:
        _take_least_loaded(job, left, slurm)
    else:
        _take_by_switches(job, left, slurm)
    return left[_CHOSEN] if _is_done(left) else 0


@kernel
def _is_done(left):
    return left[_NODES] <= 0 and left[_NEED] <= 0


@kernel
def _take(job, node, left, slurm):
    """Take a node with all its room, but leave one processor for each further node."""
    room = slurm.room
    take = room.room[node]
    if slurm.ask.exclusive[job] == 0:
        take = min(take, max(left[_BUDGET] - max(left[_NODES] - 1, 0), 1))
    room.chosen[left[_CHOSEN]], room.take[left[_CHOSEN]], room.first[node] = node, take, 0
    left[_NEED] -= take
    left[_BUDGET] -= take
    left[_NODES] -= 1
    left[_MOST] -= 1
    left[_CHOSEN] += 1


@kernel
def _take_least_loaded(job, left, slurm):
    """Take the lightest nodes first, and of these the largest share of free processors."""
    room, cpus, weight = slurm.room, slurm.hardware.cpus, slurm.hardware.weight
    while left[_MOST] > 0 and not _is_done(left):
        best = NONE
        for node in range(len(room.room)):
            if room.first[node] != 0 and (
                best == NONE
                or weight[node] < weight[best]
                or (weight[node] == weight[best] and room.room[node] * cpus[best] > room.room[best] * cpus[node])
            ):
                best = node
        if best == NONE:
            break
        _take(job, best, left, slurm)


@apart
def _take_by_switches(job, left, slurm):
    """Take nodes of the sufficient leaf switch with fewest nodes, or of several near switches.

    Nodes lighter than the heaviest needed weight are taken first, then more nodes of their switches.
    """
    ask, room, hardware = slurm.ask, slurm.room, slurm.hardware
    switches = len(hardware.switch_level)
    top = _top_switch(ask.min_nodes[job], slurm)
    if top == NONE:
        return
    heaviest = _restrict_to(top, ask.min_nodes[job], ask.cpus[job], slurm)
    required, distance, count = room.required, room.distance, room.joined
    for switch in range(switches):
        required[switch], distance[switch], count[switch] = 0, 0, _count_on(switch, slurm)
    for node in range(len(room.room)):
        if room.first[node] != 0 and hardware.weight[node] < heaviest and left[_MOST] > 0:
            _take(job, node, left, slurm)
            for switch in range(switches):
                if _is_on(node, switch, hardware):
                    required[switch] = 1
    for switch in range(switches):
        if required[switch] != 0:
            for other in range(switches):
                distance[other] = min(distance[other] + hardware.switch_distance[switch, other], FAR)
            if hardware.switch_level[switch] == 0:
                _take_on(job, switch, left, slurm)
                count[switch] = 0
    while left[_MOST] > 0 and not _is_done(left):
        best = NONE
        for switch in range(switches):
            if hardware.switch_level[switch] == 0 and required[switch] == 0 and count[switch] > 0 and distance[switch] < FAR:
                if best == NONE:
                    best = switch
                    continue
                better = _compare_switches(switch, best, left[_NODES], count, hardware)
                if (distance[switch] < distance[best] and better >= 0) or (distance[switch] == distance[best] and better > 0):
                    best = switch
        if best == NONE:
            break
        for other in range(switches):
            distance[other] = min(distance[other] + hardware.switch_distance[best, other], FAR)
        _take_on(job, best, left, slurm)
        count[best] = 0


@kernel
def _is_on(node, switch, hardware):
    return hardware.switch_nodes[switch, node >> SHIFT] >> (node & LOW) & 1 != 0


@kernel
def _count_on(switch, slurm):
    count = 0
    for node in range(len(slurm.room.room)):
        count += slurm.room.first[node] != 0 and _is_on(node, switch, slurm.hardware)
    return count


@kernel
def _take_on(job, switch, left, slurm):
    """Take the nodes of a switch in their order, until the job has enough."""
    for node in range(len(slurm.room.room)):
        if left[_MOST] > 0 and not _is_done(left) and slurm.room.first[node] != 0 and _is_on(node, switch, slurm.hardware):
            _take(job, node, left, slurm)


@kernel
def _top_switch(nodes, slurm):
    """Return the highest switch with enough nodes and a lightest node; NONE without one."""
    room, hardware, top, lightest = slurm.room, slurm.hardware, NONE, 0
    for switch in range(len(hardware.switch_level)):
        light = NONE
        for node in range(len(room.room)):
            if room.first[node] != 0 and _is_on(node, switch, hardware) and (light == NONE or hardware.weight[node] < light):
                light = hardware.weight[node]
        if light == NONE or _count_on(switch, slurm) < nodes:
            continue
        if top == NONE or (hardware.switch_level[switch] >= hardware.switch_level[top] and light <= lightest):
            top, lightest = switch, light
    return top


@kernel
def _restrict_to(top, nodes, cpus, slurm):
    """Keep the lightest nodes of a switch that suffice; return the weight of the heaviest."""
    room, hardware, heaviest, count, total = slurm.room, slurm.hardware, NONE, 0, 0
    while count < nodes or total < cpus:
        lightest = NONE
        for node in range(len(room.room)):
            weight = hardware.weight[node]
            if (
                room.first[node] != 0
                and _is_on(node, top, hardware)
                and weight > heaviest
                and (lightest == NONE or weight < lightest)
            ):
                lightest = weight
        if lightest == NONE:
            break
        heaviest = lightest
        for node in range(len(room.room)):
            if room.first[node] != 0 and _is_on(node, top, hardware) and hardware.weight[node] == heaviest:
                count, total = count + 1, total + room.room[node]
    for node in range(len(room.room)):
        if not _is_on(node, top, hardware) or hardware.weight[node] > heaviest:
            room.first[node] = 0
    return heaviest


@kernel
def _compare_switches(one, other, nodes, count, hardware):
    """Tell whether a switch is better (1), as good (0) or worse (-1) than another.

    As in ``_topo_compare_switches``: of two switches that suffice, the one with fewer nodes is better. If neither does, the
    switches above them are compared in the same way; without such switches, more nodes are better.
    """
    while True:
        fits, other_fits = count[one] >= nodes, count[other] >= nodes
        if fits and other_fits and count[one] != count[other]:
            return 1 if count[one] < count[other] else -1
        if fits != other_fits:
            return 1 if fits else -1
        above, other_above = hardware.switch_parent[one], hardware.switch_parent[other]
        if fits or above == other_above or (above == one and other_above == other):
            break
        one, other = above, other_above
    if count[one] != count[other]:
        return 1 if count[one] > count[other] else -1
    return int(hardware.switch_level[one] < hardware.switch_level[other]) - int(
        hardware.switch_level[one] > hardware.switch_level[other]
    )
