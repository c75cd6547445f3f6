"""Clusters of nodes as arrays: what jobs ask for, and where they fit.

A job runs inside one cluster. It asks for chunks: equal parts, each of which lies on one node. Chunks that are
``apart`` lie on different nodes ("4 nodes with 8 processors each"), others where there is room ("32 processors
anywhere": 32 chunks of one). A job that asks for ``whole`` nodes gets idle nodes with all their resources. Nodes are
taken in their order.

Whether a job fits depends on a table ``free`` [nodes, resources] and a table ``left`` [clusters, limits]: those of now
(``Nodes.free``, ``Nodes.left``) or of a planned moment.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from features.deferred import pd
from features.jit import apart, kernel

PROCS, MEMORY_KIB, GPUS, DISK_KIB = range(4)
"""Resources of a node. A machine has the first few of them, as many as it needs."""

NOWHERE = -1
"""Value in ``Nodes.cluster``: the job holds no nodes."""

NO_LIMIT = -1
"""Value in ``Requests.limit``: no limit of this kind counts the job."""


class Hours(NamedTuple):
    """When jobs may start, int64.

    From ``time`` on, a job of ``kind`` starts only if it is planned to end by ``until`` [events]; one long past forbids
    all starts. ``job_kind`` [rows] is the kind of each job of the table, ``latest`` [kinds] the present ``until``.
    """

    time: np.ndarray
    kind: np.ndarray
    until: np.ndarray
    job_kind: np.ndarray
    latest: np.ndarray


_NOTHING, _TABLE = np.zeros(0, np.int64), np.zeros((0, 0), np.int64)
ALWAYS = Hours(*[_NOTHING] * 5)


class Layout(NamedTuple):
    """An empty machine.

    int64: ``first`` [clusters + 1], ``capacity`` [nodes, resources], ``properties`` [nodes], ``left`` [clusters, limits], as in
    :class:`Nodes`. Clusters are tried in this order. ``hours`` are in seconds of the trace.
    """

    first: np.ndarray
    capacity: np.ndarray
    properties: np.ndarray
    left: np.ndarray
    hours: Hours = ALWAYS


class Requests(NamedTuple):
    """What the jobs of a table ask for, int64, a row a job.

    ``chunks`` [jobs], ``per_chunk`` [jobs, resources], ``apart`` and ``whole`` [jobs] 0 or 1, ``properties`` [jobs]
    bits that a node must have, ``eligible`` [jobs] bits of the clusters in which the job may run. ``limit`` [jobs,
    kinds] are the limits that count the job, or -1, each in one column only; ``weight`` [jobs, kinds] is how much of a
    limit the job takes.
    """

    chunks: np.ndarray
    per_chunk: np.ndarray
    apart: np.ndarray
    whole: np.ndarray
    properties: np.ndarray
    eligible: np.ndarray
    limit: np.ndarray
    weight: np.ndarray


class Nodes(NamedTuple):
    """The machine and what runs on it, int64.

    ``first`` [clusters + 1]: a cluster's nodes are ``first[c]`` to ``first[c + 1]``. ``capacity`` and ``free`` [nodes,
    resources], ``properties`` [nodes] bits; ``left`` [clusters, limits]: what is left of each limit. ``row`` [jobs] is
    the table's row of each of the kernel's jobs. ``cluster`` [rows] is where the job runs or is planned. Its nodes are
    ``held[row]`` entries of ``node`` from ``begin[row]`` on, with this many ``chunk`` each; ``begin`` [rows + 1] leaves
    room for all it can hold.
    """

    first: np.ndarray
    capacity: np.ndarray
    free: np.ndarray
    properties: np.ndarray
    left: np.ndarray
    requests: Requests
    row: np.ndarray
    cluster: np.ndarray
    begin: np.ndarray
    held: np.ndarray
    node: np.ndarray
    chunk: np.ndarray


NO_LAYOUT = Layout(np.zeros(1, np.int64), _TABLE, _NOTHING, _TABLE)
NO_REQUESTS = Requests(_NOTHING, _TABLE, _NOTHING, _NOTHING, _NOTHING, _NOTHING, _TABLE, _TABLE)
"""A machine without nodes, and requests of no jobs."""


class Description(Protocol):
    """A machine of clusters as it is described (:mod:`sim.machine.description`)."""

    @property
    def name(self) -> str:
        """Return the machine's name in results."""
        ...

    @property
    def procs(self) -> int:
        """Return the processors of all its nodes."""
        ...

    def arrays_for(self, jobs: pd.DataFrame) -> tuple[Layout, Requests]:
        """Return the machine when it is empty, and what the jobs of a table ask of it.

        Both depend on the jobs: their users have limits, and the properties they ask for are bits.
        """
        ...


