"""Changes of a rule that was inferred from a log, and of the log's load.

The log's jobs get the columns of a site's jobs, so that code for sites changes their load and computes all statistics.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from features.clock import WEEK_S
from features.errors import InputError, unknown
from sim.names import scheduler
from sim.outcome import WITH_HOURS
from sim.rules.infer import Recorded
from sim.rules.rule import Rule, queue_of
from sim.site_change import Candidate, Changed, factor_of, number_of, of_load, of_scheduler

_KEYS = ("closings", "hours", "queues", "limits", "scheduler")
_GROUPS = 20
"""Number of groups of users that keep their names."""


def as_site(rule: Rule, log: Recorded, name: str) -> tuple[Rule, pd.DataFrame]:
    """Return the rule and the jobs of a log, both in Unix seconds.

    The table has the columns of a site's jobs that changes, replays and statistics read.
    """
    jobs, rows = log.jobs, np.arange(len(log.jobs))
    ahead = log.clock.origin_unix_s or WEEK_S  # a table's times are above 0
    times = {"submit_s": jobs["submit_s"].to_numpy(np.int64), "start_s": log.start_s, "end_s": log.end_s}
    group = jobs["group"].astype(object).fillna("none")
    asked = jobs["requested_s"].to_numpy(np.int64)
    columns = {
        **{"job_id": jobs["job_id"].astype(str), "group": rows + 1, "task": -1, "throttle": 0, "after": "", "nice": 0},
        **{each: seconds + ahead for each, seconds in times.items()},
        **dict.fromkeys(("eligible_s", "held_s", "cancel_s"), -1),
        **{"limit_s": asked, "least_limit_s": asked, "runtime_s": jobs["runtime_s"].to_numpy(np.int64), "killed": False},
        **{"cpus": jobs["procs"].to_numpy(np.int64), "user": jobs["user"].astype(object)},
        **{
            "account": group.where(group.isin(group.value_counts().index[:_GROUPS]), "others"),
            "partition": queue_of(jobs),
            "qos": queue_of(jobs),
        },
    }
    return replace(rule, name=name, origin_s=rule.origin_s - ahead), pd.DataFrame(columns)


def fits(candidate: Candidate, rule: bool) -> bool:
    """Tell whether a candidate applies to an inferred ``rule``, or else to a Slurm site."""
    of_slurm = (candidate.slurm, candidate.scheduler, candidate.partitions, candidate.qos, candidate.reservation)
    return not any((*of_slurm, candidate.partition, candidate.site_factor, candidate.time_min)) if rule else not candidate.inferred


def change_rule(candidate: Candidate, rule: Rule, jobs: pd.DataFrame, seed: int = 0) -> Changed | None:
    """Return the rule and jobs after a change; None if it changes nothing here.

    ``jobs`` is a table of :func:`as_site`. Raises InputError for an unknown key or an invalid value.
    """
    changed = rule
    for key, value in candidate.inferred.items():
        if key not in _KEYS:
            raise unknown(f"key of inferred in candidate {candidate.name!r}:", key, _KEYS)
        changed = (
            _without_hours(replace(changed, algorithm=str(value), order=""))
            if key == "scheduler"
            else _part(changed, key, value, candidate)
        )
    if candidate.nodes:
        changed = replace(changed, procs=number_of(candidate.nodes, rule.procs, candidate, "nodes"))
    jobs, kills = of_load(candidate, jobs, seed)
    notes = [f"# time limits {candidate.limits}, at least a minute"] * bool(candidate.limits)
    notes += [f"# {candidate.what or candidate.name}"] * bool(candidate.demand)
    instead = of_scheduler(candidate)
    if instead is not None:
        changed = _without_hours(replace(changed, algorithm=instead[0], order=""))
        notes.append(f"# predictor: {instead[1]}")
    lines = [
        f"# {name}: {shown}"
        for name, shown, before in (
            ("scheduler", changed.scheduler, rule.scheduler),
            ("processors", f"{changed.procs:,}", f"{rule.procs:,}"),
            ("closings", len(changed.closings) or "none", len(rule.closings) or "none"),
            ("queues with hours", len(changed.hours) or "none", len(rule.hours) or "none"),
            ("limits of queues", len(changed.queues) or "none", len(rule.queues) or "none"),
            ("limits", "; ".join(map(str, changed.limits)) or "none", "; ".join(map(str, rule.limits)) or "none"),
        )
        if shown != before
    ]
    return Changed(changed, jobs, (*lines, *notes), kills, instead) if lines or notes else None


def _part(rule: Rule, key: str, value: object, candidate: Candidate) -> Rule:
    """Return ``rule`` without a part of it, or with its limits on users multiplied."""
    if value == "none":
        none: dict[str, Any] = {key: ()}
        return replace(rule, **none)
    if key != "limits":
        raise InputError(f"candidate {candidate.name!r}: {key} = {value!r} is not none")
    factor = factor_of(str(value), candidate, key)
    return replace(rule, limits=tuple(replace(each, value=max(round(factor * each.value), 1)) for each in rule.limits))


def _without_hours(rule: Rule) -> Rule:
    """Return ``rule`` without closings and hours if its scheduler does not support them."""
    plan = scheduler(rule.scheduler)
    return rule if plan.algorithm in WITH_HOURS and plan.reservations <= 1 else replace(rule, closings=(), hours=())
