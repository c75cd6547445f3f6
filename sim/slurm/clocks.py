"""Slurm's clocks: when passes, cycles and priorities are due.

From controller.c, ``_slurmctld_background``, and backfill.c, ``backfill_agent``.
"""

from __future__ import annotations

from features.jit import apart, kernel
from sim.slurm.backfill import cycle
from sim.slurm.choice import drop, occupy, put
from sim.slurm.main_pass import main_pass
from sim.slurm.queue import join, line_up, touch
from sim.slurm.shares import charge, decay_usage
from sim.slurm.state import (
    BACKFILL_DIRTY,
    BEGUN,
    CHANGED_AT,
    CLEARED,
    COMPLETING,
    CYCLE,
    DECAY,
    DONE,
    JOINED,
    LAST_ASKED,
    LAST_CYCLE,
    LAST_DECAY,
    LAST_FULL,
    LAST_PASS,
    NEVER,
    NONE,
    OUTAGE,
    PASS,
    QUEUED,
    REQUESTS,
    RUNNING,
    SEEN_ENDS,
    TICK,
)

IDLE_MS = 2 * 86_400_000
"""The machine empty and nothing to come for so long: what waits then never starts."""
_ALL = 1 << 30


@kernel
def next_clock(now, submitted_all, slurm):
    """Return when Slurm next does something by itself, in ms.

    NEVER once nothing can change any more.
    """
    numbers = slurm.numbers
    empty = numbers[RUNNING] == 0 and numbers[CLEARED] == numbers[SEEN_ENDS]
    if empty and numbers[QUEUED] == 0:
        return max(min(numbers[TICK], numbers[PASS]), now + 1)  # a pass was asked for
    if empty and submitted_all and now > max(numbers[CHANGED_AT], _last_known(slurm)) + IDLE_MS:
        return NEVER
    when = min(numbers[TICK], numbers[PASS])
    if numbers[QUEUED] > 0:
        when = min(when, numbers[CYCLE])
    if slurm.rules.multifactor:
        when = min(when, numbers[DECAY])
    if numbers[CLEARED] < numbers[SEEN_ENDS]:
        when = min(when, slurm.now.end_ms[slurm.now.ended[numbers[CLEARED]]] + slurm.rules.epilog_ms)
    if numbers[OUTAGE] < len(slurm.outages.time_ms):
        when = min(when, slurm.outages.time_ms[numbers[OUTAGE]])
    return max(when, now + 1)


@kernel
def _last_known(slurm):
    """Return the last moment, in ms, at which a reservation ends or a job may begin."""
    last = 0
    for row in range(len(slurm.reservations.end)):
        last = max(last, slurm.reservations.end[row] * 1000)
    for i in range(slurm.numbers[QUEUED]):
        last = max(last, slurm.ask.begin_ms[slurm.ask.job[slurm.now.queue[i]]])
    return last


