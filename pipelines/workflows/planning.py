"""Simulate schedulers that plan, and others, on the busiest days; keep what they made.

What the asset group ``planning`` does, as functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd

from features.clock import DAY_S
from features.jobs.cleaning import CleanTrace
from pipelines.storage.lake import Lake
from sim.campaigns.maps import Map, serial
from sim.campaigns.points import scratch
from sim.machine.nodes import Description
from sim.metrics.timeline import busiest_window
from sim.policy import Policy
from sim.schedule import Schedule, schedule_table
from sim.shaken import moved_by_seed
from sim.simulate import simulate, simulate_policy
from sim.users.names import CLOSED, OPEN, SEMI_OPEN
from sim.users.names import users as named_users

Replicates = Mapping[str, Sequence[Schedule]]
"""Schedules of a policy by its label; all hold jobs."""
SCHEDULERS, USERS = ("OrigBF", "PlanRS", "EASY", "Conservative"), (OPEN, CLOSED)
"""Simulated by default; the first scheduler is the baseline."""
TABLE, PAGE = "planned_schedules", "planning/{}.html"
"""The table of schedules in the lake, and the page about them under ``reports`` in the home directory."""
PLANS = ("plans", "searches", "search_costs")
"""Tables of a schedule that plans, and of the lake: all schedules' rows, by their number."""
_KEPT = ["job_id", "submit_s", "start_s", "predicted_s", "corrections"]


def busiest(clean: CleanTrace, days: float) -> CleanTrace:
    """Return the trace with the jobs submitted in its busiest ``days``; 0: all of it.

    By the processors that jobs request, waiting or running, under EASY.
    """
    if days <= 0:
        return clean
    first, last = busiest_window(simulate(clean.jobs, procs=clean.procs), round(days * DAY_S))
    submit = clean.jobs["submit_s"]
    return replace(clean, jobs=clean.jobs[(submit >= first) & (submit <= last)].reset_index(drop=True))


def plan_trace(
    clean: CleanTrace,
    schedulers: Sequence[str],
    users: Sequence[str],
    seeds: int,
    progress: Callable[[int, int], None] | None = None,
    machine: Description | None = None,
    map_policies: Map = serial,
) -> list[Schedule]:
    """Simulate every scheduler by requests, with ``users`` that react so.

    Those that draw at random ``seeds`` times; on a ``machine`` of clusters, or the trace's processors. A trace that names no users has
    open ones alone. ``map_policies`` shares the simulations, by default one after the other, as the time that each takes is shown.
    """
    policies = [
        Policy(name, seed=seed, users=reacting)
        for reacting in possible(clean, users)
        for name in schedulers
        for seed in range(seeds if moved_by_seed("requested", 0, [name]) else 1)
    ]
    made: dict[Policy, Schedule] = {}
    for policy, schedule in map_policies(partial(_planned, clean, machine), policies):
        made[policy] = schedule
        if progress is not None:
            progress(len(made), len(policies))
    return [made[policy] for policy in policies]


def _planned(clean: CleanTrace, machine: Description | None, policy: Policy) -> tuple[Policy, Schedule]:
    return policy, simulate_policy(
        clean.jobs,
        policy,
        procs=clean.procs,
        trace=clean.name,
        generated=clean.generated,
        clock=clean.clock,
        machine=machine,
        plans=True,
        scratch=scratch(),
    )


def by_label(schedules: Iterable[Schedule]) -> Replicates:
    """Return schedules by the name of their policy, with its replicates, as they appear."""
    found: dict[str, list[Schedule]] = {}
    for schedule in schedules:
        loop = named_users(schedule.users).loop
        label = schedule.scheduler if loop == OPEN else f"{schedule.scheduler}, {loop} users"
        found.setdefault(label, []).append(schedule)
    return found


def possible(clean: CleanTrace, users: Sequence[str]) -> list[str]:
    """Return those of ``users`` that the trace can have.

    Sessions need ends: where not all are recorded, and no option names others, those of EASY.
    """
    if clean.jobs["user"].isna().all():
        return [name for name in users if named_users(name).loop == OPEN]
    unknown = clean.jobs["wait_s"].isna().any()
    return [f"{name}(ends=EASY)" if unknown and name in (CLOSED, SEMI_OPEN) else name for name in users]


def keep_planned(lake: Lake, clean: CleanTrace, made: Sequence[Schedule]) -> None:
    """Write the tables ``planned_schedules`` and ``PLANS``, which is what planners told."""
    settings = [{**each.policy._asdict(), "trace": each.trace, "simulate_s": each.simulate_s} for each in made]
    lake.write_for(clean, TABLE, _numbered([schedule.jobs[_KEPT] for schedule in made]), {"schedules": settings})
    for name in PLANS:
        lake.write_for(clean, name, _numbered([getattr(schedule, name) for schedule in made]))


def kept_planned(lake: Lake, clean: CleanTrace) -> list[Schedule]:
    """Return what :func:`keep_planned` wrote."""
    table, marks = lake.read_for(clean, TABLE)
    plans = {name: lake.read_for(clean, name)[0] for name in PLANS}
    rows = pd.Series(range(len(clean.jobs)), index=clean.jobs["job_id"])
    made = []
    for number, settings in enumerate(marks["schedules"]):
        mine = table[table["schedule"] == number]
        jobs = clean.jobs.iloc[rows[mine["job_id"]].to_numpy()]
        columns = [mine[name].to_numpy() for name in ("start_s", "predicted_s", "corrections", "submit_s")]
        told = {name: _of(number, plans[name]) for name in PLANS}
        fields: dict[str, Any] = {**settings, **told}
        made.append(Schedule(schedule_table(jobs, *columns), clean.procs, generated=clean.generated, **fields))
    return made


def _numbered(tables: Sequence[pd.DataFrame | None]) -> pd.DataFrame:
    """Return one table of all, with the number of each in the column ``schedule``."""
    given = [table.assign(schedule=number) for number, table in enumerate(tables) if table is not None]
    return pd.concat(given, ignore_index=True) if given else pd.DataFrame({"schedule": pd.Series(dtype="int64")})


def _of(number: int, table: pd.DataFrame) -> pd.DataFrame | None:
    rows = table[table["schedule"] == number].drop(columns="schedule").reset_index(drop=True)
    return rows if len(rows) else None
