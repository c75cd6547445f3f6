"""Harm: backfilling by expected harm, in scenarios of a predicted distribution.

EASY lets a job pass the head of the queue if a single number says that the job ends before the reservation. Here the
expected delay of the head over K scenarios (:mod:`sim.kernel.scenarios`) is weighed against the gain of the job that
would pass. Both are in processor-seconds, because AWF times the sum of areas is the time integral of unfinished work.
No paper has this rule.

P is the machine's processors, n a job's, p its runtime in a scenario, E the mean over scenarios; constants are named as
options::

    Z        P2SF of the jobs that have ended, s; 0 before any has
    RATE     sum n p F / sum max(1, F / max(p, 10)) over the jobs that have ended; 0 before any has
    order    smallest submit - width_credit Z sqrt(n / P) first, with Z at submission; the first is the head h
    S_k      when the head could start in scenario k; ES = E S_k - now
    B        sum n E[p] / P over the waiting jobs
    share    n E[p] waited^4 over its sum for the waiting jobs; 0 if the sum is 0
    price    P share B / E[p] = n (waited / W)^4, where W^4 is the mean of waited^4 weighted by n E[p]
    urgent   E[1 / max(p, 10)] RATE / B
    D        E[S_k with the job started now - S_k]
    ER       E min(when n processors are free beside the head's, S_k + p_h) - now
    gain     n min(E p, ES) + (lateness P share + urgency urgent) ER
    harm     D (packing n_h + fairness P share_h)

Jobs that fit now are tried from the largest order_urgency urgent + price down; the first with a harm of at most its
gain starts. The price is what a second of a job's wait is worth per processor-second of its own: of two jobs as wide
and as old, the longer one does not go first. If the head fits too, only jobs whose quantile ``short_level`` is at most
``short`` Z may pass it; if none passes, the head starts. All of this is repeated after each start, and the pass ends
when no job may start.

Where the first version of the rule leaves a choice: ties go in the order of the queue, which breaks its own by
submission, then file. Starving jobs come before all others. A starving head is protected by requested times, too, so
that no distribution can hold it back for long: a job passes it only if EASY would allow that, and none passes a head
that fits. Jobs that end in the same second of a scenario are all counted. Means of a job's runtime are over its draws,
not its whole distribution. A job skipped by a start decision counts as absent for the rest of the pass. Predictions
never expire, so there are no corrections: the remaining time of a running job follows from its elapsed time.

Tried on first halves of traces and left out: an order by P share, which makes wide jobs wait that are short for their
width; an urgency that falls while fairness is worse than in a simulation of EASY alongside; a second chance for starts
that EASY would make; a constant added to every job's waiting time; a memory of the delays that a head has suffered;
protection of the first two, four or eight jobs of the queue; urgency as a share of the queue's; ``short`` as a part of
the mean runtime of the head or the queue.

Only what changes is computed again. A job's draws, means and place are computed once, a running job's draws again when
it outlives a quantile, the lists of ends when a job starts, ends or outlives one. A pass in which no job fits only
compares widths.
"""

from __future__ import annotations

import math

import numpy as np

from features.jit import apart, kernel
from models.runtime.dispatch import TABLE, tell_quantiles, tells_quantiles
from sim.kernel import state as slots
from sim.kernel.cluster_room import first_room, fits_somewhere
from sim.kernel.cluster_scenarios import (
    Offer,
    easy_would_start_on_nodes,
    find_head_starts_on_nodes,
    longest_wait_else,
    mean_delay_on_nodes,
    waits_long_else,
)
from sim.kernel.clusters import RESERVED_FOR, start_in
from sim.kernel.passes import reserve
from sim.kernel.scenarios import (
    GONE,
    HEAD_JOB,
    QUEUED,
    SEEN_ENDS,
    STARTS,
    STARVED,
    TAKEN,
    bring_up,
    draw,
    find_head_starts,
    look_beside,
    mean_delay,
    mean_wait_else,
    place_of,
    row_of,
    runs,
)
from sim.kernel.state import Estimates, start_job, undecided
from sim.machine.nodes import NOWHERE, fits

