"""Slurm's clocks: when passes, cycles and computations of priorities are due.

The end of an epilog causes a pass at once. A job that had ended before slurmctld asked its nodes to end it only
requests one.

From controller.c, ``_slurmctld_background``, and backfill.c, ``backfill_agent``.
"""

from __future__ import annotations

import numpy as np

from features.jit import apart, kernel
from sim.slurm import slots
from sim.slurm.backfill import cycle
from sim.slurm.choice import drop, put
from sim.slurm.main_pass import main_pass
from sim.slurm.queue import drop_started, join, line_up, release, touch
from sim.slurm.runs import TURN_MS, end, next_poll, stop, turn_from
from sim.slurm.shares import decay_usage
from sim.slurm.state import ABSENT, DONE, DOWN, DRAINED, IF_WAITING, MADE, NEW, NO_TIME, NONE, PENDING, RUNS, UP

IDLE_MS = 2 * 86_400_000
"""After this time with an empty machine and nothing to come, jobs still waiting never start."""
REQUEUE_MS = 121_000
"""A requeued job starts at the earliest after this time (121 s measured): then its last credentials are void."""
_DIRECT_MS = 10
"""How long after a job's nodes have answered its direct pass may stand in the log."""
_CYCLE_MS = 500
"""How close cycles of the log are to those of a replay, which drift with slurmctld's work."""
_ALL = 1 << 30


@kernel
def next_clock(now, submitted_all, slurm):
    """Return when Slurm next acts by itself, in ms.

    Return NO_TIME if nothing can change any more.
    """
    numbers = slurm.numbers
    empty = numbers[slots.RUNNING] == 0 and numbers[slots.CLEARED] == numbers[slots.ENDINGS]
    if empty and numbers[slots.QUEUED] == 0:
        return max(min(numbers[slots.TICK], numbers[slots.PASS]), now + 1)  # a pass was asked for
    if empty and submitted_all and now > max(numbers[slots.CHANGED_AT], _last_known(slurm)) + IDLE_MS:
        return NO_TIME
    when = min(numbers[slots.TICK], numbers[slots.PASS])
    if numbers[slots.QUEUED] > 0:
        when = min(when, numbers[slots.CYCLE])
    if slurm.rules.multifactor:
        when = min(when, numbers[slots.DECAY])
    if numbers[slots.CLEARED] < numbers[slots.ENDINGS]:
        when = min(when, _answered_ms(_completing(slurm), slurm))
    when = min(when, numbers[slots.NOTICE])
    if numbers[slots.OUTAGE] < len(slurm.outages.time_ms):
        when = min(when, slurm.outages.time_ms[numbers[slots.OUTAGE]])
    return max(when, now + 1)


@kernel
def _next_cycle(now, slurm):
    """Return when the next cycle after one at ``now`` is due, in ms.

    It is the next one of the log. A cycle is one instant here: its work only delays the next one, and where nothing has
    changed the scheduler looks again each second.
    """
    due = now + slurm.rules.cycle_ms
    logged = _logged(slurm.cycles, due - _CYCLE_MS, due + slurm.rules.calc_period * 1000 + _CYCLE_MS)
    return due if logged == NONE else logged


@kernel
def _logged(times, first, last):
    """Return the first of the log's times from ``first`` to ``last`` ms, or NONE."""
    at = np.searchsorted(times, first)
    return times[at] if at < len(times) and times[at] <= last else NONE


@kernel
def _last_known(slurm):
    """Return the last time, in ms, at which a reservation ends or a waiting job may begin."""
    last = 0
    for row in range(len(slurm.reservations.end)):
        last = max(last, slurm.reservations.end[row] * 1000)
    for i in range(slurm.numbers[slots.QUEUED]):
        last = max(last, slurm.ask.begin_ms[slurm.ask.job[slurm.now.queue[i]]])
    return last


