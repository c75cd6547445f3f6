"""Changes of a Slurm site and of its load, and the lines that make them.

A site and jobs in, a changed site and jobs out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from features.errors import InputError
from features.node_list import expand_nodes
from models.runtime.options import pairs
from sim.inputs.predicted_limits import predicted_quantile
from sim.policy import Policy
from sim.site.lines import NO_SETTING, at_submission, length, node_lines, partition_lines, qos_lines, stating, with_prediction
from sim.slurm.lines import seconds
from sim.slurm.site import LIMIT_KEYS, PARAMETERS, PARTITION_KEYS, UNLIMITED, Partition, Qos, Reservation, Site

_DEFAULTS = {
    **{name: str(value) for name, value in PARAMETERS.items()},
    **{"prioritymaxage": "7-0", "prioritydecayhalflife": "7-0"},
    **{f"priorityweight{name}": "0" for name in ("age", "fairshare", "jobsize", "partition", "qos")},
}
"""Defaults of Slurm 22.05 for keys missing in slurm.conf, for changes that multiply."""
_PARTITION = {key.lower(): name for key, name in PARTITION_KEYS.items()}
_LIMITS = {resources.lower(): name for name, (resources, _) in LIMIT_KEYS.items()}
_DOUBLINGS = 25
"""Number of doublings of a second that make a year."""
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


@dataclass(frozen=True)
class SiteChange:
    """A change that a site can make.

    ``what`` says what it does and ``risk`` what may go wrong. Values are Slurm's, or ``"x2"`` for twice today's. ``slurm`` has
    keys of slurm.conf, ``scheduler`` of SchedulerParameters, ``partitions`` and ``qos`` keys by name, ``"*"`` for all. ``limits``
    multiplies requested limits, or is ``"predicted 0.95"``, that quantile of predicted runtimes, or ``"registry:NAME 0.95"``, a
    column of that name. ``time_min`` is the same for min limits, ``nodes`` multiplies the number of nodes. ``demand`` (``account``,
    ``jobs``) multiplies the jobs of an account. ``reservation`` (``weekday``, ``start``, ``hours``, ``nodes``) keeps nodes free
    each week. ``partition`` (``name``, ``nodes``, ``like``, ``MaxTime``) adds nodes like those of a partition, in a new one for
    its jobs that fit. ``site_factor`` takes that many points of priority from a job for each doubling of its predicted median
    runtime. ``rule`` (``scheduler``, ``predictor``) is no change that Slurm can make: another scheduler on the same nodes, and
    with the predictor ``clairvoyant`` a bound. ``slow``, if set, says that a replay takes minutes on large sites.
    """

    name: str
    what: str = ""
    risk: str = ""
    slurm: Mapping[str, Any] = field(default_factory=dict)
    scheduler: Mapping[str, Any] = field(default_factory=dict)
    partitions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    qos: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    limits: str = ""
    time_min: str = ""
    nodes: str = ""
    demand: Mapping[str, Any] = field(default_factory=dict)
    reservation: Mapping[str, Any] = field(default_factory=dict)
    partition: Mapping[str, Any] = field(default_factory=dict)
    site_factor: str = ""
    rule: Mapping[str, Any] = field(default_factory=dict)
    slow: str = ""

    @property
    def bound(self) -> bool:
        """Tell whether it knows what no site can know."""
        return str(self.rule.get("predictor", "")).startswith("clairvoyant")


class Changed(NamedTuple):
    """A site and its jobs after a change.

    ``lines`` make the change; ``kills`` are the ids of jobs that a shorter limit would kill. ``rule`` are the scheduler and
    predictor that run instead of Slurm, if any.
    """

    site: Site
    jobs: pd.DataFrame
    lines: tuple[str, ...]
    kills: frozenset[str]
    rule: tuple[str, str] | None = None


def change(candidate: SiteChange, site: Site, jobs: pd.DataFrame, seed: int = 0) -> Changed | None:
    """Return the site and jobs after a change; None if it changes nothing here.

    ``jobs`` has the columns of :data:`sim.slurm.requests.COLUMNS`. Raises InputError for unknown keys, names or values.
    """
    changed, lines = _settings(candidate, site)
    parts = {name: _partition(part, _chosen(candidate.partitions, name), candidate) for name, part in changed.partitions.items()}
    qos = {name: _qos(each, _chosen(candidate.qos, name), candidate) for name, each in changed.qos.items()}
    for wanted, present, kind in ((candidate.partitions, parts, "partition"), (candidate.qos, qos, "QOS")):
        if unknown := set(wanted) - set(present) - {"*"}:
            raise InputError(f"candidate {candidate.name!r}: no {kind} {min(unknown)}; known: {', '.join(present)}")
    lines += [line for name, each in qos.items() for line in qos_lines(each, changed.qos[name])]
    changed = replace(changed, partitions=parts, qos=qos)
    if candidate.nodes:
        changed, more_lines = _resized(changed, number_of(candidate.nodes, len(changed.nodes), candidate, "nodes"), candidate)
        lines += more_lines
    if candidate.partition:
        changed, jobs, more_lines = _new_partition(candidate, changed, jobs)
        lines += more_lines
    if candidate.reservation:
        kept, line = _reservation(candidate, changed, jobs)
        changed, lines = replace(changed, reservations=(*changed.reservations, kept)), [*lines, line]
    jobs, kills = of_load(candidate, jobs, seed)
    lines += _limit_lines(candidate.limits, "time_limit", site) + _limit_lines(candidate.time_min, "time_min", site)
    lines += [f"{NO_SETTING}{candidate.what or candidate.name}"] * bool(candidate.demand)
    if candidate.site_factor:
        points = number_of(candidate.site_factor, 0, candidate, "site_factor")
        doublings = np.log2(predicted_quantile(jobs, 0.5, seed))
        jobs = jobs.assign(nice=jobs["nice"] - np.rint(points * (_DOUBLINGS - doublings)).astype(np.int64))
        lines += with_prediction(
            site, 0.5, f"job.site_factor = math.floor({points} * ({_DOUBLINGS} - math.log(s) / math.log(2)) + 0.5)"
        )
    rule = of_scheduler(candidate)
    if rule is not None:
        lines.append(f"{NO_SETTING}Slurm has no {rule[0]} on {rule[1]} times")
    lines += [line for name, part in changed.partitions.items() for line in partition_lines(part, site.partitions.get(name))]
    return Changed(changed, jobs, tuple(lines), kills, rule) if lines else None


def of_load(candidate: SiteChange, jobs: pd.DataFrame, seed: int) -> tuple[pd.DataFrame, frozenset[str]]:
    """Return the jobs with other time limits and another demand, and the ids of killed jobs."""
    kills = frozenset[str]()
    if candidate.limits:
        jobs, kills = _shorter(jobs, _asked_instead(jobs, candidate.limits, candidate, seed))
    if candidate.time_min:
        least = np.minimum(_asked_instead(jobs, candidate.time_min, candidate, seed), jobs["least_limit_s"])
        over = (jobs["runtime_s"] > least) & (jobs["runtime_s"] <= jobs["least_limit_s"])
        jobs, kills = jobs.assign(least_limit_s=least), kills | frozenset(jobs["job_id"][over].astype(str))
    if candidate.demand:
        jobs = _demand(candidate, jobs, seed)
    return jobs, kills


def of_scheduler(candidate: SiteChange) -> tuple[str, str] | None:
    """Return the scheduler and predictor that replace Slurm, or None if there are none."""
    if not candidate.rule:
        return None
    rule = str(candidate.rule.get("scheduler", "EASY")), str(candidate.rule.get("predictor", "requested"))
    Policy(*rule).plan()
    return rule


def _chosen(by_name: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, Any]:
    return {key.lower(): value for key, value in {**by_name.get("*", {}), **by_name.get(name, {})}.items()}


def _settings(candidate: SiteChange, site: Site) -> tuple[Site, list[str]]:
    """Change keys of slurm.conf and of SchedulerParameters; return the lines that differ."""
    settings, scheduler, lines = dict(site.settings), dict(site.scheduler), list[str]()
    for key, value in candidate.slurm.items():
        new = _value(value, settings.get(key.lower(), _DEFAULTS.get(key.lower(), "")), candidate, key)
        if new.lower() != settings.get(key.lower(), _DEFAULTS.get(key.lower(), "")).lower():
            settings[key.lower()] = new
            lines.append(f"{key}={new}")
    before = dict(scheduler)
    for key, value in candidate.scheduler.items():
        new = _value(value, scheduler.get(key, _DEFAULTS.get(key, "")), candidate, key)
        if new != scheduler.get(key, _DEFAULTS.get(key)):
            scheduler[key] = new
    if scheduler != before:
        parameters = ",".join(f"{key}={value}" if value else key for key, value in scheduler.items())
        settings["schedulerparameters"] = parameters
        lines.append(f"SchedulerParameters={parameters}")
    return replace(site, settings=settings, scheduler=scheduler), lines


def _value(value: Any, today: str, candidate: SiteChange, key: str) -> str:
    """Return a new value as text: as stated, or a multiple of today's."""
    text = str(value)
    if not text.startswith("x"):
        return text
    factor = factor_of(text, candidate, key)
    if today.isdecimal():
        return str(round(factor * int(today)))
    try:
        return length(round(factor * seconds(today)))
    except ValueError:
        raise InputError(
            f"candidate {candidate.name!r}: {key} is {today or 'not stated'}, so {text} cannot be applied to it"
        ) from None


