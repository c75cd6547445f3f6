"""The backfill scheduler: a plan for every job tested, on whole nodes.

From sched/backfill/backfill.c, ``_attempt_backfill``.
"""

from __future__ import annotations

from features.jit import apart, kernel
from sim.slurm import slots
from sim.slurm.choice import lowest, meets, pick, room_on
from sim.slurm.plans import (
    clear_map,
    first_ending_after,
    free_throughout,
    futile_until,
    next_return,
    note_futile,
    overlaps,
    reserve,
)
from sim.slurm.preempt import make_room
from sim.slurm.queue import (
    drop_started,
    independent,
    limited,
    note_try,
    open_to,
    over_limits,
    sort_again,
    sort_as_slurm,
    throttled,
)
from sim.slurm.runs import end_by, start
from sim.slurm.state import BACKFILL, LOW, NONE, PENDING, SHIFT
from sim.slurm.together import forget_starts, note_start, start_of_others, start_together
from sim.slurm.will_run import count_free, soonest_with, will_run

AGAIN = 2
"""Returned for a job that neither starts nor gets a plan yet: it is looked at again."""


@apart
def cycle(now, whole, slurm):
    """Go once through the queue: start jobs that fit beside earlier plans, plan the others.

    Unless ``whole``, no job behind the last one that may still start is planned, as that would change nothing.
    """
    numbers, ask, state, room, rules = slurm.numbers, slurm.ask, slurm.now, slurm.room, slurm.rules
    numbers[slots.CYCLES] += 1
    numbers[slots.STAMP] += 1
    stamp, begun, tested, second = numbers[slots.STAMP], numbers[slots.BEGUN], 0, now // 1000
    rejected = rejected_in = NONE  # the array that was tried last and got no plan, and the partition
    clear_map(second, slurm)
    for user in range(len(room.tested)):
        room.tested[user] = 0
    if rules.has_components:
        forget_starts(slurm)
    if rules.has_several_qos:
        sort_again(slurm)
    if rules.preempts_by_qos:
        sort_as_slurm(now, slurm)
    whole, last = whole or rules.preempts, numbers[slots.QUEUED] - 1
    for i in range(numbers[slots.QUEUED]):
        while not whole and last >= i and not _may_start(state.queue[last], second, slurm):
            last -= 1
        record = state.queue[i]
        job, partition, others, further = ask.job[record], ask.partition[record], 0, False
        if state.phase[job] != PENDING or not independent(job, now, slurm) or ask.admitted[record] == 0:
            continue
        note_try(record, slurm)
        if ask.het[job] != NONE:
            others = start_of_others(job, second, slurm)
            if others > second + rules.bf_window:
                continue
        array = ask.array[job]
        if array != NONE:
            further = room.planned[array] == stamp
            if room.planned[array] != stamp:
                room.planned[array], room.plans[array] = stamp, 0
            if (array == rejected and partition == rejected_in) or room.plans[array] >= rules.bf_max_job_array_resv:
                continue
            if rules.throttles_plans and 0 < ask.throttle[job] <= room.plans[array] + state.tasks[ask.group[job]]:
                continue
        if throttled(job, slurm) or limited(job, False, slurm):
            if array != NONE:
                rejected, rejected_in = array, partition
            continue
        if room.tested[ask.user[job]] >= rules.bf_max_job_user > 0:
            continue
        room.tested[ask.user[job]] += 1
        if tested >= rules.bf_max_job_test and (rules.counts_tasks or not further):
            break
        tested += 1
        if i > last:
            continue
        planned = plan(job, partition, others, now, slurm)
        if planned != 0:
            rejected = NONE
        elif array != NONE:
            rejected, rejected_in = array, partition
        if array != NONE and planned > 0:
            room.plans[array] += 1
    if rules.has_components:
        start_together(now, slurm)
    if numbers[slots.BEGUN] > begun:
        drop_started(slurm)


@kernel
def _may_start(record, second, slurm):
    """Tell whether a job may still start in this cycle, judged by free nodes without plans.

    True for an exclusive job without a plan so far, as its first plan changes its size, and for a component.
    """
    ask, state, room, hardware = slurm.ask, slurm.now, slurm.room, slurm.hardware
    job, partition, cpus, nodes = ask.job[record], ask.partition[record], 0, 0
    if state.phase[job] != PENDING or ask.admitted[record] == 0:
        return False
    if ask.het[job] != NONE or (ask.exclusive[job] != 0 and ask.counted[job] == ask.cpus[job]):
        return True
    for word in range(len(state.idle)):
        left = state.idle[word] & hardware.member[partition, word]
        while left != 0:
            node = (word << SHIFT) + lowest(left)
            left &= left - 1
            if state.cpus[node] > 0 and room.clear[node] > second + ask.least[job]:
                here = room_on(job, node, slurm, state.cpus, state.memory, state.gpus)
                cpus, nodes = cpus + here, nodes + (here > 0)
                if cpus >= ask.cpus[job] and nodes >= ask.min_nodes[job]:
                    return True
    return False


