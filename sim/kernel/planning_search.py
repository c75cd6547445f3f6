"""Search for a better plan: move jobs, seat them, evaluate, and keep improvements.

After Klusacek & Chlumsky (2016): a random job moves to a random position of a random cluster that it may use.
"""

from __future__ import annotations

from features.jit import apart, kernel
from sim.kernel.planning import gather_ends
from sim.kernel.planning_criteria import (
    ACCEPTED,
    FOUND,
    ITERATION,
    JOBS,
    SEARCHES,
    SMALLEST,
    account,
    add_up,
    evaluate,
    gain,
)
from sim.kernel.planning_seats import (
    BITS,
    NOW,
    STRIDE,
    SUM_SLOWDOWN,
    SUM_WAIT,
    TRIAL,
    TRIAL_SLOWDOWN,
    TRIAL_WAIT,
    USERS,
    seat,
)

SPACING = 32
"""Positions between kept states of the plan."""


@apart
def search(now, bits, count, rules, planner, state, find):
    """Do up to ``count`` more iterations of a search; return whether it is over.

    The first call begins the search.
    """
    slots = find.slots
    if slots[ITERATION] == 0:
        begin(now, bits, rules, planner, state, find)
    last = rules.iterations * (len(planner.size) if rules.per_cluster else 1)
    stop = min(last, slots[ITERATION] + count)
    while slots[ITERATION] < stop:
        iterate(rules, planner, find)
        slots[ITERATION] += 1
    over = slots[ITERATION] >= last
    if over:
        slots[SEARCHES] += 1
        slots[ITERATION] = 0
    return over


@apart
def begin(now, bits, rules, planner, state, find):
    """Begin a search: account for users, and evaluate the current plan."""
    numbers, slots = planner.numbers, find.slots
    numbers[NOW], numbers[BITS], numbers[STRIDE] = now, bits, SPACING
    gather_ends(state, planner)
    account(planner, state)
    slots[JOBS] = slots[ACCEPTED] = 0
    for user in range(len(planner.waits)):
        planner.waits[user] = 0
    for cluster in range(len(planner.size)):
        slots[JOBS] += planner.size[cluster]
    seat_all(planner)
    add_up(rules, planner, state)
    evaluate(numbers[SUM_WAIT], numbers[SUM_SLOWDOWN], planner.waits, rules, planner, find.first)
    for i in range(3):
        find.best[i] = find.first[i]


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
        planner.kept.states[cluster] = 0
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
    """Seat the jobs whose seats a move may change; return whether all jobs fit."""
    if source == target:
        return seat(source, min(i, j), max(i, j), 0, best, planner)
    job = planner.order[target, j]
    leaves = planner.at[job] + planner.fit[job]
    return seat(source, i, i, leaves, best, planner) and seat(target, j, j, 0, best, planner)


@apart
def try_move(source, i, target, j, rules, planner, find):
    """Write the criteria of a move to ``find.trial``, undo it; return whether all jobs fit."""
    move(source, i, target, j, planner)
    start_trial(planner)
    fits = seat_moved(source, i, target, j, False, planner)
    if fits:
        numbers = planner.numbers
        evaluate(numbers[TRIAL_WAIT], numbers[TRIAL_SLOWDOWN], planner.trial_waits, rules, planner, find.trial)
    move(target, j, source, i, planner)
    return fits


@apart
def make_move(source, i, target, j, planner):
    """Make a move and seat the jobs in the plan."""
    move(source, i, target, j, planner)
    planner.numbers[TRIAL] += 1
    seat_moved(source, i, target, j, True, planner)


@apart
def accept(find):
    """Log the accepted trial; its criteria are now the best."""
    slots = find.slots
    row = slots[FOUND]
    if row < len(find.log):
        find.log[row, 0], find.log[row, 1], find.log[row, 2] = slots[SEARCHES], slots[ITERATION], slots[JOBS]
        for i in range(3):
            find.gains[row, i] = (find.best[i] - find.trial[i]) / max(find.best[i], SMALLEST)
        slots[FOUND] = row + 1
    slots[ACCEPTED] += 1
    for i in range(3):
        find.best[i] = find.trial[i]


@kernel
def iterate(rules, planner, find):
    """Try a move, and make it if it improves the plan."""
    slots = find.slots
    source, total = 0, slots[JOBS]
    if rules.per_cluster:
        source = slots[ITERATION] // rules.iterations
        total = planner.size[source]
    if total == 0:
        return
    source, i = at_place(source, draw(find.random, total), rules, planner)
    target, j = random_target(source, i, planner, find)
    fits = (source != target or i != j) and try_move(source, i, target, j, rules, planner, find)
    if fits and gain(find.best, find.trial, rules) > 0.0:
        make_move(source, i, target, j, planner)
        accept(find)


@kernel
def at_place(source, place, rules, planner):
    """Return cluster and position of the job at ``place`` among all, or of cluster ``source``."""
    if not rules.per_cluster:
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
