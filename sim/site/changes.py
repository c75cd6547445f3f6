"""The kinds of change that a Slurm site can make, and a change of one or more kinds.

Each kind takes a site and its jobs, and gives them back changed. Values are Slurm's, or ``"x2"`` for twice today's.
InputErrors of a kind do not name the candidate: :func:`change` does.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from features.errors import InputError
from features.node_list import expand_nodes
from models.runtime.options import pairs
from sim.inputs.predicted_limits import predicted_quantile
from sim.site.lines import (
    factor_of,
    limit_lines,
    node_lines,
    number_of,
    partition_lines,
    qos_lines,
    value_of,
    with_prediction,
)
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


class Changed(NamedTuple):
    """A site and its jobs after a change.

    ``lines`` make the change; ``kills`` are the ids of jobs that a shorter limit would kill.
    """

    site: Site
    jobs: pd.DataFrame
    lines: tuple[str, ...] = ()
    kills: frozenset[str] = frozenset()

    def having(self, *lines: str, **changed: Any) -> Changed:
        """Return it with other members and further lines."""
        return self._replace(**changed, lines=(*self.lines, *lines))


@dataclass(frozen=True)
class KindOfChange(ABC):
    """A kind of change: ``value`` is a table of keys if it is ``tabular``, else one text."""

    value: Any
    tabular: ClassVar[bool] = True
    resources: ClassVar[bool] = False
    """Whether it is of nodes, which are no settings."""

    @abstractmethod
    def apply(self, now: Changed, seed: int) -> Changed:
        """Return what was changed by then, changed by this, too; InputError for a wrong value."""


class SlurmConf(KindOfChange):
    """Keys of slurm.conf."""

    def apply(self, now: Changed, seed: int) -> Changed:
        present = now.site.settings
        new = _differing(self.value, {key: present.get(key.lower(), _DEFAULTS.get(key.lower(), "")) for key in self.value})
        settings = {**present, **{key.lower(): value for key, value in new.items()}}
        return now.having(*(f"{key}={value}" for key, value in new.items()), site=replace(now.site, settings=settings))


class SchedulerParameters(KindOfChange):
    """Keys of SchedulerParameters, of which the whole line is stated anew."""

    def apply(self, now: Changed, seed: int) -> Changed:
        present = now.site.scheduler
        new = _differing(self.value, {key: present.get(key, _DEFAULTS.get(key, "")) for key in self.value})
        if not new:
            return now
        scheduler = {**present, **new}
        text = ",".join(f"{key}={value}" if value else key for key, value in scheduler.items())
        settings = {**now.site.settings, "schedulerparameters": text}
        return now.having(f"SchedulerParameters={text}", site=replace(now.site, settings=settings, scheduler=scheduler))


class PartitionKeys(KindOfChange):
    """Keys of partitions by name, ``"*"`` for all."""

    def apply(self, now: Changed, seed: int) -> Changed:
        _check_names(self.value, now.site.partitions, "partition")
        parts = {name: _partition(part, _chosen(self.value, name)) for name, part in now.site.partitions.items()}
        return now._replace(site=replace(now.site, partitions=parts))


class QosKeys(KindOfChange):
    """Priority and limits of QOS by name, ``"*"`` for all."""

    def apply(self, now: Changed, seed: int) -> Changed:
        _check_names(self.value, now.site.qos, "QOS")
        qos = {name: _qos(old, _chosen(self.value, name)) for name, old in now.site.qos.items()}
        lines = [line for name, changed in qos.items() for line in qos_lines(changed, now.site.qos[name])]
        return now.having(*lines, site=replace(now.site, qos=qos))


class NodeCount(KindOfChange):
    """A larger number of nodes: copies of nodes are added, evenly over all."""

    tabular = False
    resources = True

    def apply(self, now: Changed, seed: int) -> Changed:
        site, today = now.site, len(now.site.nodes)
        count = number_of(self.value, today, "nodes")
        if count == today:
            return now
        if count < today:
            raise InputError(f"nodes = {self.value!r} is fewer than the {today} of today, and nodes can only be added")
        alike = [site.nodes[i * today // (count - today)] for i in range(count - today)]
        added = [replace(node, name=f"{node.name}-new{i}") for i, node in enumerate(alike)]
        more = {
            name: {new.name for new, node in zip(added, alike, strict=True) if node.name in part.nodes}
            for name, part in site.partitions.items()
        }
        parts = {name: replace(part, nodes=part.nodes | more[name]) for name, part in site.partitions.items()}
        return now.having(*node_lines(added), site=replace(site, nodes=(*site.nodes, *added), partitions=parts))


class WeeklyReservation(KindOfChange):
    """Nodes kept free each week: ``weekday start hours nodes``, by the site's clock."""

    def apply(self, now: Changed, seed: int) -> Changed:
        site = now.site
        options = {"weekday": "Tuesday", "start": "08:00", "hours": 4, "nodes": "ALL", **self.value}
        names = {node.name for node in site.nodes}
        nodes = names if str(options["nodes"]).upper() == "ALL" else set(expand_nodes(str(options["nodes"])))
        day, clock = str(options["weekday"]).lower(), re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)", str(options["start"]))
        lasts = re.fullmatch(r"\d{1,3}(\.\d+)?", str(options["hours"]))
        if day not in _DAYS or clock is None or lasts is None or not nodes <= names:
            raise InputError(f"reservation {dict(self.value)} has an unknown day, time or node")
        begins = datetime.fromtimestamp(int(now.jobs["submit_s"].min()), ZoneInfo(site.timezone))
        first = begins.replace(hour=int(clock[1]), minute=int(clock[2]), second=0)
        first += timedelta(days=(_DAYS.index(day) - first.weekday()) % 7)
        begin = int(first.timestamp())
        end = begin + round(float(lasts[0]) * 3600)
        starts = f"$(date -d 'next {day} {clock[0]}' +%FT%H:%M)"
        kept = Reservation("what-if", begin, end, frozenset(nodes), frozenset({"WEEKLY"}), site.timezone)
        return now.having(
            f"scontrol create reservation StartTime={starts} Duration={(end - begin) // 60} Nodes={options['nodes']} "
            "Flags=WEEKLY,MAINT Users=root",
            site=replace(site, reservations=(*site.reservations, kept)),
        )