CONSTANTS = ("width_credit", "fairness", "lateness", "urgency", "order_urgency", "packing", "short", "short_level")
(
    WIDTH_CREDIT,
    FAIRNESS,
    LATENESS,
    URGENCY,
    ORDER_URGENCY,
    PACKING,
    SHORT,
    SHORT_LEVEL,
    MACHINE,
    ABOVE,
    BELOW,
    RESPONSES,
    SLOWDOWNS,
    BACKLOG,
    SHARES,
    SCALES,
) = range(len(CONSTANTS) + 8)
"""Slots of ``Scenarios.scales``: the constants; the machine's processors; for ended jobs numerator and denominator of
P2SF, the sums of n p F and of bounded slowdowns; for waiting jobs the backlog in seconds, and the sum that shares are
divided by."""

KEY, WORK, MEAN, URGENT, LATEST, FACTS = range(6)
"""Columns of ``Scenarios.facts``: the key in the queue; n E[p]; E[p]; E[1 / max(p, 10)]; the quantile
``short_level``."""

BOUND_S = 10
"""The threshold of bounded slowdown."""

PARTS = 1 << 54
"""Reciprocals are summed as whole multiples of 1 / PARTS, so that the order of draws does not change the sum."""


@apart
def harm_pass(settings, now, inputs, state, scenarios, clusters):
    """Start every job that may start.

    A pass that stopped at an undecided job continues when this is called again.
    """
    jobs, estimates, dependencies = inputs.jobs, inputs.estimates, inputs.dependencies
    note_ends(jobs, state, scenarios)
    while scenarios.numbers[TAKEN] < state.counters[slots.NEXT]:
        take_in(settings, inputs, state, scenarios)
    move_up_starving(state, scenarios)
    requests = Estimates(estimates.order, estimates.fit, jobs.requested)  # the plan of running jobs uses requested times
    while start_next(settings, now, jobs, requests, dependencies, state, scenarios, clusters):
        pass


@kernel
def note_ends(jobs, state, scenarios):
    """Add newly ended jobs to the scales."""
    numbers, scales = scenarios.numbers, scenarios.scales
    while numbers[SEEN_ENDS] < state.counters[slots.ENDED]:
        job = state.ended[numbers[SEEN_ENDS]]
        numbers[SEEN_ENDS] += 1
        scenarios.outlived[job] = GONE
        wait, runtime = 1.0 * (state.start[job] - jobs.submit[job]), 1.0 * jobs.runtime[job]
        response, work = wait + runtime, jobs.procs[job] * runtime
        # (F^4 - Q^4) / p and (F^3 - Q^3) / p, as in sim.kernel.run
        scales[ABOVE] += work * (response + wait) * (response * response + wait * wait)
        scales[BELOW] += work * (response * response + response * wait + wait * wait)
        scales[RESPONSES] += work * response
        scales[SLOWDOWNS] += max(1.0, response / max(runtime, BOUND_S))


@kernel
def scale(scales):
    """Return Z in seconds."""
    return 0.75 * scales[ABOVE] / scales[BELOW] if scales[BELOW] > 0.0 else 0.0


@kernel
def take_in(settings, inputs, state, scenarios):
    """Take the next submitted job into the queue: its quantiles, draws, facts and place."""
    jobs, numbers, scales = inputs.jobs, scenarios.numbers, scenarios.scales
    job = numbers[TAKEN]
    numbers[TAKEN] = job + 1
    row, levels, count = row_of(job, inputs.dependencies), scenarios.quantiles.shape[1], scenarios.uniforms.shape[1]
    if levels == 1:
        scenarios.quantiles[row, 0] = inputs.estimates.end[job]
    elif settings.predictor > TABLE and tells_quantiles(settings.predictor):
        tell_quantiles(settings.predictor, inputs.memory, job, jobs, scenarios.quantiles, row)
    scenarios.outlived[job] = 0
    draw(job, row, jobs.requested[job], scenarios)
    seconds, slowness = 0, 0
    for k in range(count):
        seconds += scenarios.seconds[job, k]
        slowness += PARTS // max(scenarios.seconds[job, k], BOUND_S)
    procs = jobs.procs[job]
    facts = scenarios.facts[job]
    facts[MEAN] = seconds / count
    facts[WORK] = procs * facts[MEAN]
    facts[URGENT] = slowness / count / PARTS
    facts[LATEST] = scenarios.quantiles[row, place_of(scales[SHORT_LEVEL], 0, levels)]
    key = jobs.submit[job] - scales[WIDTH_CREDIT] * scale(scales) * math.sqrt(procs / scales[MACHINE])
    insert(job, key, scenarios)


