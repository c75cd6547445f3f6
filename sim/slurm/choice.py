"""Choice of nodes: select/cons_tres.

From cons_common/job_test.c and cons_tres/job_test.c, ``_eval_nodes``.
"""

from __future__ import annotations

from features.jit import apart, kernel
from sim.slurm import slots
from sim.slurm.state import LOW, SHIFT


@kernel
def room_on(job, node, slurm, cpus, memory, gpus):
    """Return the number of processors that ``job`` may take on ``node``, given what is left."""
    ask, hardware = slurm.ask, slurm.hardware
    if gpus[node] < ask.gpus[job] or not holds(hardware.suits[ask.suits[job]], node):
        return 0
    room = cpus[node]
    if ask.exclusive[job] != 0 and room < hardware.cpus[node]:
        return 0
    if slurm.rules.memory:
        if ask.memory_node[job] > 0:
            if ask.memory_node[job] > memory[node]:
                return 0
        elif ask.memory_cpu[job] * room > memory[node] and ask.exclusive[job] == 0:
            room = memory[node] // ask.memory_cpu[job]
    if ask.max_nodes[job] == 1 and room < ask.cpus[job]:
        return 0
    return min(room, ask.most_there[job]) if ask.most_there[job] > 0 else room


@apart
def pick(job, mask, slurm, idle, cpus, memory, gpus):
    """Choose nodes of ``mask`` for ``job``; return how many, 0 if it does not fit.

    The nodes are in ``slurm.room.chosen``, their processors in ``take``. Nodes outside ``idle`` have no free
    processors. On failure the nodes with fewest processors are left out, and the choice is tried again.
    """
    ask, room, able = slurm.ask, slurm.room.room, slurm.room.able
    largest, total, count = 0, 0, 0
    for node in range(len(room)):
        room[node] = 0
    for word in range(len(mask)):
        left = mask[word] & idle[word]
        while left != 0:
            node = (word << SHIFT) + lowest(left)
            left &= left - 1
            here = room_on(job, node, slurm, cpus, memory, gpus) if cpus[node] > 0 else 0
            if here > 0:
                room[node], able[count] = here, node
                largest = max(largest, here)
                total += here
                count += 1
    slurm.numbers[slots.ABLE] = count
    if count < ask.min_nodes[job] or total < ask.cpus[job] or largest == 0:
        return 0
    if slurm.rules.takes_first and ask.max_nodes[job] == 1:
        return _take_first(job, slurm)
    if slurm.rules.roomiest_for_gpus and ask.gpus[job] > ask.cpus[job] and ask.min_nodes[job] == 1:
        _keep_roomiest(room, gpus, slurm.rules.multiplies_gpus)
    least, small = ask.min_nodes[job], 0
    while small < largest:
        chosen = choose(job, max(least, ask.max_nodes[job]), small, slurm)  # of a range of node counts, first the largest
        if chosen == 0 and ask.max_nodes[job] > least:
            chosen = choose(job, least, small, slurm)
        if chosen > 0:
            return chosen
        larger = largest
        for i in range(count):
            if small < room[able[i]] < larger:
                larger = room[able[i]]
        small = larger
    return 0


@kernel
def _take_first(job, slurm):
    """Choose the lightest of the nodes that are able, of equal ones the first; return 1 (``_get_one_res``)."""
    room, best = slurm.room, slurm.room.able[0]
    for i in range(1, slurm.numbers[slots.ABLE]):
        if room.weight[room.able[i]] < room.weight[best]:
            best = room.able[i]
    room.chosen[0] = best
    room.take[0] = room.room[best] if slurm.ask.exclusive[job] != 0 else slurm.ask.cpus[job]
    return 1


@kernel
def _keep_roomiest(room, gpus, multiplies):
    """Keep only the node with most processors and GPUs: their sum, since 25.11 their product."""
    best, most = -1, 0
    for node in range(len(room)):
        size = room[node] * gpus[node] if multiplies else room[node] + gpus[node]
        if room[node] > 0 and (best < 0 or size > most):
            best, most = node, size
    for node in range(len(room)):
        if node != best:
            room[node] = 0


