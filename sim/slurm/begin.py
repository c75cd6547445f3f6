"""The arrays at the beginning of a replay, for a site, its jobs and its clocks' phases."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from features.clock import DAY_S
from sim.slurm.lines import seconds
from sim.slurm.nodesets import as_set, hardware_of
from sim.slurm.priority import Fixed
from sim.slurm.releases import WHOLE_SECONDS, rules_of
from sim.slurm.requests import SlurmRequests, preemption, requests
from sim.slurm.scratch import scratch_of
from sim.slurm.shares import share_out
from sim.slurm.site import PARAMETERS, UNLIMITED, Site
from sim.slurm.state import (
    CYCLE,
    DECAY,
    DOWN,
    DRAINED,
    FIRST_PRIORITY,
    IF_WAITING,
    LAST_ASKED,
    LAST_CYCLE,
    LAST_DECAY,
    LAST_FULL,
    LAST_PASS,
    MADE,
    NO_TIME,
    NODES,
    NONE,
    NOTICE,
    NUMBERS,
    OF_PARENT,
    PASS,
    TICK,
    UP,
    Ask,
    Hardware,
    Now,
    Reservations,
    Rules,
    SiteEvents,
    Slurm,
    Tree,
)

LEAD_S = 30
"""Seconds before the first submission at which slurmctld is assumed to have last made a full pass and charged usage."""
TURN_MS = 1_004
"""Time between turns of slurmctld's background loop: a second plus its own work (1,003 to 1,005 ms measured)."""
TURN_WORK_S, CYCLE_WORK_S = (0.0005, 0.0055), (0.001, 0.008)
"""The least and the longest work of a turn until 23.02, and of a cycle (measured on 34 recorded runs)."""
MOST_DIRECT = 0.25
"""The largest share of ends without an Epilog that a direct pass follows (0 to 26 % in 24 recorded runs)."""
BEHIND_PERCENT = 20
"""Share of turns since 23.11 that slurmctld takes for a second earlier (two or four seconds between passes in place of three, measured)."""
FIRST_POLL_S = 30.8
"""Seconds from slurmctld's start to the first poll of time limits (measured)."""
LATE_S = 0.005
"""How long after a whole second the background loop turns since 23.11, at most (measured)."""
ANSWER_MS, EPILOG_MS = 5, 16
"""How long a node stays COMPLETING without an Epilog, and beyond one, which slurmd must start (3 to 8 ms and 14 to 20 measured)."""
MOVED_ON_S = 60 * DAY_S
"""How long after the last submission a repeating reservation still repeats."""
LAUNCH_MS = 80
"""Milliseconds of launch and exit beyond a program's runtime (50 to 150 ms measured)."""
YEAR_S = 365 * DAY_S
TRIES = 60
"""Number of times in a PriorityCalcPeriod that :mod:`sim.site.computed` tries."""
READ_WITHIN_S = 2.0
"""How far around one of its times the time is drawn; they lie within 3 s of those of the logs in 32 of 34 recorded runs."""

Event = tuple[int, int, int, int]
"""An event of the site as in :class:`sim.slurm.state.SiteEvents`: ms, node, what, job or row."""


