"""The main pass: first come, first served by priority in each partition.

From job_scheduler.c, ``_schedule``.
"""

from __future__ import annotations

from features.jit import apart
from sim.slurm.choice import pick
from sim.slurm.preempt import make_room
from sim.slurm.queue import drop_started, independent, limited, open_to, over_limits, sort_as_slurm, throttled
from sim.slurm.runs import start
from sim.slurm.state import BEGUN, DIRTY, LAST_PASS, MAIN, NEVER, NONE, PASS, PASSES, PENDING, QUEUED, STAMP


@apart
def main_pass(depth, now, slurm):
    """Start jobs in order of the queue, of which ``depth`` are tested.

    The first of a partition that finds no nodes ends it, and keeps the partition's nodes from all others in this pass.
    """
    numbers, ask, state, room = slurm.numbers, slurm.ask, slurm.now, slurm.room
    numbers[PASS], numbers[LAST_PASS] = NEVER, now
    if numbers[DIRTY] == 0:
        return
    numbers[DIRTY] = 0
    numbers[PASSES] += 1
    numbers[STAMP] += 1
    stamp, begun, tested = numbers[STAMP], numbers[BEGUN], 0
    for word in range(len(room.usable)):
        room.usable[word] = state.up[word]
    if slurm.rules.preempts_by_qos:
        sort_as_slurm(slurm)
    for i in range(numbers[QUEUED]):
        record = state.queue[i]
        job, partition = ask.job[record], ask.partition[record]
        if state.phase[job] != PENDING or not independent(job, now, slurm) or ask.admitted[record] == 0:
            continue
        tested += 1
        if tested > depth:
            break
        reserved = ask.reservation[job] != NONE
        if (room.failed[partition] == stamp and not reserved) or (
            ask.array[job] != NONE and room.rejected[ask.array[job]] == stamp
        ):
            continue
        if throttled(job, slurm) or limited(job, False, slurm):
            if ask.array[job] != NONE:
                room.rejected[ask.array[job]] = stamp
            continue
        open_to(job, partition, now // 1000, now // 1000 + ask.limit[job], slurm, room.mask)
        for word in range(len(room.mask)):
            room.mask[word] &= (state.up[word] if reserved else room.usable[word]) & ~state.completing[word]
        chosen = pick(job, room.mask, slurm, state.cpus, state.memory, state.gpus)
        if chosen > 0:
            if not over_limits(job, chosen, slurm):
                start(job, partition, chosen, MAIN, now, slurm)
            elif ask.array[job] != NONE:
                room.rejected[ask.array[job]] = stamp
            continue
        if slurm.rules.preempts:
            make_room(job, partition, now, slurm)
        if ask.array[job] != NONE:
            room.rejected[ask.array[job]] = stamp
        if reserved or _lacks_nodes(job, partition, now // 1000, slurm):
            continue
        room.failed[partition] = stamp
        for word in range(len(room.usable)):
            room.usable[word] &= ~slurm.hardware.member[partition, word]
    if numbers[BEGUN] > begun:
        drop_started(slurm)


@apart
def _lacks_nodes(job, partition, second, slurm):
    """Tell whether nodes are down or reserved so that a job would not fit on what is left in this pass, even if no other ran.

    It then waits for them (ReqNodeNotAvail), and blocks no other job.
    """
    hardware, mask, kept = slurm.hardware, slurm.room.mask, False
    open_to(job, partition, second, second + slurm.ask.limit[job], slurm, mask)
    for word in range(len(mask)):
        kept = kept or mask[word] != hardware.member[partition, word]
        mask[word] &= slurm.room.usable[word]
    return kept and pick(job, mask, slurm, hardware.cpus, hardware.memory, hardware.gpus) == 0