@kernel
def choose(job, nodes, small, slurm):
    """Choose ``nodes`` among those with more than ``small`` processors; return how many.

    Return 0 if they do not suffice. Sets of consecutive nodes of equal weight are taken: lightest first, among these
    the tightest that suffices, else the largest. If one node is enough, take the node of the set with fewest processors
    that suffices.
    """
    ask, room = slurm.ask, slurm.room
    need = budget = ask.cpus[job]
    most = min(ask.max_nodes[job] if ask.max_nodes[job] > 0 else len(room.room), max(ask.cpus[job], ask.min_nodes[job]))
    nodes = min(nodes, most)
    sets, chosen = _sets(small, slurm), 0
    while most > 0:
        best = _best_set(sets, need, nodes, slurm)
        if best < 0:
            break
        first, last = room.first[best], room.last[best]
        room.first[best] = -1
        if nodes <= 1:
            tightest = -1
            for node in range(first, last + 1):
                if room.room[node] > small and room.room[node] >= need and (tightest < 0 or room.room[node] < room.room[tightest]):
                    tightest = node
            if tightest >= 0:
                first = last = tightest
        for node in range(first, last + 1):
            if room.room[node] <= small or (most == 1 and room.room[node] < need):
                continue
            if most == 0 or (nodes <= 0 and need <= 0):
                break
            take = min(room.room[node], max(budget - max(nodes - 1, 0), 1))
            if ask.exclusive[job] != 0:
                take = room.room[node]
            room.chosen[chosen], room.take[chosen] = node, take
            chosen += 1
            need -= take
            budget -= take
            nodes -= 1
            most -= 1
        if nodes <= 0 and need <= 0:
            return chosen
    return 0


@kernel
def _sets(small, slurm):
    """Write sets of consecutive nodes of equal weight, and their totals; return how many."""
    room, weight = slurm.room, slurm.room.weight
    sets, before = 0, -1
    for i in range(slurm.numbers[slots.ABLE]):
        node = room.able[i]
        if room.room[node] <= small:
            continue
        if sets > 0 and before == node - 1 and weight[node] == weight[before]:
            room.last[sets - 1] = node
        else:
            room.first[sets] = room.last[sets] = node
            room.total[sets] = room.size[sets] = 0
            sets += 1
        room.total[sets - 1] += room.room[node]
        room.size[sets - 1] += 1
        before = node
    return sets


@kernel
def _best_set(sets, need, nodes, slurm):
    """Return the next set to take nodes from, -1 if none is left."""
    room, weights = slurm.room, slurm.room.weight
    best, best_weight, best_enough, best_total = -1, 0, False, 0
    for number in range(sets):
        if room.first[number] < 0:
            continue
        total, weight = room.total[number], weights[room.first[number]]
        enough = total >= need and room.size[number] >= nodes
        better = (enough and (not best_enough or total < best_total)) or (not enough and not best_enough and total > best_total)
        if best < 0 or weight < best_weight or (weight == best_weight and better):
            best, best_weight, best_enough, best_total = number, weight, enough, total
    return best


@kernel
def holds(nodes, node):
    """Tell whether a set of nodes, int64 [words], holds ``node``."""
    return nodes[node >> SHIFT] >> (node & LOW) & 1 != 0


@kernel
def meets(nodes, others):
    """Tell whether two sets of nodes have a node in common."""
    for word in range(len(nodes)):
        if nodes[word] & others[word] != 0:
            return True
    return False


@kernel
def count_bits(word):
    """Return how many bits of a word are set; LLVM turns the loop into one instruction."""
    count = 0
    while word != 0:
        word &= word - 1
        count += 1
    return count


@kernel
def lowest(word):
    """Return the index of the lowest set bit of ``word``, which is not 0."""
    return count_bits((word & -word) - 1)


@kernel
def put(nodes, node):
    """Put ``node`` into a set."""
    nodes[node >> SHIFT] |= 1 << (node & LOW)


@kernel
def drop(nodes, node):
    """Take ``node`` out of a set."""
    nodes[node >> SHIFT] &= ~(1 << (node & LOW))


@kernel
def held_on(nodes, job, slurm):
    """Return the number of processors that a running job holds on a set of nodes."""
    now, held = slurm.now, 0
    for at in range(now.nodes[job], now.nodes[job] + now.held[job]):
        if holds(nodes, now.node[at]):
            held += now.taken[at]
    return held


@kernel
def occupy(job, sign, slurm, idle, cpus, memory, gpus):
    """Take what a running job holds (``sign`` -1), or give it back (1).

    ``idle``, the set of nodes with free processors, is updated, too.
    """
    ask, now = slurm.ask, slurm.now
    for at in range(now.nodes[job], now.nodes[job] + now.held[job]):
        node, taken = now.node[at], now.taken[at]
        cpus[node] += sign * taken
        if cpus[node] != 0:
            put(idle, node)
        else:
            drop(idle, node)
        memory[node] += sign * (ask.memory_node[job] if ask.memory_node[job] > 0 else ask.memory_cpu[job] * taken)
        gpus[node] += sign * ask.gpus[job]