@kernel
def insert(job, key, scenarios):
    """Insert ``job`` by its key into the queue, behind jobs with the same key."""
    queue, facts = scenarios.queue, scenarios.facts
    facts[job, KEY] = key
    i = scenarios.numbers[QUEUED]
    while i > 0 and facts[queue[i - 1], KEY] > key:
        queue[i] = queue[i - 1]
        i -= 1
    queue[i] = job
    scenarios.numbers[QUEUED] += 1


@kernel
def remove(job, scenarios):
    """Take ``job`` out of the queue."""
    queue, numbers = scenarios.queue, scenarios.numbers
    i = 0
    while queue[i] != job:
        i += 1
    for behind in range(i + 1, numbers[QUEUED]):
        queue[behind - 1] = queue[behind]
    numbers[QUEUED] -= 1


@kernel
def move_up_starving(state, scenarios):
    """Move starving jobs to the head of the queue, in order of submission."""
    numbers = scenarios.numbers
    while numbers[STARVED] < state.counters[slots.STARVING]:
        job = numbers[STARVED]
        numbers[STARVED] = job + 1
        if state.start[job] < 0:
            remove(job, scenarios)
            insert(job, -np.inf, scenarios)


@apart
def start_next(settings, now, jobs, requests, dependencies, state, scenarios, clusters):
    """Start the next job that may start, or hold it back; return whether there was one.

    Return False, too, if the job is undecided.
    """
    counters, numbers = state.counters, scenarios.numbers
    first = 0
    while first < numbers[QUEUED] and state.start[scenarios.queue[first]] >= 0:  # skipped in this pass
        first += 1
    if first == numbers[QUEUED]:
        return False
    head = scenarios.queue[first]
    counters[slots.SHADOW_KNOWN] = 0
    if clusters is not None:
        clusters.numbers[RESERVED_FOR] = 0
    job, place = next_to_pass(first, now, jobs, dependencies, state, scenarios, clusters, settings.bits)
    if job < 0:
        if not fits_somewhere(head, jobs, state, clusters):
            return False
        job, place = head, 0
        if clusters is not None:
            place = first_room(head, clusters)
    if undecided(job, state):
        return False
    counters[slots.WAITING] -= 1
    if clusters is None:
        started = start_job(job, now, jobs, requests, state, settings.bits)
    else:
        started = start_in(job, place, now, jobs, requests, state, clusters, settings.bits)
    if started:
        remove(job, scenarios)
        runs(job, now, jobs, state, scenarios)
    return True


@apart
def next_to_pass(first, now, jobs, dependencies, state, scenarios, clusters, bits):
    """Return the job that passes the head, ``queue[first]``, next, and its cluster.

    The cluster is 0 on the single pool; the job is -1 if none may pass.
    """
    numbers, facts, scales, queue = scenarios.numbers, scenarios.facts, scenarios.scales, scenarios.queue
    head = queue[first]
    needed, machine = jobs.procs[head], scales[MACHINE]
    head_fits = fits_somewhere(head, jobs, state, clusters)
    starving = facts[head, KEY] == -np.inf
    if starving and head_fits:
        return -1, NOWHERE
    i = first + 1
    while i < numbers[QUEUED] and not may_pass(queue[i], head_fits, jobs, state, scenarios, clusters):
        i += 1
    if i == numbers[QUEUED]:
        return -1, NOWHERE
    changed = bring_up(now, jobs, dependencies, state, scenarios)
    if changed or numbers[HEAD_JOB] != head + 1:
        if clusters is None:
            find_head_starts(needed, now, jobs, state, scenarios)
        else:
            find_head_starts_on_nodes(head, now, scenarios, clusters)
        numbers[HEAD_JOB] = 0 if head_fits else head + 1  # the starts of a head that fits now are computed each time
    wait = numbers[STARTS] / scenarios.head.shape[1] - now
    weigh(now, jobs, state, scenarios)
    weight = scales[PACKING] * needed + scales[FAIRNESS] * machine * share_of(head, now, jobs, scenarios)
    best, where, highest = -1, NOWHERE, -1.0
    for at in range(i, numbers[QUEUED]):
        job = queue[at]
        if not may_pass(job, head_fits, jobs, state, scenarios, clusters):
            continue
        procs = jobs.procs[job]
        share = machine * share_of(job, now, jobs, scenarios)
        urgent = urgency_of(job, scenarios)
        score = scales[ORDER_URGENCY] * urgent + price_of(job, now, jobs, scenarios)
        if score <= highest:
            continue
        gain, worth = procs * min(facts[job, MEAN], wait), scales[LATENESS] * share + scales[URGENCY] * urgent
        place = NOWHERE
        if clusters is not None:
            offer = Offer(head, job, gain, worth, weight)
            place = place_that_pays(offer, now, jobs, state, scenarios, clusters, bits)
        elif not starving or easy_would_start(job, needed, now, jobs, state, bits):
            look_beside(needed, procs, jobs, scenarios)
            gain += worth * mean_wait_else(head, procs, now, scenarios)
            if mean_delay(job, procs, now, scenarios) * weight <= gain:
                place = 0
        if place != NOWHERE:
            best, where, highest = job, place, score
    return best, where


