"""Descriptions of machines: clusters of nodes, and limits on what jobs hold.

A description and a table of jobs give the simulator's arrays (:meth:`Machine.arrays_for`). A job that requests nodes
asks for that many chunks on different nodes; one that requests only processors takes them anywhere in one cluster.
Memory and GPUs are stated for the whole job; each chunk takes its part, rounded up. A property is one stated for a
cluster or its nodes, a cluster's name (also after ``cl_``), a host (``NAME3`` is the third node of cluster NAME, also
with a domain), or ``nodecpus12`` for nodes with 12 processors. Other properties are ignored, unless they name a cluster
or a host.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from features import limits
from features.errors import InputError, shown
from features.jobs.schema import ASKED, codes
from sim.machine.nodes import NO_LIMIT, PROCS, Layout, Requests, could_hold

Of = Literal["user", "group", "class"]
What = Literal["processors", "jobs", "share"]
MOST_BITS = 62
"""Max clusters of a machine, and max different properties that its jobs ask for."""
UNLIMITED = 1 << 60
_COLUMNS: dict[Of, str] = {"user": "user", "group": "group", "class": "queue"}


@dataclass(frozen=True)
class NodeGroup:
    """Equal nodes: ``count`` of them, each with these resources; None is never scarce."""

    count: int
    procs: int
    memory_kib: int | None = None
    gpus: int = 0
    properties: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise InputError for impossible numbers."""
        for name, least, most in (
            ("count", 1, limits.NODES),
            ("procs", 1, limits.PROCESSORS),
            ("memory_kib", 1, limits.MEMORY_KIB),
            ("gpus", 0, limits.PROCESSORS),
        ):
            value = getattr(self, name)
            if value is not None and not (type(value) is int and least <= value <= most):
                raise InputError(
                    f"{'nodes' if name == 'count' else name} is {shown(value)}, not a whole number of {least} to {most:,}"
                )


@dataclass(frozen=True)
class Cluster:
    """Nodes within which a job must fit, in the order in which they are taken."""

    name: str
    nodes: tuple[NodeGroup, ...]

    @property
    def procs(self) -> int:
        """Return the processors of all nodes."""
        return sum(kind.count * kind.procs for kind in self.nodes)

    @property
    def count(self) -> int:
        """Return the number of nodes."""
        return sum(kind.count for kind in self.nodes)


@dataclass(frozen=True)
class Limit:
    """What one user, group or class may hold at any planned moment, in each cluster.

    ``value`` counts processors or jobs, or is a share of the cluster's processors. Without ``name`` each user, group or
    class (the trace's queue) has a limit of its own. With ``longer_than_s`` the class is all jobs that request more
    seconds than that; with ``cluster`` the limit holds only there.
    """

    of: Of
    what: What
    value: float
    name: str | None = None
    longer_than_s: int | None = None
    cluster: str | None = None

    def __post_init__(self) -> None:
        """Raise InputError for an invalid limit."""
        for field, allowed in (("of", get_args(Of)), ("what", get_args(What))):
            if getattr(self, field) not in allowed:
                raise InputError(f"{field} is {getattr(self, field)!r}; known: {', '.join(allowed)}")
        number = self.value if type(self.value) in (int, float) else -1
        if self.what == "share" and not 0 < number <= 1:
            raise InputError(f"value is {shown(self.value)}, not a share above 0 and up to 1")
        if self.what != "share" and not (type(number) is int and 0 <= number <= limits.PROCESSORS):
            raise InputError(f"value is {shown(self.value)}, not a whole number of {self.what}")
        if self.longer_than_s is not None and (self.of != "class" or self.name is not None):
            raise InputError("longer_than makes a class of its own: it needs of = 'class' and no name")

    def slots(self, jobs: pd.DataFrame) -> tuple[np.ndarray, int]:
        """Return the slot that counts each job, int64 [jobs], and the number of slots.

        It is NO_LIMIT for a job that no slot counts.
        """
        if self.longer_than_s is not None:
            return np.where(jobs["requested_s"].to_numpy(np.int64) > self.longer_than_s, 0, NO_LIMIT), 1
        column = _COLUMNS[self.of]
        if self.name is not None:
            return np.where((jobs[column] == self.name).to_numpy(bool, na_value=False), 0, NO_LIMIT), 1
        return codes(jobs, column), len(jobs[column].cat.categories)

    def left(self, cluster: Cluster) -> int:
        """Return how much it allows in an empty cluster."""
        if self.cluster not in (None, cluster.name):
            return UNLIMITED
        return int(self.value * cluster.procs + 1e-9) if self.what == "share" else int(self.value)