class TimeLimits(KindOfChange):
    """Other time limits, at which jobs that would run longer end.

    The value is a multiple, or ``"predicted 0.95"``.
    """

    tabular = False

    def apply(self, now: Changed, seed: int) -> Changed:
        jobs, limit = now.jobs, _asked_instead(now.jobs, self.value, seed)
        runtime = jobs["runtime_s"].to_numpy(np.int64)
        over = (runtime > limit) & (runtime <= jobs["limit_s"].to_numpy())
        return now.having(
            *limit_lines(self.value, now.site),
            jobs=jobs.assign(
                limit_s=limit,
                least_limit_s=np.minimum(jobs["least_limit_s"], limit),
                runtime_s=np.where(over, limit, runtime),
                killed=jobs["killed"].to_numpy(bool) | over,
            ),
            kills=now.kills | frozenset(jobs["job_id"][over].astype(str)),
        )


class SiteFactor(KindOfChange):
    """Points of priority taken for each doubling of the predicted median runtime."""

    tabular = False

    def apply(self, now: Changed, seed: int) -> Changed:
        points = number_of(self.value, 0, "site_factor")
        doublings = np.log2(predicted_quantile(now.jobs, 0.5, seed))
        statement = f"job.site_factor = math.floor({points} * ({_DOUBLINGS} - math.log(s) / math.log(2)) + 0.5)"
        nice = now.jobs["nice"] - np.rint(points * (_DOUBLINGS - doublings)).astype(np.int64)
        return now.having(*with_prediction(now.site, 0.5, statement), jobs=now.jobs.assign(nice=nice))


KINDS: dict[str, type[KindOfChange]] = {
    "slurm": SlurmConf,
    "scheduler": SchedulerParameters,
    "partitions": PartitionKeys,
    "qos": QosKeys,
    "nodes": NodeCount,
    "reservation": WeeklyReservation,
    "limits": TimeLimits,
    "site_factor": SiteFactor,
}
"""The kinds by their key in a file of candidates, in the order in which they are applied."""


def _differing(wanted: Mapping[str, Any], today: Mapping[str, str]) -> dict[str, str]:
    """Return the wanted values that differ from today's, by key."""
    values = {key: value_of(value, today[key], key) for key, value in wanted.items()}
    return {key: value for key, value in values.items() if value.lower() != today[key].lower()}


