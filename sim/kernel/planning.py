"""PlanRS: every waiting job has a planned start, and a search improves the plan.

After Klusacek & Chlumsky (2016).

Each cluster has a list of planned jobs. A cycle (a pass of the event loop) follows the authors. Ended jobs leave. Then
comes an update: jobs are seated one by one in the order of their planned starts, none before the job in front of it.
Each new job, in order of submission, goes into the earliest gap that any cluster has for it (on ties the first such
cluster), behind all jobs planned for no later; another update follows. Jobs planned for now start. The search follows,
then a second cycle, which starts jobs brought forward to now. An update may choose other nodes of the cluster.

The search moves a random job to a random position of a random cluster that it may use, seats the jobs, evaluates, and
keeps improvements.
"""

from __future__ import annotations

from features.jit import apart, kernel
from sim.kernel import planning_seats as seats
from sim.kernel.clusters import start_planned
from sim.kernel.planning_seats import account, add_up, evaluate, gain, seat
from sim.kernel.state import CHOICE, NEVER, NEXT, PLANS, WAITING
from sim.machine.nodes import NOWHERE
from sim.machine.plan import NO_START, earliest, foresee_end, reserve


@apart
def planned_pass(now, jobs, estimates, state, clusters, bits):
    """Update the plan, place new jobs, and start the jobs planned for now."""
    planner, counters = clusters.planner, state.counters
    numbers, nodes = planner.numbers, clusters.nodes
    if counters[WAITING] == 0:
        return
    numbers[seats.NOW], numbers[seats.BITS] = now, bits
    gather_ends(state, planner)
    for cluster in range(len(nodes.first) - 1):
        update(cluster, 0, planner)
    insert_all(now, state, clusters)
    for cluster in range(len(nodes.first) - 1):
        left = 0
        for position in range(planner.size[cluster]):
            job = planner.order[cluster, position]
            if planner.at[job] == now:
                start_planned(job, now, jobs, estimates, state, clusters, bits)
            else:
                planner.order[cluster, left] = job
                left += 1
        planner.size[cluster] = left


@kernel
def search_is_due(now, state, clusters):
    """Tell whether a search is due and has a job to move.

    If a search is due, set the time of the next one.
    """
    planner = clusters.planner
    if now < state.counters[CHOICE]:
        return False
    state.counters[CHOICE] = now + planner.numbers[seats.EVERY]
    total = 0
    for cluster in range(len(planner.size)):
        total += planner.size[cluster]
    return total > 1 or (total == 1 and len(planner.size) > 1)


@kernel
def update(cluster, first, planner):
    """Seat the jobs of a cluster again, from position ``first`` on."""
    planner.numbers[seats.TRIAL] += 1
    seat(cluster, first, 0, 0, True, planner)


@apart
def gather_ends(state, planner):
    """Write the sorted predicted ends of the running jobs of each cluster."""
    nodes, ends = planner.nodes, planner.ends
    clusters = len(nodes.first) - 1
    bits = planner.numbers[seats.BITS]
    for cluster in range(clusters):
        count = 0
        for i in range(state.counters[PLANS]):
            job = state.running[state.plan[i] & ((1 << bits) - 1)]
            if clusters == 1 or nodes.cluster[nodes.row[job]] == cluster:
                ends[cluster, count] = state.plan[i] >> bits << bits | job
                count += 1
        ends[cluster, count] = NEVER


@apart
def plan_cluster(cluster, planner, plan):
    """List the ends and planned starts of a cluster's jobs, for the search of gaps."""
    nodes, ends, bits = planner.nodes, planner.ends[cluster], planner.numbers[seats.BITS]
    plan.size[cluster] = 0
    i = 0
    while ends[i] != NEVER:
        foresee_end(nodes.row[ends[i] & ((1 << bits) - 1)], ends[i] >> bits, nodes, plan)
        i += 1
    for position in range(planner.size[cluster]):
        job = planner.order[cluster, position]
        reserve(nodes.row[job], planner.at[job], planner.fit[job], nodes, plan)


@apart
def insert_all(now, state, clusters):
    """Put new jobs into the earliest gaps, in order of submission."""
    planner, counters = clusters.planner, state.counters
    numbers = planner.numbers
    came = numbers[seats.PLACED]
    if came == counters[NEXT]:
        return
    numbers[seats.PLACED] = counters[NEXT]
    for cluster in range(len(planner.size)):
        plan_cluster(cluster, planner, clusters.plan)
    for job in range(came, counters[NEXT]):
        insert_new(job, now, clusters)


@apart
def insert_new(job, now, clusters):
    """Put a job into the earliest gap, and seat the jobs behind it again."""
    planner, plan = clusters.planner, clusters.plan
    nodes, row = planner.nodes, planner.nodes.row[job]
    chosen, start = NOWHERE, NO_START
    for cluster in range(len(nodes.first) - 1):
        if nodes.requests.eligible[row] >> cluster & 1 != 0 and start > now:
            start_here_s = earliest(row, planner.fit[job], now, start - 1, cluster, nodes, plan)
            if start_here_s < start:
                chosen, start = cluster, start_here_s
    planner.rate[job] = seats.UNIT / max(planner.fit[job], seats.BOUND_S)
    planner.at[job] = planner.jobs.submit[job]
    planner.slowdown[job] = 0
    position = planner.size[chosen]
    order = planner.order[chosen]
    planner.size[chosen] += 1
    while position > 0 and planner.at[order[position - 1]] > start:
        order[position] = order[position - 1]
        position -= 1
    order[position] = job
    nodes.cluster[row] = chosen
    update(chosen, position, planner)
    plan_cluster(chosen, planner, plan)


