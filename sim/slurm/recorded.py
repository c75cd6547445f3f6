"""A replay that follows the record: what would the scheduler do in a recorded state."""

from __future__ import annotations

from features.jit import kernel
from sim.slurm import slots
from sim.slurm.backfill import cycle
from sim.slurm.choice import holds, pick
from sim.slurm.clocks import cancel, change_site, clear
from sim.slurm.main_pass import main_pass
from sim.slurm.nodesets import LOW, SHIFT
from sim.slurm.queue import drop_started, independent, join, line_up
from sim.slurm.runs import end, start
from sim.slurm.shares import decay_usage
from sim.slurm.state import COMPLETING, MAIN, PENDING, RUNS

END, CLEAR, CHANGE, DECAY, SUBMIT, CANCEL, LOOK, START, PASS, CYCLE = range(10)
"""Kinds of events; events of one second are handled in this order.

LOOK finds the jobs that have become eligible. PASS and CYCLE are trials, whose changes the caller must undo. All others
are recorded events. CLEAR is the answer of an ended job's nodes; the job of a CHANGE is a row of the site's outages.
"""
_ALL = 1 << 30


@kernel
def _step(kind, job, now, slurm):
    """Handle an event; the recorded nodes of a START stand in ``slurm.room.usable``.

    An END of a job that does not run changes nothing: the job was cancelled while it waited, or lost its node before.
    """
    numbers, phase = slurm.numbers, slurm.now.phase
    numbers[slots.BEGUN] = numbers[slots.STOPPED] = 0
    if kind == END:
        if phase[job] == RUNS:
            end(job, now, slurm)
    elif kind == CLEAR:
        if phase[job] == COMPLETING:
            clear(job, now, slurm)
            numbers[slots.CLEARED] += 1
    elif kind == CHANGE:
        change_site(job, slurm)
    elif kind == DECAY:
        decay_usage(now // 1000, slurm)
        line_up(now // 1000, slurm)
    elif kind == SUBMIT:
        join(job, now, slurm)
        numbers[slots.JOINED] += 1
    elif kind == CANCEL:
        cancel(job, now, slurm)
    elif kind == LOOK:
        for i in range(numbers[slots.QUEUED]):
            independent(slurm.ask.job[slurm.now.queue[i]], now, slurm)
    elif kind == START:
        _start_as_recorded(job, now, slurm)
    elif kind in (PASS, CYCLE):
        _note_earlier_tries(now, slurm)
    if kind == PASS:
        numbers[slots.DIRTY] = 1
        main_pass(_ALL, now, slurm)
    elif kind == CYCLE:
        cycle(now, True, slurm)


@kernel
def _note_earlier_tries(now, slurm):
    """Take jobs of several QOS as tried in their last record, if they have waited for a pass."""
    ask = slurm.ask
    for i in range(slurm.numbers[slots.QUEUED] if slurm.rules.has_several_qos else 0):
        job = ask.job[slurm.now.queue[i]]
        if slurm.now.eligible[job] < now // 1000 - slurm.rules.batch_sched_delay:
            slurm.now.tried[job] = ask.records[job + 1] - 1


@kernel
def follow(ms, kind, row, first, node, aged, accrues, slurm):
    """Handle recorded events in order, int64 [events].

    Jobs that start together do so in queue order. The nodes of a job's START are ``node[first[job] : first[job + 1]]``.
    After each LOOK, which resets the ages of held jobs, the jobs ``aged`` get back their times ``accrues``.
    """
    state, usable, at = slurm.now, slurm.room.usable, 0
    while at < len(ms):
        last = at + 1
        while last < len(ms) and ms[last] == ms[at] and kind[last] == kind[at]:
            last += 1
        if kind[at] == START:
            for one in range(at, last):
                _next_in_line(one, last, row, state.queue, slurm)
                for word in range(len(usable)):
                    usable[word] = 0
                for place in range(first[row[one]], first[row[one] + 1]):
                    usable[node[place] >> SHIFT] |= 1 << (node[place] & LOW)
                _step(START, row[one], ms[at], slurm)
        else:
            for one in range(at, last):
                _step(kind[at], row[one], ms[at], slurm)
        if kind[at] == LOOK:
            for i in range(len(aged)):
                state.accrues[aged[i]] = accrues[i]
        at = last


@kernel
def _next_in_line(at, last, row, queue, slurm):
    """Move the job of ``row[at:last]`` that comes first in the queue to ``row[at]``."""
    if at + 1 == last:
        return
    for i in range(slurm.numbers[slots.QUEUED]):
        for other in range(at, last):
            if slurm.ask.job[queue[i]] == row[other]:
                row[at], row[other] = row[other], row[at]
                return


@kernel
def _start_as_recorded(job, now, slurm):
    room, state, usable = slurm.room, slurm.now, 0
    if state.phase[job] != PENDING:
        return
    for word in range(len(room.mask)):
        room.mask[word] = room.usable[word]
    for node in range(len(room.room)):
        usable += holds(room.usable, node)
    chosen = pick(job, room.mask, slurm, state.idle, state.cpus, state.memory, state.gpus)
    most = state.nodes[job + 1] - state.nodes[job]
    if chosen != usable and (usable <= most or chosen == 0):  # the record lacks the processors of each node, or the nodes
        chosen, usable, left, free = 0, min(usable, most), slurm.ask.cpus[job], 0
        for node in range(len(room.room)):
            free += max(state.cpus[node], 0) if holds(room.usable, node) else 0
        as_slurm = free >= left  # else a job is still on these nodes that had ended
        for node in range(len(room.room)):
            if chosen < usable and holds(room.usable, node):
                others = usable - chosen - 1
                even, first = (left + others) // (others + 1), min(state.cpus[node], left - others)
                room.chosen[chosen], room.take[chosen] = node, max(first if as_slurm else even, 1)
                left -= room.take[chosen]
                chosen += 1
    start(job, slurm.ask.partition[slurm.ask.records[job]], chosen, MAIN, now, slurm)
    drop_started(slurm)