@apart
def plan(job, partition, others, now, slurm):
    """Start ``job`` (return -1), plan it (return 1), or give it up in this cycle (return 0).

    A component is not started here, and planned no earlier than ``others``.
    """
    ask, room, rules = slurm.ask, slurm.room, slurm.rules
    second, limit = now // 1000, ask.least[job]
    waits = ask.plain[job] != 0  # it may start now, but gets no plan
    skips, whole = not (waits or rules.preempts), ask.exclusive[job] != 0
    later, skipped = max(second, others), False
    slurm.numbers[slots.SPLIT] = slurm.numbers[slots.REACH] = 0
    compares = skips and len(slurm.reservations.start) == 0
    lacked = compares and others <= second  # whether all looks so far lacked processors
    most = futile_until(partition, ask.cpus[job], limit, slurm)[0] if compares else 0
    sure = slack = enough = lacking = first = 0  # all looks so far lacked ``lacking`` processors
    soonest, lacking_then = soonest_with(ask.cpus[job], slurm) if skips else (0, 0)
    if len(slurm.reservations.start) == 0:
        open_to(job, partition, second, second, slurm, room.usable)
    while True:
        begin, end = later, later + limit
        if skips and not whole and begin > second + rules.bf_window:
            if lacked:
                note_futile(partition, lacking, limit, begin, slurm)
            return 0
        while first < slurm.numbers[slots.INTERVALS] and slurm.plans.end[first] <= begin:
            first += 1
        later = _next_look(job, partition, begin, end, first, slurm)
        if begin < later < soonest:
            skipped, lacking = True, max(lacking, lacking_then)
            continue
        if skips and begin < later < most:
            if later >= sure or later - begin > slack:
                slack = later - begin
                sure, enough = futile_until(partition, ask.cpus[job], limit - slack, slurm)
            if later < sure:
                skipped, lacking = True, max(lacking, enough)
                continue
        count = free_throughout(begin, end, first, slurm)
        if skips and (later > 0 or not whole):
            until = later if later > 0 else second + rules.bf_window
            free = count_free(until, ask.cpus[job], slurm)
            if free < ask.cpus[job]:  # a search would find nothing before the next look
                lacking = max(lacking, free + 1)
                if later > 0:
                    skipped = True
                    continue
                if lacked:
                    note_futile(partition, lacking, limit, begin, slurm)
                return 0
        if lacked and begin > second:
            note_futile(partition, lacking, limit, begin, slurm)
        lacked = False
        when, chosen = will_run(job, partition, second, begin, later, slurm) if count >= ask.min_nodes[job] else (0, 0)
        if ask.exclusive[job] != 0 and chosen > 0:
            _count_whole_nodes(job, chosen, slurm)
        if chosen == 0 or (when > second and waits):
            if later > 0 and not waits:
                continue
            if whole and skipped:  # a skipped plan may have changed its size
                later, skips, skipped, first, soonest = max(second, others), False, False, 0, 0
                slurm.numbers[slots.SPLIT] = slurm.numbers[slots.REACH] = 0
                continue
            return 0
        outcome, later = _settle(job, partition, when, chosen, begin, later, now, slurm)
        if outcome != AGAIN:
            return outcome


@kernel
def _settle(job, partition, when, chosen, begin, later, now, slurm):
    """Start or plan a job on the chosen nodes, free from ``when`` on, as the look at ``begin`` found.

    Return what :func:`plan` returns, or AGAIN and when to look next; ``later`` is the next look if it gets no plan.
    """
    ask, state, room, rules = slurm.ask, slurm.now, slurm.room, slurm.rules
    second, limit = now // 1000, ask.least[job]
    if when < begin and ask.het[job] != NONE:
        slurm.numbers[slots.BACKFILL_DIRTY] = 1  # Slurm notes a change of the job
    when = max(when, begin)
    begins, ends = _slot(when, limit, slurm)
    met = rules.within_slot and when > second and overlaps(begins, ends, chosen, slurm)
    if met and when == begin and not rules.steps_on:
        return 0, later  # Slurm looks again at the same time, until bf_max_time
    if met:
        return AGAIN, when + (rules.bf_resolution if when == begin else 0)
    if when <= second:
        if _completing(chosen, slurm):
            when, later = second + 1, 0
        elif ask.het[job] == NONE:
            for word in range(len(room.mask)):
                room.mask[word] &= ~state.completing[word]
            chosen = pick(job, room.mask, slurm, state.idle, state.cpus, state.memory, state.gpus)
            if chosen > 0:
                return (0 if over_limits(job, chosen, slurm) else _start_now(job, partition, chosen, now, slurm)), later
            if rules.preempts:
                make_room(job, partition, now, slurm)
            free_throughout(begin, begin + limit, first_ending_after(begin, slurm), slurm)
            chosen, later = will_run(job, partition, second, begin, later, slurm)[1], 0
    if ask.het[job] != NONE:
        note_start(job, partition, when, slurm)
    if 0 < later < when:
        return AGAIN, later
    if when > second + rules.bf_window:
        return 0, later
    begins, ends = _slot(when, limit, slurm)
    if not rules.within_slot and when > second and overlaps(begins, ends, chosen, slurm):
        # a start that, rounded down, meets a plan that ends before it would do so at the next look, too
        return (0 if when == begin else AGAIN), when
    if over_limits(job, chosen, slurm):
        return 0, later
    reserve(begins, ends, chosen, slurm)
    return 1, later