def factor_of(text: str, candidate: SiteChange, key: str) -> float:
    """Return the number in a text such as x0.5; InputError for any other text."""
    try:
        factor = float(str(text).removeprefix("x"))
    except ValueError:
        factor = -1.0
    if not (str(text).startswith("x") and factor >= 0):
        raise InputError(f"candidate {candidate.name!r}: {key} = {text!r} is not a factor such as x0.5")
    return factor


def number_of(value: Any, today: int, candidate: SiteChange, key: str) -> int:
    """Return a count as stated or as a multiple of today's, at least 1 if there is one today."""
    text = _value(value, str(today), candidate, key)
    if not text.removeprefix("-").isdecimal():
        raise InputError(f"candidate {candidate.name!r}: {key} = {value!r} is not a whole number")
    return max(int(text), min(today, 1))


def _partition(part: Partition, changes: Mapping[str, Any], candidate: SiteChange) -> Partition:
    new: dict[str, Any] = {}
    for key, value in changes.items():
        if key not in _PARTITION:
            raise InputError(f"candidate {candidate.name!r}: partition key {key} is not known; known: {', '.join(_PARTITION)}")
        today = getattr(part, _PARTITION[key])
        if key != "maxtime" or str(value).startswith("x"):
            new[_PARTITION[key]] = today if today == UNLIMITED else number_of(value, today, candidate, key)
        else:
            try:
                new[_PARTITION[key]] = seconds(str(value))
            except ValueError:
                raise InputError(f"candidate {candidate.name!r}: MaxTime = {value!r} is not a time such as 1-0 or 90") from None
    return replace(part, **new)


