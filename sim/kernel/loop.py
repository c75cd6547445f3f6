"""The only event loop: advances a simulation until it ends or needs an answer.

Under per-second semantics a second that has an event goes in this order:

1. predictions that running jobs have outlived are corrected, and jobs that end now as predicted give their processors
   back;
2. at the first event after a midnight a predictor that learns each night is retrained;
3. under ``conditional(when=pass)`` the end of each running job is predicted anew;
4. opening hours of a machine of clusters begin or end;
5. all jobs that end now end, then all that arrive now are submitted, both in their order;
6. one scheduling pass. It is left out if time alone caused it and nothing has changed. A job that arrives alone, while
   jobs that were rejected before stay rejected, is looked at alone.

Where the loop stops for an answer it comes back to the same second. :mod:`sim.policy` has the other semantics, and the
causes of a pass.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from features.jit import kernel
from models.runtime.dispatch import OUTSIDE, TABLE
from models.runtime.memory import Memory
from sim.kernel import state as slots
from sim.kernel.cluster_passes import clusters_pass, submit_alone
from sim.kernel.cluster_room import fits_somewhere
from sim.kernel.clusters import change_hours, join, next_hour
from sim.kernel.corrections import RENEWED
from sim.kernel.dependencies import Dependencies
from sim.kernel.harm import harm_pass
from sim.kernel.orders import Scoring
from sim.kernel.outside import outside_pass, put_back, wait_for_policy
from sim.kernel.passes import PLANRS, enqueue, full_pass, move_up, order_changes, submit_pass
from sim.kernel.planning import search_is_due
from sim.kernel.scenarios import told_too_little
from sim.kernel.state import Estimates, Jobs, begin_to_run, place_of, start_job, take_out
from sim.kernel.steps import arrivals, end_job, next_event, refresh_plan, renew_plan, submit_job
from sim.slurm.clocks import next_clock, work
from sim.slurm.slots import STOPPED

DONE, ASK, ASK_AGAIN, RETRAIN, DECIDE, MOVED, PAUSE, SEARCH, POLICY, GO_ON = range(10)
"""Stop reasons, and what the caller does before it calls again. DONE: no event is left, or the job ``WANTED`` has
started. ASK: write estimates of the jobs just submitted, ``counters[ASKED]`` rows from ``counters[NEXT]`` on.
ASK_AGAIN: the running job ``counters[DOUBTED]`` has outlived its prediction ``State.planned``; write its new runtime to
``counters[ANSWER]``. Under Harm it has outlived all its quantiles; write new ``Scenarios.quantiles``. RETRAIN: a
midnight has passed; retrain the predictor. DECIDE: write to ``State.verdict`` whether job ``counters[UNDECIDED] - 1``
starts. MOVED: bring the monitored cluster up to now. PAUSE: the work in ``counters[EVENTS]`` is used up. SEARCH:
improve the plan of this pass; if it has changed, set ``counters[CHOSEN]`` to 1 for another pass. POLICY: let the policy
outside choose jobs and set ``counters[CHOSEN]`` to 1, or report its wrong choice (:mod:`sim.kernel.outside`). GO_ON is
no stop: the loop has a pass to make."""


class LoopInputs(NamedTuple):
    """Jobs, their estimates, what they wait for, and the memory of a compiled predictor."""

    jobs: Jobs
    estimates: Estimates
    dependencies: Dependencies
    memory: Memory


class Settings(NamedTuple):
    """Integer codes of one simulation.

    ``reservations``: the number that EASY gives. ``weights`` and ``backfill_weights``: the weights [6] of a mixed
    policy, or the values of a score. ``one_queue``: the primary queue is the backfill queue too (same order, and
    nothing reorders one alone). ``changing``: the order of waiting jobs can change (in a sweep, under some policy).
    ``backfill_changing``: the backfill order can. ``steady``: while only submissions happen and the order stays,
    rejected jobs stay rejected. ``starvation``: seconds of waiting after which a job moves to the head. ``gated``: a
    submission causes a pass only if the job fits now. ``timed``: time alone causes some passes: the ``expiry`` of a
    prediction, or a timer ``every`` so many seconds (0: none), ``phase`` of which had passed at second 0.
    ``by_request``: jobs are planned by their requests, and predictions only order the queue. ``dependent``: some jobs
    are submitted when others have ended. ``midnight``: the second of the next retraining; the code that retrains moves
    it on. ``monitored``: the jobs run on a cluster that decides when they end. ``bits``: width of a sequence number in
    an event. ``scoring``: the programs of orders that are scores.
    """

    algorithm: int
    reservations: int
    order: int
    weights: np.ndarray
    backfill: int
    backfill_weights: np.ndarray
    one_queue: bool
    changing: bool
    backfill_changing: bool
    steady: bool
    correction: int
    predictor: int
    starvation: int
    per_event: bool
    gated: bool
    timed: bool
    expiry: bool
    every: int
    phase: int
    by_request: bool
    dependent: bool
    midnight: int
    monitored: bool
    bits: int
    scoring: Scoring


@kernel
def advance(settings, inputs, work, now, scenarios, clusters, slurm, outside):
    """Run until the simulation ends or needs an answer; return (reason, now).

    ``inputs`` are :class:`LoopInputs`, ``work`` is a :class:`~sim.kernel.scratch.WorkArrays`. ``now`` is 0 at first,
    then the value last returned. The last four are members of ``work`` and its state; they are arguments, as numba
    drops branches on arguments that are None. With ``slurm`` all times are in ms.
    """
    jobs, estimates, state = inputs.jobs, inputs.estimates, work.state
    counters = state.counters
    while True:
        again = False
        if slurm is None and outside is None and counters[slots.UNDECIDED] > 0:
            again = True
            counters[slots.UNDECIDED] = 0  # decided: the stopped pass continues
        elif slurm is None and scenarios is None and counters[slots.CHOSEN] > 0:
            counters[slots.CHOSEN] = 0  # chosen: the pass begins
        else:
            reason, now, arriving = handle_events(settings, inputs, state, now, scenarios, clusters, slurm)
            if reason != GO_ON:
                return reason, now
            if slurm is not None:
                slurm_turn(settings, arriving, now, inputs, state, slurm)
                continue
            if outside is None:
                promote_starving(settings, now, jobs, estimates, work, scenarios, clusters)
            undisturbed = (
                counters[slots.CHANGED] == 0 and settings.steady and not order_changes(settings) and now < counters[slots.CHOICE]
            )
            if settings.timed and arriving == 0 and undisturbed:
                continue  # nothing has changed, and time alone starts no job
            if scenarios is None and outside is None and arriving == 1 and undisturbed and counters[slots.WAITING] > 0:
                # jobs that were rejected before stay rejected, so the new one is looked at alone
                job = submit_job(settings, inputs, state)
                if clusters is None:
                    done = submit_pass(settings, job, now, jobs, estimates, work)
                else:
                    done = submit_alone(settings, job, now, jobs, estimates, state, clusters)
                if done:
                    continue
            else:
                queue_up(settings, arriving, now, inputs, work, scenarios, clusters, outside)
                if settings.gated and arriving == 1 and not fits_somewhere(counters[slots.NEXT] - 1, jobs, state, clusters):
                    counters[slots.CHANGED] = 1
                    continue
        if outside is not None:
            if outside_pass(now, jobs, estimates, state, outside, clusters, settings.bits):
                return POLICY, now
        elif scenarios is not None:
            harm_pass(settings, now, inputs, state, scenarios, clusters)
        elif clusters is not None:
            clusters_pass(settings, now, jobs, estimates, state, clusters)
            if settings.algorithm == PLANRS and search_is_due(now, state, clusters):
                counters[slots.CHANGED] = 0
                return SEARCH, now
        else:
            full_pass(settings, again, now, jobs, estimates, work)
        counters[slots.CHANGED] = 0
        if outside is None and counters[slots.MOST_SKIPS] > 0:
            if counters[slots.UNDECIDED] > 0:
                return DECIDE, now
            if clusters is None or scenarios is not None:
                put_back(settings, now, jobs, estimates, work, scenarios)


@kernel
def handle_events(settings, inputs, state, now, scenarios, clusters, slurm):
    """Handle the events of the next second that has one.

    Return (reason, now, jobs that arrive). The reason is GO_ON, or why the loop stops. A caller that has written the
    estimates of arriving jobs comes back to the same second, whose other events have been handled.
    """
    jobs, dependencies, counters = inputs.jobs, inputs.dependencies, state.counters
    total = len(jobs.submit)
    if counters[slots.ASKED] > 0:
        arriving = counters[slots.ASKED]
        counters[slots.ASKED] = 0
        return GO_ON, now, arriving
    if settings.monitored and (
        counters[slots.SEEN_STARTS] != counters[slots.STARTED]
        or counters[slots.SEEN_ENDS] != counters[slots.ENDED]
        or now == counters[slots.MOMENT]
    ):
        return MOVED, now, 0
    counters[slots.EVENTS] -= 1
    if counters[slots.EVENTS] < 0:
        return PAUSE, now, 0
    if slurm is None and counters[slots.WANTED] > 0 and state.start[counters[slots.WANTED] - 1] >= 0:
        return DONE, now, 0
    before = now
    now = next_event(settings, jobs, dependencies, state, now, clusters)
    if slurm is not None:
        now = min(now, next_clock(before, counters[slots.NEXT] == total, slurm))
    if now == slots.NEVER:
        return DONE, now, 0
    if settings.monitored and counters[slots.MOMENT] <= now:
        return MOVED, counters[slots.MOMENT], 0
    night = counters[slots.NEXT] < total and now >= settings.midnight
    if refresh_plan(settings, settings.midnight - 1 if night else now, inputs, state, clusters):
        return ASK_AGAIN, now, 0
    if scenarios is not None and settings.predictor == OUTSIDE and told_too_little(now, jobs, dependencies, state, scenarios):
        return ASK_AGAIN, now, 0
    if night:
        return RETRAIN, now, 0
    if settings.correction == RENEWED and settings.predictor != TABLE:
        renew_plan(settings, now, inputs, state)
    if clusters is not None and next_hour(state, jobs, clusters) <= now:
        change_hours(now, state, clusters)
    if settings.per_event:
        arriving = handle_one(settings, now, inputs, state, clusters)
    else:
        if settings.timed:
            counters[slots.TICKED] = now + 1
        while counters[slots.ENDS] > 0 and state.ends[0] >> settings.bits == now:
            end_job(settings, now, inputs, state, clusters)
        arriving = arrivals(settings, total, now, inputs, counters)
    if arriving > 0 and settings.predictor == OUTSIDE:
        counters[slots.ASKED] = arriving
        return ASK, now, 0
    return GO_ON, now, arriving


@kernel
def handle_one(settings, now, inputs, state, clusters):
    """Handle one event under per-event semantics; return 1 for a submission, else 0.

    The first of these is taken: an expired prediction, a submission, an end, the timer.
    """
    counters = state.counters
    if settings.expiry and counters[slots.EXPIRED] > 0:
        counters[slots.EXPIRED] = 0
        return 0
    arriving = arrivals(settings, 1, now, inputs, counters)
    if arriving == 0:
        if counters[slots.ENDS] > 0 and state.ends[0] >> settings.bits == now:
            end_job(settings, now, inputs, state, clusters)
        elif settings.timed:
            counters[slots.TICKED] = now + 1
    return arriving


@kernel
def queue_up(settings, arriving, now, inputs, work, scenarios, clusters, outside):
    """Submit the arriving jobs, each to the queue of what decides."""
    jobs, estimates, state = inputs.jobs, inputs.estimates, work.state
    for _ in range(arriving):
        job = submit_job(settings, inputs, state)
        if scenarios is not None:
            state.counters[slots.WAITING] += 1  # Harm has a queue of its own
        elif outside is not None:
            wait_for_policy(job, state, outside)
        elif clusters is None:
            enqueue(settings, job, now, jobs, estimates, work)
        else:
            join(settings, job, now, jobs, estimates, state, clusters)


@kernel
def slurm_turn(settings, arriving, now, inputs, state, slurm):
    """Submit the arriving jobs and let Slurm's clocks work, which start and stop jobs."""
    jobs, estimates = inputs.jobs, inputs.estimates
    for _ in range(arriving):
        submit_job(settings, inputs, state)
    for i in range(work(now, state.ended, state.counters[slots.ENDED], state.counters[slots.NEXT], slurm)):
        job = slurm.now.begun[i]
        if slurm.now.attempts[job] > 1:  # again, after a stop
            begin_to_run(job, place_of(job, state), now, jobs, estimates, state, settings.bits)
        else:
            start_job(job, now, jobs, estimates, state, settings.bits)
    for i in range(slurm.numbers[STOPPED]):
        stopped = slurm.now.stopped[i]
        take_out(settings.bits, stopped, place_of(stopped, state), jobs, state)


@kernel
def promote_starving(settings, now, jobs, estimates, work, scenarios, clusters):
    """Move jobs that waited longer than the threshold to the head of the primary queue.

    They are first come, first served (Legrand, Trystram & Zrigui 2018). Rows below ``counters[STARVING]`` have been
    moved.
    """
    state, counters = work.state, work.state.counters
    while counters[slots.STARVING] < counters[slots.NEXT] and now - jobs.submit[counters[slots.STARVING]] > settings.starvation:
        job = counters[slots.STARVING]
        counters[slots.STARVING] = job + 1
        if state.start[job] < 0:
            if scenarios is None and clusters is None:
                move_up(settings, job, now, jobs, estimates, work.front, state)
            counters[slots.CHANGED] = 1