def empty(layout: Layout, requests: Requests) -> Nodes:
    """Return the machine with nothing on it, to check which jobs fit, by their rows."""
    row = np.arange(len(requests.chunks))
    return Nodes(
        layout.first, layout.capacity, layout.capacity, layout.properties, layout.left, requests, *[row] * 6
    )  # nothing is put on it


def could_hold(layout: Layout, requests: Requests) -> np.ndarray:
    """Return bits of the clusters that could hold each job if they were empty, int64 [jobs]."""
    cluster_bits = np.zeros(len(requests.chunks), np.int64)
    ask_all(empty(layout, requests), cluster_bits)
    return cluster_bits


def as_pools(layout: Layout, requests: Requests) -> tuple[Layout, Requests]:
    """Return a machine whose nodes all have one processor with each cluster as one node.

    No two chunks share such a node, so it does not matter which of a cluster's equal nodes a planned job will get: they
    are chosen when it starts. A cluster is then a pool of processors, and every scheduler plans on it as on a pool. A
    machine with other nodes, or with different ones in a cluster, is returned as it is. ``requests`` must say where
    each job is eligible.
    """
    first, sizes = layout.first[:-1], np.diff(layout.first)
    owner = np.repeat(first, sizes)
    alike = (layout.capacity == layout.capacity[owner]).all() and (layout.properties == layout.properties[owner]).all()
    if not alike or (layout.capacity[:, PROCS] != 1).any() or (sizes == 0).any():
        return layout, requests
    most = np.iinfo(np.int64).max // sizes.max(initial=1)
    pools = layout._replace(
        first=np.arange(len(layout.first)),
        capacity=np.minimum(layout.capacity[first], most) * sizes[:, None],
        properties=layout.properties[first],
    )
    none = np.zeros_like(requests.apart)
    return pools, requests._replace(apart=none, whole=none)


def rooms(layout: Layout, requests: Requests) -> np.ndarray:
    """Return ``Nodes.begin``.

    No job is on more nodes than it has chunks, or than a cluster has nodes.
    """
    most = int(np.diff(layout.first).max(initial=0))
    return np.concatenate(([0], np.cumsum(np.minimum(requests.chunks, most))))


def kinds_of(requests: Requests) -> tuple[np.ndarray, int]:
    """Return the kind of each job, int64 [jobs], equal for equal requests, and their number."""
    kind, kinds = np.zeros(len(requests.chunks), np.int64), 1
    for column in np.column_stack([np.asarray(field) for field in requests]).T:
        values, several = pd.factorize(column)
        kind, combinations = pd.factorize(kind * len(several) + values)
        kinds = len(combinations)
    return np.ascontiguousarray(kind, np.int64), kinds


