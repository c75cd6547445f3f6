"""The map of plans of a backfill cycle: the nodes without plans in each interval.

From sched/backfill/backfill.c, ``node_space_map``, which is a linked list there.
"""

from __future__ import annotations

import numpy as np

from features.jit import apart, kernel
from sim.slurm import slots
from sim.slurm.choice import count_bits, drop, holds
from sim.slurm.state import NO_TIME, NONE


@apart
def clear_map(second, slurm):
    """Begin the map of a cycle: one interval of ``bf_window`` without plans."""
    plans, room, rules, state = slurm.plans, slurm.room, slurm.rules, slurm.now
    plans.begin[0] = second // rules.bf_resolution * rules.bf_resolution
    plans.end[0] = (second + rules.bf_window) // rules.bf_resolution * rules.bf_resolution
    plans.row[0] = plans.returns[0] = 0
    for word in range(len(room.mask)):
        plans.free[0, word] = state.up[word]
    for node in range(len(room.clear)):
        room.clear[node] = NO_TIME
    slurm.numbers[slots.INTERVALS] = 1
    slurm.numbers[slots.FUTILE] = 0
    slurm.numbers[slots.COUNTED] = NONE


@kernel
def first_ending_after(second, slurm):
    """Return the first interval that ends after ``second``, or the number of intervals."""
    return np.searchsorted(slurm.plans.end[: slurm.numbers[slots.INTERVALS]], second, side="right")


@kernel
def note_futile(partition, lacking, limit, until, slurm):
    """Note how many processors, ``lacking``, all looks before ``until`` lacked.

    They were for ``limit`` seconds. The note takes the place of one that says less. None is made if another says as much: see
    :func:`futile_until`.
    """
    futile, at = slurm.room.futile, slurm.numbers[slots.FUTILE]
    if futile_until(partition, lacking, limit, slurm)[0] >= until:
        return
    for row in range(slurm.numbers[slots.FUTILE]):
        if futile[row, 0] == partition and futile[row, 1] >= lacking and futile[row, 2] >= limit and futile[row, 3] <= until:
            at = row
    if at < len(futile):
        futile[at, 0], futile[at, 1], futile[at, 2], futile[at, 3] = partition, lacking, limit, until
        slurm.numbers[slots.FUTILE] = max(at + 1, slurm.numbers[slots.FUTILE])


@kernel
def futile_until(partition, cpus, shortest, slurm):
    """Return until when earlier searches of this cycle prove that ``cpus`` processors lack.

    Return also how many lacked in all of them. Both are 0 if none does. They were for as many processors or fewer, in
    the same partition, whose nodes are counted whatever features a job asks for, and free for ``shortest`` seconds or
    less: the job's limit less the time from its look to the next. Nodes free for the job from a look to the end of its
    limit are then free for the earlier one at the next look, too. In a cycle plans and jobs are only added, so what was
    too little remains so.
    """
    futile, until, lacking = slurm.room.futile, 0, 0
    for row in range(slurm.numbers[slots.FUTILE]):
        if futile[row, 3] > until and futile[row, 2] <= shortest and futile[row, 1] <= cpus and futile[row, 0] == partition:
            until, lacking = futile[row, 3], futile[row, 1]
    return until, lacking


@kernel
def next_return(first, end, slurm):
    """Return when a node of ``usable`` next comes back, from interval ``first`` on; 0: never.

    Slurm looks at the intervals up to ``end``, and at one more. Without any, since 24.11 it looks again at the end of
    the next.
    """
    plans = slurm.plans
    for k in range(first, slurm.numbers[slots.INTERVALS] - 1):
        if plans.returns[k] != 0 and _comes_back(k, slurm):
            return plans.end[k]
        if plans.begin[k] > end:
            return plans.end[k + 1] if slurm.rules.within_slot and k + 2 < slurm.numbers[slots.INTERVALS] else 0
    return 0


@kernel
def _comes_back(k, slurm):
    """Tell whether a node of ``usable`` without a plan in interval ``k + 1`` has one in ``k``."""
    room, plans = slurm.room, slurm.plans
    row, after = plans.row[k], plans.row[k + 1]
    for word in range(len(room.usable)):
        if room.usable[word] & plans.free[after, word] & ~plans.free[row, word] != 0:
            return True
    return False


