"""The arrays of Slurm's scheduler: the site, what jobs ask for, and what changes.

Times count from the beginning of the replay: events in milliseconds, times that Slurm keeps in whole seconds, as
slurmctld truncates its clock.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

NO_TIME = 1 << 62
NEW, PENDING, RUNS, COMPLETING, DONE, ABSENT = range(6)
"""Values of ``Now.phase``; ABSENT: never submitted in this simulation."""
MAIN, BACKFILL = 1, 2
"""Values of ``Now.by``: the scheduler that started a job."""
OFF, CANCEL, REQUEUE = range(3)
"""Values of ``Preemption.mode``: what happens to a preempted job."""
UP, DRAINED, DOWN, MADE, IF_WAITING = 1, 0, 2, 3, 4
"""Values of ``SiteEvents.up``: a node that is down loses its jobs; MADE: a reservation is made; IF_WAITING: see
SiteEvents."""
OTHER, CPUS, NODES = range(3)
"""Values of ``Ask.kind``."""
NONE = -1
OF_PARENT = -1.0
"""Shares of an association with Fairshare=parent."""
SHIFT, LOW = 6, 63
"""In a set of nodes, node ``n`` is bit ``n & LOW`` of word ``n >> SHIFT``."""


class Rules(NamedTuple):
    """Settings of slurm.conf as numbers: seconds unless the name has another unit.

    ``depth``: default_queue_depth. ``turn_us``: microseconds between turns of the background loop. ``weight_cpu``: what
    each processor of a job adds to its priority. ``cycle_ms``: time between cycles. ``epilog_ms``: how long the nodes
    of an ended job are COMPLETING. ``direct``: whether their answer always causes a pass at once. ``first_turn_ms``,
    ``poll_ms``: the time of one turn, of one poll of limits. ``seed`` draws which turns, ``behind_percent`` of all, are
    taken for a second earlier. ``decay``: the share of usage left after a second. ``bills``: whether a partition has
    TRESBillingWeights. ``has_components``: whether there are heterogeneous jobs. From ``within_slot`` on: the rules of
    :mod:`sim.slurm.releases`.
    """

    backfills: bool
    bf_interval: int
    bf_resolution: int
    bf_window: int
    bf_max_job_test: int
    bf_max_job_array_resv: int
    bf_max_job_user: int
    sched_interval: int
    batch_sched_delay: int
    sched_min_interval_ms: int
    depth: int
    kill_wait: int
    message_timeout: int
    calc_period: int
    accrues_always: bool
    multifactor: bool
    weight_age: float
    weight_fair: float
    weight_cpu: float
    max_age: float
    decay: float
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
    seed: int
    behind_percent: int
    has_components: bool
    has_several_qos: bool
    within_slot: bool
    steps_on: bool
    throttles_plans: bool
    counts_tasks: bool
    ends_at_component: bool
    roomiest_for_gpus: bool
    multiplies_gpus: bool
    takes_first: bool
    shuns_completing: bool
    turns_on_seconds: bool
    grows: bool
    time_min_as_soft_limit: int


class Hardware(NamedTuple):
    """Nodes in order of their names, and partitions.

    Arrays are int64, [nodes] unless stated. ``memory`` is in MiB. ``suits`` [requests, words] and ``member``
    [partitions, words] are sets of nodes. ``tier`` [partitions]. ``billing`` float64 [partitions, 4]: usage of a
    processor, MiB, GPU, node.
    """

    cpus: np.ndarray
    memory: np.ndarray
    gpus: np.ndarray
    suits: np.ndarray
    weight: np.ndarray
    member: np.ndarray
    tier: np.ndarray
    billing: np.ndarray


class Ask(NamedTuple):
    """The requests of jobs, int64 [jobs] unless stated, and their records.

    A job has a record in each partition that it names. ``memory_node`` and ``memory_cpu`` in MiB, ``gpus`` per node;
    ``max_nodes`` 0: any; ``suits`` is a row of ``Hardware.suits``. ``limit`` is the time limit, ``least`` the one with
    which the job may be planned (--time-min). ``most_there``: processors that it can use on a node, 0: any. ``group``
    is one for all tasks of an array, or the job's own; ``array`` is the group of an array's task, or NONE. ``afters``
    [jobs + 1] are rows of ``after``: groups that must have ended. ``order`` breaks ties of priority. From ``held_ms``
    to ``begin_ms`` the job may not start. ``records`` [jobs + 1] are rows of ``job``, ``partition``, ``admitted``
    (whether the limits of the partition admit it) and ``fixed`` (float64, priority without age and fair share);
    ``counted`` are the processors for its size. ``limits`` [jobs + 1] are rows of ``slot`` (the limit), ``amount`` and
    ``kind``; from ``resources`` on they are limits of processors, nodes, memory and GPUs. Amounts of the kinds CPUS and
    NODES are set again once nodes are chosen. ``reservation``: the one it runs in, or NONE. ``plain``: it gets no plan
    (NoReserve). ``leaf``: its association. ``usage`` float64: UsageFactor of its QOS. ``limit_qos`` is the QOS that the
    row is for, NONE: whichever the job has; ``qos`` is that of each record. ``het``: the next component of its
    heterogeneous job, in a ring, or NONE.
    """

    cpus: np.ndarray
    min_nodes: np.ndarray
    max_nodes: np.ndarray
    memory_node: np.ndarray
    memory_cpu: np.ndarray
    gpus: np.ndarray
    most_there: np.ndarray
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
    het: np.ndarray
    usage: np.ndarray
    records: np.ndarray
    job: np.ndarray
    partition: np.ndarray
    qos: np.ndarray
    admitted: np.ndarray
    fixed: np.ndarray
    counted: np.ndarray
    limits: np.ndarray
    resources: np.ndarray
    slot: np.ndarray
    amount: np.ndarray
    kind: np.ndarray
    limit_qos: np.ndarray


class Preemption(NamedTuple):
    """Which running jobs may be preempted, and what happens to them.

    ``requeues`` int64 [jobs]. A job's kind is its QOS or its partition. ``beats[a, b]`` int64 [kinds, kinds]: whether
    kind a may preempt kind b. ``mode``, ``grace`` (seconds), ``value`` (lowest first) int64 [kinds].
    """

    requeues: np.ndarray
    beats: np.ndarray
    mode: np.ndarray
    grace: np.ndarray
    value: np.ndarray


class SiteEvents(NamedTuple):
    """Events of the site, int64 [events] in order of ``time_ms``.

    A ``node`` goes (``up`` is DRAINED or DOWN) or comes back (UP). Without a node (NONE): for UP, ``job`` is cancelled,
    or if NONE some job becomes eligible; for IF_WAITING, ``job`` is cancelled if it waits; for DOWN, ``job`` is
    released from a hold; for DRAINED, a reservation begins or ends, which requests no pass, and ``job`` is the row of
    its next time, or NONE; for MADE, one is made, with its first time in row ``job``.
    """

    time_ms: np.ndarray
    node: np.ndarray
    up: np.ndarray
    job: np.ndarray


class Reservations(NamedTuple):
    """Advance reservations.

    ``start`` and ``end`` are seconds, int64 [reservations]; ``nodes`` int64 [reservations, words] are sets; ``rank``
    int64 [reservations] is 2 for MAINT, 1 for OVERLAP, else 0. If reservation ``row`` repeats, ``next_start`` and
    ``next_end`` int64 [times] hold its times after the current one.
    """

    start: np.ndarray
    end: np.ndarray
    nodes: np.ndarray
    rank: np.ndarray
    row: np.ndarray
    next_start: np.ndarray
    next_end: np.ndarray


class Tree(NamedTuple):
    """Associations; row 0 is the root account.

    ``children`` [associations + 1] are the rows of ``child`` whose shares count at its level, users first: its own, or
    those of accounts below with Fairshare=parent. ``usage`` float64 is in processor-seconds, decayed; ``level`` float64
    the shares over usage, ``factor`` float64 the fair-share factor of users.
    """

    parent: np.ndarray
    shares: np.ndarray
    user: np.ndarray
    children: np.ndarray
    child: np.ndarray
    usage: np.ndarray
    factor: np.ndarray
    level: np.ndarray
    stack: np.ndarray
    tied: np.ndarray


class Now(NamedTuple):
    """What changes, for nodes, jobs, records, groups and limits.

    ``busy`` [nodes] counts ended jobs whose nodes have not answered. Sets of nodes [words]: ``completing`` (busy),
    ``up`` (neither down nor drained), ``idle`` (free processors left). ``nodes`` [jobs + 1] are rows of ``node`` and
    ``taken``: the first ``held`` of a job's rows are its nodes and their processors; ``billed`` is its usage per
    second. ``queue``: records in order of priority. ``running``: jobs in order of their limits' ends. ``ended``: a ring
    of jobs whose nodes have not answered. ``first_ms``: a job's first start; ``start_ms``: the last of ``attempts``;
    ``warned``: when its grace time began; ``answer_ms``: how long its nodes are COMPLETING; ``preempts_since``: when it
    first preempted others; ``again``: whether it waits again after a stop; ``killed``: whether slurmctld ended it.
    ``place``: a job's place in slurmctld's list of jobs, which breaks ties of running jobs; ``rest`` [groups]: the
    place of an array's tasks that have not started. For each limit, ``used`` of ``most`` is taken. ``qos``: the QOS
    with which a job is tried, or runs; ``tried``: its record tried last. ``could_start``: when a component could start,
    s, by this cycle, NONE: not known.
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
    qos: np.ndarray
    tried: np.ndarray
    could_start: np.ndarray
    attempts: np.ndarray
    again: np.ndarray
    warned: np.ndarray
    preempts_since: np.ndarray
    killed: np.ndarray
    first_ms: np.ndarray
    start_ms: np.ndarray
    end_ms: np.ndarray
    answer_ms: np.ndarray
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


