"""When a job could start on given nodes, once running jobs have ended.

From select/cons_tres, cons_common/job_test.c, ``_will_run_test``.
"""

from __future__ import annotations

import numpy as np

from features.jit import apart, kernel
from sim.slurm import slots
from sim.slurm.choice import held_on, holds, lowest, occupy, pick, put
from sim.slurm.preempt import may_preempt, without_preemptable
from sim.slurm.state import NO_TIME, NONE, SHIFT

MOST_REMOVED = 200
"""Max running jobs that :func:`will_run` removes before it tests again."""


@kernel
def _begin_count(slurm):
    """Begin to count free processors on nodes of ``mask``, as if it held no node so far.

    Write to ``freed`` how many are free on all nodes together once the first running jobs have ended.
    """
    room, state = slurm.room, slurm.now
    room.freed[0] = 0
    for node in range(len(room.sooner)):
        room.sooner[node] = state.cpus[node]
        room.freed[0] += state.cpus[node]
    for word in range(len(room.counted)):
        room.counted[word], room.coming[word] = 0, state.idle[word]
    for row in range(slurm.numbers[slots.RUNNING]):
        job = state.running[row]
        room.freed[row + 1] = room.freed[row]
        for at in range(state.nodes[job], state.nodes[job] + state.held[job]):
            room.freed[row + 1] += state.taken[at]
    slurm.numbers[slots.COUNTED] = slurm.numbers[slots.TOTAL] = 0


@kernel
def soonest_with(need, slurm):
    """Return when all nodes together could have ``need`` processors free, s.

    Return also how many lack before then.
    """
    if slurm.numbers[slots.COUNTED] == NONE:
        _begin_count(slurm)
    state, freed, running = slurm.now, slurm.room.freed, slurm.numbers[slots.RUNNING]
    ended = np.searchsorted(freed[: running + 1], need)
    if ended == 0:
        return 0, 0
    return state.limit_end[state.running[ended - 1]] if ended <= running else NO_TIME, freed[ended - 1] + 1


@kernel
def count_free(second, need, slurm):
    """Count the processors of ``mask`` that are free by ``second``.

    The count stops once ``need`` processors are free. It continues from the previous call, forward or back in time:
    then ``COUNTED`` jobs had ended and ``TOTAL`` processors were free on the nodes ``counted``: ``sooner`` [nodes] of
    each node, ``coming`` the nodes with any.
    """
    state, room, done, total = slurm.now, slurm.room, slurm.numbers[slots.COUNTED], slurm.numbers[slots.TOTAL]
    for word in range(len(room.mask)):
        changed = (room.mask[word] ^ room.counted[word]) & room.coming[word]
        while changed != 0:
            node = (word << SHIFT) + lowest(changed)
            changed &= changed - 1
            total += room.sooner[node] if holds(room.mask, node) else -room.sooner[node]
        room.counted[word] = room.mask[word]
    while done > 0 and state.limit_end[state.running[done - 1]] > second:
        done -= 1
        total -= _let_end(state.running[done], -1, slurm)
    while total < need and done < slurm.numbers[slots.RUNNING] and state.limit_end[state.running[done]] <= second:
        total += _let_end(state.running[done], 1, slurm)
        done += 1
    slurm.numbers[slots.COUNTED], slurm.numbers[slots.TOTAL] = done, total
    return total


@kernel
def _let_end(job, sign, slurm):
    """Free what a job holds (``sign`` 1) or take it again (-1); return how much is ``counted``."""
    state, room, held = slurm.now, slurm.room, 0
    for at in range(state.nodes[job], state.nodes[job] + state.held[job]):
        node = state.node[at]
        put(room.coming, node)
        room.sooner[node] += sign * state.taken[at]
        held += state.taken[at] if holds(room.counted, node) else 0
    return held


