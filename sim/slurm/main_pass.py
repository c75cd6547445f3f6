"""The main pass: first come, first served by priority in each partition.

From job_scheduler.c, ``_schedule``.
"""

from __future__ import annotations

from features.jit import apart, kernel
from sim.slurm import slots
from sim.slurm.choice import count_bits, pick
from sim.slurm.preempt import make_room
from sim.slurm.queue import (
    drop_started,
    independent,
    limited,
    note_try,
    open_to,
    over_limits,
    sort_again,
    sort_as_slurm,
    throttled,
)
from sim.slurm.runs import start
from sim.slurm.state import MAIN, NO_TIME, NONE, PENDING


@apart
def main_pass(depth, now, slurm):
    """Start jobs in order of the queue; test at most ``depth`` + 1 of them.

    The first job of a partition that finds no nodes ends the partition, and keeps its nodes from all other jobs of this
    pass; so does one that asks for more nodes than failed partitions have left in its own. A job that would pass a
    limit ends nothing (``select_nodes`` asks for limits even if it finds no nodes). A component of a heterogeneous job
    ends its partition; since 24.11 one in a partition that has ended already ends the pass.
    """
    numbers, ask, state, room, rules = slurm.numbers, slurm.ask, slurm.now, slurm.room, slurm.rules
    numbers[slots.PASS], numbers[slots.LAST_PASS] = NO_TIME, now
    if numbers[slots.DIRTY] == 0:
        return
    numbers[slots.DIRTY] = 0
    numbers[slots.PASSES] += 1
    numbers[slots.STAMP] += 1
    stamp, begun, tested = numbers[slots.STAMP], numbers[slots.BEGUN], 0
    rejected = rejected_in = NONE  # the array that was tried last, unless a task has started since, and the partition
    for word in range(len(room.usable)):
        room.usable[word] = state.up[word]
    if rules.has_several_qos:
        sort_again(slurm)
    if rules.preempts_by_qos:
        sort_as_slurm(now, slurm)
    for i in range(numbers[slots.QUEUED]):
        record = state.queue[i]
        job, partition = ask.job[record], ask.partition[record]
        if state.phase[job] != PENDING or not independent(job, now, slurm) or ask.admitted[record] == 0:
            continue
        reserved, array = ask.reservation[job] != NONE, ask.array[job]
        note_try(record, slurm)
        if array != NONE:
            if array == rejected and partition == rejected_in:
                continue
            rejected, rejected_in = array, partition
        tested += 1
        if tested > depth + 1:
            break
        if ask.het[job] != NONE:  # only backfill starts components
            if room.failed[partition] == stamp and rules.ends_at_component:
                break
            fail(partition, stamp, slurm)
            continue
        if room.failed[partition] == stamp and not reserved:
            continue
        if throttled(job, slurm) or limited(job, False, slurm):
            continue
        if _left(partition, slurm) < ask.min_nodes[job]:
            fail(partition, stamp, slurm)
            continue
        open_to(job, partition, now // 1000, now // 1000 + ask.limit[job], slurm, room.mask)
        for word in range(len(room.mask)):
            room.mask[word] &= (state.up[word] if reserved else room.usable[word]) & ~state.completing[word]
        chosen = pick(job, room.mask, slurm, state.idle, state.cpus, state.memory, state.gpus)
        if chosen > 0:
            if not over_limits(job, chosen, slurm):
                start(job, partition, chosen, MAIN, now, slurm)
                rejected = NONE
            continue
        if limited(job, True, slurm):
            continue
        if rules.preempts:
            make_room(job, partition, now, slurm)
        if not reserved and not _lacks_nodes(job, partition, now // 1000, slurm):
            fail(partition, stamp, slurm)
    if numbers[slots.BEGUN] > begun:
        drop_started(slurm)


@kernel
def fail(partition, stamp, slurm):
    """Fail a partition: no other job of it, nor any on its nodes, starts in this pass."""
    slurm.room.failed[partition] = stamp
    for word in range(len(slurm.room.usable)):
        slurm.room.usable[word] &= ~slurm.hardware.member[partition, word]


@kernel
def _left(partition, slurm):
    """Return the number of a partition's nodes that are up and in no partition that has failed."""
    count = 0
    for word in range(len(slurm.room.usable)):
        count += count_bits(slurm.room.usable[word] & slurm.hardware.member[partition, word])
    return count


@apart
def _lacks_nodes(job, partition, second, slurm):
    """Tell whether a job would not fit if no job ran, as nodes are down, reserved or in partitions that have failed.

    It then waits for these nodes (ReqNodeNotAvail), and blocks no other job, unless a node that it could use is
    completing a job: then it waits for that (``nodes_busy`` in ``_pick_best_nodes``).
    """
    hardware, mask, completing = slurm.hardware, slurm.room.mask, slurm.now.completing
    open_to(job, partition, second, second + slurm.ask.limit[job], slurm, mask)
    for word in range(len(mask)):
        mask[word] &= slurm.room.usable[word]
        if mask[word] & completing[word] != 0:
            return False
    return pick(job, mask, slurm, mask, hardware.cpus, hardware.memory, hardware.gpus) == 0