@apart
def search(now, bits, rules, planner, state, find):
    """Search for a better plan; return whether one was found."""
    jobs = begin(now, bits, planner, state, find)
    better = False
    for _ in range(rules.iterations):
        better = iterate(jobs, rules, planner, find) or better
    return better


@apart
def begin(now, bits, planner, state, find):
    """Account for users and evaluate the current plan; return the number of planned jobs."""
    numbers, jobs = planner.numbers, 0
    numbers[seats.NOW], numbers[seats.BITS] = now, bits
    gather_ends(state, planner)
    account(planner, state)
    for user in range(len(planner.waits)):
        planner.waits[user] = 0
    for cluster in range(len(planner.size)):
        jobs += planner.size[cluster]
    numbers[seats.TRIAL] += 1
    for cluster in range(len(planner.size)):
        seat(cluster, 0, 0, 0, True, planner)
    add_up(planner, state)
    evaluate(numbers[seats.SUM_WAIT], numbers[seats.SUM_SLOWDOWN], planner.waits, planner, find.best)
    return jobs


@kernel
def draw(random, below):
    """Return a random whole number of at least 0 and less than ``below``.

    The generator is that of L'Ecuyer (1988).
    """
    random[0] = random[0] * 40014 % 2147483563
    random[1] = random[1] * 40692 % 2147483399
    return (random[0] - random[1]) % 2147483562 * below // 2147483562


@kernel
def start_trial(planner):
    """Begin a trial: copy the sums of the plan."""
    numbers = planner.numbers
    numbers[seats.TRIAL] += 1
    numbers[seats.TRIAL_WAIT], numbers[seats.TRIAL_SLOWDOWN] = numbers[seats.SUM_WAIT], numbers[seats.SUM_SLOWDOWN]
    for i in range(numbers[seats.USERS]):
        planner.trial_waits[planner.present[i]] = planner.waits[planner.present[i]]


@kernel
def shift(order, source, target):
    """Move the job at position ``source`` to ``target``."""
    job = order[source]
    while source < target:
        order[source] = order[source + 1]
        source += 1
    while source > target:
        order[source] = order[source - 1]
        source -= 1
    order[target] = job


@kernel
def move(source, i, target, j, planner):
    """Move the job at position ``i`` of a cluster to position ``j`` of this or another."""
    if source == target:
        shift(planner.order[source], i, j)
        return
    job = planner.order[source, i]
    planner.size[source] -= 1
    shift(planner.order[source], i, planner.size[source])
    planner.order[target, planner.size[target]] = job
    shift(planner.order[target], planner.size[target], j)
    planner.size[target] += 1


@kernel
def seat_moved(source, i, target, j, best, planner):
    """Seat the jobs whose seats a move may change."""
    if source == target:
        seat(source, min(i, j), max(i, j), 0, best, planner)
        return
    job = planner.order[target, j]
    leaves = planner.at[job] + planner.fit[job]
    seat(source, i, i, leaves, best, planner)
    seat(target, j, j, 0, best, planner)


@apart
def try_move(source, i, target, j, planner, find):
    """Write the criteria of a move to ``find.trial``, and undo it."""
    move(source, i, target, j, planner)
    start_trial(planner)
    seat_moved(source, i, target, j, False, planner)
    numbers = planner.numbers
    evaluate(numbers[seats.TRIAL_WAIT], numbers[seats.TRIAL_SLOWDOWN], planner.trial_waits, planner, find.trial)
    move(target, j, source, i, planner)


@kernel
def iterate(jobs, rules, planner, find):
    """Try a move, and make it if it improves the plan; return whether it does."""
    source, i = at_place(draw(find.random, jobs), planner)
    target, j = random_target(source, i, planner, find)
    if source == target and i == j:
        return False
    try_move(source, i, target, j, planner, find)
    if not gain(find.best, find.trial, rules) > 0.0:
        return False
    move(source, i, target, j, planner)
    planner.numbers[seats.TRIAL] += 1
    seat_moved(source, i, target, j, True, planner)
    for criterion in range(3):
        find.best[criterion] = find.trial[criterion]
    return True


@kernel
def at_place(place, planner):
    """Return cluster and position of the planned job at ``place`` among all."""
    source = 0
    while place >= planner.size[source]:
        place -= planner.size[source]
        source += 1
    return source, place


@kernel
def random_target(source, i, planner, find):
    """Return a random cluster that a job may use, and a random position there."""
    nodes = planner.nodes
    clusters = len(planner.size)
    target = source
    if clusters > 1:
        eligible = nodes.requests.eligible[nodes.row[planner.order[source, i]]]
        count = 0
        for cluster in range(clusters):
            count += eligible >> cluster & 1
        at = draw(find.random, count)
        target = -1
        while at >= 0:
            target += 1
            at -= eligible >> target & 1
    return target, draw(find.random, planner.size[target] + (0 if target == source else 1))