def levels(layout: Layout | Nodes, requests: Requests) -> int:
    """Return the max number of chunks of one job on one node, at least 1."""
    if len(requests.chunks) == 0 or len(layout.capacity) == 0:
        return 1
    per_chunk, capacity = requests.per_chunk, layout.capacity.max(axis=0)
    most = np.where(per_chunk > 0, capacity // np.maximum(per_chunk, 1), requests.chunks[:, None]).min(axis=1)
    return int(np.where(requests.apart != 0, 1, np.minimum(most, requests.chunks)).max(initial=1))


@kernel
def ask_all(nodes, cluster_bits):
    """Write bits of the clusters that each job fits into."""
    for row in range(len(cluster_bits)):
        for cluster in range(len(nodes.first) - 1):
            if fits(row, cluster, nodes, nodes.capacity, nodes.left):
                cluster_bits[row] |= 1 << cluster


@kernel
def room_on(node, row, nodes, free):
    """Return how many chunks of a job there is room for on ``node``."""
    requests = nodes.requests
    if requests.properties[row] & ~nodes.properties[node] != 0:
        return 0
    room = 1 if requests.apart[row] != 0 else requests.chunks[row]
    for resource in range(free.shape[1]):
        if requests.whole[row] != 0 and free[node, resource] != nodes.capacity[node, resource]:
            return 0
        needed = requests.per_chunk[row, resource]
        if needed > 0 and needed * room > free[node, resource]:
            if needed > free[node, resource]:
                return 0  # the most frequent case, and a division is slow
            room = free[node, resource] // needed
    return room


@kernel
def within_limits(row, cluster, nodes, left):
    """Tell whether all limits hold if the job runs in ``cluster``."""
    requests = nodes.requests
    for kind in range(requests.limit.shape[1]):
        limit = requests.limit[row, kind]
        if limit != NO_LIMIT and left[cluster, limit] < requests.weight[row, kind]:
            return False
    return True


@kernel
def fits(row, cluster, nodes, free, left):
    """Tell whether the job fits into ``cluster``, with what is ``free`` and ``left``."""
    if nodes.requests.eligible[row] >> cluster & 1 == 0 or not within_limits(row, cluster, nodes, left):
        return False
    needed = nodes.requests.chunks[row]
    for node in range(nodes.first[cluster], nodes.first[cluster + 1]):
        needed -= room_on(node, row, nodes, free)
        if needed <= 0:
            return True
    return False


@apart
def choose(row, cluster, begin, nodes, free):
    """Assign a job the first nodes with room; return whether there are enough.

    The nodes are noted, but not taken yet. Nodes before ``begin`` are known to have no room.
    """
    requests, at = nodes.requests, nodes.begin[row]
    needed = requests.chunks[row]
    plain = needed == 1 and requests.whole[row] == 0 and requests.properties[row] == 0  # most jobs are
    for node in range(max(begin, nodes.first[cluster]), nodes.first[cluster + 1]):
        if plain:
            resource = 0
            while resource < free.shape[1] and requests.per_chunk[row, resource] <= free[node, resource]:
                resource += 1
            room = 1 if resource == free.shape[1] else 0
        else:
            room = min(room_on(node, row, nodes, free), needed)
        if room > 0:
            nodes.node[at] = node
            nodes.chunk[at] = room
            at += 1
            needed -= room
            if needed == 0:
                nodes.held[row] = at - nodes.begin[row]
                nodes.cluster[row] = cluster
                return True
    return False


@kernel
def change(row, sign, nodes, free, left):
    """Take a job's nodes and its part of limits (``sign`` -1), or give them back (1)."""
    take(row, sign, nodes, free)
    requests = nodes.requests
    for kind in range(requests.limit.shape[1]):
        if requests.limit[row, kind] != NO_LIMIT:
            left[nodes.cluster[row], requests.limit[row, kind]] += sign * requests.weight[row, kind]


@kernel
def take(row, sign, nodes, free):
    """Take a job's nodes (``sign`` -1), or give them back (1)."""
    for at in range(nodes.begin[row], nodes.begin[row] + nodes.held[row]):
        take_on(nodes.node[at], row, sign, nodes.chunk[at], nodes, free)


@kernel
def take_on(node, row, sign, chunks, nodes, free):
    """Take room for ``chunks`` of a job on ``node`` (``sign`` -1), or give it back (1)."""
    requests = nodes.requests
    for resource in range(free.shape[1]):
        amount = nodes.capacity[node, resource] if requests.whole[row] != 0 else chunks * requests.per_chunk[row, resource]
        free[node, resource] += sign * amount