@dataclass(frozen=True)
class Machine:
    """Clusters with limits; ``asked`` are the columns of job requests that count."""

    name: str
    clusters: tuple[Cluster, ...]
    limits: tuple[Limit, ...] = ()
    asked: tuple[str, ...] = ASKED

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Machine:
        """Return the machine of a :attr:`record`."""
        clusters = []
        for cluster in record["clusters"]:
            groups = [NodeGroup(**(nodes | {"properties": tuple(nodes["properties"])})) for nodes in cluster["nodes"]]
            clusters.append(Cluster(cluster["name"], tuple(groups)))
        return cls(record["name"], tuple(clusters), tuple(Limit(**limit) for limit in record["limits"]), tuple(record["asked"]))

    @property
    def record(self) -> dict[str, Any]:
        """Return the machine for JSON."""
        return json.loads(json.dumps(asdict(self)))

    def __post_init__(self) -> None:
        """Raise InputError for repeated or unknown names and machines beyond the limits."""
        names = [cluster.name for cluster in self.clusters]
        if not names:
            raise InputError("a machine without clusters cannot run anything")
        if len(names) > MOST_BITS:
            raise InputError(f"a machine of {len(names):,} clusters; at most {MOST_BITS} are possible")
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise InputError(f"cluster {twice} appears twice")
        for limit in self.limits:
            if limit.cluster is not None and limit.cluster not in names:
                raise InputError(f"unknown cluster {limit.cluster!r} in a limit; known: {', '.join(names)}")
        if unknown := set(self.asked) - set(ASKED):
            raise InputError(f"unknown column {min(unknown)!r} in asked; known: {', '.join(ASKED)}")
        if self.procs > limits.PROCESSORS or sum(cluster.count for cluster in self.clusters) > limits.NODES:
            raise InputError(f"a machine has at most {limits.PROCESSORS:,} processors and {limits.NODES:,} nodes")

    @property
    def procs(self) -> int:
        """Return the processors of all clusters."""
        return sum(cluster.procs for cluster in self.clusters)

    @cached_property
    def _kinds(self) -> list[tuple[Cluster, NodeGroup, int, int]]:
        """Return (cluster, nodes, number of the first in its cluster, first row) by kind."""
        kinds, row = [], 0
        for cluster in self.clusters:
            number = 1
            for nodes in cluster.nodes:
                kinds.append((cluster, nodes, number, row))
                number, row = number + nodes.count, row + nodes.count
        return kinds

    def arrays_for(self, jobs: pd.DataFrame) -> tuple[Layout, Requests]:
        """Return the machine when it is empty, and what the jobs of a cleaned table ask of it.

        Every cluster counts as eligible: :meth:`could_hold` tells which could hold a job. Raises InputError for too
        many properties.
        """
        resources = self._resources(jobs)
        capacities = []
        for _, nodes, _, _ in self._kinds:
            amounts = [getattr(nodes, resource) for resource in resources]
            of_a_node = [UNLIMITED if amount is None else int(amount) for amount in amounts]
            capacities.append(np.tile(of_a_node, (nodes.count, 1)))
        capacity = np.vstack(capacities)
        wanted, have = self._properties(jobs, len(capacity))
        limit, weight, left = self._limits(jobs)
        chunks, apart, per_chunk = self._chunks(jobs, resources)
        whole = self._column(jobs, "exclusive") == 1
        eligible = np.full(len(jobs), (1 << len(self.clusters)) - 1)
        first = np.concatenate(([0], np.cumsum([cluster.count for cluster in self.clusters])))
        layout = Layout(first, np.ascontiguousarray(capacity, np.int64), have, left)
        return layout, Requests(chunks, per_chunk, apart, whole.astype(np.int64), wanted, eligible, limit, weight)

    def could_hold(self, jobs: pd.DataFrame) -> np.ndarray:
        """Return bits of the clusters that could hold each job when empty, int64 [jobs]."""
        return could_hold(*self.arrays_for(jobs))

    def holds(self, jobs: pd.DataFrame) -> np.ndarray:
        """Tell which jobs some cluster could hold if it were empty, bool [jobs]."""
        return self.could_hold(jobs) != 0

    def unknown_properties(self, jobs: pd.DataFrame) -> dict[str, int]:
        """Return how many jobs ask for each property that no node has, most frequent first."""
        counts: dict[str, int] = {}
        for text, jobs_with in self._texts(jobs).items():
            for word in set(text.split(":")):
                if not self._names_nodes(word.removeprefix("^")):
                    counts[word] = counts.get(word, 0) + jobs_with
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def _column(self, jobs: pd.DataFrame, name: str) -> np.ndarray:
        """Return a requested column, int64 [jobs]; -1 if it is missing or does not count."""
        if name not in self.asked or name not in jobs:
            return np.full(len(jobs), -1)
        return jobs[name].to_numpy(np.int64, na_value=-1)

    def _resources(self, jobs: pd.DataFrame) -> list[str]:
        """Return the resources that the kernel must count, processors first."""
        memory = "memory_kib" in self.asked and any(nodes.memory_kib is not None for _, nodes, _, _ in self._kinds)
        gpus = (self._column(jobs, "gpus") > 0).any()
        return ["procs", "memory_kib", "gpus"] if gpus else ["procs", "memory_kib"] if memory else ["procs"]

    def _chunks(self, jobs: pd.DataFrame, resources: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return chunks and whether they lie apart, [jobs], and what each takes [jobs, resources]."""
        procs, nodes, gpus = jobs["procs"].to_numpy(np.int64), self._column(jobs, "nodes"), self._column(jobs, "gpus")
        anywhere = np.where(gpus > 0, np.gcd(procs, np.maximum(gpus, 1)), procs)
        chunks = np.where(nodes > 0, nodes, anywhere)
        procs_per_node = self._column(jobs, "procs_per_node")
        per_chunk = np.zeros((len(jobs), len(resources)), np.int64)
        per_chunk[:, PROCS] = np.where((nodes > 0) & (procs_per_node > 0), procs_per_node, -(-procs // chunks))
        for place, name in enumerate(resources[1:], start=1):
            per_chunk[:, place] = -(-np.maximum(self._column(jobs, name), 0) // chunks)
        return chunks, ((nodes > 0) | (chunks == 1)).astype(np.int64), per_chunk

    def _limits(self, jobs: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return ``limit`` and ``weight`` [jobs, limits], and ``left`` [clusters, slots]."""
        limit = np.full((len(jobs), len(self.limits)), NO_LIMIT)
        weight = np.zeros_like(limit)
        left: list[np.ndarray] = []
        slots = 0
        for place, rule in enumerate(self.limits):
            counts, several = rule.slots(jobs)
            limit[:, place] = np.where(counts >= 0, counts + slots, NO_LIMIT)
            weight[:, place] = 1 if rule.what == "jobs" else jobs["procs"].to_numpy(np.int64)
            left.append(np.repeat([[rule.left(cluster)] for cluster in self.clusters], several, axis=1))
            slots += several
        empty = np.zeros((len(self.clusters), 0), np.int64)
        return limit, weight, np.ascontiguousarray(np.hstack([empty, *left]).astype(np.int64))

    def _properties(self, jobs: pd.DataFrame, rows: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the properties that jobs ask for [jobs] and that nodes have [rows], as bits."""
        have = np.zeros(rows, np.int64)
        wanted = np.zeros(len(jobs), np.int64)
        if "properties" not in self.asked or "properties" not in jobs:
            return wanted, have
        bits: dict[str, int] = {}
        by_text, texts = [], self._texts(jobs)
        for text in jobs["properties"].cat.categories:
            words = [word for word in text.split(":") if text in texts and self._names_nodes(word.removeprefix("^"))]
            by_text.append(sum({1 << bits.setdefault(word, len(bits)) for word in words}))
        if len(bits) > MOST_BITS:
            raise InputError(f"jobs ask for {len(bits)} different properties of nodes; at most {MOST_BITS} are possible")
        for word, bit in bits.items():
            has = self._nodes_with(word.removeprefix("^"), rows)
            have[~has if word.startswith("^") else has] |= 1 << bit
        of_job = codes(jobs, "properties")
        return np.where(of_job >= 0, np.array([*by_text, 0], np.int64)[of_job], 0), have

    def _texts(self, jobs: pd.DataFrame) -> dict[str, int]:
        """Return the different texts of properties of jobs, and how many jobs have each."""
        if "properties" not in self.asked or "properties" not in jobs:
            return {}
        return {str(text): int(count) for text, count in jobs["properties"].value_counts().items() if count}

    def _names_nodes(self, word: str) -> bool:
        """Tell whether a property refers to this machine's nodes."""
        rows = sum(cluster.count for cluster in self.clusters)
        return word.startswith("cl_") or self._host(word) is not None or bool(self._nodes_with(word, rows).any())

    def _host(self, word: str) -> tuple[str, int] | None:
        """Return cluster and number of the node that a property names, if any."""
        match = re.fullmatch(r"(.*?)(\d{1,8})(\..*)?", word, re.ASCII)
        names = {cluster.name for cluster in self.clusters}
        return (match[1], int(match[2])) if match and match[1] in names else None

    def _nodes_with(self, word: str, rows: int) -> np.ndarray:
        """Tell which nodes have a property, bool [rows]."""
        has = np.zeros(rows, bool)
        host = self._host(word)
        for cluster, nodes, number, row in self._kinds:
            named = word in (cluster.name, f"cl_{cluster.name}", f"nodecpus{nodes.procs}", *nodes.properties)
            if named:
                has[row : row + nodes.count] = True
            elif host is not None and host[0] == cluster.name and number <= host[1] < number + nodes.count:
                has[row + host[1] - number] = True
        return has
