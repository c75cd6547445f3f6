"""PlanRS: every waiting job has a planned start, and a search improves the plan.

After Klusacek & Chlumsky (2016).

Each cluster has a list of planned jobs. A cycle (a pass of the event loop) follows the authors. Ended jobs leave. Then comes an
update: jobs are seated one by one in the order of their planned starts, none before the job in front of it. Each new job, in
order of submission, goes into the earliest gap that any cluster has for it (on ties the first such cluster), behind all jobs
planned for no later; another update follows. Jobs planned for now start. The search follows (:mod:`sim.kernel.planning_search`),
then a second cycle, which starts jobs brought forward to now. An update may choose other nodes of the cluster.
"""

from __future__ import annotations

from features.jit import apart, kernel
from sim.kernel.clusters import start_planned
from sim.kernel.planning_seats import BITS, BOUND_S, EVERY, NOW, PLACED, TRIAL, UNIT, seat
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
    numbers[NOW], numbers[BITS] = now, bits
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
    state.counters[CHOICE] = now + planner.numbers[EVERY]
    total = 0
    for cluster in range(len(planner.size)):
        total += planner.size[cluster]
    return total > 1 or (total == 1 and len(planner.size) > 1)


@kernel
def update(cluster, first, planner):
    """Seat the jobs of a cluster again, from position ``first`` on."""
    planner.numbers[TRIAL] += 1
    seat(cluster, first, 0, 0, True, planner)


@apart
def gather_ends(state, planner):
    """Write the sorted predicted ends of the running jobs of each cluster."""
    nodes, ends = planner.nodes, planner.ends
    clusters = len(nodes.first) - 1
    bits = planner.numbers[BITS]
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
    nodes, ends, bits = planner.nodes, planner.ends[cluster], planner.numbers[BITS]
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
    came = numbers[PLACED]
    if came == counters[NEXT]:
        return
    numbers[PLACED] = counters[NEXT]
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
    planner.rate[job] = UNIT / max(planner.fit[job], BOUND_S)
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
