"""Changes of a Slurm site and of its load, and what replays say that they bring.

A candidate is a change of settings, limits, nodes or demand. Each replay of it is paired with a replay of today's site under the
same phases of Slurm's clocks and the same shaken submissions, so that what both have in common cancels.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from features.clock import DAY_S, WEEK_S
from features.errors import InputError
from features.jobs.shaking import moves
from features.node_list import expand_nodes
from features.statistics import CONFIDENCE, FEWEST_BLOCKS, Interval, Ratio, interval_of_change, interval_of_replicates, surely
from sim.metrics.comparison import by_week, by_week_and_user, pooled, stacked
from sim.metrics.schedule_metrics import ratios
from sim.site_replay import Replay, as_schedule, replay
from sim.slurm.files import seconds
from sim.slurm.site import PARAMETERS, UNLIMITED, Partition, Qos, Reservation, Site

WEIGHED = ("mean_wait_s", "mean_bounded_slowdown", "awf_s", "p2sf_s")
"""The first decides; none of the others may be surely worse."""
_DEFAULTS = {
    **{name: str(value) for name, value in PARAMETERS.items()},
    **{"prioritymaxage": "7-0", "prioritydecayhalflife": "7-0"},
    **{f"priorityweight{name}": "0" for name in ("age", "fairshare", "jobsize", "partition", "qos")},
}
"""What Slurm 22.05 takes where slurm.conf says nothing, for changes that multiply."""
_PARTITION = {"maxtime": "max_s", "prioritytier": "tier", "priorityjobfactor": "factor", "maxnodes": "max_nodes"}
_LIMITS = {"grptres": "group", "maxtrespu": "user", "maxtrespa": "account", "maxtres": "job"}
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


@dataclass(frozen=True)
class Candidate:
    """A change that a site can make.

    ``what`` says what it does and ``risk`` what may go wrong. Values are Slurm's, or ``"x2"`` for twice what holds today. ``slurm`` has keys
    of slurm.conf, ``scheduler`` of SchedulerParameters, ``partitions`` and ``qos`` keys by name, ``"*"`` for all. ``limits`` multiplies what
    jobs ask for, ``nodes`` their number; ``demand`` (``account``, ``jobs``) multiplies the jobs of an account; ``reservation``
    (``weekday``, ``start``, ``hours``, ``nodes``) keeps nodes free each week.
    """

    name: str
    what: str = ""
    risk: str = ""
    slurm: Mapping[str, Any] = field(default_factory=dict)
    scheduler: Mapping[str, Any] = field(default_factory=dict)
    partitions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    qos: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    limits: str = ""
    nodes: str = ""
    demand: Mapping[str, Any] = field(default_factory=dict)
    reservation: Mapping[str, Any] = field(default_factory=dict)


class Changed(NamedTuple):
    """A site and its jobs after a change.

    ``lines`` make the change; ``kills`` are the ids of jobs that a shorter limit would kill.
    """

    site: Site
    jobs: pd.DataFrame
    lines: tuple[str, ...]
    kills: frozenset[str]


def change(candidate: Candidate, site: Site, jobs: pd.DataFrame, seed: int = 0) -> Changed | None:
    """Return the site and jobs after a change; None where it changes nothing here.

    ``jobs`` has the columns of :data:`sim.slurm.begin.COLUMNS`. InputError for an unknown key, name, or a value that is none.
    """
    made, lines = _settings(candidate, site)
    parts = {name: _partition(part, _chosen(candidate.partitions, name), candidate) for name, part in made.partitions.items()}
    qos = {name: _qos(each, _chosen(candidate.qos, name), candidate) for name, each in made.qos.items()}
    for stated, known, kind in ((candidate.partitions, parts, "partition"), (candidate.qos, qos, "QOS")):
        if unknown := set(stated) - set(known) - {"*"}:
            raise InputError(f"candidate {candidate.name!r}: no {kind} {min(unknown)}; known: {', '.join(known)}")
    lines += [line for name, part in parts.items() for line in _partition_lines(part, made.partitions[name])]
    lines += [line for name, each in qos.items() for line in _qos_lines(each, made.qos[name])]
    made = replace(made, partitions=parts, qos=qos)
    if candidate.nodes:
        made, told = _resized(made, _number(candidate.nodes, len(made.nodes), candidate, "nodes"), candidate)
        lines += told
    if candidate.reservation:
        kept, line = _reservation(candidate, made, jobs)
        made, lines = replace(made, reservations=(*made.reservations, kept)), [*lines, line]
    kills = frozenset[str]()
    if candidate.limits:
        jobs, kills = _shorter(jobs, _factor(candidate.limits, candidate, "limits"))
        lines.append(f"# job_submit: time limits {candidate.limits}, at least a minute")
    if candidate.demand:
        jobs = _demand(candidate, jobs, seed)
        lines.append(f"# no line: {candidate.what or candidate.name}")
    return Changed(made, jobs, tuple(lines), kills) if lines else None


def _chosen(stated: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, Any]:
    return {key.lower(): value for key, value in {**stated.get("*", {}), **stated.get(name, {})}.items()}


def _settings(candidate: Candidate, site: Site) -> tuple[Site, list[str]]:
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
        stated = ",".join(f"{key}={value}" if value else key for key, value in scheduler.items())
        settings["schedulerparameters"] = stated
        lines.append(f"SchedulerParameters={stated}")
    return replace(site, settings=settings, scheduler=scheduler), lines


def _value(value: Any, today: str, candidate: Candidate, key: str) -> str:
    """Return a new value as text: as stated, or so many times today's."""
    text = str(value)
    if not text.startswith("x"):
        return text
    factor = _factor(text, candidate, key)
    if today.isdigit():
        return str(round(factor * int(today)))
    try:
        return _minutes(round(factor * seconds(today)))
    except ValueError:
        raise InputError(f"candidate {candidate.name!r}: {key} is {today or 'not stated'}, of which there is no {text}") from None


