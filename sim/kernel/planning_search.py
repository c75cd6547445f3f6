"""Search for a better plan: move jobs, seat them, evaluate, and keep improvements.

After Klusacek & Chlumsky (2016): a random job moves to a random position of a random cluster that it may use.
"""

from __future__ import annotations

from features.jit import apart, kernel
from sim.kernel.planning import gather_ends
from sim.kernel.planning_criteria import account, add_up, evaluate, gain
from sim.kernel.planning_seats import (
    BITS,
    NOW,
    SUM_SLOWDOWN,
    SUM_WAIT,
    TRIAL,
    TRIAL_SLOWDOWN,
    TRIAL_WAIT,
    USERS,
    seat,
)


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
    numbers[NOW], numbers[BITS] = now, bits
    gather_ends(state, planner)
    account(planner, state)
    for user in range(len(planner.waits)):
        planner.waits[user] = 0
    for cluster in range(len(planner.size)):
        jobs += planner.size[cluster]
    seat_all(planner)
    add_up(planner, state)
    evaluate(numbers[SUM_WAIT], numbers[SUM_SLOWDOWN], planner.waits, planner, find.best)
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
def seat_all(planner):
    """Seat all jobs of the plan again."""
    planner.numbers[TRIAL] += 1
    for cluster in range(len(planner.size)):
        seat(cluster, 0, 0, 0, True, planner)


@kernel
def start_trial(planner):
    """Begin a trial: copy the sums of the plan."""
    numbers = planner.numbers
    numbers[TRIAL] += 1
    numbers[TRIAL_WAIT], numbers[TRIAL_SLOWDOWN] = numbers[SUM_WAIT], numbers[SUM_SLOWDOWN]
    for i in range(numbers[USERS]):
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
    evaluate(numbers[TRIAL_WAIT], numbers[TRIAL_SLOWDOWN], planner.trial_waits, planner, find.trial)
    move(target, j, source, i, planner)


@apart
def make_move(source, i, target, j, planner):
    """Make a move and seat the jobs in the plan."""
    move(source, i, target, j, planner)
    planner.numbers[TRIAL] += 1
    seat_moved(source, i, target, j, True, planner)


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
    make_move(source, i, target, j, planner)
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
