"""A site as values: nodes, partitions, associations, QOS, reservations and outages.

Counts are whole numbers, memory in MiB, times in seconds; Unix seconds for reservations and outages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from zoneinfo import ZoneInfo

from features.clock import DAY_S
from sim.slurm.releases import MODELLED, MULTIFACTOR, Release, shown

UNLIMITED = 1 << 50
"""A number of seconds, or a count, that is never reached."""
REPEATS = {"DAILY": range(7), "WEEKDAY": range(5), "WEEKEND": range(5, 7), "WEEKLY": range(7)}
"""Weekdays (0: Monday) of repeating reservations."""
PARAMETERS = {
    **{"bf_interval": 30, "bf_resolution": 60, "bf_window": 1440, "bf_continue": 0},
    **{"bf_max_job_test": 500, "bf_max_job_array_resv": 20, "bf_max_job_user": 0},
    **{"sched_interval": 60, "sched_min_interval": 2, "batch_sched_delay": 3, "default_queue_depth": 100},
    **{"preempt_youngest_first": 0, "preempt_reorder_count": 1, "time_min_as_soft_limit": 0},
}
"""SchedulerParameters that are modelled, with their defaults; a parameter given without a value is 1."""
PARTITION_KEYS = {"MaxTime": "max_s", "PriorityTier": "tier", "PriorityJobFactor": "factor", "MaxNodes": "max_nodes"}
"""Keys of a partition's line that a change may set, with their fields of :class:`Partition`."""
LIMIT_KEYS = {
    "group": ("GrpTRES", "GrpJobs"),
    "user": ("MaxTRESPU", "MaxJobsPU"),
    "account": ("MaxTRESPA", "MaxJobsPA"),
    "job": ("MaxTRES", ""),
}
"""For each field of :class:`Limits`, sacctmgr's names for QOS limits of resources and of running jobs."""
TYPED = "gpu:"
"""Begins the feature of a node that has GPUs of a type, such as ``gpu:a100``; jobs that name the type ask for it."""
BILLED = ("cpu", "mem", "gres/gpu", "node")
"""Resources that TRESBillingWeights may name here."""


@dataclass(frozen=True)
class Node:
    """One node; ``cpus`` is the number that Slurm allocates."""

    name: str
    cpus: int
    memory: int = 1
    gpus: int = 0
    features: frozenset[str] = frozenset()
    weight: int = 1


@dataclass(frozen=True)
class Partition:
    """A partition of nodes.

    ``memory_cpu`` and ``memory_node`` are for jobs that ask for no memory, 0: not given. ``billing`` are
    TRESBillingWeights by resource; ``line`` is its line in slurm.conf.
    """

    name: str
    nodes: frozenset[str]
    tier: int = 1
    factor: int = 1
    max_s: int = UNLIMITED
    memory_cpu: int = 0
    memory_node: int = 0
    exclusive: bool = False
    qos: str = ""
    default: bool = False
    preempt_mode: str = ""
    grace_s: int = 0
    max_nodes: int = UNLIMITED
    billing: Mapping[str, float] = field(default_factory=dict)
    line: str = field(default="", compare=False)

    def admits(self, limit_s: int, nodes: int) -> bool:
        """Tell whether a job with this time limit and number of nodes may ever run here."""
        return limit_s <= self.max_s and nodes <= min(len(self.nodes), self.max_nodes)

    def allows(self, what: str, name: str) -> bool:
        """Tell whether its line allows a name of ``what``, one of ``qos accounts``."""
        named = {key: re.search(rf"(?i)\b{key}{what}=(\S+)", self.line) for key in ("allow", "deny")}
        listed = {key: names[1].lower().split(",") for key, names in named.items() if names}
        allowed = listed.get("allow", ["all"])
        return (allowed == ["all"] or name.lower() in allowed) and name.lower() not in listed.get("deny", [])


@dataclass(frozen=True)
class Limits:
    """Max values of a QOS or an association, by resource (``cpu node mem gres/gpu jobs``).

    ``group``: for all jobs together; ``user`` and ``account``: for the jobs of each; ``job``: for one job, also
    ``wall`` (minutes).
    """

    group: Mapping[str, int] = field(default_factory=dict)
    user: Mapping[str, int] = field(default_factory=dict)
    account: Mapping[str, int] = field(default_factory=dict)
    job: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Qos:
    """A quality of service.

    Its jobs may preempt jobs of the QOS in ``preempts``. ``preempt_mode`` is for its own preempted jobs, ``""``: as in
    slurm.conf.
    """

    name: str
    priority: int = 0
    usage_factor: float = 1.0
    limits: Limits = field(default_factory=Limits)
    flags: frozenset[str] = frozenset()
    preempts: tuple[str, ...] = ()
    preempt_mode: str = ""
    grace_s: int = 0

    @property
    def over_partition(self) -> bool:
        """Tell whether its limits take precedence over those of the partition's QOS."""
        return "OverPartQOS" in self.flags