def _minutes(length_s: int) -> str:
    days, rest = divmod(length_s, DAY_S)
    return f"{days}-{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"


def _factor(text: str, candidate: Candidate, key: str) -> float:
    try:
        factor = float(str(text).removeprefix("x"))
    except ValueError:
        factor = -1.0
    if not (str(text).startswith("x") and factor >= 0):
        raise InputError(f"candidate {candidate.name!r}: {key} = {text!r} is no factor such as x0.5")
    return factor


def _number(value: Any, today: int, candidate: Candidate, key: str) -> int:
    """Return a count as stated, or so many times today's, at least 1 where there is one today."""
    text = _value(value, str(today), candidate, key)
    if not text.lstrip("-").isdigit():
        raise InputError(f"candidate {candidate.name!r}: {key} = {value!r} is no whole number")
    return max(int(text), min(today, 1))


def _partition(part: Partition, stated: Mapping[str, Any], candidate: Candidate) -> Partition:
    new: dict[str, Any] = {}
    for key, value in stated.items():
        if key not in _PARTITION:
            raise InputError(f"candidate {candidate.name!r}: partition key {key} is not known; known: {', '.join(_PARTITION)}")
        today = getattr(part, _PARTITION[key])
        if key != "maxtime" or str(value).startswith("x"):
            new[_PARTITION[key]] = today if today == UNLIMITED else _number(value, today, candidate, key)
        else:
            try:
                new[_PARTITION[key]] = seconds(str(value))
            except ValueError:
                raise InputError(f"candidate {candidate.name!r}: MaxTime = {value!r} is no time such as 1-0 or 90") from None
    return replace(part, **new)


def _partition_lines(part: Partition, before: Partition) -> list[str]:
    words = {"max_s": "MaxTime", "tier": "PriorityTier", "factor": "PriorityJobFactor", "max_nodes": "MaxNodes"}
    new = {words[name]: getattr(part, name) for name in words if getattr(part, name) != getattr(before, name)}
    shown = [f"{key}={_minutes(value) if key == 'MaxTime' else value}" for key, value in new.items()]
    return [f"PartitionName={part.name} ... {' '.join(shown)}"] if shown else []


