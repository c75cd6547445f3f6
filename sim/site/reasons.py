"""Why each job at a Slurm site waits, by the site's rules.

These are its class of reason, its priority, and what must end first.

A main pass is made from the recorded state (:mod:`sim.slurm.reasons`). Nodes, partitions and reservations count, of
which a snapshot alone (:mod:`sim.starts.reasons`) knows nothing. No scenario is drawn.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from sim.site.ahead import lead
from sim.slurm import slots
from sim.slurm.limits import Slots
from sim.slurm.phases import Phases, draw_phases, origin_of
from sim.slurm.priority import Fixed
from sim.slurm.reasons import BEGIN, CLASSES, DEPENDENCY, LIMIT, RESERVED, RESOURCES, look
from sim.slurm.shares import factor_of
from sim.slurm.site import Limits, Site
from sim.slurm.state import NONE, Slurm
from sim.starts.reasons import Reason

_CODES = {name: code for code, name in CLASSES.items() if name != "limit"} | {
    "limit": LIMIT,
    "request": LIMIT,
    "planned": RESERVED,
    "maintenance": RESERVED,
}


def standings(
    site: Site,
    jobs: pd.DataFrame,
    now_s: float,
    wanted: Collection[str],
    *,
    before: Mapping[str, str] | None = None,
    usage_s: float | None = None,
    phases: Phases | None = None,
) -> dict[str, Reason]:
    """Return why the ``wanted`` waiting jobs wait at Unix second ``now_s``, by ``job_id``.

    Jobs are ahead, and processors free, in the partition of the job's last record; so are the running jobs that must
    end ``first`` on its nodes. ``jobs``, ``usage_s`` and ``phases`` are those of :func:`sim.site.ahead.starts_ahead`,
    with ended jobs. ``before`` has classes by ``job_id`` that were told before, as slurmctld keeps some. Raises
    InputError as that function.
    """
    slurm = lead(site, jobs, len(jobs), now_s, phases or draw_phases(site, len(jobs), 0), usage_s).slurm
    ask, now_ms, recorded = slurm.ask, round((now_s - origin_of(jobs)) * 1000), deepcopy(slurm)
    ids = jobs["job_id"].astype(str).to_numpy()
    why = np.array([_CODES.get((before or {}).get(str(job_id), ""), NONE) for job_id in ids], np.int64)
    look(NONE, NONE, now_ms, slurm, why)
    hours = jobs["cpus"].to_numpy(np.float64) * jobs["limit_s"].to_numpy(np.float64) / 3600
    partitions, stands = list(site.partitions.values()), dict[str, Reason]()
    ahead, ahead_hours = np.zeros(len(partitions), np.int64), np.zeros(len(partitions))
    rows: list[Any] = [*jobs.astype(object).itertuples(index=False)]
    member = np.array([[node.name in partition.nodes for node in site.nodes] for partition in partitions])
    free, fixed = member @ recorded.now.cpus, Fixed(site)
    for record in recorded.now.queue[: recorded.numbers[slots.QUEUED]].tolist():
        job, partition = int(ask.job[record]), int(ask.partition[record])
        if ids[job] in wanted:
            first = _must_end(deepcopy(recorded), job, partition, now_ms, why) if why[job] == RESOURCES else np.zeros(0, np.int64)
            stands[ids[job]] = Reason(
                why=CLASSES[int(why[job])],
                ahead=int(ahead[partition]),
                ahead_hours=float(ahead_hours[partition]),
                ahead_in_queue=int(ahead[partition]),
                free=int(free[partition]),
                first=tuple(ids[first].tolist()),
                first_s=max(int(slurm.now.limit_end[first].max(initial=0)) - now_ms // 1000, 0),
                parts=_parts(fixed, site, slurm, rows[job], job, now_ms // 1000),
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
    counters = Slots(site)
    of_jobs = {number: counters.of(row) for number, row in enumerate(requests.itertuples())}
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
        over = next((limit for limit in of_jobs[row] if taken.get(limit[1], 0) + limit[2] > counters.most[limit[1]]), None)
        if over is None:
            limits.append(UsedUp())
            continue
        what, slot, amount = over
        left = f"{taken.get(slot, 0):,} of {counters.most[slot]:,} used, it asks for {amount:,}"
        limits.append(UsedUp(f"{counters.owner(slot)}, {what}: {left}", counters.keys[slot]))
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
    fair = factor_of(int(slurm.ask.leaf[job]), slurm.tree)
    parts = {"age": age * rules.weight_age, "fair share": fair * rules.weight_fair}
    parts |= fixed.parts(row, site.partitions[row.partition.partition(",")[0]])
    return {name: round(value, 1) for name, value in parts.items() if round(value, 1)}


def _must_end(slurm: Slurm, job: int, partition: int, now_ms: int, why: np.ndarray) -> np.ndarray:
    """Return the running jobs that must end before ``job`` fits, by the ends of their limits; ``slurm`` changes."""
    running = slurm.now.running[: slurm.numbers[slots.RUNNING]].copy()
    ended = max(int(look(job, partition, now_ms, slurm, why)), 0)
    return running[:ended][slurm.room.candidates[:ended] != 0]