@dataclass(frozen=True)
class Association:
    """An account (``user`` empty) or a user in an account, below ``parent``.

    ``usage`` is that at the beginning, in processor-seconds; ``qos`` names those that its jobs may have, if the files
    tell.
    """

    account: str
    user: str = ""
    parent: str = ""
    shares: float = 1.0
    usage: float = 0.0
    limits: Limits = field(default_factory=Limits)
    qos: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reservation:
    """An advance reservation of nodes.

    It repeats with one of ``DAILY WEEKDAY WEEKEND WEEKLY`` in ``flags``, at the same local time in ``timezone``. Before
    ``created_s`` no job can know of it; None: it was there from the beginning.
    """

    name: str
    start_s: int
    end_s: int
    nodes: frozenset[str]
    flags: frozenset[str] = frozenset()
    timezone: str = "UTC"
    created_s: int | None = None

    def times(self, start_s: int, end_s: int) -> list[tuple[int, int]]:
        """Return start and end of each occurrence that meets the time ``start_s`` to ``end_s``.

        Return its own start and end if it does not repeat, or if none meets that time.
        """
        days = next((days for name, days in REPEATS.items() if name in self.flags), None)
        if days is None:
            return [(self.start_s, self.end_s)]
        first, length = datetime.fromtimestamp(self.start_s, ZoneInfo(self.timezone)), self.end_s - self.start_s
        step = 7 if "WEEKLY" in self.flags else 1
        at = -(max(self.start_s + length - start_s, 0) // DAY_S // step + 1) * step
        spans: list[tuple[int, int]] = []
        while (begins := int((first + timedelta(days=at)).timestamp())) < end_s:
            if begins + length > start_s and (first + timedelta(days=at)).weekday() in days:
                spans.append((begins, begins + length))
            at += step
        return spans or [(self.start_s, self.end_s)]


@dataclass(frozen=True)
class Outage:
    """A time in which a node was drained, or ``down``, which also lost its jobs.

    The order to drain it came at ``ordered_s`` at the earliest; None: at the start.
    """

    node: str
    start_s: float
    end_s: float
    down: bool = False
    ordered_s: float | None = None


@dataclass(frozen=True)
class Site:
    """A cluster under Slurm.

    ``settings`` are the keys of slurm.conf in lower case, ``scheduler`` its SchedulerParameters. ``epilog_s`` is the
    duration of Epilog on a node. ``not_modelled`` lists ignored keys, ``warnings`` those that change Slurm's decisions.
    ``notes`` tell what in the files was dropped. ``timezone`` is the IANA zone of its clock. ``release`` is its
    Slurm's, None: not known. ``files`` are the names of those that were read. ``computed_s`` are the Unix seconds at
    which priorities may first have been computed, of which one is right, () if that is not known. ``begins``: slurmctld
    began then, too.
    """

    name: str
    nodes: tuple[Node, ...]
    partitions: Mapping[str, Partition]
    settings: Mapping[str, str] = field(default_factory=dict)
    scheduler: Mapping[str, str] = field(default_factory=dict)
    qos: Mapping[str, Qos] = field(default_factory=lambda: {"normal": Qos("normal")})
    associations: tuple[Association, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    outages: tuple[Outage, ...] = ()
    epilog_s: float = 0.0
    not_modelled: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    timezone: str = "UTC"
    release: Release | None = None
    files: frozenset[str] = frozenset()
    computed_s: tuple[float, ...] = ()
    begins: bool = False

    @property
    def known_release(self) -> Release:
        """Return the release whose rules count: the site's, or the one modelled."""
        return self.release or MODELLED

    @property
    def assumed(self) -> tuple[str, ...]:
        """Return what is taken where the files say nothing."""
        texts = []
        if self.release is None:
            texts.append(
                f"the site's release of Slurm is not known, as config.txt is missing: the rules of {shown(MODELLED)} are used"
            )
        if "prioritytype" not in self.settings:
            texts.append(
                f"PriorityType is missing: jobs are ordered by {'factors' if self.multifactor else 'arrival'}, the release's default"
            )
        return tuple(texts)

    def parameter(self, name: str) -> int:
        """Return one of SchedulerParameters as a number."""
        return int(self.scheduler[name] or 1) if name in self.scheduler else PARAMETERS[name]

    @property
    def licenses(self) -> dict[str, int]:
        """Return the number of licenses by name."""
        parts = [part.strip().partition(":") for part in self.settings.get("licenses", "").split(",") if part.strip()]
        return {name: int(count or 1) for name, _, count in parts}

    @property
    def procs(self) -> int:
        """Return the number of processors of all nodes."""
        return sum(node.cpus for node in self.nodes)

    @property
    def multifactor(self) -> bool:
        """Tell whether priorities come from priority/multifactor."""
        default = "priority/multifactor" if self.known_release >= MULTIFACTOR else "priority/basic"
        return self.settings.get("prioritytype", default) == "priority/multifactor"

    @property
    def priority_flags(self) -> set[str]:
        """Return PriorityFlags, in lower case."""
        return {flag.strip().lower() for flag in self.settings.get("priorityflags", "").split(",")} - {""}

    @property
    def preempts_by(self) -> str:
        """Return what decides about preemption: ``qos``, ``partition`` (its tier), or ``""``."""
        kind = self.settings.get("preempttype", "preempt/none")
        return {"preempt/qos": "qos", "preempt/partition_prio": "partition"}.get(kind, "")

    @cached_property
    def rows(self) -> dict[tuple[str, str], int]:
        """Return the row of each association by account and user."""
        return {(association.account, association.user): row for row, association in enumerate(self.associations)}

    @cached_property
    def enforces_limits(self) -> bool:
        """Tell whether limits of associations and QOS hold."""
        words = {word.strip().lower() for word in self.settings.get("accountingstorageenforce", "").split(",")}
        return bool(words & {"limits", "qos", "all", "safe"})
