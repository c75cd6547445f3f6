"""Heterogeneous jobs: components that only backfill starts, all in the same cycle.

From sched/backfill/backfill.c, ``_het_job_start_set`` to ``_het_job_start_now``. ``Ask.het`` leads from each component
to the next one, and from the last to the first.
"""

from __future__ import annotations

from features.jit import apart, kernel
from sim.slurm import slots
from sim.slurm.choice import drop, pick
from sim.slurm.queue import count_limits, limited, open_to, over_limits
from sim.slurm.runs import start, stop
from sim.slurm.state import BACKFILL, NONE, PENDING

NO_START_S = 365 * 86_400
"""How far ahead a component starts that has no plan."""


@kernel
def forget_starts(slurm):
    """Forget when components could start, as slurmctld does before each cycle."""
    for i in range(slurm.numbers[slots.QUEUED]):
        slurm.now.could_start[slurm.ask.job[slurm.now.queue[i]]] = NONE


@kernel
def start_of_others(job, second, slurm):
    """Return the second at which all other components could start, 0: none known."""
    state, het = slurm.now, slurm.ask.het
    if state.could_start[job] == NONE:
        state.could_start[job] = second + NO_START_S
    latest, other = 0, het[job]
    while other != job:
        latest, other = max(latest, state.could_start[other]), het[other]
    return latest


@kernel
def note_start(job, partition, second, slurm):
    """Note when and where a component could start, if no earlier start is known."""
    if second < slurm.now.could_start[job]:
        slurm.now.could_start[job], slurm.now.partition[job] = second, partition


@apart
def start_together(now, slurm):
    """Start each heterogeneous job whose components could all start now."""
    state, het, second = slurm.now, slurm.ask.het, now // 1000
    for i in range(slurm.numbers[slots.QUEUED]):
        job = slurm.ask.job[state.queue[i]]
        if het[job] == NONE or state.phase[job] != PENDING:
            continue
        latest, other = state.could_start[job], het[job]
        all_known = latest != NONE
        while other != job:
            all_known = all_known and state.phase[other] == PENDING and state.could_start[other] != NONE
            latest, other = max(latest, state.could_start[other]), het[other]
        if all_known and latest <= second and not _over_limits_together(job, slurm):
            _start_all(job, now, slurm)


@kernel
def _over_limits_together(job, slurm):
    """Tell whether a limit does not admit all components at once."""
    het, counted, over = slurm.ask.het, 0, limited(job, True, slurm)
    other = job
    while not over:
        count_limits(other, 1, slurm)
        counted, other = counted + 1, het[other]
        if other == job:
            break
        over = limited(other, True, slurm)
    other = job
    for _ in range(counted):
        count_limits(other, -1, slurm)
        other = het[other]
    return over


@kernel
def _start_all(job, now, slurm):
    """Start all components, in queue order, on nodes of their own; stop all if one does not fit."""
    state, ask, room, second = slurm.now, slurm.ask, slurm.room, now // 1000
    for word in range(len(room.usable)):
        room.usable[word] = -1
    for i in range(slurm.numbers[slots.QUEUED]):
        record = state.queue[i]
        other, partition = ask.job[record], ask.partition[record]
        if state.phase[other] != PENDING or state.partition[other] != partition or not _are_together(job, other, slurm):
            continue
        open_to(other, partition, second, second + ask.limit[other], slurm, room.mask)
        for word in range(len(room.mask)):
            room.mask[word] &= room.usable[word] & ~state.completing[word]
        chosen = pick(other, room.mask, slurm, state.idle, state.cpus, state.memory, state.gpus)
        if chosen == 0 or over_limits(other, chosen, slurm):
            other = ask.het[job]
            while True:
                if state.phase[other] != PENDING:
                    stop(other, 1, now, slurm)
                if other == job:
                    return
                other = ask.het[other]
        for at in range(chosen):
            drop(room.usable, room.chosen[at])
        start(other, partition, chosen, BACKFILL, now, slurm)


@kernel
def _are_together(job, other, slurm):
    """Tell whether ``other`` is ``job`` or another component of its heterogeneous job."""
    het, at = slurm.ask.het, job
    while at != NONE and at != other:
        at = het[at]
        if at == job:
            return False
    return at == other