class CycleScratch(NamedTuple):
    """Scratch arrays of a choice of nodes and of a cycle's plans.

    ``chosen`` and ``take`` [nodes]: the last chosen nodes and their processors. Sets of consecutive nodes have
    ``first`` and ``last`` node, ``total`` processors, ``size`` [sets]. ``mask``, ``usable`` and ``counted`` [words] are
    sets of nodes, ``idle`` those with any of ``cpus``. ``able`` [nodes] lists the nodes with processors for a job;
    ``weight`` are twice the nodes' weights. ``sooner`` [nodes] are processors free later, ``coming`` the nodes with any
    then, ``freed`` [jobs + 1] those of all nodes once so many jobs have ended. ``plans`` [groups] counts plans in cycle
    ``planned``; ``tested`` [users] counts tests of the cycle. ``block`` [groups]: see
    :func:`sim.slurm.queue.sort_as_slurm`. ``clear`` [nodes]: when the first plan begins, s. ``futile`` [searches, 4]:
    see :func:`sim.slurm.plans.futile_until`.
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
    weight: np.ndarray
    sooner: np.ndarray
    planned: np.ndarray
    plans: np.ndarray
    block: np.ndarray
    failed: np.ndarray
    candidates: np.ndarray
    shared: np.ndarray
    merged: np.ndarray
    clear: np.ndarray
    futile: np.ndarray
    freed: np.ndarray
    tested: np.ndarray


class Plans(NamedTuple):
    """The map of a cycle's plans, int64 [intervals].

    Interval ``k`` lasts from ``begin`` to ``end``, in seconds; its ``row`` of ``free`` [intervals, words] has the nodes
    without plans; ``returns``: whether a node comes back after it. ``until`` [intervals, words] and ``beyond`` [words]
    are sets of nodes.
    """

    begin: np.ndarray
    end: np.ndarray
    row: np.ndarray
    returns: np.ndarray
    free: np.ndarray
    until: np.ndarray
    beyond: np.ndarray


class Slurm(NamedTuple):
    """Everything that Slurm's scheduler reads and changes.

    ``cycles``, ``passes`` and ``direct``, passes at the end of a job, int64, are in slurmctld's log, in order, ms.
    """

    rules: Rules
    hardware: Hardware
    ask: Ask
    tree: Tree
    outages: SiteEvents
    reservations: Reservations
    preemption: Preemption
    now: Now
    room: CycleScratch
    plans: Plans
    cycles: np.ndarray
    passes: np.ndarray
    direct: np.ndarray
    numbers: np.ndarray
