"""The oracle of machines of clusters: slow and obvious, in plain Python.

Nothing is kept up to date: what is free on a node at a moment is counted anew, from every job that is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Node:
    """A node: how much it has of each resource, and its properties."""

    capacity: tuple[int, ...]
    properties: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Site:
    """A machine: its clusters, and in each the limits by number."""

    clusters: Sequence[Sequence[Node]]
    limits: Sequence[Sequence[int]] = ()


@dataclass(frozen=True)
class Ask:
    """What a job asks for: so many chunks, each of so much of each resource and on one node.

    ``apart``: each on a node of its own. ``whole``: on empty nodes, and nothing beside them. ``clusters``: where it may run.
    ``weights``: for how much it counts in which limits.
    """

    chunks: int
    each: tuple[int, ...]
    apart: bool = False
    whole: bool = False
    properties: frozenset[int] = frozenset()
    clusters: frozenset[int] = frozenset({0})
    weights: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Stay:
    """A job somewhere from ``start`` until ``end``: so many chunks on which nodes of a cluster."""

    ask: Ask
    start: int
    end: int
    cluster: int
    chunks: dict[int, int]


def free_on(site: Site, stays: Sequence[Stay], cluster: int, node: int, time: int) -> list[int]:
    """What is free of each resource of a node at a moment."""
    free = list(site.clusters[cluster][node].capacity)
    for stay in stays:
        if stay.cluster == cluster and stay.start <= time < stay.end and node in stay.chunks:
            for resource, each in enumerate(stay.ask.each):
                free[resource] -= site.clusters[cluster][node].capacity[resource] if stay.ask.whole else stay.chunks[node] * each
    return free


def room_on(site: Site, stays: Sequence[Stay], ask: Ask, cluster: int, node: int, time: int) -> int:
    """How many chunks of a job a node has room for at a moment."""
    there, free = site.clusters[cluster][node], free_on(site, stays, cluster, node, time)
    if not ask.properties <= there.properties or (ask.whole and tuple(free) != there.capacity):
        return 0
    room = 0
    while room < (1 if ask.apart else ask.chunks) and all(
        (room + 1) * each <= left for each, left in zip(ask.each, free, strict=True)
    ):
        room += 1
    return room


def within_limits(site: Site, stays: Sequence[Stay], ask: Ask, cluster: int, time: int) -> bool:
    """Whether no limit is passed if the job is there, too."""
    return all(
        weight + sum(stay.ask.weights.get(limit, 0) for stay in stays if stay.cluster == cluster and stay.start <= time < stay.end)
        <= site.limits[cluster][limit]
        for limit, weight in ask.weights.items()
    )


def place_at(site: Site, stays: Sequence[Stay], ask: Ask, cluster: int, start: int, seconds: int) -> dict[int, int] | None:
    """The first nodes on which the job has room for all of its time, or None."""
    if cluster not in ask.clusters:
        return None
    moments = {start} | {time for stay in stays for time in (stay.start, stay.end) if start < time < start + seconds}
    if not all(within_limits(site, stays, ask, cluster, time) for time in moments):
        return None
    needed, chosen = ask.chunks, {}
    for node in range(len(site.clusters[cluster])):
        room = min(needed, *(room_on(site, stays, ask, cluster, node, time) for time in moments))
        if room > 0:
            chosen[node] = room
            needed -= room
    return chosen if needed == 0 else None


def seat(site: Site, stays: Sequence[Stay], ask: Ask, begin: int, seconds: int, only_at_once: bool = False) -> Stay | None:
    """The job where it can start first from ``begin`` on, in the first such cluster, or None."""
    for start in [begin] if only_at_once else sorted({begin} | {stay.end for stay in stays if stay.end > begin}):
        for cluster in range(len(site.clusters)):
            chosen = place_at(site, stays, ask, cluster, start, seconds)
            if chosen is not None:
                return Stay(ask, start, start + seconds, cluster, chosen)
    return None