def _qos(each: Qos, stated: Mapping[str, Any], candidate: Candidate) -> Qos:
    limits: dict[str, dict[str, int]] = {name: dict(getattr(each.limits, name)) for name in _LIMITS.values()}
    new: dict[str, Any] = {}
    for key, value in stated.items():
        if key == "priority":
            new["priority"] = _number(value, each.priority, candidate, key)
        elif key not in _LIMITS:
            known = ", ".join(("priority", *_LIMITS))
            raise InputError(f"candidate {candidate.name!r}: QOS key {key} is not known; known: {known}")
        elif str(value).startswith("x"):
            of = limits[_LIMITS[key]]
            of.update({name: _number(value, count, candidate, key) for name, count in of.items() if count < UNLIMITED})
        else:
            for part in str(value).split(","):
                name, _, count = part.partition("=")
                limits[_LIMITS[key]][name] = _number(count, 0, candidate, key)
    return replace(each, limits=replace(each.limits, **limits), **new)


def _qos_lines(each: Qos, before: Qos) -> list[str]:
    words = {"group": "GrpTRES", "user": "MaxTRESPerUser", "account": "MaxTRESPerAccount", "job": "MaxTRES"}
    shown = [f"Priority={each.priority}"] if each.priority != before.priority else []
    for name, word in words.items():
        new: Mapping[str, int] = getattr(each.limits, name)
        old: Mapping[str, int] = getattr(before.limits, name)
        differ = {key: count for key, count in new.items() if count != old.get(key)}
        shown += (
            [f"{word}={','.join(f'{key}={count}' for key, count in differ.items() if key != 'jobs')}"]
            if differ.keys() - {"jobs"}
            else []
        )
        shown += [f"{'GrpJobs' if name == 'group' else 'MaxJobsPerUser'}={differ['jobs']}"] if "jobs" in differ else []
    return [f"sacctmgr modify qos {each.name} set {' '.join(shown)}"] if shown else []


