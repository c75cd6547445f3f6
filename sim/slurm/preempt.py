"""Preemption: running jobs are stopped so that a more important job can start.

From preempt.c, the plugins preempt/qos and preempt/partition_prio, and cons_common/job_test.c, ``_run_now``. It is not
atomic: the preempting job starts in a later pass, once the nodes have answered.
"""

from __future__ import annotations

from features.jit import apart, kernel
from sim.slurm import slots
from sim.slurm.choice import held_on, occupy, pick
from sim.slurm.queue import limited
from sim.slurm.runs import end_by, next_poll, stop
from sim.slurm.state import NONE, OFF, REQUEUE

_LAST = 99_999


@kernel
def kind(job, partition, slurm):
    """Return the row of a job's QOS or partition, whichever decides about preemption."""
    return slurm.now.qos[job] if slurm.rules.preempts_by_qos else partition


@kernel
def may_preempt(job, partition, other, slurm):
    """Tell whether ``job`` in ``partition`` may preempt the running job ``other``."""
    preemption, state = slurm.preemption, slurm.now
    held = kind(other, state.partition[other], slurm)
    return preemption.mode[held] != OFF and preemption.beats[kind(job, partition, slurm), held] != 0


@apart
def make_room(job, partition, now, slurm):
    """Preempt the jobs that must stop for ``job`` to start on nodes of ``mask``.

    No job is preempted if that would not suffice. Candidates are removed by lowest QOS or tier, then by fewest nodes,
    until the job fits. To stop few, they are then sorted by their chosen nodes, ``preempt_reorder_count`` + 1 times.
    """
    room, preemption, second = slurm.room, slurm.preemption, now // 1000
    if limited(job, True, slurm):  # a limit would block it anyway
        return
    count, tries = _list_candidates(job, partition, slurm), 0
    while True:
        chosen, last = _remove_until_it_fits(job, count, slurm)
        if chosen == 0:
            return
        if tries > slurm.rules.preempt_reorder_count or count <= tries + 1:
            break
        tries += 1
        for i in range(count):
            room.shared[i] = _held_of(room.candidates[i], chosen, slurm) if i < last else 0
        room.shared[last] = _LAST
        _sort_by_shared(count, slurm)
    since = slurm.now.preempts_since[job]
    if since != NONE and since > second - slurm.rules.kill_wait - slurm.rules.message_timeout:
        return  # jobs that it has preempted may still be ending
    if since == NONE:
        slurm.now.preempts_since[job] = second
    for i in range(last + 1):
        other = room.candidates[i]
        if _held_of(other, chosen, slurm) == 0:
            continue
        held = kind(other, slurm.now.partition[other], slurm)
        if preemption.grace[held] > 0 and slurm.now.warned[other] == NONE:
            slurm.now.warned[other] = second
            end_by(other, second + preemption.grace[held], slurm)
            slurm.numbers[slots.NOTICE] = min(
                slurm.numbers[slots.NOTICE], next_poll((second + preemption.grace[held]) * 1000, slurm)
            )
        elif preemption.grace[held] == 0 or second >= slurm.now.limit_end[other]:
            stop(other, 1 if preemption.mode[held] == REQUEUE and preemption.requeues[other] != 0 else 0, now, slurm)


@kernel
def without_preemptable(job, partition, slurm):
    """Free, in the scratch arrays, what the jobs that ``job`` may preempt hold.

    Return how many processors of ``mask`` this frees.
    """
    room, state, freed = slurm.room, slurm.now, 0
    for i in range(slurm.numbers[slots.RUNNING]):
        other = state.running[i]
        if may_preempt(job, partition, other, slurm):
            occupy(other, 1, slurm, room.idle, room.cpus, room.memory, room.gpus)
            freed += held_on(room.mask, other, slurm)
    return freed


@kernel
def _list_candidates(job, partition, slurm):
    """Write the jobs that may be preempted, in order of preemption; return how many."""
    room, state, count = slurm.room, slurm.now, 0
    for i in range(slurm.numbers[slots.RUNNING]):
        other = state.running[i]
        if not may_preempt(job, partition, other, slurm):
            continue
        k = count
        while k > 0 and _goes_first(other, room.candidates[k - 1], slurm):
            room.candidates[k] = room.candidates[k - 1]
            k -= 1
        room.candidates[k] = other
        count += 1
    return count


@kernel
def _goes_first(one, other, slurm):
    state, value = slurm.now, slurm.preemption.value
    if slurm.rules.preempt_youngest_first:
        if state.start_ms[one] // 1000 != state.start_ms[other] // 1000:
            return state.start_ms[one] > state.start_ms[other]
    else:
        first = (value[kind(one, state.partition[one], slurm)] << 16) + state.held[one]
        second = (value[kind(other, state.partition[other], slurm)] << 16) + state.held[other]
        if first != second:
            return first < second
    return state.place[one] < state.place[other]


@kernel
def _remove_until_it_fits(job, count, slurm):
    """Remove candidates one by one until the job fits.

    Return the number of chosen nodes, 0 if even all candidates do not suffice, and the index of the last one removed.
    """
    room, state = slurm.room, slurm.now
    for node in range(len(room.cpus)):
        room.cpus[node], room.memory[node], room.gpus[node] = state.cpus[node], state.memory[node], state.gpus[node]
    for word in range(len(room.idle)):
        room.idle[word] = state.idle[word]
    for i in range(count):
        other = room.candidates[i]
        if held_on(room.mask, other, slurm) > 0:
            occupy(other, 1, slurm, room.idle, room.cpus, room.memory, room.gpus)
            chosen = pick(job, room.mask, slurm, room.idle, room.cpus, room.memory, room.gpus)
            if chosen > 0:
                return chosen, i
    return 0, 0


@kernel
def _held_of(other, chosen, slurm):
    """Return the number of chosen nodes that a running job holds."""
    room, state, count = slurm.room, slurm.now, 0
    for i in range(chosen):
        for at in range(state.nodes[other], state.nodes[other] + state.held[other]):
            count += state.node[at] == room.chosen[i]
    return count


@kernel
def _sort_by_shared(count, slurm):
    """Sort the candidates by the chosen nodes they hold, most first; ties keep their order."""
    room = slurm.room
    for i in range(count):
        other, shared, k = room.candidates[i], room.shared[i], i
        while k > 0 and room.shared[k - 1] < shared:
            room.candidates[k], room.shared[k] = room.candidates[k - 1], room.shared[k - 1]
            k -= 1
        room.candidates[k], room.shared[k] = other, shared
