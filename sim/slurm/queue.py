"""The queue: which jobs may start now, and in which order.

From job_mgr.c, ``job_independent``, and job_scheduler.c, ``build_job_queue``.
"""

from __future__ import annotations

from features.jit import apart, kernel
from sim.slurm import slots
from sim.slurm.shares import factor_of, is_of
from sim.slurm.state import CPUS, NODES, NONE, PENDING


@kernel
def touch(now, slurm):
    """Note that something has changed, so that passes and cycles have work again."""
    numbers = slurm.numbers
    numbers[slots.DIRTY] = numbers[slots.BACKFILL_DIRTY] = 1
    numbers[slots.CHANGED_AT] = now


@kernel
def throttled(job, slurm):
    """Tell whether as many tasks of the job's array run as may run."""
    ask = slurm.ask
    return ask.throttle[job] > 0 and slurm.now.tasks[ask.group[job]] >= ask.throttle[job]


@kernel
def independent(job, now, slurm):
    """Tell whether ``job`` is eligible, without looking at nodes and limits; note since when.

    ``accrues``, from which age counts, is the first such time. A throttled task loses ``eligible`` again.
    """
    ask, state = slurm.ask, slurm.now
    if ask.held_ms[job] <= now < ask.begin_ms[job]:
        state.eligible[job] = NONE
        if not slurm.rules.accrues_always:
            state.accrues[job] = NONE
        return False
    for row in range(ask.afters[job], ask.afters[job + 1]):
        if state.undone[ask.after[row]] > 0:
            return False
    if throttled(job, slurm):
        state.eligible[job] = NONE
        return False
    if state.eligible[job] == NONE:
        state.eligible[job] = now // 1000
        if state.accrues[job] == NONE:
            state.accrues[job] = now // 1000
    return True


@kernel
def limited(job, with_nodes, slurm):
    """Tell whether ``job`` would pass a limit of a QOS or an association (acct_policy.c).

    It then waits, and blocks no other job. Numbers of jobs and licenses are always checked, other limits only
    ``with_nodes``.
    """
    ask, state = slurm.ask, slurm.now
    for row in range(ask.limits[job], ask.limits[job + 1] if with_nodes else ask.resources[job]):
        if is_of(ask.limit_qos[row], job, slurm) and state.used[ask.slot[row]] + ask.amount[row] > state.most[ask.slot[row]]:
            return True
    return False


@kernel
def over_limits(job, chosen, slurm):
    """Tell whether ``job`` would pass a limit with the ``chosen`` nodes.

    From now on the job counts with what it takes on them; a node counts for each of its jobs.
    """
    ask, room, cpus = slurm.ask, slurm.room, 0
    for i in range(chosen):
        cpus += room.take[i]
    for row in range(ask.resources[job], ask.limits[job + 1]):
        if ask.kind[row] == CPUS:
            ask.amount[row] = cpus
        elif ask.kind[row] == NODES:
            ask.amount[row] = chosen
    return limited(job, True, slurm)


@kernel
def count_limits(job, sign, slurm):
    """Count a job against its limits at its start (``sign`` 1); stop counting at its end (-1)."""
    ask, state = slurm.ask, slurm.now
    for row in range(ask.limits[job], ask.limits[job + 1]):
        if is_of(ask.limit_qos[row], job, slurm):
            state.used[ask.slot[row]] += sign * ask.amount[row]


@kernel
def prioritise(record, second, slurm):
    """Write the priority of a record (priority_multifactor.c ``_get_priority_internal``)."""
    ask, state, rules = slurm.ask, slurm.now, slurm.rules
    job = ask.job[record]
    if not rules.multifactor:
        if state.priority[record] == 0:
            state.priority[record] = slurm.numbers[slots.FIRST_PRIORITY]
            slurm.numbers[slots.FIRST_PRIORITY] -= 1
        return
    age = 0.0
    if state.accrues[job] != NONE:
        age = min(1.0, max(0, second - state.accrues[job]) / rules.max_age)
    factor = factor_of(ask.leaf[job], slurm.tree)
    state.priority[record] = int(max(1.0, age * rules.weight_age + factor * rules.weight_fair + ask.fixed[record]))


@kernel
def _sorted_by(record, slurm):
    """Return the record whose priority counts in the queue: for several QOS in one partition, the one tried last.

    Slurm then sorts by the job's own priority (``job_ptr->priority``), which each try replaces.
    """
    ask = slurm.ask
    first, last = ask.records[ask.job[record]], ask.records[ask.job[record] + 1] - 1
    return slurm.now.tried[ask.job[record]] if first < last and ask.partition[first] == ask.partition[last] else record


@kernel
def note_try(record, slurm):
    """Note that a job is tried in one of its records, with the QOS of that record."""
    job = slurm.ask.job[record]
    slurm.now.qos[job], slurm.now.tried[job] = slurm.ask.qos[record], record