@apart
def will_run(job, partition, second, begin, later, slurm):
    """Return when ``job`` could start on the nodes of ``mask``, and how many nodes it takes.

    Both are 0 if never (``_will_run_test``). If the job does not fit now, first all jobs that it may preempt are
    removed. Then running jobs are removed in order of the ends of their limits, in groups whose reach widens; the
    answer is the last end of the group. A group ends when the next running job, on any nodes, ends beyond its reach.
    Since 24.11 the look is from ``begin`` to ``later`` (0: without end): jobs that end before are removed at once,
    later ones not at all.
    """
    room, state, numbers, ask, bounded = slurm.room, slurm.now, slurm.numbers, slurm.ask, slurm.rules.within_slot
    free, chosen, ahead = 0, 0, bounded and begin > second
    passes = ask.exclusive[job] == 0 and ask.het[job] == NONE
    for word in range(len(room.mask)):
        room.idle[word], left = state.idle[word], room.mask[word] & state.idle[word]
        while left != 0:
            free += state.cpus[(word << SHIFT) + lowest(left)]
            left &= left - 1
    if free >= ask.cpus[job] and not ahead:
        _weigh_completing(1, slurm)
        chosen = pick(job, room.mask, slurm, state.idle, state.cpus, state.memory, state.gpus)
        _weigh_completing(-1, slurm)
        if chosen > 0:
            return second, chosen
    for node in range(len(room.cpus)):
        room.cpus[node], room.memory[node], room.gpus[node] = state.cpus[node], state.memory[node], state.gpus[node]
    freed = without_preemptable(job, partition, slurm) if slurm.rules.preempts else 0
    first = 0
    while bounded and first < numbers[slots.RUNNING] and state.limit_end[state.running[first]] < begin:
        other, first = state.running[first], first + 1
        if not (slurm.rules.preempts and may_preempt(job, partition, other, slurm)):
            gain = held_on(room.mask, other, slurm)
            freed += gain
            if gain > 0:
                occupy(other, 1, slurm, room.idle, room.cpus, room.memory, room.gpus)
    free += freed
    if (ahead or freed > 0) and free >= ask.cpus[job]:
        chosen = pick(job, room.mask, slurm, room.idle, room.cpus, room.memory, room.gpus)
        if chosen > 0:
            return second, chosen  # it may start once the preempted jobs have stopped
    reach, barrier, removed, left, just_removed = 30, -1, 0, 0, False
    for i in range(first, numbers[slots.RUNNING]):
        other = state.running[i]
        if slurm.rules.preempts and may_preempt(job, partition, other, slurm):
            continue
        ends = state.limit_end[other]
        if just_removed and (ends > barrier + reach or removed > MOST_REMOVED):
            if free >= ask.cpus[job]:
                chosen = pick(job, room.mask, slurm, room.idle, room.cpus, room.memory, room.gpus)
            if chosen > 0:
                return _guessed_end(left, second, slurm), chosen
            reach, removed = _widened(reach, ends - barrier), 0
        if bounded and 0 < later < ends:
            break
        gain = held_on(room.mask, other, slurm)
        just_removed = gain > 0
        if not just_removed:
            continue
        if passes and 0 < later < ends:
            return 0, 0  # it would start after the next look, which then decides
        if barrier < 0:
            barrier = ends + 30 - ends % 30
        occupy(other, 1, slurm, room.idle, room.cpus, room.memory, room.gpus)
        removed, left, free = removed + 1, ends, free + gain
    if removed > 0:
        chosen = pick(job, room.mask, slurm, room.idle, room.cpus, room.memory, room.gpus)
    return (_guessed_end(left, second, slurm) if chosen > 0 else 0), chosen


@kernel
def _weigh_completing(by, slurm):
    """Make COMPLETING nodes heavier than others of their weight (``by`` 1), since 23.11, or undo it (-1)."""
    if slurm.rules.shuns_completing:
        for node in range(len(slurm.room.weight)):
            if slurm.now.busy[node] > 0:
                slurm.room.weight[node] += by


@kernel
def _widened(reach, ends):
    """Return the reach, doubled until the next job ends in it."""
    reach = 2 * reach
    while reach < ends:
        reach = 2 * reach
    return reach


@kernel
def _guessed_end(end, second, slurm):
    """Return the end of a job for planning, also if it is past its limit (``_guess_job_end``)."""
    return end if end > second else max(end + slurm.rules.kill_wait, second + 1)