@apart
def work(now, ended, ends, submitted, slurm):
    """Do what is due at ``now``; return how many jobs have started.

    ``Now.begun`` lists these jobs. ``ends`` jobs have ended, listed in ``ended``, and ``submitted`` are submitted. What
    is due in one millisecond goes in this order: ends, submissions, changes of the site, ends of grace times, answers of
    nodes, a turn of the background loop, a pass, a cycle of backfill, the computation of priorities.
    """
    numbers, state, rules = slurm.numbers, slurm.now, slurm.rules
    numbers[slots.BEGUN] = numbers[slots.STOPPED] = 0
    catch_up(now, slurm)
    while numbers[slots.SEEN_ENDS] < ends:
        end(ended[numbers[slots.SEEN_ENDS]], now, slurm)
        numbers[slots.SEEN_ENDS] += 1
    while numbers[slots.JOINED] < submitted:
        job = numbers[slots.JOINED]
        numbers[slots.JOINED] += 1
        if state.phase[job] == ABSENT:
            continue
        if state.phase[job] == NEW:
            join(job, now, slurm)
        touch(now, slurm)
        if slurm.ask.het[job] == NONE:  # the submission of a heterogeneous job requests no pass
            ask_for_pass(now, slurm)
    while numbers[slots.OUTAGE] < len(slurm.outages.time_ms) and slurm.outages.time_ms[numbers[slots.OUTAGE]] <= now:
        node, up, job = change_site(numbers[slots.OUTAGE], slurm)
        numbers[slots.OUTAGE] += 1
        if up == IF_WAITING and state.phase[job] != PENDING:
            continue
        if node != NONE and up == DOWN:
            _lose_jobs(node, now, slurm)
        elif job != NONE and up == DOWN:
            release(job, now, slurm)
        elif job != NONE and up in (UP, IF_WAITING):
            cancel(job, now, slurm)
        touch(now, slurm)
        if node != NONE or up == MADE or (job != NONE and up in (UP, IF_WAITING)):  # that a begin time has come asks for no pass
            ask_for_pass(now, slurm)
    if numbers[slots.NOTICE] <= now:
        _end_grace(now, slurm)
        numbers[slots.NOTICE] = _next_notice(now, slurm)
        touch(now, slurm)
    while numbers[slots.CLEARED] < numbers[slots.ENDINGS] and _answered_ms(_completing(slurm), slurm) <= now:
        job = _completing(slurm)
        numbers[slots.CLEARED] += 1
        clear(job, now, slurm)
        direct = _logged(slurm.direct, max(state.end_ms[job], numbers[slots.LAST_PASS] + 1), now + _DIRECT_MS)
        if direct != NONE:  # ends close together may share it
            numbers[slots.PASS] = min(numbers[slots.PASS], max(direct, now))
        elif rules.direct or state.killed[job] != 0:
            begin_pass(rules.depth, now, slurm)
        else:
            ask_for_pass(now, slurm)
    if numbers[slots.TICK] <= now:
        turn(now, slurm)
    if numbers[slots.PASS] <= now:
        main_pass(_ALL, now, slurm)
    if rules.backfills and numbers[slots.CYCLE] <= now:
        wake(now, slurm)
    if rules.multifactor and numbers[slots.DECAY] <= now:
        decay_usage(now // 1000, slurm)
        line_up(now // 1000, slurm)
        numbers[slots.DECAY] += rules.calc_period * 1000
        if numbers[slots.QUEUED] > 0:
            numbers[slots.DIRTY] = numbers[slots.BACKFILL_DIRTY] = 1
    return numbers[slots.BEGUN]


@kernel
def change_site(row, slurm):
    """Apply an event: a node goes or comes back, or a reservation moves to its next time.

    Return the event's node, up and job.
    """
    state, kept = slurm.now, slurm.reservations
    node, up, job = slurm.outages.node[row], slurm.outages.up[row], slurm.outages.job[row]
    if node != NONE and up == UP:
        put(state.up, node)
    elif node != NONE:
        drop(state.up, node)
    elif job != NONE and up in (DRAINED, MADE):
        kept.start[kept.row[job]], kept.end[kept.row[job]] = kept.next_start[job], kept.next_end[job]
    return node, up, job


@kernel
def catch_up(now, slurm):
    """Advance the clocks that were not run while no job waited."""
    numbers, rules = slurm.numbers, slurm.rules
    while numbers[slots.CYCLE] < now:
        numbers[slots.LAST_CYCLE] = numbers[slots.CYCLE]
        numbers[slots.CYCLE] = _next_cycle(numbers[slots.CYCLE], slurm)
    period = rules.calc_period * 1000
    if rules.multifactor and numbers[slots.DECAY] < now:
        last = numbers[slots.DECAY] + (now - 1 - numbers[slots.DECAY]) // period * period
        decay_usage(last // 1000, slurm)
        numbers[slots.DECAY] = last + period


@kernel
def _completing(slurm):
    """Return the job whose nodes answer next."""
    ended = slurm.now.ended
    return ended[slurm.numbers[slots.CLEARED] % len(ended)]


@kernel
def _answered_ms(job, slurm):
    """Return when the nodes of an ended job answer, in ms."""
    return slurm.now.end_ms[job] + slurm.now.answer_ms[job]


@kernel
def _next_notice(now, slurm):
    """Return when the next waiting job becomes eligible or grace time ends, or NO_TIME."""
    state, when = slurm.now, NO_TIME
    for i in range(slurm.numbers[slots.QUEUED]):
        begins = slurm.ask.begin_ms[slurm.ask.job[state.queue[i]]]
        if now < begins < when:
            when = begins
    for i in range(slurm.numbers[slots.RUNNING]):
        job = state.running[i]
        if state.warned[job] != NONE:
            when = min(when, next_poll(max(state.limit_end[job] * 1000, now + 1), slurm))
    return when


@kernel
def _end_grace(now, slurm):
    """Stop the jobs whose grace time has ended, by the polls of limits (``job_time_limit``)."""
    state, i = slurm.now, 0
    while i < slurm.numbers[slots.RUNNING]:
        job = state.running[i]
        if state.warned[job] != NONE and next_poll(state.limit_end[job] * 1000, slurm) <= now:
            stop(job, 0, now, slurm)
        else:
            i += 1


@kernel
def _lose_jobs(node, now, slurm):
    """Stop the jobs that run on a node that went down."""
    state, i = slurm.now, 0
    while i < slurm.numbers[slots.RUNNING]:
        job, on_node = state.running[i], False
        for at in range(state.nodes[job], state.nodes[job] + state.held[job]):
            on_node = on_node or state.node[at] == node
        if on_node:
            stop(job, slurm.preemption.requeues[job], now, slurm)
        else:
            i += 1


@kernel
def cancel(job, now, slurm):
    """Cancel a job: remove it from the queue, or stop it if it runs."""
    state = slurm.now
    if state.phase[job] == RUNS:
        stop(job, 0, now, slurm)
    elif state.phase[job] == PENDING or state.phase[job] == NEW:
        state.phase[job] = DONE
        state.undone[slurm.ask.group[job]] -= 1
        drop_started(slurm)


@kernel
def _wait_again(job, now, slurm):
    """Queue a stopped job again, as if submitted now; it may begin after ``REQUEUE_MS``."""
    state, ask, numbers = slurm.now, slurm.ask, slurm.numbers
    state.again[job] = 0
    state.eligible[job] = state.accrues[job] = NONE
    ask.begin_ms[job] = now + REQUEUE_MS
    ask.order[job] = len(ask.order) + numbers[slots.ENDINGS]
    numbers[slots.NOTICE] = min(numbers[slots.NOTICE], ask.begin_ms[job])
    join(job, now, slurm)


@kernel
def clear(job, now, slurm):
    """Handle the answer of an ended job's nodes; its dependents may become eligible."""
    state = slurm.now
    for at in range(state.nodes[job], state.nodes[job] + state.held[job]):
        state.busy[state.node[at]] -= 1
        if state.busy[state.node[at]] == 0:
            drop(state.completing, state.node[at])
    touch(now, slurm)
    if state.again[job] != 0:
        _wait_again(job, now, slurm)
    else:
        state.phase[job] = DONE
        state.undone[slurm.ask.group[job]] -= 1


@kernel
def ask_for_pass(now, slurm):
    """Request a pass (``queue_job_scheduler``), which a turn of the background loop starts."""
    slurm.numbers[slots.REQUESTS] += 1
    expect_turn(now, slurm)


@kernel
def expect_turn(now, slurm):
    """Set the next turn of the background loop.

    Account first for the full passes over an empty queue since the last turn.
    """
    numbers, rules = slurm.numbers, slurm.rules
    if numbers[slots.TICK] != NO_TIME:
        return
    while True:
        full = turn_from((numbers[slots.LAST_FULL] // 1000 + rules.sched_interval) * 1000, slurm)
        if full >= now:
            break
        numbers[slots.LAST_FULL] = numbers[slots.LAST_ASKED] = full
    turn = turn_from(now + 1 - TURN_MS, slurm)
    while True:
        logged = _logged(slurm.passes, turn - TURN_MS, turn + TURN_MS)
        numbers[slots.TICK] = turn if logged == NONE else logged
        if numbers[slots.TICK] > now:
            break
        turn = turn_from(turn + 1, slurm)


@kernel
def turn(now, slurm):
    """Turn the background loop once: a full pass, a requested one, or none.

    A pass of the log is made, whatever asked for it: not all that asks is known. At a turn on a whole second
    slurmctld's own clock may be one behind, so a pass comes a second sooner or later: as in the log.
    """
    numbers, rules, passes = slurm.numbers, slurm.rules, slurm.passes
    numbers[slots.TICK] = NO_TIME
    here = _logged(passes, now - TURN_MS, now + TURN_MS) != NONE
    late = rules.turns_on_seconds and not here and _logged(passes, now + TURN_MS, now + TURN_MS + 1000) != NONE
    seen = now - 1000 if _is_behind(now, slurm) else now
    due = seen // 1000 - numbers[slots.LAST_ASKED] // 1000 >= rules.batch_sched_delay
    requested = here or (numbers[slots.REQUESTS] > 0 and due)
    if not late and seen // 1000 - numbers[slots.LAST_FULL] // 1000 >= rules.sched_interval:
        numbers[slots.LAST_FULL] = numbers[slots.LAST_ASKED] = seen
        numbers[slots.REQUESTS] = 0
        begin_pass(_ALL, now, slurm)
    elif not late and requested:
        numbers[slots.LAST_ASKED] = seen
        numbers[slots.REQUESTS] = 0
        begin_pass(rules.depth, now, slurm)
    if numbers[slots.QUEUED] > 0 or numbers[slots.REQUESTS] > 0:
        expect_turn(now, slurm)


@kernel
def _is_behind(now, slurm):
    """Tell whether slurmctld takes this turn for one of the second before.

    A turn on a whole second may come before the kernel's tick that moves the clock of ``time``. Without a log it is
    drawn.
    """
    rules = slurm.rules
    drawn = (now // 1000 * 2_654_435_761 + rules.seed * 40_503) >> 12
    return rules.turns_on_seconds and len(slurm.passes) == 0 and drawn % 100 < rules.behind_percent


@kernel
def begin_pass(depth, now, slurm):
    """Run a pass now, or once ``sched_min_interval`` has gone since the last one."""
    numbers, least = slurm.numbers, slurm.rules.sched_min_interval_ms
    if now - numbers[slots.LAST_PASS] >= least:
        main_pass(depth, now, slurm)
    elif numbers[slots.PASS] == NO_TIME:
        numbers[slots.PASS] = numbers[slots.LAST_PASS] + least + 1


@kernel
def wake(now, slurm):
    """Wake the backfill scheduler.

    It runs a cycle if something has changed or a job has reached its limit.
    """
    numbers, rules, state = slurm.numbers, slurm.rules, slurm.now
    if now // 1000 - numbers[slots.LAST_CYCLE] // 1000 < rules.bf_interval:
        numbers[slots.CYCLE] = now + 1000
        return
    overdue = numbers[slots.RUNNING] > 0 and state.limit_end[state.running[0]] <= now // 1000
    if numbers[slots.QUEUED] > 0 and (numbers[slots.BACKFILL_DIRTY] != 0 or overdue):
        numbers[slots.BACKFILL_DIRTY] = 0
        cycle(now, False, slurm)
    numbers[slots.LAST_CYCLE] = now
    numbers[slots.CYCLE] = _next_cycle(now, slurm)