class Phases(NamedTuple):
    """What accounting does not record: phases of Slurm's clocks, and fractions of seconds.

    ``turn_s``, ``cycle_s``, ``decay_s`` and ``poll_s`` are the first turn, cycle, computation of priorities and poll of time
    limits, in seconds from the beginning of the replay. ``parts_s`` float64 [jobs] are added to the submissions.
    ``turn_length_s`` is the time between turns of the background loop.
    ``full_s`` and ``asked_s`` are the times of the last full pass and the last pass before the first submission, in seconds
    from it. ``runtimes_s`` float64 [jobs] are exact runtimes with launch and exit, NaN if unknown. Computations of priorities
    may lie up to ``decay_spread_s`` later; the polls are then unknown, too. ``cycles_s``, ``passes_s`` at turns of the background
    loop and ``direct_s`` between turns are those of the log, in order: a replay's keep to them where they are close.
    ``answers_s`` float64 [jobs] are how long the nodes of ended jobs were COMPLETING, NaN if unknown; ``starts_s`` and ``ends_s``
    float64 [jobs] are recorded starts and ends, from the beginning of the replay, NaN if unknown. ``drains`` float64 [outages] says
    where in its time an order to drain a node came, from 0 (the default), the earliest, to 1. ``cycle_work_s`` is how long a cycle
    takes; the next one is due ``bf_interval`` later. ``run_parts_s`` float64 [jobs] are added to runtimes of whole seconds.
    ``direct`` bool [jobs]: whose end causes a direct pass also without an Epilog, as a step was still there. ``seed`` draws which
    turns on whole seconds slurmctld takes for a second earlier; -1: none.
    """

    turn_s: float
    cycle_s: float
    decay_s: float
    parts_s: np.ndarray
    turn_length_s: float = TURN_MS / 1000
    poll_s: float = 0.0
    full_s: float = -LEAD_S
    asked_s: float = -LEAD_S
    runtimes_s: np.ndarray | None = None
    decay_spread_s: float = 0.0
    cycles_s: np.ndarray = np.empty(0)
    passes_s: np.ndarray = np.empty(0)
    direct_s: np.ndarray = np.empty(0)
    drains: np.ndarray | None = None
    answers_s: np.ndarray | None = None
    starts_s: np.ndarray | None = None
    ends_s: np.ndarray | None = None
    cycle_work_s: float = 0.0
    run_parts_s: np.ndarray | None = None
    direct: np.ndarray | None = None
    seed: int = -1

    def of_first(self, jobs: int) -> Phases:
        """Return the phases of the first ``jobs`` alone."""
        return self._replace(
            parts_s=self.parts_s[:jobs],
            runtimes_s=None if self.runtimes_s is None else self.runtimes_s[:jobs],
            answers_s=None if self.answers_s is None else self.answers_s[:jobs],
            starts_s=None if self.starts_s is None else self.starts_s[:jobs],
            ends_s=None if self.ends_s is None else self.ends_s[:jobs],
            run_parts_s=None if self.run_parts_s is None else self.run_parts_s[:jobs],
            direct=None if self.direct is None else self.direct[:jobs],
        )

    def begun(self, start_s: float, site: Site, first_s: float) -> Phases:
        """Return the phases of clocks that all began at ``start_s``, with slurmctld.

        Both times are in seconds from the beginning of the replay. The first job is submitted in the second ``first_s``.
        """
        interval, between, _ = clock_settings(site)
        full_s = start_s - first_s
        full_s += interval * max(-full_s // interval, 0)
        return self._replace(
            turn_s=self.turn_s if site.known_release >= WHOLE_SECONDS else start_s,
            cycle_s=start_s + between,
            decay_s=start_s,
            poll_s=start_s + FIRST_POLL_S,
            full_s=full_s,
            asked_s=full_s,
        )


def draw_phases(site: Site, jobs: int, seed: int) -> Phases:
    """Draw random phases, as one accounting is consistent with many."""
    random = np.random.default_rng([seed, 0x51])
    interval, between, period = clock_settings(site)
    on_seconds = site.known_release >= WHOLE_SECONDS
    turn_length_s = 1.0 if on_seconds else TURN_MS / 1000
    turn, cycle, decay = random.random(3) * (LATE_S if on_seconds else turn_length_s, between, period)
    parts, poll, full = random.random(jobs), 30 * random.random(), -interval * random.random()
    return Phases(turn, cycle, decay, parts, turn_length_s, poll_s=poll, full_s=full, asked_s=full)


def draw(site: Site, jobs: pd.DataFrame, seed: int) -> Phases:
    """Draw all that the accounting of ``jobs`` does not tell.

    That is slurmctld's clocks, fractions of seconds, and when nodes were ordered to drain. Accounting cuts off the fractions of
    starts and ends: a run may be up to a second longer or shorter than recorded. When priorities were computed may be known
    (:mod:`sim.site.computed`); all clocks of a slurmctld that began with the record follow from it.
    """
    phases, random = draw_phases(site, len(jobs), seed), np.random.default_rng([seed, 0x53])
    turn_work_s = random.uniform(*TURN_WORK_S)
    phases = phases._replace(
        drains=random.random(len(site.outages)),
        turn_length_s=1.0 if site.known_release >= WHOLE_SECONDS else 1.0 + turn_work_s,
        cycle_work_s=random.uniform(*CYCLE_WORK_S),
        run_parts_s=random.random(len(jobs)) - random.random(len(jobs)),
        direct=random.random(len(jobs)) < random.uniform(0, MOST_DIRECT),
        seed=seed,
    )
    if not site.computed_s:
        return phases
    origin, off_s = origin_of(jobs), max(clock_settings(site)[2] / TRIES / 2, READ_WITHIN_S)
    computed_s = float(random.choice(site.computed_s)) + random.uniform(-off_s, off_s) - origin
    if not site.begins:
        return phases._replace(decay_s=computed_s)
    first_s = int(jobs["submit_s"].min()) - origin
    return phases.begun(min(computed_s, first_s + float(phases.parts_s[0])), site, first_s)


def clock_settings(site: Site) -> tuple[int, int, int]:
    """Return ``sched_interval``, ``bf_interval`` and ``PriorityCalcPeriod`` in seconds."""
    period = seconds(site.settings.get("prioritycalcperiod", "5"))
    return site.parameter("sched_interval"), max(site.parameter("bf_interval"), 1), max(period, 1)


def answered_ms(site: Site) -> int:
    """Return how long the nodes of an ended job are usually COMPLETING, in ms."""
    return round(site.epilog_s * 1000) + (EPILOG_MS if "epilog" in site.settings else ANSWER_MS)


def as_rules(site: Site, phases: Phases) -> Rules:
    """Return the settings that the compiled scheduler reads."""
    settings, (interval, between, period) = site.settings, clock_settings(site)
    half_life = seconds(settings.get("prioritydecayhalflife", "7-0"))
    plain: dict[str, Any] = {name: site.parameter(name) for name in PARAMETERS if name in Rules._fields}
    plain |= {"bf_interval": between, "sched_interval": max(interval, 1), "bf_resolution": max(plain["bf_resolution"], 1)}
    plain["bf_window"] *= 60
    return Rules(
        **plain,
        backfills=settings.get("schedulertype", "sched/backfill") == "sched/backfill",
        bf_counts=any(plain[f"bf_max_job_{whose}"] for whose in ("user", "part", "user_part", "assoc")),
        sched_min_interval_ms=site.parameter("sched_min_interval") // 1000,
        depth=site.parameter("default_queue_depth"),
        complete_wait=int(settings.get("completewait", "0")),
        kill_wait=int(settings.get("killwait", "30")),
        over_time=60 * min(seconds(settings.get("overtimelimit", "0")) // 60, YEAR_S // 60),
        message_timeout=int(settings.get("messagetimeout", "10")),
        calc_period=period,
        safe="safe" in site.settings.get("accountingstorageenforce", "").lower(),
        accrues_always="accrue_always" in site.priority_flags,
        only_rises="incr_only" in site.priority_flags,
        multifactor=site.multifactor,
        weight_age=float(settings.get("priorityweightage", 0)),
        weight_fair=float(settings.get("priorityweightfairshare", 0)),
        weight_cpu=Fixed(site).of_a_cpu,
        max_age=float(max(seconds(settings.get("prioritymaxage", "7-0")), 1)),
        damping=float(settings.get("fairsharedampeningfactor", "1")) if "no_fair_tree" in site.priority_flags else 0.0,
        bills=any(part.billing for part in site.partitions.values()),
        bills_most="max_tres" in site.priority_flags,
        decay=1 - 0.693 / half_life if 0 < half_life < UNLIMITED else 1.0,
        preempts=bool(site.preempts_by),
        preempts_by_qos=site.preempts_by == "qos",
        direct="epilog" in settings,
        memory="MEMORY" in settings.get("selecttypeparameters", "").upper(),
        turn_us=round(phases.turn_length_s * 1e6),
        cycle_ms=between * 1000 + round(phases.cycle_work_s * 1000),
        first_turn_ms=int(phases.turn_s * 1000),
        poll_ms=int(phases.poll_s * 1000),
        epilog_ms=answered_ms(site),
        seed=phases.seed,
        behind_percent=BEHIND_PERCENT if phases.seed >= 0 else 0,
        has_components=False,
        has_several_qos=False,
        **rules_of(site.known_release),
    )


def asked(site: Site, jobs: pd.DataFrame) -> SlurmRequests:
    """Return what ``jobs``, in any order, ask for on a site.

    Raises InputError for a job in an unknown partition or QOS.
    """
    return requests(site, jobs, _tree(site)[1], origin_of(jobs))


def begin(site: Site, jobs: pd.DataFrame, phases: Phases, request_rows: tuple[SlurmRequests, np.ndarray] | None = None) -> Slurm:
    """Return the arrays of a replay of ``jobs`` on ``site``.

    ``jobs`` have :data:`sim.slurm.requests.COLUMNS` and are in order of submission. ``request_rows`` are their requests, if
    already made, and the row of each job. Raises InputError for a job in an unknown partition or QOS.
    """
    rules, origin = as_rules(site, phases), origin_of(jobs)
    tree, leaves = _tree(site)
    ask, suits, slots, kinds = requests(site, jobs, leaves, origin) if request_rows is None else request_rows[0]
    if request_rows is not None:
        ask = request_rows[0].of_rows(request_rows[1], jobs, origin)
    hardware = hardware_of(site, suits)
    groups = int(ask.group.max()) + 1
    now = _now(hardware, ask, np.array(slots.most, np.int64), kinds, groups, len(jobs))
    now.killed[:] = np.array(jobs["killed"], np.int64)
    now.answer_ms[:] = rules.epilog_ms
    now.qos[:] = jobs["qos"].map({name: row for row, name in enumerate(site.qos)})
    reservations, of_reservations = _reserve(site, origin, int(jobs["submit_s"].max()))
    changes = [*_outages(site, phases, origin), *of_reservations, *_of_jobs(jobs, ask, origin)]
    events = np.array(sorted(changes, key=lambda event: event[0]), np.int64).reshape(-1, 4)
    room, plans = scratch_of(rules, hardware, ask, len(tree.user), groups)
    slurm = Slurm(
        rules._replace(has_components=bool((ask.het != NONE).any()), has_several_qos=bool((ask.limit_qos != NONE).any())),
        hardware,
        ask,
        tree,
        SiteEvents(*np.ascontiguousarray(events.T)),
        reservations,
        preemption(site, jobs),
        now,
        room,
        plans,
        slots.meters(),
        _ms(phases.cycles_s),
        _ms(phases.passes_s),
        _ms(phases.direct_s),
        _numbers(rules, phases, int(jobs["submit_s"].min()) - origin),
    )
    share_out(slurm)
    return slurm


def _ms(seconds_s: np.ndarray) -> np.ndarray:
    return np.round(seconds_s * 1000).astype(np.int64)


def _outages(site: Site, phases: Phases, origin: int) -> list[Event]:
    """Return when nodes are lost and come back; a drain begins where ``phases`` say."""
    outages, drained = [], np.zeros(len(site.outages)) if phases.drains is None else phases.drains
    for outage, part in zip(site.outages, drained, strict=True):
        earliest_s = outage.start_s if outage.ordered_s is None else outage.ordered_s
        start_s = earliest_s + round(part * (outage.start_s - earliest_s))
        outages.append((outage, DOWN if outage.down else DRAINED, start_s))
        if outage.end_s < UNLIMITED:
            outages.append((outage, UP, outage.end_s))
    outages.sort(key=lambda change: (change[0].start_s, change[1] == UP))  # a node may be back in the second in which it was lost
    of_node = {node.name: row for row, node in enumerate(site.nodes)}
    return [(max(round((second - origin) * 1000), 0), of_node[outage.node], up, NONE) for outage, up, second in outages]


def _of_jobs(jobs: pd.DataFrame, ask: Ask, origin: int) -> list[Event]:
    """Return when holds and begin times end, and when jobs are cancelled."""
    held = jobs["held_s"].to_numpy() >= 0
    begins = [
        (int(ms), NONE, DOWN if held[job] else UP, job if held[job] else NONE) for job, ms in enumerate(ask.begin_ms) if ms > 0
    ]
    gone_s = jobs["cancel_s"].to_numpy(np.int64)
    with_others_s = jobs["withdrawn_s"].to_numpy(np.int64) if "withdrawn_s" in jobs else np.full(len(jobs), -1)
    cancels = [(gone_s[job], UP, job) for job in np.flatnonzero((gone_s >= 0) & (with_others_s < 0))]
    cancels += [(with_others_s[job], IF_WAITING, job) for job in np.flatnonzero(with_others_s >= 0)]
    return begins + [((int(second) - origin) * 1000 + 500, NONE, up, int(job)) for second, up, job in cancels]


def _numbers(rules: Rules, phases: Phases, first_s: int) -> np.ndarray:
    """Return the state of the clocks; the first job comes at ``first_s``."""
    numbers = np.zeros(NUMBERS, np.int64)
    numbers[TICK] = numbers[PASS] = numbers[NOTICE] = NO_TIME
    numbers[LAST_PASS], numbers[FIRST_PRIORITY] = -NO_TIME, NO_TIME >> 8
    numbers[CYCLE], numbers[DECAY] = int(phases.cycle_s * 1000), int(phases.decay_s * 1000)
    numbers[LAST_CYCLE] = numbers[CYCLE] - rules.cycle_ms
    numbers[LAST_DECAY] = first_s - LEAD_S
    numbers[LAST_FULL] = first_s * 1000 + round(phases.full_s * 1000)
    numbers[LAST_ASKED] = first_s * 1000 + round(phases.asked_s * 1000)
    return numbers


def origin_of(jobs: pd.DataFrame) -> int:
    """Return the Unix second at which a replay of ``jobs`` begins.

    It is a midnight, as Slurm rounds to multiples of seconds since 1970.
    """
    return (int(jobs["submit_s"].min()) - LEAD_S) // DAY_S * DAY_S


def _reserve(site: Site, origin: int, last_s: int) -> tuple[Reservations, list[Event]]:
    """Return reservations at their first times, and events at which they begin, end, move on."""
    times = [reservation.times(origin, last_s + MOVED_ON_S) for reservation in site.reservations]
    of_node = {node.name: row for row, node in enumerate(site.nodes)}
    events, moves = list[Event](), list[tuple[int, int, int]]()
    for at, held in enumerate(times):
        created = site.reservations[at].created_s
        if created is not None and created > origin:
            events.append(((created - origin) * 1000, NONE, MADE, len(moves)))
            moves.append((at, *held[0]))
        for number, (begins, over) in enumerate(held):
            following = held[number + 1 : number + 2]
            events.append((max(begins - origin, 0) * 1000, NONE, DRAINED, NONE))
            events.append((max(over - origin, 0) * 1000, NONE, DRAINED, len(moves) if following else NONE))
            moves += [(at, *span) for span in following]
    kept = site.reservations
    unknown = [reservation.created_s is not None and reservation.created_s > origin for reservation in kept]
    first = [(origin, origin) if later else held[0] for held, later in zip(times, unknown, strict=True)]
    nodes = np.array([as_set([of_node[name] for name in held.nodes], len(of_node)) for held in kept], np.int64)
    return Reservations(
        np.array([begins - origin for begins, _ in first], np.int64),
        np.array([over - origin for _, over in first], np.int64),
        nodes.reshape(len(kept), len(as_set([], len(of_node)))),
        np.array([2 if "MAINT" in held.flags else int("OVERLAP" in held.flags) for held in kept], np.int64),
        np.array(["FLEX" in held.flags for held in kept], np.int64),
        *(np.array(moves, np.int64).reshape(-1, 3) - (0, origin, origin)).T.copy(),
    ), events  # fmt: skip


def _tree(site: Site) -> tuple[Tree, dict[tuple[str, str], int]]:
    """Return the associations as arrays, and the row of each (account, user)."""
    every = site.associations
    row = {(association.account, association.user): at for at, association in enumerate(every)}
    below: list[list[int]] = [[] for _ in every]
    parents = [row[association.parent, ""] if at else NONE for at, association in enumerate(every)]
    above, norm = list(parents), np.ones(len(every))
    for at, association in enumerate(every):
        while above[at] > 0 and every[above[at]].shares == OF_PARENT:
            above[at] = above[above[at]]
        if at and (association.user or association.shares != OF_PARENT):
            below[above[at]].append(at)
    shares = np.array([association.shares for association in every], np.float64)
    levels = np.array([sum(shares[child] for child in below[up] if shares[child] != OF_PARENT) if up >= 0 else 0.0 for up in above])
    part = np.divide(shares, levels, out=np.ones(len(every)), where=levels > 0)
    for at in range(1, len(every)):  # accounts come before their users and accounts
        norm[at] = norm[above[at]] * (part[at] if shares[at] != OF_PARENT else 1)
    below = [sorted(children, key=lambda child: not every[child].user) for children in below]
    size = len(every)
    return Tree(
        np.array(parents, np.int64),
        np.array(above, np.int64),
        shares,
        part,
        norm,
        np.array([association.user != "" for association in every], np.int64),
        np.concatenate(([0], np.cumsum([len(children) for children in below]))).astype(np.int64),
        np.array([child for children in below for child in children], np.int64),
        np.array([association.usage for association in every], np.float64),
        np.ones(size),
        np.zeros(size),
        np.zeros(size + 1, np.int64),
        np.zeros(size + 1, np.int64),
    ), row  # fmt: skip


def _now(hardware: Hardware, ask: Ask, most: np.ndarray, kinds: np.ndarray, groups: int, count: int) -> Now:
    nodes, records = len(hardware.cpus), len(ask.job)
    widest = np.minimum(np.maximum(ask.cpus, ask.min_nodes), nodes)
    rows = np.concatenate(([0], np.cumsum(widest))).astype(np.int64)
    undone = np.bincount(ask.group, minlength=groups).astype(np.int64)

    def zeros(size: int) -> np.ndarray:
        return np.zeros(size, np.int64)

    def unknown() -> np.ndarray:
        return np.full(count, NONE)

    return Now(
        cpus=hardware.cpus.copy(),
        memory=hardware.memory.copy(),
        gpus=hardware.gpus.copy(),
        busy=zeros(nodes),
        completing=as_set([], nodes),
        idle=as_set(np.flatnonzero(hardware.cpus), nodes),
        up=as_set(range(nodes), nodes),
        phase=zeros(count),
        by=zeros(count),
        partition=zeros(count),
        qos=zeros(count),
        tried=ask.records[:-1].copy(),
        could_start=unknown(),
        attempts=zeros(count),
        again=zeros(count),
        warned=unknown(),
        preempts_since=unknown(),
        killed=zeros(count),
        first_ms=unknown(),
        start_ms=unknown(),
        end_ms=unknown(),
        answer_ms=unknown(),
        limit_end=unknown(),
        eligible=unknown(),
        accrues=unknown(),
        priority=zeros(records),
        nodes=rows,
        node=np.zeros(int(rows[-1]), np.int32),
        taken=np.zeros(int(rows[-1]), np.int32),
        held=zeros(count),
        billed=np.zeros(count),
        queue=zeros(records),
        running=zeros(count),
        begun=zeros(count),
        stopped=zeros(count),
        ended=zeros(max(count, 1)),
        undone=undone,
        tasks=zeros(groups),
        place=np.full(count, NONE, np.int64),
        rest=np.full(groups, NONE, np.int64),
        used=zeros(len(most)),
        most=most,
        counter=np.where(kinds == NODES, np.cumsum(kinds == NODES) - 1, NONE),
        jobs_on=np.zeros(((kinds == NODES).sum(), nodes), np.int32),
    )