@apart
def work(now, ended, ends, submitted, slurm):
    """Do what is due at ``now``; return how many jobs have started: ``Now.begun``.

    ``ended`` are jobs in order of their ends, ``ends`` of them have ended, and so many jobs have been ``submitted``.
    """
    numbers, state, rules = slurm.numbers, slurm.now, slurm.rules
    numbers[BEGUN] = 0
    catch_up(now, slurm)
    while numbers[SEEN_ENDS] < ends:
        end(ended[numbers[SEEN_ENDS]], now, slurm)
    while numbers[JOINED] < submitted:
        join(numbers[JOINED], now, slurm)
        numbers[JOINED] += 1
        touch(now, slurm)
        ask_for_pass(now, slurm)
    while numbers[OUTAGE] < len(slurm.outages.time_ms) and slurm.outages.time_ms[numbers[OUTAGE]] <= now:
        if slurm.outages.node[numbers[OUTAGE]] != NONE:
            if slurm.outages.up[numbers[OUTAGE]] != 0:
                put(state.up, slurm.outages.node[numbers[OUTAGE]])
            else:
                drop(state.up, slurm.outages.node[numbers[OUTAGE]])
        numbers[OUTAGE] += 1
        touch(now, slurm)
        ask_for_pass(now, slurm)
    while numbers[CLEARED] < numbers[SEEN_ENDS] and state.end_ms[state.ended[numbers[CLEARED]]] + rules.epilog_ms <= now:
        clear(state.ended[numbers[CLEARED]], now, slurm)
        numbers[CLEARED] += 1
    if numbers[TICK] <= now:
        turn(now, slurm)
    if numbers[PASS] <= now:
        main_pass(_ALL, now, slurm)
    if rules.backfills and numbers[CYCLE] <= now:
        wake(now, slurm)
    if rules.multifactor and numbers[DECAY] <= now:
        decay_usage(now // 1000, slurm)
        line_up(now // 1000, slurm)
        numbers[DECAY] += rules.calc_period * 1000
        if numbers[QUEUED] > 0:
            touch(now, slurm)
    return numbers[BEGUN]


@kernel
def catch_up(now, slurm):
    """Let the clocks that turned while nothing waited stand as they would."""
    numbers, rules = slurm.numbers, slurm.rules
    between = max(rules.bf_interval, 1) * 1000
    if numbers[CYCLE] < now:
        numbers[LAST_CYCLE] = numbers[CYCLE] + (now - 1 - numbers[CYCLE]) // between * between
        numbers[CYCLE] = numbers[LAST_CYCLE] + between
    period = rules.calc_period * 1000
    if rules.multifactor and numbers[DECAY] < now:
        last = numbers[DECAY] + (now - 1 - numbers[DECAY]) // period * period
        decay_usage(last // 1000, slurm)
        numbers[DECAY] = last + period


@kernel
def end(job, now, slurm):
    """End a job: its processors are free, its nodes COMPLETING until they answer."""
    state, numbers, ask = slurm.now, slurm.numbers, slurm.ask
    state.ended[numbers[SEEN_ENDS]] = job
    numbers[SEEN_ENDS] += 1
    state.phase[job], state.end_ms[job] = COMPLETING, now
    i = 0
    while state.running[i] != job:
        i += 1
    numbers[RUNNING] -= 1
    for k in range(i, numbers[RUNNING]):
        state.running[k] = state.running[k + 1]
    occupy(job, 1, slurm, state.cpus, state.memory, state.gpus)
    for row in range(ask.limits[job], ask.limits[job + 1]):
        state.used[ask.slot[row]] -= ask.amount[row]
    for at in range(state.nodes[job], state.nodes[job] + state.held[job]):
        state.busy[state.node[at]] += 1
        put(state.completing, state.node[at])
    state.tasks[ask.group[job]] -= 1
    charge(job, float(numbers[LAST_DECAY]), now / 1000, slurm)
    touch(now, slurm)


@kernel
def clear(job, now, slurm):
    """Let the nodes of an ended job answer, and jobs that waited for it go."""
    state = slurm.now
    for at in range(state.nodes[job], state.nodes[job] + state.held[job]):
        state.busy[state.node[at]] -= 1
        if state.busy[state.node[at]] == 0:
            drop(state.completing, state.node[at])
    state.phase[job] = DONE
    state.undone[slurm.ask.group[job]] -= 1
    touch(now, slurm)
    ask_for_pass(now, slurm)


@kernel
def ask_for_pass(now, slurm):
    """Ask for a pass (``queue_job_scheduler``): a turn of the background loop starts it."""
    slurm.numbers[REQUESTS] += 1
    expect_turn(now, slurm)


@kernel
def expect_turn(now, slurm):
    """Set the next turn of the background loop.

    Make up for the full passes over an empty queue before it.
    """
    numbers, rules = slurm.numbers, slurm.rules
    if numbers[TICK] != NEVER:
        return
    first, turn_ms = rules.first_turn_ms, rules.turn_ms
    while True:
        due = (numbers[LAST_FULL] // 1000 + rules.sched_interval) * 1000
        full = first + -((first - due) // turn_ms) * turn_ms
        if full >= now:
            break
        numbers[LAST_FULL] = numbers[LAST_ASKED] = full
    numbers[TICK] = first + ((now - first) // turn_ms + 1) * turn_ms


@kernel
def turn(now, slurm):
    """Turn the background loop once: a full pass, a requested one, or none."""
    numbers, rules = slurm.numbers, slurm.rules
    numbers[TICK] = NEVER
    if now // 1000 - numbers[LAST_FULL] // 1000 >= rules.sched_interval:
        numbers[LAST_FULL] = numbers[LAST_ASKED] = now
        numbers[REQUESTS] = 0
        begin_pass(_ALL, now, slurm)
    elif numbers[REQUESTS] > 0 and now // 1000 - numbers[LAST_ASKED] // 1000 >= rules.batch_sched_delay:
        numbers[LAST_ASKED] = now
        numbers[REQUESTS] = 0
        begin_pass(rules.depth, now, slurm)
    if numbers[QUEUED] > 0 or numbers[REQUESTS] > 0:
        expect_turn(now, slurm)


@kernel
def begin_pass(depth, now, slurm):
    """Make a pass now, or once ``sched_min_interval`` is over."""
    numbers, least = slurm.numbers, slurm.rules.sched_min_interval_ms
    if now - numbers[LAST_PASS] >= least:
        main_pass(depth, now, slurm)
    elif numbers[PASS] == NEVER:
        numbers[PASS] = numbers[LAST_PASS] + least + 1


@kernel
def wake(now, slurm):
    """Wake the backfill scheduler.

    It goes through the queue if something has changed, or a limit is over.
    """
    numbers, rules, state = slurm.numbers, slurm.rules, slurm.now
    if now // 1000 - numbers[LAST_CYCLE] // 1000 < rules.bf_interval:
        numbers[CYCLE] = now + 1000
        return
    overdue = numbers[RUNNING] > 0 and state.limit_end[state.running[0]] <= now // 1000
    if numbers[QUEUED] > 0 and (numbers[BACKFILL_DIRTY] != 0 or overdue):
        numbers[BACKFILL_DIRTY] = 0
        cycle(now, slurm)
    numbers[LAST_CYCLE] = now
    numbers[CYCLE] = now + max(rules.bf_interval, 1) * 1000
