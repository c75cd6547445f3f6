"""The steps of the event loop: what is due next, and what an event changes.

:mod:`sim.kernel.loop` calls them in the order of its docstring.
"""

from __future__ import annotations

import numpy as np

from features.jit import apart, kernel
from models.runtime.dispatch import ANSWERS_APART, OUTSIDE, TABLE, answer_to, estimate, estimate_again, learn, started, wants_starts
from models.runtime.protocol import END, FIT
from sim.kernel import state as slots
from sim.kernel.clusters import give_back, next_hour
from sim.kernel.corrections import CONDITIONAL, corrected
from sim.kernel.dependencies import next_submission, release, take
from sim.kernel.state import heap_pop, plan_insert, plan_remove


@kernel
def next_event(settings, jobs, dependencies, state, last, clusters):
    """Return when the next event or timed pass is due, not before ``last``; NEVER if none."""
    counters = state.counters
    now = slots.NEVER
    if counters[slots.NEXT] < len(jobs.submit):
        now = (
            next_submission(dependencies, counters, settings.bits, slots.NEVER)
            if settings.dependent
            else jobs.submit[counters[slots.NEXT]]
        )
    if counters[slots.ENDS] > 0:
        now = min(now, state.ends[0] >> settings.bits)
    if counters[slots.WAKE] > 0:
        now = min(now, counters[slots.WAKE])
    if clusters is not None:
        now = min(now, next_hour(state, jobs, clusters))
    if now == slots.NEVER:
        return now  # jobs that a policy left out may still wait; time alone starts none
    if settings.timed and counters[slots.WAITING] > 0:
        now = min(now, next_timed(settings, state, last))
    return now


@apart
def next_timed(settings, state, last):
    """Return when time alone next causes a pass: a prediction expires, or the timer is due.

    ``last`` is the time of the last event; the timer is not due again in a second that it has served.
    """
    when = slots.NEVER
    if settings.expiry and state.counters[slots.PLANS] > 0:
        when = state.plan[0] >> settings.bits
    if settings.every > 0:
        tick = last + -(last + settings.phase) % settings.every
        if tick < state.counters[slots.TICKED]:
            tick += settings.every
        when = min(when, tick)
    return when


@kernel
def arrivals(settings, most, now, inputs, counters):
    """Count the jobs submitted in this second (rows from ``NEXT`` on), at most ``most``."""
    jobs, dependencies, arriving = inputs.jobs, inputs.dependencies, 0
    total = len(jobs.submit)
    while arriving < most and counters[slots.NEXT] + arriving < total:
        job = counters[slots.NEXT] + arriving
        if settings.dependent:
            if next_submission(dependencies, counters, settings.bits, slots.NEVER) != now:
                break
            take(dependencies, job, now, jobs, inputs.estimates, counters, settings.bits)
        elif jobs.submit[job] != now:
            break
        arriving += 1
    return arriving


@kernel
def refresh_plan(settings, now, inputs, state, clusters):
    """Bring the plan of running jobs up to ``now``; return True if the loop must ask outside.

    Expired predictions are corrected. A job that ends this very second, as predicted, leaves the plan and frees its
    processors, although its end is handled later.
    """
    jobs, estimates, counters = inputs.jobs, inputs.estimates, state.counters
    bits = settings.bits
    while counters[slots.PLANS] > 0 and state.plan[0] >> bits <= now:
        planned = state.plan[0] >> bits
        sequence = state.plan[0] & ((1 << bits) - 1)
        job = state.running[sequence]
        start = state.start[job]
        ends = planned == start + jobs.runtime[job]
        if not ends and settings.correction >= CONDITIONAL:
            if settings.predictor == OUTSIDE and counters[slots.ANSWER] == 0:
                counters[slots.DOUBTED] = job
                return True
            answer = counters[slots.ANSWER]
            counters[slots.ANSWER] = 0
            if settings.predictor != OUTSIDE:
                seconds = estimate_again(settings.predictor, inputs.memory, job, jobs, estimates.end[job], planned - start)
                answer = usable(seconds, planned - start + 1, jobs.requested[job], jobs.requested[job], job, counters)
        plan_remove(state.plan, state.plan_procs, counters[slots.PLANS], state.plan[0])
        counters[slots.PLANS] -= 1
        counters[slots.CHANGED] = 1
        if ends:
            counters[slots.FREE] += jobs.procs[job]
            if clusters is not None:
                give_back(job, clusters)
            state.planned[job] = slots.LEFT
            continue
        if settings.correction >= CONDITIONAL:
            planned = start + answer
        else:
            planned = corrected(
                settings.correction, state.corrections[job], planned, start, estimates.end[job], jobs.requested[job]
            )
        plan_insert(state.plan, state.plan_procs, counters[slots.PLANS], planned << bits | sequence, jobs.procs[job])
        counters[slots.PLANS] += 1
        state.planned[job] = planned
        state.corrections[job] += 1
        counters[slots.EXPIRED] = 1
        counters[slots.AS_PLANNED] = slots.LATER
    return False


