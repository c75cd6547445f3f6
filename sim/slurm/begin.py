"""The arrays at the beginning of a replay, for a site, its jobs and its clocks' phases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from features.clock import DAY_S
from sim.slurm import slots
from sim.slurm.lines import seconds
from sim.slurm.nodesets import as_set, hardware_of
from sim.slurm.phases import LEAD_S, Phases, answered_ms, clock_settings, origin_of
from sim.slurm.priority import Fixed
from sim.slurm.releases import rules_of
from sim.slurm.requests import SlurmRequests, preemption, requests
from sim.slurm.shares import rank_users
from sim.slurm.site import PARAMETERS, UNLIMITED, Site
from sim.slurm.state import (
    DOWN,
    DRAINED,
    IF_WAITING,
    MADE,
    NO_TIME,
    NONE,
    OF_PARENT,
    UP,
    Ask,
    CycleScratch,
    Hardware,
    Now,
    Plans,
    Reservations,
    Rules,
    SiteEvents,
    Slurm,
    Tree,
)

BEHIND_PERCENT = 20
"""Share of turns since 23.11 that slurmctld takes for a second earlier (two or four seconds between passes in place of
three, measured)."""
MOVED_ON_S = 60 * DAY_S
"""How long after the last submission a repeating reservation still repeats."""

_OF_NODES = ("room", "chosen", "take", "first", "last", "total", "size", "cpus", "memory", "gpus", "able", "sooner", "clear")
"""Scratch arrays with a number for each node."""
Event = tuple[int, int, int, int]
"""An event of the site as in :class:`sim.slurm.state.SiteEvents`: ms, node, what, job or row."""


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
        sched_min_interval_ms=site.parameter("sched_min_interval") // 1000,
        depth=site.parameter("default_queue_depth"),
        kill_wait=int(settings.get("killwait", "30")),
        message_timeout=int(settings.get("messagetimeout", "10")),
        calc_period=period,
        accrues_always="accrue_always" in site.priority_flags,
        multifactor=site.multifactor,
        weight_age=float(settings.get("priorityweightage", 0)),
        weight_fair=float(settings.get("priorityweightfairshare", 0)),
        weight_cpu=Fixed(site).of_a_cpu,
        max_age=float(max(seconds(settings.get("prioritymaxage", "7-0")), 1)),
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


def begin(site: Site, jobs: pd.DataFrame, phases: Phases, request_rows: tuple[SlurmRequests, np.ndarray] | None = None) -> Slurm:
    """Return the arrays of a replay of ``jobs`` on ``site``.

    ``jobs`` have :data:`sim.slurm.requests.COLUMNS` and are in order of submission. ``request_rows`` are their
    requests, if already made, and the row of each job. Raises InputError for a job in an unknown partition or QOS.
    """
    rules, origin = as_rules(site, phases), origin_of(jobs)
    ask, suits, limits = requests(site, jobs) if request_rows is None else request_rows[0]
    if request_rows is not None:
        ask = request_rows[0].of_rows(request_rows[1], jobs)
    hardware = hardware_of(site, suits)
    groups = int(ask.group.max()) + 1
    now = _now(hardware, ask, np.array(limits.most, np.int64), groups)
    now.killed[:] = np.array(jobs["killed"], np.int64)
    now.answer_ms[:] = rules.epilog_ms
    now.qos[:] = jobs["qos"].map({name: row for row, name in enumerate(site.qos)})
    reservations, of_reservations = _reserve(site, origin, int(jobs["submit_s"].max()))
    changes = [*_outages(site, phases, origin), *of_reservations, *_of_jobs(jobs, ask, origin)]
    events = np.array(sorted(changes, key=lambda event: event[0]), np.int64).reshape(-1, 4)
    room, plans = _scratch(rules, hardware, ask, groups)
    logged = {name: np.round(getattr(phases, f"{name}_s") * 1000).astype(np.int64) for name in ("cycles", "passes", "direct")}
    slurm = Slurm(
        rules=rules._replace(has_components=bool((ask.het != NONE).any()), has_several_qos=bool((ask.limit_qos != NONE).any())),
        hardware=hardware,
        ask=ask,
        tree=_tree(site),
        outages=SiteEvents(*np.ascontiguousarray(events.T)),
        reservations=reservations,
        preemption=preemption(site, jobs),
        now=now,
        room=room,
        plans=plans,
        numbers=_numbers(rules, phases, int(jobs["submit_s"].min()) - origin),
        **logged,
    )
    rank_users(slurm)
    return slurm


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
    numbers = np.zeros(slots.NUMBERS, np.int64)
    numbers[slots.TICK] = numbers[slots.PASS] = numbers[slots.NOTICE] = NO_TIME
    numbers[slots.LAST_PASS], numbers[slots.FIRST_PRIORITY] = -NO_TIME, NO_TIME >> 8
    numbers[slots.CYCLE], numbers[slots.DECAY] = int(phases.cycle_s * 1000), int(phases.decay_s * 1000)
    numbers[slots.LAST_CYCLE] = numbers[slots.CYCLE] - rules.cycle_ms
    numbers[slots.LAST_DECAY] = first_s - LEAD_S
    numbers[slots.LAST_FULL] = first_s * 1000 + round(phases.full_s * 1000)
    numbers[slots.LAST_ASKED] = first_s * 1000 + round(phases.asked_s * 1000)
    return numbers


def _reserve(site: Site, origin: int, last_s: int) -> tuple[Reservations, list[Event]]:
    """Return reservations at their first times, and events at which they begin, end, move on."""
    of_node = {node.name: row for row, node in enumerate(site.nodes)}
    events, moves, first, kept = list[Event](), list[tuple[int, int, int]](), list[tuple[int, int]](), site.reservations
    for at, held in enumerate(kept):
        spans = held.times(origin, last_s + MOVED_ON_S)
        if held.created_s is not None and held.created_s > origin:
            first.append((origin, origin))
            events.append(((held.created_s - origin) * 1000, NONE, MADE, len(moves)))
            moves.append((at, *spans[0]))
        else:
            first.append(spans[0])
        for number, (begins, over) in enumerate(spans):
            following = spans[number + 1 : number + 2]
            events.append((max(begins - origin, 0) * 1000, NONE, DRAINED, NONE))
            events.append((max(over - origin, 0) * 1000, NONE, DRAINED, len(moves) if following else NONE))
            moves += [(at, *span) for span in following]
    nodes = np.array([as_set([of_node[name] for name in held.nodes], len(of_node)) for held in kept], np.int64)
    return Reservations(
        np.array([begins - origin for begins, _ in first], np.int64),
        np.array([over - origin for _, over in first], np.int64),
        nodes.reshape(len(kept), len(as_set([], len(of_node)))),
        np.array([2 if "MAINT" in held.flags else int("OVERLAP" in held.flags) for held in kept], np.int64),
        *(np.array(moves, np.int64).reshape(-1, 3) - (0, origin, origin)).T.copy(),
    ), events  # fmt: skip


def _tree(site: Site) -> Tree:
    """Return the associations as arrays."""
    every, size = site.associations, len(site.associations)
    below: list[list[int]] = [[] for _ in every]
    parents = [site.rows[association.parent, ""] if at else NONE for at, association in enumerate(every)]
    for at, association in enumerate(every):
        # shares count at the level of the next account up without Fairshare=parent
        above = parents[at]
        while above > 0 and every[above].shares == OF_PARENT:
            above = parents[above]
        if at and (association.user or association.shares != OF_PARENT):
            below[above].append(at)
    below = [sorted(children, key=lambda child: not every[child].user) for children in below]
    return Tree(
        parent=np.array(parents, np.int64),
        shares=np.array([association.shares for association in every], np.float64),
        user=np.array([association.user != "" for association in every], np.int64),
        children=np.concatenate(([0], np.cumsum([len(children) for children in below]))).astype(np.int64),
        child=np.array([child for children in below for child in children], np.int64),
        usage=np.array([association.usage for association in every], np.float64),
        factor=np.ones(size),
        level=np.zeros(size),
        stack=np.zeros(size + 1, np.int64),
        tied=np.zeros(size + 1, np.int64),
    )


def _now(hardware: Hardware, ask: Ask, most: np.ndarray, groups: int) -> Now:
    """Return an empty machine before the first submission."""
    nodes, count, records = len(hardware.cpus), len(ask.cpus), len(ask.job)
    widest = np.minimum(np.maximum(ask.cpus, ask.min_nodes), nodes)
    rows = np.concatenate(([0], np.cumsum(widest))).astype(np.int64)
    of_jobs = ("phase", "by", "partition", "qos", "attempts", "again", "killed", "held", "running", "begun", "stopped", "ended")
    zeros = dict.fromkeys(of_jobs, count) | {
        "busy": nodes,
        "priority": records,
        "queue": records,
        "tasks": groups,
        "used": len(most),
    }
    times = (
        "first_ms",
        "start_ms",
        "end_ms",
        "answer_ms",
        "limit_end",
        "eligible",
        "accrues",
        "warned",
        "preempts_since",
        "could_start",
    )
    unknown = dict.fromkeys((*times, "place"), count) | {"rest": groups}
    return Now(
        **{name: np.zeros(length, np.int64) for name, length in zeros.items()},
        **{name: np.full(length, NONE) for name, length in unknown.items()},
        cpus=hardware.cpus.copy(),
        memory=hardware.memory.copy(),
        gpus=hardware.gpus.copy(),
        completing=as_set([], nodes),
        idle=as_set(np.flatnonzero(hardware.cpus), nodes),
        up=as_set(range(nodes), nodes),
        tried=ask.records[:-1].copy(),
        nodes=rows,
        node=np.zeros(int(rows[-1]), np.int32),
        taken=np.zeros(int(rows[-1]), np.int32),
        billed=np.zeros(count),
        undone=np.bincount(ask.group, minlength=groups).astype(np.int64),
        most=most,
    )


def _scratch(rules: Rules, hardware: Hardware, ask: Ask, groups: int) -> tuple[CycleScratch, Plans]:
    """Return room for what a pass notes for itself, allocated once."""
    count, nodes, partitions = len(ask.limit), len(hardware.cpus), len(hardware.tier)
    words = hardware.member.shape[1]
    intervals = 2 * min(rules.bf_max_job_test, len(ask.job) * max(rules.bf_max_job_array_resv, 1)) + 4
    lengths = {
        **dict.fromkeys(_OF_NODES, nodes),
        **dict.fromkeys(("mask", "usable", "counted", "idle", "coming"), words),
        **dict.fromkeys(("candidates", "shared"), count),
        **{"freed": count + 1, "merged": len(ask.job), "tested": int(ask.user.max(initial=-1)) + 1},
    }
    marks = {"failed": partitions, **dict.fromkeys(("planned", "plans", "block"), groups)}
    room = CycleScratch(
        **{name: np.zeros(length, np.int64) for name, length in lengths.items()},
        **{name: np.full(length, NONE) for name, length in marks.items()},
        futile=np.zeros((128, 4), np.int64),
        weight=2 * hardware.weight,
    )
    spans, sets = np.zeros((4, intervals), np.int64), np.zeros((2, intervals, words), np.int64)
    return room, Plans(spans[0], spans[1], spans[2], spans[3], sets[0], sets[1], np.zeros(words, np.int64))