@kernel
def goes_before(one, other, slurm):
    """Tell whether a record goes before another (``sort_job_queue2``).

    First comes a job that may preempt the other, then a job in a reservation, then tier, priority, submission and
    number decide.
    """
    ask, priority = slurm.ask, slurm.now.priority
    if slurm.rules.preempts_by_qos:
        beats = slurm.preemption.beats
        qos, other_qos = ask.qos[one], ask.qos[other]
        if beats[qos, other_qos] != beats[other_qos, qos]:
            return beats[qos, other_qos] != 0
    reserved, other_reserved = ask.reservation[ask.job[one]] != NONE, ask.reservation[ask.job[other]] != NONE
    if reserved != other_reserved:
        return reserved
    tiers = slurm.hardware.tier
    tier, other_tier = tiers[ask.partition[one]], tiers[ask.partition[other]]
    if tier != other_tier:
        return tier > other_tier
    first, second = _sorted_by(one, slurm), _sorted_by(other, slurm)
    if priority[first] != priority[second]:
        return priority[first] > priority[second]
    if ask.order[ask.job[one]] != ask.order[ask.job[other]]:
        return ask.order[ask.job[one]] < ask.order[ask.job[other]]
    return one < other


@kernel
def insert(record, size, slurm):
    """Insert a record into the first ``size`` records of the queue, which are in order."""
    queue, i = slurm.now.queue, size
    while i > 0 and goes_before(record, queue[i - 1], slurm):
        queue[i] = queue[i - 1]
        i -= 1
    queue[i] = record