@kernel
def place_that_pays(offer, now, jobs, state, scenarios, clusters, bits):
    """Return the first cluster in which a job fits with harm at most its gain, or NOWHERE.

    The wait that the job avoids is slow to compute, and not computed where it decides nothing.
    """
    head, job = offer.head, offer.job
    starving = scenarios.facts[head, KEY] == -np.inf
    nodes, last, row = clusters.nodes, len(clusters.nodes.first) - 1, clusters.nodes.row[job]
    first = first_room(job, clusters)
    most = offer.gain + offer.worth * longest_wait_else(head, now, scenarios)
    for cluster in range(first, last):
        if cluster > first and not fits(row, cluster, nodes, nodes.free, nodes.left):
            continue
        if starving and not easy_would_start_on_nodes(head, job, cluster, now, jobs, state, clusters, bits):
            continue
        harm = mean_delay_on_nodes(offer, cluster, now, most, scenarios, clusters) * offer.weight
        if harm <= offer.gain or (harm <= most and waits_long_else(offer, now, harm, scenarios, clusters)):
            return cluster
    return NOWHERE


@kernel
def may_pass(job, head_fits, jobs, state, scenarios, clusters):
    """Tell whether ``job`` may pass the head if its harm is at most its gain."""
    if state.start[job] >= 0 or (head_fits and scenarios.facts[job, LATEST] > scenarios.scales[SHORT] * scale(scenarios.scales)):
        return False
    return fits_somewhere(job, jobs, state, clusters)


@kernel
def weigh(now, jobs, state, scenarios):
    """Sum up the waiting jobs' backlog, and the weights that their shares are divided by."""
    scales, facts = scenarios.scales, scenarios.facts
    work, shares = 0.0, 0.0
    for i in range(scenarios.numbers[QUEUED]):
        job = scenarios.queue[i]
        if state.start[job] < 0:
            waited = 1.0 * (now - jobs.submit[job])
            work += facts[job, WORK]
            shares += facts[job, WORK] * waited**4
    scales[BACKLOG] = work / scales[MACHINE]
    scales[SHARES] = shares


@kernel
def share_of(job, now, jobs, scenarios):
    """Return a waiting job's share of the sum of n E[p] waited^4."""
    scales = scenarios.scales
    waited = 1.0 * (now - jobs.submit[job])
    return scenarios.facts[job, WORK] * waited**4 / scales[SHARES] if scales[SHARES] > 0.0 else 0.0


@kernel
def price_of(job, now, jobs, scenarios):
    """Return what a second of a job's wait is worth per processor-second of the job.

    In processors, for a waiting job.
    """
    scales = scenarios.scales
    waited = 1.0 * (now - jobs.submit[job])
    usual = scales[SHARES] / (scales[BACKLOG] * scales[MACHINE])
    return jobs.procs[job] * waited**4 / usual if scales[SHARES] > 0.0 else 0.0


@kernel
def urgency_of(job, scenarios):
    """Return the slowdown that a second of wait costs a job, in processors."""
    scales = scenarios.scales
    rate = scales[RESPONSES] / scales[SLOWDOWNS] if scales[SLOWDOWNS] > 0.0 else 0.0
    return scenarios.facts[job, URGENT] * rate / scales[BACKLOG]


@kernel
def easy_would_start(job, needed, now, jobs, state, bits):
    """Tell whether EASY by requested times would let ``job`` pass the head.

    The head needs ``needed`` processors, more than are free now.
    """
    counters = state.counters
    if counters[slots.SHADOW_KNOWN] == 0:
        reserve(needed, state, bits)
    return now + jobs.requested[job] <= counters[slots.SHADOW] or jobs.procs[job] <= counters[slots.EXTRA]