@kernel
def _start_now(job, partition, chosen, now, slurm):
    """Start a job on the chosen nodes; return -1."""
    second, limit = now // 1000, slurm.ask.least[job]
    start(job, partition, chosen, BACKFILL, now, slurm)
    slurm.numbers[slots.COUNTED] = NONE
    if slurm.rules.grows:
        _limit_to_plans(job, second, limit, slurm)
    elif slurm.rules.time_min_as_soft_limit == 0:
        end_by(job, second + limit, slurm)  # --time-min and no more, up to 25.05.2
    return -1


@kernel
def _slot(when, limit, slurm):
    """Return the times from and to which a plan keeps its nodes (``_set_slot_time``)."""
    step = slurm.rules.bf_resolution
    return when // step * step, (when + limit + (step - 1 if slurm.rules.within_slot else 0)) // step * step


@kernel
def _limit_to_plans(job, second, limit, slurm):
    """Cut a --time-min job's limit at the next plan on its nodes (``_reset_job_time_limit``)."""
    state, plans = slurm.now, slurm.plans
    ends = state.limit_end[job]
    for k in range(slurm.numbers[slots.INTERVALS]):
        if plans.end[k] <= second or plans.begin[k] >= ends:
            continue
        for at in range(state.nodes[job], state.nodes[job] + state.held[job]):
            node = state.node[at]
            if plans.free[plans.row[k], node >> SHIFT] >> (node & LOW) & 1 == 0:
                ends = min(ends, max(plans.begin[k], second + limit))
    end_by(job, ends, slurm)


@kernel
def _count_whole_nodes(job, chosen, slurm):
    """From its first plan on, size an exclusive job by whole nodes (``total_cpus``)."""
    ask, room, cpus = slurm.ask, slurm.room, 0
    for i in range(chosen):
        cpus += room.take[i]
    for record in range(ask.records[job], ask.records[job + 1]):
        ask.fixed[record] += (cpus - ask.counted[job]) * slurm.rules.weight_cpu
    ask.counted[job] = cpus


@kernel
def _next_look(job, partition, begin, end, first, slurm):
    """Write the nodes open from ``begin`` to ``end`` to ``usable``; return the next look.

    The next look is at the end of the first interval, from ``first`` on, after which a node comes back, or, if earlier,
    at the start of the job's own reservation or the end of another that keeps nodes from it; 0: never.
    """
    room, kept, later, own = slurm.room, slurm.reservations, 0, slurm.ask.reservation[job]
    if len(kept.start) > 0:
        open_to(job, partition, begin, end, slurm, room.usable)
    if own != NONE and begin < kept.start[own]:
        later = kept.start[own]
    elif own == NONE and _meets_reservation(partition, begin, end, slurm):
        later = _end_of_a_reservation(begin, slurm)
    comes_back = next_return(first, end, slurm)
    return comes_back if later == 0 or 0 < comes_back < later else later


@kernel
def _meets_reservation(partition, begin, end, slurm):
    """Tell whether a reservation of the partition's nodes meets the time ``begin`` to ``end``."""
    kept, member = slurm.reservations, slurm.hardware.member
    for row in range(len(kept.start)):
        if begin < kept.end[row] and end > kept.start[row] and meets(kept.nodes[row], member[partition]):
            return True
    return False


@kernel
def _end_of_a_reservation(begin, slurm):
    """Return the second after the first end of a reservation at or after ``begin``.

    The end is rounded up to bf_resolution (``find_resv_end``); that the second after it counts was measured.
    """
    kept, step, first = slurm.reservations, slurm.rules.bf_resolution, 0
    for row in range(len(kept.end)):
        if kept.end[row] >= begin and (first == 0 or kept.end[row] < first):
            first = kept.end[row]
    return (first + step - 1) // step * step + 1


@kernel
def _completing(chosen, slurm):
    for i in range(chosen):
        if slurm.now.busy[slurm.room.chosen[i]] > 0:
            return True
    return False