@apart
def join(job, now, slurm):
    """Add a submitted or requeued job to the queue, with its first priority."""
    ask, numbers = slurm.ask, slurm.numbers
    state, array = slurm.now, ask.array[job]
    state.phase[job] = PENDING
    if slurm.rules.accrues_always:
        state.accrues[job] = now // 1000
    if state.place[job] == NONE:
        state.place[job] = numbers[slots.PLACES]
        if array != NONE and state.rest[array] == NONE:
            state.rest[array] = numbers[slots.PLACES]
        numbers[slots.PLACES] += 1
    independent(job, now, slurm)
    state.tried[job] = ask.records[job]
    for record in range(ask.records[job], ask.records[job + 1]):
        prioritise(record, now // 1000, slurm)
    for record in range(ask.records[job], ask.records[job + 1]):
        insert(record, numbers[slots.QUEUED], slurm)
        numbers[slots.QUEUED] += 1


@apart
def release(job, now, slurm):
    """Release a waiting job from a hold: compute its priority, and let its age begin."""
    ask, queue, numbers = slurm.ask, slurm.now.queue, slurm.numbers
    if slurm.now.phase[job] != PENDING or not independent(job, now, slurm) or not slurm.rules.multifactor:
        return
    for record in range(ask.records[job], ask.records[job + 1]):
        left = 0
        for i in range(numbers[slots.QUEUED]):
            if queue[i] != record:
                queue[left] = queue[i]
                left += 1
        prioritise(record, now // 1000, slurm)
        insert(record, left, slurm)


@apart
def line_up(second, slurm):
    """Compute all priorities, and sort the queue by them."""
    queue = slurm.now.queue
    for i in range(slurm.numbers[slots.QUEUED]):
        prioritise(queue[i], second, slurm)
    sort_again(slurm)


@kernel
def sort_again(slurm):
    """Sort the queue by the priorities that count now."""
    queue = slurm.now.queue
    for i in range(slurm.numbers[slots.QUEUED]):
        insert(queue[i], i, slurm)


@apart
def sort_as_slurm(now, slurm):
    """Sort the queue by merging halves of the list of jobs, as the C library's qsort does.

    Preemption by QOS makes the order intransitive, so the result depends on the sorting algorithm, and on what is
    sorted: the jobs that may run now, of an array's tasks in a partition the first alone (``build_job_queue``).
    """
    merge_halves(True, slurm.numbers[slots.QUEUED], slurm)
    heads = _part(now, slurm)
    merge_halves(False, heads, slurm)
    _rejoin(heads, slurm)


@kernel
def _part(now, slurm):
    """Move the records that Slurm sorts to the front, in order; return how many.

    Behind them the further tasks of each array stand together, from place ``block[array]`` on, and records that may not
    run.
    """
    ask, state, numbers, room = slurm.ask, slurm.now, slurm.numbers, slurm.room
    queue, heads, others = state.queue, 0, 0
    for i in range(numbers[slots.QUEUED]):
        record = queue[i]
        job, array = ask.job[record], ask.array[ask.job[record]]
        is_head = state.phase[job] == PENDING and ask.admitted[record] != 0 and independent(job, now, slurm)
        if is_head and array != NONE:
            at = heads - 1
            while is_head and at >= 0 and ask.array[ask.job[queue[at]]] == array:
                is_head = ask.partition[queue[at]] != ask.partition[record]
                at -= 1
        if is_head:
            queue[heads] = record
            heads += 1
        else:
            room.merged[others] = record
            others += 1
    for at in range(others - 1, -1, -1):
        record = room.merged[at]
        queue[heads + at] = record
        if ask.array[ask.job[record]] != NONE:
            room.block[ask.array[ask.job[record]]] = heads + at
    return heads


@kernel
def _rejoin(heads, slurm):
    """Move an array's further tasks in a partition behind the first one; keep all others in order."""
    ask, queue, merged, count, filled = slurm.ask, slurm.now.queue, slurm.room.merged, slurm.numbers[slots.QUEUED], 0
    for i in range(heads):
        head = queue[i]
        array, partition = ask.array[ask.job[head]], ask.partition[head]
        merged[filled] = head
        filled += 1
        at = slurm.room.block[array] if array != NONE else count
        while heads <= at < count and (queue[at] == NONE or ask.array[ask.job[queue[at]]] == array):
            if queue[at] != NONE and ask.partition[queue[at]] == partition:
                merged[filled], queue[at] = queue[at], NONE
                filled += 1
            at += 1
    for at in range(heads, count):
        if queue[at] != NONE:
            merged[filled] = queue[at]
            filled += 1
    for at in range(count):
        queue[at] = merged[at]


@kernel
def _place_of(job, slurm):
    """Return a job's place in slurmctld's list of jobs: a task has its array's until it has started once."""
    array = slurm.ask.array[job]
    return slurm.now.place[job] if array == NONE or slurm.now.attempts[job] > 0 else slurm.now.rest[array]


@kernel
def listed_before(one, other, slurm):
    """Tell whether a record's job comes before another's in slurmctld's list of jobs."""
    job, second = slurm.ask.job[one], slurm.ask.job[other]
    place, other_place = _place_of(job, slurm), _place_of(second, slurm)
    return place < other_place if place != other_place else one < other


@apart
def merge_halves(as_listed, count, slurm):
    """Sort the first ``count`` of the queue by merging sorted halves.

    Of an odd count the second half is larger.

    The order is that of slurmctld's list of jobs (``as_listed``), or that of :func:`goes_before`.
    """
    queue, merged, depth = slurm.now.queue, slurm.room.merged, 0
    while 1 << depth < count:
        depth += 1
    for level in range(depth - 1, -1, -1):
        for branch in range(1 << level):
            first, size = 0, count
            for bit in range(level - 1, -1, -1):  # walk down to the part of the list that is this branch
                half = size // 2
                right = branch >> bit & 1 != 0
                first, size = (first + half, size - half) if right else (first, half)
            one, middle, other, last = first, first + size // 2, first + size // 2, first + size
            for at in range(first, last):
                later = False
                if other < last and one < middle:
                    behind, ahead = queue[other], queue[one]
                    later = listed_before(behind, ahead, slurm) if as_listed else goes_before(behind, ahead, slurm)
                if other == last or (one < middle and not later):
                    merged[at] = queue[one]
                    one += 1
                else:
                    merged[at] = queue[other]
                    other += 1
            for at in range(first, last):
                queue[at] = merged[at]


@apart
def drop_started(slurm):
    """Remove the records of jobs that no longer wait from the queue."""
    queue, left = slurm.now.queue, 0
    for i in range(slurm.numbers[slots.QUEUED]):
        if slurm.now.phase[slurm.ask.job[queue[i]]] == PENDING:
            queue[left] = queue[i]
            left += 1
    slurm.numbers[slots.QUEUED] = left


@kernel
def open_to(job, partition, second, end, slurm, mask):
    """Write a partition's nodes up and open to ``job`` from ``second`` to ``end`` to ``mask``.

    Nodes of a reservation that meets this time are not open, unless the job or its reservation may use them.
    """
    state, kept, own = slurm.now, slurm.reservations, slurm.ask.reservation[job]
    member = slurm.hardware.member
    for word in range(len(mask)):
        mask[word] = member[partition, word] & state.up[word]
    for row in range(len(kept.start)):
        if row == own:
            inside = kept.start[row] <= second < kept.end[row]
            for word in range(len(mask)):
                mask[word] = mask[word] & kept.nodes[row, word] if inside else 0
        elif (
            second < kept.end[row]
            and end > kept.start[row]
            and (own == NONE or kept.rank[own] == 0 or kept.rank[own] < kept.rank[row] == 2)
        ):
            for word in range(len(mask)):
                mask[word] &= ~kept.nodes[row, word]
