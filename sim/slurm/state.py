"""The arrays of Slurm's scheduler: the site, what jobs ask for, and what changes.

Times of events are milliseconds from the beginning of the replay, times that Slurm keeps are whole seconds from it, as slurmctld
truncates its clock.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

(
    QUEUED,  # records in the queue
    RUNNING,  # running jobs
    BEGUN,  # jobs that the loop must start
    JOINED,  # jobs submitted so far
    SEEN_ENDS,  # ends of jobs seen so far
    CLEARED,  # of ENDINGS, those whose nodes have answered
    REQUESTS,  # requests for a pass
    LAST_FULL,  # the last full pass, ms
    LAST_ASKED,  # the last pass that the background loop started, ms
    LAST_PASS,  # the last pass, ms
    TICK,  # the next turn of the background loop that may start a pass, ms; NEVER without one
    PASS,  # a pass put off, ms; NEVER without one
    CYCLE,  # the next time that the backfill scheduler wakes, ms
    LAST_CYCLE,  # the end of its last cycle, ms
    DECAY,  # the next computation of priorities, ms
    LAST_DECAY,  # the last, s
    DIRTY,  # whether anything has changed since the last pass
    BACKFILL_DIRTY,  # and since the last cycle
    CHANGED_AT,  # the last start, end or submission, ms
    OUTAGE,  # the next outage or return of a node, a row of Outages
    STAMP,  # the number of the present pass or cycle
    INTERVALS,  # intervals of the map of plans
    SPLIT,  # of the looks of one job at the map: see plans.py
    REACH,
    FIRST_PRIORITY,  # priority/basic: the priority of the next job
    RANK,  # fair tree: the rank that is given next
    PASSES,  # main passes so far
    CYCLES,  # backfill cycles so far
    ENDINGS,  # ends of runs so far, those of stopped jobs among them
    STOPPED,  # jobs that the loop must stop
    NOTICE,  # when a requeued job may begin, or grace times are looked at, ms; NEVER
    PLACES,  # records of jobs that slurmctld has made so far
    NOW_ONLY,  # whether the job that a cycle looks at may start, but gets no plan
    TRIED,  # the partition in which a job is tried
    ABLE,  # the nodes on which it finds processors
    NUMBERS,
) = range(36)
"""Slots of ``Slurm.numbers``."""

NEVER = 1 << 62
NEW, PENDING, RUNS, COMPLETING, DONE, ABSENT = range(6)
"""Values of ``Now.phase``; ABSENT: not submitted in this simulation."""
MAIN, BACKFILL = 1, 2
"""Values of ``Now.by``: the scheduler that started a job."""
OFF, CANCEL, REQUEUE = range(3)
"""Values of ``Preemption.mode``: what becomes of a preempted job."""
UP, DRAINED, DOWN = 1, 0, 2
"""Values of ``Outages.up``: a node that is down loses its jobs."""
OTHER, CPUS, NODES, BILLING = range(4)
"""Values of ``Ask.kind`` and ``Ask.metered_by``."""
NONE = -1
OF_PARENT = -1.0
"""Shares of an association with Fairshare=parent."""
SHIFT, LOW = 5, 31
"""Of a set of nodes: node ``n`` is bit ``n & LOW`` of word ``n >> SHIFT``."""


class Rules(NamedTuple):
    """Settings of slurm.conf as numbers: seconds unless the name says otherwise.

    ``depth`` is default_queue_depth, ``turn_us`` the microseconds between turns of the background loop,
    ``weight_cpu`` what a processor of job size adds to a priority, ``cycle_ms`` the time between cycles, ``epilog_ms`` how long the nodes
    of an ended job are COMPLETING, ``direct`` whether their answer always makes a pass at once, ``first_turn_ms`` a turn's
    time, ``poll_ms`` a poll's of limits, ``decay`` the share of usage that is left after a second, ``damping``
    FairShareDampeningFactor of classic fair share, 0 for Fair Tree. ``bf_counts``: whether any number of tests a user, partition or
    association has a maximum; ``over_time`` is OverTimeLimit; ``bills``: whether a partition has TRESBillingWeights.
    """

    backfills: bool
    bf_interval: int
    bf_resolution: int
    bf_window: int
    bf_max_job_test: int
    bf_max_job_array_resv: int
    bf_window_linear: int
    bf_max_job_user: int
    bf_max_job_part: int
    bf_max_job_user_part: int
    bf_max_job_assoc: int
    bf_max_job_start: int
    bf_counts: bool
    bf_one_resv_per_job: int
    bf_job_part_count_reserve: int
    bf_min_age_reserve: int
    bf_min_prio_reserve: int
    sched_max_job_start: int
    partition_job_depth: int
    complete_wait: int
    reduce_completing_frag: int
    sched_interval: int
    batch_sched_delay: int
    sched_min_interval_ms: int
    depth: int
    kill_wait: int
    over_time: int
    message_timeout: int
    calc_period: int
    safe: bool
    accrues_always: bool
    only_rises: bool
    multifactor: bool
    weight_age: float
    weight_fair: float
    weight_cpu: float
    max_age: float
    decay: float
    damping: float
    bills: bool
    bills_most: bool
    memory: bool
    preempts: bool
    preempts_by_qos: bool
    preempt_youngest_first: int
    preempt_reorder_count: int
    direct: bool
    turn_us: int
    cycle_ms: int
    first_turn_ms: int
    poll_ms: int
    epilog_ms: int


class Hardware(NamedTuple):
    """Nodes in order of their names, and partitions.

    int64 [nodes]: ``memory`` in MiB. ``suits`` int64 [wishes, words] and ``member`` int64 [partitions, words] are sets of nodes. ``tier`` int64 [partitions].
    ``billing`` float64 [partitions, 4] is what a processor, a MiB, a GPU and a node count as usage.
    ``least_loaded`` int64 [partitions]: whether LLN holds there. ``switch_nodes`` int64 [switches, words] are sets of nodes,
    ``switch_parent`` int64 [switches] the switch above, or itself, and ``switch_distance`` int64 [switches, switches] hops.
    """

    cpus: np.ndarray
    memory: np.ndarray
    gpus: np.ndarray
    suits: np.ndarray
    weight: np.ndarray
    member: np.ndarray
    tier: np.ndarray
    billing: np.ndarray
    least_loaded: np.ndarray
    switch_nodes: np.ndarray
    switch_level: np.ndarray
    switch_parent: np.ndarray
    switch_distance: np.ndarray


class Ask(NamedTuple):
    """What jobs ask for, int64 [jobs], and their records.

    A job has a record in each partition that it names. ``memory_node`` and ``memory_cpu`` in MiB, ``gpus`` a node; ``max_nodes``
    0: any; ``suits`` is a row of that of the hardware. ``least`` is the limit with which it may be planned (--time-min), ``limit``
    the one asked for. ``group`` is that of the tasks of one array, or the job's own, ``array`` the same or NONE. ``afters`` [jobs + 1]
    are rows of ``after``: groups that must have ended. ``order`` settles ties of priority. A job may not start from ``held_ms`` on
    before ``begin_ms``. ``records`` [jobs + 1] are rows of ``job``, ``partition``, ``admitted`` (whether the partition's limits let it
    run there) and ``fixed`` (the priority without age and fair share, float64); ``counted`` [jobs] are the processors by which its
    size goes. ``limits`` [jobs + 1] are rows of ``slot`` and ``amount``: what counts against which limit, from ``resources`` [jobs] on
    those of processors, nodes, memory and GPUs; of which ``kind``, once nodes are chosen, by what is taken: CPUS or NODES.
    ``reservation``: the one that it runs in, or NONE. ``plain`` int64 [jobs]: no plan is made for it (NoReserve). ``leaf`` is its
    association, ``usage`` its QOS's UsageFactor. ``minutes`` [jobs + 1] are rows of ``meter`` and ``metered`` (float64): how much
    of a resource counts on which meter, by what is taken once nodes are chosen (``metered_by``: CPUS, NODES, BILLING).
    """

    cpus: np.ndarray
    min_nodes: np.ndarray
    max_nodes: np.ndarray
    memory_node: np.ndarray
    memory_cpu: np.ndarray
    gpus: np.ndarray
    suits: np.ndarray
    exclusive: np.ndarray
    limit: np.ndarray
    least: np.ndarray
    held_ms: np.ndarray
    begin_ms: np.ndarray
    user: np.ndarray
    group: np.ndarray
    array: np.ndarray
    throttle: np.ndarray
    afters: np.ndarray
    after: np.ndarray
    order: np.ndarray
    reservation: np.ndarray
    plain: np.ndarray
    leaf: np.ndarray
    usage: np.ndarray
    records: np.ndarray
    job: np.ndarray
    partition: np.ndarray
    admitted: np.ndarray
    fixed: np.ndarray
    counted: np.ndarray
    limits: np.ndarray
    resources: np.ndarray
    slot: np.ndarray
    amount: np.ndarray
    kind: np.ndarray
    minutes: np.ndarray
    meter: np.ndarray
    metered: np.ndarray
    metered_by: np.ndarray


class Preemption(NamedTuple):
    """Which running jobs may be preempted, and what becomes of them.

    ``qos`` and ``requeues`` int64 [jobs]. The others go by the kind of a job, its QOS or its partition: ``beats`` [kinds, kinds] tells
    of which kinds a kind's jobs may stop others, ``mode``, ``grace`` and ``exempt`` (seconds) and ``value`` (lowest first) int64 [kinds].
    """

    qos: np.ndarray
    requeues: np.ndarray
    beats: np.ndarray
    mode: np.ndarray
    grace: np.ndarray
    exempt: np.ndarray
    value: np.ndarray


class Outages(NamedTuple):
    """Nodes that go (``up`` DRAINED or DOWN) and come back (UP).

    In order of ``time_ms``, int64 [events]. Without a node (NONE) something else changes what may start: a job becomes eligible, or
    ``job`` is cancelled (UP), or released from a hold (DOWN); a reservation begins or ends, for which no pass is asked (DRAINED),
    and ``job`` is the row of its next time.
    """

    time_ms: np.ndarray
    node: np.ndarray
    up: np.ndarray
    job: np.ndarray


class Reservations(NamedTuple):
    """Advance reservations.

    ``start`` and ``end`` in seconds, int64 [reservations], ``nodes`` int64 [reservations, words] are sets; ``rank``
    int64 [reservations]: MAINT 2, OVERLAP 1, 0; ``flex``: its jobs are not bound to its time and nodes. One that repeats has
    ``next_start`` and ``next_end`` int64 [times] of the reservation ``row``: once a time is over, the next one holds.
    """

    start: np.ndarray
    end: np.ndarray
    nodes: np.ndarray
    rank: np.ndarray
    flex: np.ndarray
    row: np.ndarray
    next_start: np.ndarray
    next_end: np.ndarray


class Tree(NamedTuple):
    """Associations; row 0 is the root account.

    ``above`` is the account among whose shares an association's count: its parent, or with Fairshare=parent that one's. ``children``
    [associations + 1] are the rows of ``child`` that count below it, users first. ``usage`` float64 in processor-seconds, decayed;
    ``factor`` float64 is the fair-share factor of users. Of classic fair share, float64, are ``part``, its shares over all of its
    level's, ``norm``, the same of all levels, and ``level``, the effective usage of accounts.
    """

    parent: np.ndarray
    above: np.ndarray
    shares: np.ndarray
    part: np.ndarray
    norm: np.ndarray
    user: np.ndarray
    children: np.ndarray
    child: np.ndarray
    usage: np.ndarray
    factor: np.ndarray
    level: np.ndarray
    stack: np.ndarray
    tied: np.ndarray


class Meters(NamedTuple):
    """Limits of minutes: ``cap`` int64 [meters] minutes.

    Those that ``spends`` hold what was used, ``spent`` float64 in seconds, decayed unless it ``keeps``; the others what runs.
    """

    cap: np.ndarray
    spends: np.ndarray
    keeps: np.ndarray
    spent: np.ndarray


class Now(NamedTuple):
    """What changes: of nodes, jobs, records, groups and limits.

    ``busy`` [nodes] counts ended jobs whose nodes have not answered; ``completing``, ``up`` and ``idle`` [words] are the sets of nodes on
    which there are such, that are not down, and that have processors left. ``nodes`` [jobs + 1] are rows of ``node`` and ``taken``, where
    ``held`` [jobs] of them say on which nodes a job runs, with how many processors, ``billed`` together. ``queue`` holds records in order of priority,
    ``running`` jobs in order of their limits' ends, ``ended`` a ring of jobs whose nodes have not answered. ``first_ms`` is a job's first start,
    ``start_ms`` the last of ``attempts``, ``warned`` when its grace time began, ``preempts_since`` when it first stopped
    another, ``again`` whether it waits again after a stop, ``killed`` whether slurmctld has ended it. ``place`` is a job's place in
    slurmctld's list of jobs, which settles ties of running ones; ``rest`` [groups] that of an array's tasks that have not started.
    Of each limit ``used`` is how much of ``most`` is taken; one of nodes has a row ``counter`` of ``jobs_on`` int32 [rows, nodes], the jobs that
    it counts on each node: nodes count once (acct_policy.c, ``_add_usage_node_bitmap``).
    """

    cpus: np.ndarray
    memory: np.ndarray
    gpus: np.ndarray
    busy: np.ndarray
    completing: np.ndarray
    idle: np.ndarray
    up: np.ndarray
    phase: np.ndarray
    by: np.ndarray
    partition: np.ndarray
    attempts: np.ndarray
    again: np.ndarray
    warned: np.ndarray
    preempts_since: np.ndarray
    killed: np.ndarray
    first_ms: np.ndarray
    start_ms: np.ndarray
    end_ms: np.ndarray
    limit_end: np.ndarray
    eligible: np.ndarray
    accrues: np.ndarray
    priority: np.ndarray
    nodes: np.ndarray
    node: np.ndarray
    taken: np.ndarray
    held: np.ndarray
    billed: np.ndarray
    queue: np.ndarray
    running: np.ndarray
    begun: np.ndarray
    stopped: np.ndarray
    ended: np.ndarray
    undone: np.ndarray
    tasks: np.ndarray
    place: np.ndarray
    rest: np.ndarray
    used: np.ndarray
    most: np.ndarray
    counter: np.ndarray
    jobs_on: np.ndarray


class Room(NamedTuple):
    """Scratch of a choice of nodes and of a cycle's plans.

    ``chosen`` and ``take`` [nodes] are the nodes last chosen, with processors. Sets of nodes to choose from have ``first`` and ``last``
    [sets], ``total`` processors and their ``size``. ``mask``, ``usable`` and ``counted`` [words] are sets of nodes, ``idle`` those with
    some of ``cpus``, ``able`` [nodes] a list of those with some for a job, ``sooner`` [nodes] the processors free at a later time, and
    ``coming`` the set of nodes that have any then. ``rejected`` and ``planned`` [groups] go by the number of the pass, ``foreseen`` [jobs] too: the last
    cycle that made a plan for it. ``tested`` and ``submitted`` count tests, by the number of the pass, in partitions, of associations and of
    users in each partition and in all; plans in partitions stand behind their tests. ``clear`` [nodes] is when the first plan of a node
    begins, in seconds. What is ``left`` to choose, and ``required``, ``distance`` and ``joined`` [switches], are those of a choice by switches.
    """

    room: np.ndarray
    chosen: np.ndarray
    take: np.ndarray
    first: np.ndarray
    last: np.ndarray
    total: np.ndarray
    size: np.ndarray
    cpus: np.ndarray
    memory: np.ndarray
    gpus: np.ndarray
    mask: np.ndarray
    usable: np.ndarray
    counted: np.ndarray
    idle: np.ndarray
    coming: np.ndarray
    able: np.ndarray
    sooner: np.ndarray
    rejected: np.ndarray
    planned: np.ndarray
    plans: np.ndarray
    failed: np.ndarray
    candidates: np.ndarray
    shared: np.ndarray
    merged: np.ndarray
    clear: np.ndarray
    tested: np.ndarray
    submitted: np.ndarray
    foreseen: np.ndarray
    left: np.ndarray
    required: np.ndarray
    distance: np.ndarray
    joined: np.ndarray


class Plans(NamedTuple):
    """The map of a cycle's plans, int64 [intervals].

    Interval ``k`` lasts from ``begin`` to ``end``, in seconds; ``row`` is that of ``free`` [intervals, words], the nodes without plans in
    it; ``returns`` tells whether a node comes back after it. ``until`` [intervals, words] and ``beyond`` [words] are sets of nodes.
    """

    begin: np.ndarray
    end: np.ndarray
    row: np.ndarray
    returns: np.ndarray
    free: np.ndarray
    until: np.ndarray
    beyond: np.ndarray


class Slurm(NamedTuple):
    """Everything that Slurm's scheduler reads and changes."""

    rules: Rules
    hardware: Hardware
    ask: Ask
    tree: Tree
    outages: Outages
    reservations: Reservations
    preemption: Preemption
    now: Now
    room: Room
    plans: Plans
    meters: Meters
    numbers: np.ndarray
