"""Why each job at a Slurm site waits, by the site's rules.

These are its class of reason, its priority, and what must end first.

A main pass is made from the recorded state (:mod:`sim.slurm.reasons`). Nodes, partitions and reservations count, of which a
snapshot alone (:mod:`sim.starts.reasons`) knows nothing. No scenario is drawn.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from sim.site.ahead import lead
from sim.slurm.begin import Phases, draw_phases, origin_of
from sim.slurm.limits import Slots
from sim.slurm.priority import Fixed
from sim.slurm.reasons import (
    ARRAY,
    BEGIN,
    DEPENDENCY,
    LIMIT,
    NOT_UP,
    PARTITION,
    PRIORITY,
    RESERVED,
    RESOURCES,
    STARTS,
    look,
)
from sim.slurm.shares import factor_of
from sim.slurm.site import Limits, Site
from sim.slurm.state import NONE, QUEUED, RUNNING, Slurm

_CLASSES = {ARRAY: "limit", PARTITION: "limit", LIMIT: "limit", RESERVED: "reservation", NOT_UP: "node", PRIORITY: "priority"}
_CLASSES |= {RESOURCES: "resources", DEPENDENCY: "dependency", BEGIN: "begin time", STARTS: "next"}
_CODES = {name: code for code, name in _CLASSES.items()} | {"planned": RESERVED, "maintenance": RESERVED, "request": LIMIT}


@dataclass(frozen=True)
class SiteStanding:
    """How a waiting job stands at a Slurm site.

    ``why`` is one of :data:`sim.starts.reasons.CLASSES`. ``ahead`` counts the waiting jobs that come before it in ``partition``,
    which ask for ``ahead_hours`` processor-hours; ``free`` processors of it are idle. ``parts`` are those of its priority.
    ``first`` are the running jobs on its nodes that must end before it fits, if all run to their limits; the last of these ends
    is in ``first_s`` seconds.
    """

    why: str
    partition: str
    ahead: int
    ahead_hours: float
    free: int
    parts: Mapping[str, float] = field(default_factory=dict)
    first: tuple[str, ...] = ()
    first_s: int = 0


def standings(
    site: Site,
    jobs: pd.DataFrame,
    now_s: float,
    wanted: Collection[str],
    *,
    before: Mapping[str, str] | None = None,
    usage_s: float | None = None,
    phases: Phases | None = None,
) -> dict[str, SiteStanding]:
    """Return how the ``wanted`` waiting jobs stand at Unix second ``now_s``, by ``job_id``.

    ``jobs``, ``usage_s`` and ``phases`` are those of :func:`sim.site.ahead.starts_ahead`, with ended jobs. ``before`` has classes
    by ``job_id`` that were told before, as slurmctld keeps some. Raises InputError as that function.
    """
    slurm = lead(site, jobs, len(jobs), now_s, phases or draw_phases(site, len(jobs), 0), usage_s).slurm
    ask, now_ms = slurm.ask, round((now_s - origin_of(jobs)) * 1000)
    order = slurm.now.queue[: slurm.numbers[QUEUED]].tolist()
    state = [array.copy() for array in _room(slurm)]
    state[-1] = state[-1][: slurm.numbers[RUNNING]]
    ids, partitions = jobs["job_id"].astype(str).to_numpy(), list(site.partitions)
    why = np.array([_CODES.get((before or {}).get(str(job_id), ""), NONE) for job_id in ids], np.int64)
    look(NONE, NONE, now_ms, slurm, why)
    hours = jobs["cpus"].to_numpy(np.float64) * jobs["limit_s"].to_numpy(np.float64) / 3600
    ahead, ahead_hours, stands = np.zeros(len(partitions), np.int64), np.zeros(len(partitions)), dict[str, SiteStanding]()
    rows: list[Any] = [*jobs.astype(object).itertuples(index=False)]
    member = np.array([[node.name in partition.nodes for node in site.nodes] for partition in site.partitions.values()])
    free, fixed = member @ state[1], Fixed(site)
    for record in order:
        job, partition = int(ask.job[record]), int(ask.partition[record])
        if ids[job] in wanted:
            parts = _parts(fixed, site, slurm, rows[job], job, now_ms // 1000)
            first: np.ndarray = state[-1][:0]
            if why[job] == RESOURCES:
                first = _must_end(slurm, job, partition, now_ms, state, why)
            stands[ids[job]] = SiteStanding(
                why=_CLASSES[int(why[job])],
                partition=partitions[partition],
                ahead=int(ahead[partition]),
                ahead_hours=float(ahead_hours[partition]),
                free=int(free[partition]),
                parts=parts,
                first=tuple(ids[first].tolist()),
                first_s=max(int(slurm.now.limit_end[first].max(initial=0)) - now_ms // 1000, 0),
            )
        if why[job] not in (BEGIN, DEPENDENCY):
            ahead[partition] += 1
            ahead_hours[partition] += hours[job]
    return stands


class UsedUp(NamedTuple):
    """A limit that is used up, in words, and its key.

    The key is that of :class:`sim.slurm.limits.Slots`. If none is used up, they are "" and ().
    """

    text: str = ""
    key: tuple[object, ...] = ()


def used_limits(site: Site, requests: pd.DataFrame, runs: np.ndarray, rows: Iterable[int]) -> list[UsedUp]:
    """Return for each of ``rows`` the first limit that is used up.

    Running jobs leave less of it than the job asks for. A limit of the tasks of an array comes first. ``requests`` are
    requests of jobs (:data:`sim.slurm.requests.COLUMNS`), ``runs`` bool [jobs] tells which run.
    """
    slots = Slots(site, {(association.account, association.user): at for at, association in enumerate(site.associations)})
    of_jobs = {number: slots.of(row) for number, row in enumerate(requests.itertuples())}
    taken: dict[int, int] = {}
    for number in np.flatnonzero(runs):
        for _, slot, amount in of_jobs[int(number)]:
            taken[slot] = taken.get(slot, 0) + amount
    tasks, group, throttle = requests["group"][runs].value_counts(), requests["group"].to_numpy(), requests["throttle"].to_numpy()
    limits = []
    for row in rows:
        running = int(tasks.get(group[row], 0))
        if 0 < throttle[row] <= running:
            limits.append(UsedUp(f"its array: {running:,} of {throttle[row]:,} tasks run"))
            continue
        over = next((limit for limit in of_jobs[row] if taken.get(limit[1], 0) + limit[2] > slots.most[limit[1]]), None)
        if over is None:
            limits.append(UsedUp())
            continue
        what, slot, amount = over
        left = f"{taken.get(slot, 0):,} of {slots.most[slot]:,} used, it asks for {amount:,}"
        limits.append(UsedUp(f"{slots.owner(slot)}, {what}: {left}", slots.key(slot)))
    return limits


def without_limit(site: Site, key: tuple[object, ...]) -> Site:
    """Return the site without a limit of a QOS or an association, for all whom it limits."""
    owner, scope, resource = key[0], str(key[1]), key[-1]
    if isinstance(owner, str) and owner in site.qos:
        limits = _lifted(site.qos[owner].limits, scope, resource)
        return replace(site, qos={**site.qos, owner: replace(site.qos[owner], limits=limits)})
    if not isinstance(owner, int):
        return site
    associations = [*site.associations]
    associations[owner] = replace(associations[owner], limits=_lifted(associations[owner].limits, scope, resource))
    return replace(site, associations=tuple(associations))


def _lifted(limits: Limits, scope: str, resource: object) -> Limits:
    left = {name: most for name, most in getattr(limits, scope).items() if name != resource}
    return replace(limits, **{scope: left})


def _parts(fixed: Fixed, site: Site, slurm: Slurm, row: Any, job: int, now: int) -> dict[str, float]:
    """Return the parts of a job's priority in its first partition, those that are not 0."""
    rules, since = slurm.rules, int(slurm.now.accrues[job])
    if not rules.multifactor:
        return {}
    age = 0.0 if since == NONE else min(1.0, max(0, now - since) / rules.max_age)
    fair = factor_of(int(slurm.ask.leaf[job]), slurm.tree, rules.damping)
    parts = {"age": age * rules.weight_age, "fair share": fair * rules.weight_fair}
    parts |= fixed.parts(row, site.partitions[row.partition.partition(",")[0]])
    return {name: round(value, 1) for name, value in parts.items() if round(value, 1)}


def _must_end(slurm: Slurm, job: int, partition: int, now_ms: int, state: list[np.ndarray], why: np.ndarray) -> np.ndarray:
    """Return the running jobs that must end before ``job`` fits, by the ends of their limits.

    ``state`` are idle nodes, what is free, and running jobs, before the pass.
    """
    for array, old in zip(_room(slurm), state, strict=True):
        array[: len(old)] = old
    slurm.numbers[RUNNING] = len(state[-1])
    ended = int(look(job, partition, now_ms, slurm, why))
    return state[-1][: max(ended, 0)][slurm.room.candidates[: max(ended, 0)] != 0]


def _room(slurm: Slurm) -> tuple[np.ndarray, ...]:
    now = slurm.now
    return now.idle, now.cpus, now.memory, now.gpus, now.running