def _resized(site: Site, count: int, candidate: Candidate) -> tuple[Site, list[str]]:
    """Give a site ``count`` nodes: copies of all in turn, or without the last of each turn."""
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
        return replace(site, nodes=(*site.nodes, *added), partitions=parts), [
            f"# nodes, like those there are: {count - today} more"
        ]
    if not count:
        raise InputError(f"candidate {candidate.name!r}: no node would be left")
    gone = {site.nodes[(2 * i + 1) * today // (2 * (today - count))].name for i in range(today - count)}
    parts = {name: replace(part, nodes=part.nodes - gone) for name, part in site.partitions.items()}
    kept = tuple(replace(each, nodes=each.nodes - gone) for each in site.reservations)
    left = tuple(node for node in site.nodes if node.name not in gone)
    outages = tuple(each for each in site.outages if each.node not in gone)
    return replace(site, nodes=left, partitions=parts, reservations=kept, outages=outages), [f"# nodes: {len(gone)} fewer"]


def _reservation(candidate: Candidate, site: Site, jobs: pd.DataFrame) -> tuple[Reservation, str]:
    """Return a reservation of each week, from the first such day of the log on."""
    stated = {"weekday": "Tuesday", "start": "08:00", "hours": 4, "nodes": "ALL", **candidate.reservation}
    names = {node.name for node in site.nodes}
    nodes = names if str(stated["nodes"]).upper() == "ALL" else set(expand_nodes(str(stated["nodes"])))
    day, clock = str(stated["weekday"]).lower(), re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)", str(stated["start"]))
    lasts = re.fullmatch(r"\d{1,3}(\.\d+)?", str(stated["hours"]))
    if day not in _DAYS or clock is None or lasts is None or not nodes <= names:
        raise InputError(f"candidate {candidate.name!r}: reservation {dict(candidate.reservation)} has no such day, time or nodes")
    first = datetime.fromtimestamp(int(jobs["submit_s"].min()), UTC).replace(hour=int(clock[1]), minute=int(clock[2]), second=0)
    first += timedelta(days=(_DAYS.index(day) - first.weekday()) % 7)
    begin = int(first.timestamp())
    end = begin + round(float(lasts[0]) * 3600)
    line = f"scontrol create reservation StartTime={first:%Y-%m-%dT%H:%M} Duration={(end - begin) // 60} Nodes={stated['nodes']} Flags=WEEKLY,MAINT Users=root"
    return Reservation("what-if", begin, end, frozenset(nodes), frozenset({"WEEKLY"})), line


def _shorter(jobs: pd.DataFrame, factor: float) -> tuple[pd.DataFrame, frozenset[str]]:
    """Multiply the limits that jobs ask for; jobs that would run longer end there."""
    limit = np.maximum(np.ceil(jobs["limit_s"].to_numpy() * factor / 60) * 60, 60).astype(np.int64)
    runtime = jobs["runtime_s"].to_numpy(np.int64)
    over = (runtime > limit) & (runtime <= jobs["limit_s"].to_numpy())
    changed = jobs.assign(
        limit_s=limit,
        least_limit_s=np.minimum(jobs["least_limit_s"], limit),
        runtime_s=np.where(over, limit, runtime),
        killed=jobs["killed"].to_numpy(bool) | over,
    )
    return changed, frozenset(jobs["job_id"][over].astype(str))


def _demand(candidate: Candidate, jobs: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Take jobs of an account away, or add copies at times of its other jobs."""
    stated = candidate.demand
    factor, account = _factor(str(stated.get("jobs", "")), candidate, "demand"), str(stated.get("account", ""))
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


def shaken(jobs: pd.DataFrame, shake_s: int, seed: int) -> pd.DataFrame:
    """Move submissions by up to ``shake_s`` seconds, tasks of an array together.

    The order of rows stays.
    """
    _, group = np.unique(jobs["group"], return_inverse=True)
    by_s = moves(int(group.max()) + 1, shake_s, seed)[group]
    columns = {name: jobs[name].to_numpy(np.int64) for name in ("submit_s", "eligible_s", "cancel_s", "held_s")}
    moved = {name: np.where(values > 0, values + by_s, values) for name, values in columns.items()}
    return jobs.assign(**moved)


@dataclass(frozen=True)
class Replays:
    """The replays of sites, as a map over pieces of work takes them.

    A piece is a row of ``changes`` and a seed; the answer is the piece and when each job started, float64 [jobs].
    """

    changes: Sequence[tuple[Site, pd.DataFrame]]
    shake_s: int

    def __call__(self, piece: list[int]) -> tuple[int, int, np.ndarray]:
        row, seed = piece
        site, jobs = self.changes[row]
        return row, seed, replay(site, shaken(jobs, self.shake_s, seed), seed).start_s


class Measured(NamedTuple):
    """A metric under a change and today, and the relative change.

    With its interval and p-value, None where there is none.
    """

    value: float
    baseline: float
    relative: float
    low: float | None
    high: float | None
    p: float | None


class Group(NamedTuple):
    """Mean waits, today and under a change, of the ``jobs`` that have the ``value`` of ``by``."""

    by: str
    value: str
    jobs: int
    before_s: float
    after_s: float

    @property
    def by_s(self) -> float:
        """Return by how much the mean wait grows."""
        return self.after_s - self.before_s


class Effect(NamedTuple):
    """What a change does to jobs that both replays hold, by metric and by group.

    ``never`` jobs start today and not under the change.
    """

    metrics: dict[str, Measured]
    groups: list[Group]
    never: int


def effect(
    today: Changed,
    changed: Changed,
    before: np.ndarray,
    after: np.ndarray,
    shake_s: int,
    seeds: Sequence[int],
    family: int,
    from_s: int = 0,
) -> Effect:
    """Compare the replays of a change with those of today, pair by pair.

    ``before`` and ``after`` are starts, float64 [replicates, jobs], of jobs submitted from ``from_s`` on those that start in all replays
    and are not killed count. Intervals are of ``family`` candidates together (Bonferroni), over weeks, or days, or where
    there are fewer than five over the replicates alone.
    """
    index = pd.Index(today.jobs["job_id"].astype(str))
    place = pd.Index(changed.jobs["job_id"].astype(str)).get_indexer(index)
    there = (place >= 0) & (today.jobs["submit_s"].to_numpy() >= from_s)
    starts = np.isfinite(before).all(axis=0) & there
    never = int((starts & ~np.isfinite(after[:, place]).all(axis=0)).sum())
    kept = starts & np.isfinite(after[:, place]).all(axis=0) & ~index.isin(changed.kills)
    if not kept.any():
        raise InputError("no job starts in all replays, with and without the change")
    jobs = today.jobs[kept]
    block, users = blocks(jobs["submit_s"].to_numpy(np.int64)), pd.factorize(jobs["user"])[0]
    sums: list[tuple[list[dict[str, Ratio]], dict[str, Ratio]]] = []
    waits = []
    for made, starts_s, rows in ((today, before, np.flatnonzero(kept)), (changed, after, place[kept])):
        by_block, by_user, total = list[dict[str, Ratio]](), dict[str, Ratio](), np.zeros(len(rows))
        for seed, start in zip(seeds, starts_s, strict=True):
            table = shaken(made.jobs, shake_s, seed).iloc[rows].assign(runtime_s=jobs["runtime_s"].to_numpy())
            held = Replay(start[rows], *(np.full(len(rows), "", object),) * 2, np.ones(len(rows), np.int64), 0, 0)
            schedule = as_schedule(made.site, table, held, trace="", seed=seed, seconds=0.0)
            found = ratios(schedule)
            by_block.append({name: by_week(found[name], block) for name in WEIGHED})
            for name in WEIGHED:
                mine = by_week_and_user(found[name], block, users)
                by_user[name] = pooled([by_user[name], mine]) if name in by_user else mine
            total += found["mean_wait_s"].numerator
        sums.append((by_block, by_user))
        waits.append(total / len(seeds))
    (ours, our_users), (theirs, their_users) = sums[1], sums[0]
    metrics = {
        name: _compared(
            stacked([each[name] for each in ours]),
            stacked([each[name] for each in theirs]),
            (our_users[name], their_users[name]),
            family,
        )
        for name in WEIGHED
    }
    return Effect(metrics, _groups(jobs, *waits), never)


def blocks(submit: np.ndarray) -> np.ndarray:
    """Number the weeks of submissions, or the days where there are too few, or none."""
    for length in (WEEK_S, DAY_S):
        block = np.unique((submit - submit.min()) // length, return_inverse=True)[1]
        if block.max() + 1 >= FEWEST_BLOCKS:
            return np.asarray(block)
    return np.zeros(len(submit), np.int64)


def _compared(terms: Ratio, base: Ratio, users: tuple[Ratio, Ratio], family: int) -> Measured:
    confidence, few = 1 - (1 - CONFIDENCE) / max(family, 1), terms.numerator.shape[1] < FEWEST_BLOCKS
    value, baseline = terms.value(), base.value()
    if not baseline:
        return Measured(value, baseline, float("nan"), None, None, None)
    found: Interval = interval_of_replicates(terms, base, confidence) if few else interval_of_change(terms, base, confidence, users)
    return Measured(value, baseline, value / baseline - 1, found.low, found.high, found.p)


def _groups(jobs: pd.DataFrame, before: np.ndarray, after: np.ndarray) -> list[Group]:
    """Return mean waits before and after by partition, account, size and length, where there are several."""
    sizes, lengths = np.array([1, 2, 5, 17, 65, 257, 1025]), np.array([0, 600, 3600, 4 * 3600, DAY_S])
    words = np.array(["under 10 min", "10 min to 1 h", "1 to 4 h", "4 to 24 h", "over 24 h"])
    of = {
        "partition": jobs["partition"].to_numpy(object),
        "account": jobs["account"].to_numpy(object),
        "size": np.array([f"{size:,} processors or more" for size in sizes])[np.searchsorted(sizes, jobs["cpus"], "right") - 1],
        "length": words[np.searchsorted(lengths, jobs["runtime_s"], "right") - 1],
    }
    made = []
    for by, values in of.items():
        for value in sorted(set(values)) if len(set(values)) > 1 else ():
            chosen = values == value
            made.append(Group(by, str(value), int(chosen.sum()), float(before[chosen].mean()), float(after[chosen].mean())))
    return made


def judged(effects: Mapping[str, Effect]) -> dict[str, str]:
    """Return a verdict on each candidate.

    By Holm's correction over all of them in each metric. ``better`` lowers mean waits surely and makes none of :data:`WEIGHED` surely
    worse; ``mixed`` lowers them at the cost of another; ``worse`` makes some surely worse and lowers no waits; else ``not sure``.
    """
    if not effects:
        return {}
    found = [each.metrics for each in effects.values()]
    sure = {name: surely([np.nan if (p := of[name].p) is None else p for of in found]) for name in WEIGHED}
    verdicts = {}
    for at, (name, of) in enumerate(zip(effects, found, strict=True)):
        lower = bool(sure[WEIGHED[0]][at] and of[WEIGHED[0]].relative < 0)
        higher = any(sure[metric][at] and of[metric].relative > 0 for metric in WEIGHED)
        verdicts[name] = ("mixed" if higher else "better") if lower else "worse" if higher else "not sure"
    return verdicts