def _check_names(wanted: Mapping[str, Any], present: Mapping[str, Any], kind: str) -> None:
    if strange := set(wanted) - set(present) - {"*"}:
        raise InputError(f"no {kind} {min(strange)}; known: {', '.join(present)}")


def _chosen(by_name: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, Any]:
    return {key.lower(): value for key, value in {**by_name.get("*", {}), **by_name.get(name, {})}.items()}


def _partition(part: Partition, changes: Mapping[str, Any]) -> Partition:
    new: dict[str, Any] = {}
    for key, value in changes.items():
        if key not in _PARTITION:
            raise InputError(f"partition key {key} is not known; known: {', '.join(_PARTITION)}")
        today = getattr(part, _PARTITION[key])
        if key != "maxtime" or str(value).startswith("x"):
            new[_PARTITION[key]] = today if today == UNLIMITED else number_of(value, today, key)
        else:
            try:
                new[_PARTITION[key]] = seconds(str(value))
            except ValueError:
                raise InputError(f"MaxTime = {value!r} is not a time such as 1-0 or 90") from None
    return replace(part, **new)


def _qos(qos: Qos, changes: Mapping[str, Any]) -> Qos:
    limits: dict[str, dict[str, int]] = {name: dict(getattr(qos.limits, name)) for name in _LIMITS.values()}
    new: dict[str, Any] = {}
    for key, value in changes.items():
        if key == "priority":
            new["priority"] = number_of(value, qos.priority, key)
        elif key not in _LIMITS:
            keys = ", ".join(("priority", *_LIMITS))
            raise InputError(f"QOS key {key} is not known; known: {keys}")
        elif str(value).startswith("x"):
            counts = limits[_LIMITS[key]]
            counts.update({name: number_of(value, count, key) for name, count in counts.items() if count < UNLIMITED})
        else:
            for name, count in pairs(str(value)):
                limits[_LIMITS[key]][name] = number_of(count, 0, key)
    return replace(qos, limits=replace(qos.limits, **limits), **new)


def _asked_instead(jobs: pd.DataFrame, text: str, seed: int) -> np.ndarray:
    """Return other limits of jobs, whole minutes in s; predicted ones are at most the request."""
    requested = jobs["limit_s"].to_numpy(np.int64)
    kind, _, level = text.partition(" ")
    if kind != "predicted":
        limit = requested * factor_of(text, "limits")
    elif re.fullmatch(r"0\.\d{1,3}", level) and float(level) > 0:
        limit = np.minimum(predicted_quantile(jobs, float(level), seed), requested)
    else:
        raise InputError(f"limits = {text!r} names no quantile such as predicted 0.95")
    return np.maximum(np.ceil(limit / 60) * 60, 60).astype(np.int64)


@dataclass(frozen=True)
class SiteChange:
    """A change that a site can make, of one or more kinds.

    ``what`` says what it does and ``risk`` what may go wrong.
    """

    name: str
    what: str = ""
    risk: str = ""
    changes: tuple[KindOfChange, ...] = ()

    @property
    def resources(self) -> bool:
        """Tell whether it is of nodes, which are no settings."""
        return any(change.resources for change in self.changes)


TEXTS = ("name", "what", "risk")
"""The members of a candidate that are no change."""


def site_change(name: str, what: str = "", risk: str = "", **kinds: Any) -> SiteChange:
    """Return a change of ``kinds``, values by the keys of :data:`KINDS`."""
    return SiteChange(name, what, risk, tuple(KINDS[key](kinds[key]) for key in KINDS if key in kinds))


def change(candidate: SiteChange, site: Site, jobs: pd.DataFrame, seed: int = 0) -> Changed | None:
    """Return the site and jobs after a change; None if it changes nothing here.

    ``jobs`` has the columns of :data:`sim.slurm.requests.COLUMNS`. Raises InputError for unknown keys, names or values.
    """
    now = Changed(site, jobs)
    try:
        for step in candidate.changes:
            now = step.apply(now, seed)
    except InputError as error:
        raise InputError(f"candidate {candidate.name!r}: {error}") from None
    for name, part in now.site.partitions.items():
        now = now.having(*partition_lines(part, site.partitions[name]))
    return now if now.lines else None