@kernel
def free_throughout(begin, end, first, slurm):
    """Write the nodes of ``usable`` without plans in a time to ``mask``; return how many.

    The time is from ``begin`` to ``end``; ``first`` is the first interval that ends after ``begin``. The looks of one
    job go forward in time (``SPLIT`` is 0 before the first), so each interval is read at most twice: ``until`` holds
    the nodes free from each interval to ``SPLIT``, ``beyond`` those free from ``SPLIT`` to ``REACH``.
    """
    room, plans, numbers, count = slurm.room, slurm.plans, slurm.numbers, 0
    if first >= numbers[slots.SPLIT]:
        numbers[slots.REACH] = max(first, numbers[slots.REACH])
    while numbers[slots.REACH] < numbers[slots.INTERVALS] and plans.begin[numbers[slots.REACH]] <= end:
        row = plans.row[numbers[slots.REACH]]
        numbers[slots.REACH] += 1
        if first < numbers[slots.SPLIT]:
            for word in range(len(room.mask)):
                plans.beyond[word] &= plans.free[row, word]
    if first >= numbers[slots.SPLIT]:
        numbers[slots.SPLIT] = numbers[slots.REACH]
        for word in range(len(room.mask)):
            plans.beyond[word] = room.mask[word] = -1
        for k in range(numbers[slots.SPLIT] - 1, first - 1, -1):
            row = plans.row[k]
            for word in range(len(room.mask)):
                room.mask[word] &= plans.free[row, word]
                plans.until[k, word] = room.mask[word]
    for word in range(len(room.mask)):
        until = plans.until[first, word] if first < numbers[slots.SPLIT] else -1
        room.mask[word] = room.usable[word] & until & plans.beyond[word]
        count += count_bits(room.mask[word])
    return count


@kernel
def overlaps(first, last, chosen, slurm):
    """Tell whether a plan on the chosen nodes from ``first`` to ``last`` meets another one."""
    room, plans = slurm.room, slurm.plans
    for k in range(first_ending_after(first, slurm), slurm.numbers[slots.INTERVALS]):
        if plans.begin[k] >= last:
            break
        row = plans.row[k]
        for i in range(chosen):
            if not holds(plans.free[row], room.chosen[i]):
                return True
    return False


@apart
def reserve(begin, end, chosen, slurm):
    """Remove the chosen nodes, as whole nodes, from the map from ``begin`` to ``end``."""
    room, plans, numbers = slurm.room, slurm.plans, slurm.numbers
    begin = max(begin, plans.begin[0])
    end = max(end, begin + slurm.rules.bf_resolution)
    for i in range(chosen):
        room.clear[room.chosen[i]] = min(room.clear[room.chosen[i]], begin)
    first = _cut(begin, slurm)
    after = _cut(end, slurm)
    for k in range(first, after):
        row = plans.row[k]
        for i in range(chosen):
            drop(plans.free[row], room.chosen[i])
    for word in range(len(room.mask)):
        room.usable[word] = -1
    for k in (first - 1, after - 1):
        if 0 <= k < numbers[slots.INTERVALS] - 1:
            plans.returns[k] = _comes_back(k, slurm)
    _merge_two(max(first - 2, 0), min(after, numbers[slots.INTERVALS] - 1), slurm)


@kernel
def _merge_two(first, last, slurm):
    """Merge the first two neighbouring intervals with the same nodes free, and no more.

    Only pairs from ``first`` to before ``last`` count (``_add_reservation``). The others limit :func:`next_return`.
    """
    room, plans, numbers = slurm.room, slurm.plans, slurm.numbers
    for k in range(first, last):
        same, row, top = True, plans.row[k + 1], numbers[slots.INTERVALS] - 1
        for word in range(len(room.mask)):
            same = same and plans.free[plans.row[k], word] == plans.free[row, word]
        if same:
            plans.end[k], plans.returns[k] = plans.end[k + 1], plans.returns[k + 1]
            for other in range(k + 1, top):
                plans.begin[other], plans.end[other] = plans.begin[other + 1], plans.end[other + 1]
                plans.row[other], plans.returns[other] = plans.row[other + 1], plans.returns[other + 1]
            numbers[slots.INTERVALS] = top
            for other in range(top):
                if plans.row[other] == top:
                    plans.row[other] = row
                    for word in range(len(room.mask)):
                        plans.free[row, word] = plans.free[top, word]
            return


@kernel
def _cut(at, slurm):
    """Cut the interval around ``at``; return the one that begins there, else the number of all."""
    room, plans, numbers = slurm.room, slurm.plans, slurm.numbers
    k = first_ending_after(at, slurm)
    if k == numbers[slots.INTERVALS] or plans.begin[k] >= at:
        return k
    for later in range(numbers[slots.INTERVALS], k + 1, -1):
        plans.begin[later], plans.end[later], plans.row[later] = plans.begin[later - 1], plans.end[later - 1], plans.row[later - 1]
        plans.returns[later] = plans.returns[later - 1]
    row = numbers[slots.INTERVALS]
    for word in range(len(room.mask)):
        plans.free[row, word] = plans.free[plans.row[k], word]
    plans.begin[k + 1], plans.end[k + 1], plans.row[k + 1] = at, plans.end[k], row
    plans.returns[k + 1] = plans.returns[k]
    plans.end[k], plans.returns[k] = at, 0
    numbers[slots.INTERVALS] += 1
    return k + 1