@apart
def renew_plan(settings, now, inputs, state):
    """Renew the predicted end of each running job by a compiled predictor.

    The predictor is given the elapsed time. Afterwards no running job has outlived its prediction.
    """
    jobs, estimates, counters = inputs.jobs, inputs.estimates, state.counters
    bits = settings.bits
    for i in range(counters[slots.PLANS]):
        event, procs = state.plan[i], state.plan_procs[i]
        sequence = event & ((1 << bits) - 1)
        job = state.running[sequence]
        elapsed = now - state.start[job]
        if elapsed > 0:
            seconds = estimate_again(settings.predictor, inputs.memory, job, jobs, estimates.end[job], elapsed)
            planned = state.start[job] + usable(seconds, elapsed + 1, jobs.requested[job], jobs.requested[job], job, counters)
            if planned != event >> bits:
                state.planned[job] = planned
                event = planned << bits | sequence
                counters[slots.CHANGED] = 1
                counters[slots.AS_PLANNED] = slots.LATER
        k = i  # the plan is nearly sorted
        while k > 0 and state.plan[k - 1] > event:
            state.plan[k] = state.plan[k - 1]
            state.plan_procs[k] = state.plan_procs[k - 1]
            k -= 1
        state.plan[k] = event
        state.plan_procs[k] = procs


@kernel
def end_job(settings, now, inputs, state, clusters):
    """End the next running job: free processors, train the predictor, release dependent jobs."""
    jobs, counters = inputs.jobs, state.counters
    sequence = state.ends[0] & ((1 << settings.bits) - 1)
    heap_pop(state.ends, counters[slots.ENDS])
    counters[slots.ENDS] -= 1
    job = state.running[sequence]
    if state.planned[job] != slots.LEFT:
        plan_remove(state.plan, state.plan_procs, counters[slots.PLANS], state.planned[job] << settings.bits | sequence)
        counters[slots.PLANS] -= 1
        counters[slots.FREE] += jobs.procs[job]
        if clusters is not None:
            give_back(job, clusters)
        if counters[slots.AS_PLANNED] == slots.PLANNED:
            counters[slots.AS_PLANNED] = slots.EARLIER
    counters[slots.CHANGED] = 1
    state.ended[counters[slots.ENDED]] = job
    counters[slots.ENDED] += 1
    tell_starts(settings.predictor, jobs, state, inputs.memory)
    learn(settings.predictor, inputs.memory, job, jobs, now)
    if settings.dependent:
        release(inputs.dependencies, job, now, counters, settings.bits)


@kernel
def submit_job(settings, inputs, state):
    """Submit the next job and write the estimates of a compiled predictor; return its row."""
    jobs, estimates, memory, counters = inputs.jobs, inputs.estimates, inputs.memory, state.counters
    job = counters[slots.NEXT]
    counters[slots.NEXT] = job + 1
    if settings.predictor != OUTSIDE and settings.predictor != TABLE:
        tell_starts(settings.predictor, jobs, state, memory)
        seconds = estimate(settings.predictor, memory, job, jobs, state.start)
        whole = usable(seconds, 1, 1, jobs.requested[job], job, counters)
        estimates.order[job] = whole
        if not settings.by_request:
            estimates.fit[job] = whole
            estimates.end[job] = whole
        if settings.predictor in ANSWERS_APART and not settings.by_request:
            seconds = answer_to(settings.predictor, memory, FIT, job)
            estimates.fit[job] = usable(seconds, 1, 1, jobs.requested[job], job, counters)
            seconds = answer_to(settings.predictor, memory, END, job)
            estimates.end[job] = usable(seconds, 1, 1, jobs.requested[job], job, counters)
    return job


@kernel
def usable(seconds, least, instead, most, job, counters):
    """Return a compiled predictor's answer in whole seconds, clamped to its bounds.

    An answer below ``least`` becomes ``instead``, any other outside the bounds ``most``; both are counted. If the
    answer is not finite, ``counters[UNUSABLE]`` notes the ``job``.
    """
    if least <= seconds <= most:
        return np.int64(seconds)
    if not np.isfinite(seconds):
        counters[slots.UNUSABLE] = job + 1
    counters[slots.CLAMPED] += 1
    return instead if seconds < least else most


@kernel
def tell_starts(predictor, jobs, state, memory):
    """Pass new starts to the compiled predictor, if it uses them."""
    if wants_starts(predictor):
        counters = state.counters
        while counters[slots.TOLD] < counters[slots.STARTED]:
            started(predictor, memory, state.running[counters[slots.TOLD]], jobs)
            counters[slots.TOLD] += 1