def _qos(each: Qos, changes: Mapping[str, Any], candidate: SiteChange) -> Qos:
    limits: dict[str, dict[str, int]] = {name: dict(getattr(each.limits, name)) for name in _LIMITS.values()}
    new: dict[str, Any] = {}
    for key, value in changes.items():
        if key == "priority":
            new["priority"] = number_of(value, each.priority, candidate, key)
        elif key not in _LIMITS:
            keys = ", ".join(("priority", *_LIMITS))
            raise InputError(f"candidate {candidate.name!r}: QOS key {key} is not known; known: {keys}")
        elif str(value).startswith("x"):
            of = limits[_LIMITS[key]]
            of.update({name: number_of(value, count, candidate, key) for name, count in of.items() if count < UNLIMITED})
        else:
            for name, count in pairs(str(value)):
                limits[_LIMITS[key]][name] = number_of(count, 0, candidate, key)
    return replace(each, limits=replace(each.limits, **limits), **new)


def _resized(site: Site, count: int, candidate: SiteChange) -> tuple[Site, list[str]]:
    """Give a site ``count`` nodes: add copies of nodes, or remove nodes, evenly over all."""
    today = len(site.nodes)
    if count == today:
        return site, []
    if count > today:
        of = [site.nodes[i * today // (count - today)] for i in range(count - today)]
        added = [replace(node, name=f"{node.name}-new{i}") for i, node in enumerate(of)]
        more = {
            name: {new.name for new, node in zip(added, of, strict=True) if node.name in part.nodes}
            for name, part in site.partitions.items()
        }
        parts = {name: replace(part, nodes=part.nodes | more[name]) for name, part in site.partitions.items()}
        return replace(site, nodes=(*site.nodes, *added), partitions=parts), node_lines(added)
    if not count:
        raise InputError(f"candidate {candidate.name!r}: no node would be left")
    gone = {site.nodes[(2 * i + 1) * today // (2 * (today - count))].name for i in range(today - count)}
    parts = {name: replace(part, nodes=part.nodes - gone) for name, part in site.partitions.items()}
    kept = tuple(replace(each, nodes=each.nodes - gone) for each in site.reservations)
    left = tuple(node for node in site.nodes if node.name not in gone)
    outages = tuple(each for each in site.outages if each.node not in gone)
    line = f"scontrol update NodeName={','.join(sorted(gone))} State=DRAIN Reason=what-if"
    return replace(site, nodes=left, partitions=parts, reservations=kept, outages=outages), [line]


def _new_partition(candidate: SiteChange, site: Site, jobs: pd.DataFrame) -> tuple[Site, pd.DataFrame, list[str]]:
    """Add nodes in a new partition, which jobs of the partition ``like`` may use too."""
    options = {"like": next(iter(site.partitions)), "nodes": 1, "MaxTime": "UNLIMITED", **candidate.partition}
    name, like, count = str(options.get("name", "new")), str(options["like"]), number_of(options["nodes"], 1, candidate, "nodes")
    if name in site.partitions or like not in site.partitions:
        raise InputError(f"candidate {candidate.name!r}: partition {name} like {like}; known: {', '.join(site.partitions)}")
    old = _partition(site.partitions[like], {"maxtime": options["MaxTime"]}, candidate)
    of = [node for node in site.nodes if node.name in old.nodes]
    nodes = [replace(of[i % len(of)], name=f"{name}{i}") for i in range(count)]
    new = {"PartitionName": name, "Nodes": ",".join(node.name for node in nodes), "MaxTime": options["MaxTime"], "Default": "NO"}
    part = replace(old, name=name, nodes=frozenset(node.name for node in nodes), default=False, line=stating(old.line, new))
    asked = zip(jobs["partition"], jobs["limit_s"], jobs["min_nodes"], strict=True)
    fits = np.array([like in text.split(",") and part.admits(limit, least) for text, limit, least in asked], bool)
    jobs = jobs.assign(partition=jobs["partition"].where(~fits, jobs["partition"] + f",{name}"))
    return (
        replace(site, nodes=(*site.nodes, *nodes), partitions={**site.partitions, name: part}),
        jobs,
        [*node_lines(nodes), *at_submission(site, *_also_in(part, like, old.default))],
    )


def _also_in(part: Partition, like: str, default: bool) -> tuple[str, ...]:
    """Return Lua that lets fitting jobs of a partition ask for the new one too."""
    asked = f'(job.partition or "{like if default else ""}")'
    return (
        f"local fits = job.min_nodes == slurm.NO_VAL or job.min_nodes <= {min(len(part.nodes), part.max_nodes)}",
        f'if fits and job.time_limit <= {part.max_s // 60} and ("," .. {asked} .. ","):find(",{like},", 1, true) then',
        f'   job.partition = {asked} .. ",{part.name}"',
        "end",
    )


def _reservation(candidate: SiteChange, site: Site, jobs: pd.DataFrame) -> tuple[Reservation, str]:
    """Return a weekly reservation, by the site's clock, from the first such day of the log on, and its command."""
    options = {"weekday": "Tuesday", "start": "08:00", "hours": 4, "nodes": "ALL", **candidate.reservation}
    names = {node.name for node in site.nodes}
    nodes = names if str(options["nodes"]).upper() == "ALL" else set(expand_nodes(str(options["nodes"])))
    day, clock = str(options["weekday"]).lower(), re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)", str(options["start"]))
    lasts = re.fullmatch(r"\d{1,3}(\.\d+)?", str(options["hours"]))
    if day not in _DAYS or clock is None or lasts is None or not nodes <= names:
        raise InputError(f"candidate {candidate.name!r}: reservation {dict(candidate.reservation)} has no such day, time or nodes")
    begins = datetime.fromtimestamp(int(jobs["submit_s"].min()), ZoneInfo(site.timezone))
    first = begins.replace(hour=int(clock[1]), minute=int(clock[2]), second=0)
    first += timedelta(days=(_DAYS.index(day) - first.weekday()) % 7)
    begin = int(first.timestamp())
    end = begin + round(float(lasts[0]) * 3600)
    starts = f"$(date -d 'next {day} {clock[0]}' +%FT%H:%M)"
    line = f"scontrol create reservation StartTime={starts} Duration={(end - begin) // 60} Nodes={options['nodes']} Flags=WEEKLY,MAINT Users=root"
    return Reservation("what-if", begin, end, frozenset(nodes), frozenset({"WEEKLY"}), site.timezone), line


def _asked_instead(jobs: pd.DataFrame, text: str, candidate: SiteChange, seed: int) -> np.ndarray:
    """Return other limits of jobs, whole minutes in s; predicted ones are at most the request."""
    asked = jobs["limit_s"].to_numpy(np.int64)
    kind, _, level = text.partition(" ")
    if text in jobs:
        limit = np.minimum(jobs[text].to_numpy(), asked)
    elif kind != "predicted":
        limit = asked * factor_of(text, candidate, "limits")
    elif re.fullmatch(r"0\.\d{1,3}", level) and float(level) > 0:
        limit = np.minimum(predicted_quantile(jobs, float(level), seed), asked)
    else:
        raise InputError(f"candidate {candidate.name!r}: limits = {text!r} names no quantile such as predicted 0.95")
    return np.maximum(np.ceil(limit / 60) * 60, 60).astype(np.int64)


def _limit_lines(text: str, key: str, site: Site) -> list[str]:
    """Return lines that make Slurm shorten limits, or set min limits; none for no text."""
    if not text:
        return []
    kind, _, level = text.rpartition(" ")
    kept = ["if job.time_min < slurm.NO_VAL then job.time_min = math.min(job.time_min, job.time_limit) end"] * (key == "time_limit")
    if kind:
        statement = f"job.{key} = math.min(job.time_limit, math.max(math.ceil(s / 60), 1))"
        return with_prediction(site, float(level), statement, *kept, model=kind.partition(":")[2])
    statement = (
        f"if job.time_limit < slurm.NO_VAL then job.{key} = math.max(math.ceil(job.time_limit * {text.removeprefix('x')}), 1) end"
    )
    return at_submission(site, statement, *kept)


def _shorter(jobs: pd.DataFrame, limit: np.ndarray) -> tuple[pd.DataFrame, frozenset[str]]:
    """Give jobs other limits, s [jobs]; jobs that would run longer end there."""
    runtime = jobs["runtime_s"].to_numpy(np.int64)
    over = (runtime > limit) & (runtime <= jobs["limit_s"].to_numpy())
    changed = jobs.assign(
        limit_s=limit,
        least_limit_s=np.minimum(jobs["least_limit_s"], limit),
        runtime_s=np.where(over, limit, runtime),
        killed=jobs["killed"].to_numpy(bool) | over,
    )
    return changed, frozenset(jobs["job_id"][over].astype(str))


def _demand(candidate: SiteChange, jobs: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Remove jobs of an account, or add copies of them at the times of its other jobs."""
    demand = candidate.demand
    factor, account = factor_of(str(demand.get("jobs", "")), candidate, "demand"), str(demand.get("account", ""))
    rows = np.flatnonzero(jobs["account"].to_numpy(object) == account)
    if not len(rows):
        raise InputError(
            f"candidate {candidate.name!r}: account {account!r} has no jobs; known: {', '.join(sorted(set(jobs['account'])))}"
        )
    random, count = np.random.default_rng([seed, 0x57]), round(factor * len(rows))
    if count <= len(rows):
        return jobs.drop(index=jobs.index[random.choice(rows, len(rows) - count, replace=False)]).reset_index(drop=True)
    copies = jobs.iloc[random.choice(rows, count - len(rows))].reset_index(drop=True)
    new = int(jobs["group"].max()) + 1 + np.arange(len(copies))
    submit = jobs["submit_s"].to_numpy(np.int64)[random.choice(rows, len(copies))]
    copies = copies.assign(
        **{"job_id": [f"{row}" for row in new], "group": new, "task": -1, "throttle": 0, "after": "", "submit_s": submit},
        **{"eligible_s": -1, "held_s": -1, "cancel_s": -1},
    )
    return pd.concat([jobs, copies], ignore_index=True).sort_values("submit_s", kind="stable", ignore_index=True)
