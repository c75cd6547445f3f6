"""The reason for which each job waits, as a main pass finds it in a state of the site.

From job_scheduler.c, ``_schedule``: a job behind the first one that finds no nodes in its partition waits for
``Priority``, that one for ``Resources``. A job behind it keeps an older reason that was a limit, a reservation or a
missing node.
"""

from __future__ import annotations

from features.jit import kernel
from sim.slurm import slots
from sim.slurm.choice import holds, occupy, pick
from sim.slurm.main_pass import fail
from sim.slurm.queue import limited, open_to, over_limits, throttled
from sim.slurm.runs import start
from sim.slurm.state import MAIN, NONE, PENDING

STARTS, PRIORITY, RESOURCES, LIMIT, ARRAY, PARTITION, RESERVED, NOT_UP, DEPENDENCY, BEGIN = range(10)
"""Classes of reasons; STARTS: a pass would start the job now. PARTITION: no partition admits it. ARRAY: its array's
limit."""
CLASSES = {
    **{STARTS: "next", PRIORITY: "priority", RESOURCES: "resources", LIMIT: "limit", ARRAY: "limit", PARTITION: "limit"},
    **{RESERVED: "reservation", NOT_UP: "node", DEPENDENCY: "dependency", BEGIN: "begin time"},
}
"""Their names in :data:`sim.starts.reasons.CLASSES`."""


@kernel
def look(job, partition, now, slurm, why):
    """Return :func:`first_to_end` of ``job``; for NONE, :func:`explain` all jobs and return 0.

    Python calls this alone: a function that takes the whole state takes two seconds to compile for that.
    """
    if job != NONE:
        return first_to_end(job, partition, now, slurm)
    explain(now, slurm, why)
    return 0


@kernel
def explain(now, slurm, why):
    """Write the class of the reason of each waiting job to ``why``, int64 [jobs].

    There stand the classes before, NONE if unknown. The state changes: jobs that could start do. A job in several
    partitions has the reason of the one in which it comes last.
    """
    numbers, ask, state, room = slurm.numbers, slurm.ask, slurm.now, slurm.room
    numbers[slots.STAMP] += 1
    numbers[slots.BEGUN] = 0
    for word in range(len(room.usable)):
        room.usable[word] = state.up[word]
    for i in range(numbers[slots.QUEUED]):
        record = state.queue[i]
        job, partition = ask.job[record], ask.partition[record]
        if state.phase[job] != PENDING:
            continue
        before = why[job]
        why[job] = _before_nodes(job, record, now, slurm)
        if why[job] == STARTS:
            why[job] = _with_nodes(job, partition, before, now, slurm)


@kernel
def _before_nodes(job, record, now, slurm):
    """Return the class of a reason that needs no look at nodes nor limits, or STARTS."""
    ask, state = slurm.ask, slurm.now
    if ask.admitted[record] == 0:
        return PARTITION
    if ask.held_ms[job] <= now < ask.begin_ms[job]:
        return BEGIN
    for at in range(ask.afters[job], ask.afters[job + 1]):
        if state.undone[ask.after[at]] > 0:
            return DEPENDENCY
    return ARRAY if throttled(job, slurm) else STARTS


@kernel
def _with_nodes(job, partition, before, now, slurm):
    """Return the class of an eligible job; start it if it fits."""
    ask, state, room, second = slurm.ask, slurm.now, slurm.room, now // 1000
    reserved = ask.reservation[job] != NONE
    if room.failed[partition] == slurm.numbers[slots.STAMP] and not reserved:
        if before in (LIMIT, ARRAY, RESERVED, NOT_UP):
            return before
        seen = second - state.eligible[job] >= slurm.rules.bf_interval  # a cycle has tested its limits
        return LIMIT if seen and limited(job, True, slurm) else PRIORITY
    if limited(job, True, slurm):
        return LIMIT
    kept = False
    open_to(job, partition, second, second + ask.limit[job], slurm, room.mask)
    for word in range(len(room.mask)):
        kept = kept or room.mask[word] != slurm.hardware.member[partition, word]
        room.mask[word] &= state.up[word] if reserved else room.usable[word]
    if kept and not _fits_when_idle(job, slurm):
        for word in range(len(room.mask)):
            room.mask[word] = slurm.hardware.member[partition, word] & state.up[word]
        return RESERVED if _fits_when_idle(job, slurm) else NOT_UP
    for word in range(len(room.mask)):
        room.mask[word] &= ~state.completing[word]
    chosen = pick(job, room.mask, slurm, state.idle, state.cpus, state.memory, state.gpus)
    if chosen == 0:
        if not reserved:
            fail(partition, slurm.numbers[slots.STAMP], slurm)
        return RESOURCES
    if over_limits(job, chosen, slurm):
        return LIMIT
    start(job, partition, chosen, MAIN, now, slurm)
    return STARTS


@kernel
def _fits_when_idle(job, slurm):
    """Tell whether ``job`` would fit on ``slurm.room.mask`` if no job ran."""
    hardware, mask = slurm.hardware, slurm.room.mask
    return pick(job, mask, slurm, mask, hardware.cpus, hardware.memory, hardware.gpus) > 0


@kernel
def first_to_end(job, partition, now, slurm):
    """Return how many running jobs end until ``job`` fits; NONE: never.

    They end in order of their limits.

    ``slurm.room.candidates`` is 1 for those of them whose nodes ``job`` may use. The state changes: these jobs' nodes
    are free.
    """
    ask, state, room, second = slurm.ask, slurm.now, slurm.room, now // 1000
    open_to(job, partition, second, second + ask.limit[job], slurm, room.mask)
    for ended in range(slurm.numbers[slots.RUNNING] + 1):
        if pick(job, room.mask, slurm, state.idle, state.cpus, state.memory, state.gpus) > 0:
            return ended
        if ended < slurm.numbers[slots.RUNNING]:
            other = state.running[ended]
            room.candidates[ended] = 0
            for at in range(state.nodes[other], state.nodes[other] + state.held[other]):
                if holds(room.mask, state.node[at]) and holds(slurm.hardware.suits[ask.suits[job]], state.node[at]):
                    room.candidates[ended] = 1
            occupy(other, 1, slurm, state.idle, state.cpus, state.memory, state.gpus)
    return NONE
