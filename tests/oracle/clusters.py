"""The oracle of machines of clusters: slow and obvious, in plain Python.

Nothing is kept up to date: what is free on a node at a moment is counted anew, from every job that is there. Where every node has
one processor a cluster is a pool: jobs are counted, and get their nodes when they start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from tests.oracle.scheduler import Job, Simulation, simulated


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
    most = 1 if ask.apart else ask.chunks
    return max(min([most, *(left // each for each, left in zip(ask.each, free, strict=True) if each)]), 0)


def within_limits(site: Site, stays: Sequence[Stay], ask: Ask, cluster: int, time: int) -> bool:
    """Whether no limit is passed if the job is there, too."""
    return all(
        weight + sum(stay.ask.weights.get(limit, 0) for stay in stays if stay.cluster == cluster and stay.start <= time < stay.end)
        <= site.limits[cluster][limit]
        for limit, weight in ask.weights.items()
    )


def is_pools(site: Site) -> bool:
    """Whether every node has one processor, and the nodes of each cluster are alike."""
    return all(node.capacity[0] == 1 and node == nodes[0] for nodes in site.clusters for node in nodes)


def place_beside(
    site: Site, present: Sequence[Stay], later: Sequence[Stay], ask: Ask, head: Stay, now: int
) -> dict[int, int] | None:
    """The first nodes on which the job has room now and leaves the head its room ``later``, or None."""
    cluster, needed, chosen = head.cluster, ask.chunks, dict[int, int]()
    if not (within_limits(site, present, ask, cluster, now) and within_limits(site, [*later, head], ask, cluster, head.start)):
        return None
    rooms = [room_on(site, later, head.ask, cluster, node, head.start) for node in range(len(site.clusters[cluster]))]
    spare = sum(rooms) - head.ask.chunks
    for node, before in enumerate(rooms):
        room, lost = min(needed, room_on(site, present, ask, cluster, node, now)), 0
        while room > 0:
            there = Stay(ask, head.start, head.start + 1, cluster, {node: room})
            lost = before - room_on(site, [*later, there], head.ask, cluster, node, head.start)
            if lost <= spare:
                break
            room -= 1
        if room > 0:
            chosen[node] = room
            needed -= room
            spare -= lost
    return chosen if needed == 0 else None


def place_at(site: Site, stays: Sequence[Stay], ask: Ask, cluster: int, start: int, seconds: int) -> dict[int, int] | None:
    """The first nodes on which the job has room for all of its time, or None; no nodes yet in a pool."""
    if cluster not in ask.clusters:
        return None
    beside = [stay for stay in stays if stay.cluster == cluster and stay.start < start + seconds and stay.end > start]
    moments = {start} | {stay.start for stay in beside if stay.start > start}  # there is no less room when a job has ended
    if not all(within_limits(site, beside, ask, cluster, time) for time in moments):
        return None
    if is_pools(site):
        busy = max(sum(stay.ask.chunks for stay in beside if stay.start <= time < stay.end) for time in moments)
        possible = room_on(site, [], ask, cluster, 0, start) > 0 and busy + ask.chunks <= len(site.clusters[cluster])
        return {} if possible else None
    needed, chosen = ask.chunks, {}
    for node in range(len(site.clusters[cluster])):
        room = min(needed, *(room_on(site, beside, ask, cluster, node, time) for time in moments))
        if room > 0:
            chosen[node] = room
            needed -= room
        if needed == 0:
            break
    return chosen if needed == 0 else None


def seat(site: Site, stays: Sequence[Stay], ask: Ask, begin: int, seconds: int, only_at_once: bool = False) -> Stay | None:
    """The job where it can start first from ``begin`` on, in the first such cluster, or None."""
    for start in [begin] if only_at_once else sorted({begin} | {stay.end for stay in stays if begin < stay.end < FOREVER}):
        for cluster in range(len(site.clusters)):
            chosen = place_at(site, stays, ask, cluster, start, seconds)
            if chosen is not None:
                return Stay(ask, start, start + seconds, cluster, chosen)
    return None


FOREVER = 1 << 60


@dataclass
class OnClusters(Simulation):
    """The state of a machine of clusters: of each job that runs or is planned, where and when."""

    site: Site = field(default_factory=lambda: Site([]))
    asks: Sequence[Ask] = ()
    places: dict[int, Stay] = field(default_factory=dict)
    as_planned: bool = True
    longer: bool = False  # some job may stay longer than planned

    def finish(self, job: Job) -> list[Job]:
        self.as_planned &= job.predicted_end == job.end
        return super().finish(job)

    def correct(self, job: Job) -> None:
        super().correct(job)
        self.as_planned, self.longer = False, True

    def stays(self, now: int) -> list[Stay]:
        """The jobs that are predicted to run on after ``now``."""
        return [replace(self.places[job.index], end=job.predicted_end) for job in self.running if job.predicted_end > now]

    def nothing_fits(self, now: int) -> bool:
        return not self.waiting

    def fits_now(self, job: Job, now: int) -> bool:
        return self.at_once(self.stays(now), job, now) is not None

    def at_once(self, stays: Sequence[Stay], job: Job, now: int) -> Stay | None:
        """Where the job has room at this moment, whatever comes later."""
        return seat(self.site, stays, self.asks[job.index], now, 1, only_at_once=True)

    def chosen(self, now: int, queue: list[Job], rank: Callable) -> list[Job]:
        started = ON_CLUSTERS[self.algorithm](self, now, queue, rank)
        present = self.stays(now)
        for job, place in started:
            if is_pools(self.site):
                held = {node for stay in present if stay.cluster == place.cluster for node in stay.chunks}
                idle = [node for node in range(len(self.site.clusters[place.cluster])) if node not in held]
                place = replace(place, chunks=dict.fromkeys(idle[: place.ask.chunks], 1))
            present.append(place)
            self.places[job.index] = place
        return [job for job, _ in started]


Started = list[tuple[Job, Stay]]


def in_order(sim: OnClusters, now: int, queue: list[Job], rank: Callable, strict: bool = False) -> Started:
    """In order, whatever fits; with ``strict`` until one does not."""
    stays, started = sim.stays(now), []
    for job in queue:
        place = sim.at_once(stays, job, now)
        if place is not None:
            stays.append(place)
            started.append((job, place))
        elif strict:
            break
    return started


def easy(sim: OnClusters, now: int, queue: list[Job], rank: Callable) -> Started:
    """EASY: the first that does not fit is reserved for, at the first predicted end by which it does."""
    started = in_order(sim, now, queue, rank, strict=True)
    if len(started) == len(queue):
        return started
    head, others = queue[len(started)], sorted(queue[len(started) + 1 :], key=rank)
    stays = sim.stays(now) + [replace(place, end=now + job.estimate) for job, place in started]
    ends = sorted({stay.end for stay in stays if stay.end < FOREVER})
    places = (sim.at_once(stays, head, time) for time in ends)
    reserved = next((place for place in places if place is not None), None)
    # two moments stand for all: now, and the shadow time with the head
    present = [replace(stay, start=now, end=now + 1) for stay in stays]
    shadow, later = FOREVER, []
    if reserved is not None:
        shadow, reserved = reserved.start, replace(reserved, start=now + 1, end=now + 2)
        later = [replace(stay, start=now + 1, end=now + 2) for stay in stays if stay.end > shadow]
    for job in others:
        in_time = now + job.fit_s <= shadow
        for cluster in range(len(sim.site.clusters)):
            heeds = reserved is not None and cluster == reserved.cluster and not in_time
            ask = sim.asks[job.index]
            if not heeds:
                chosen = place_at(sim.site, present, ask, cluster, now, 1)
            elif is_pools(sim.site):
                chosen = place_at(sim.site, [*present, *later, reserved], ask, cluster, now, 2)
            else:
                chosen = place_beside(sim.site, present, later, ask, reserved, now) if cluster in ask.clusters else None
            if chosen is not None:
                place = Stay(ask, now, now + 1, cluster, chosen)
                started.append((job, place))
                present.append(place)
                if heeds:
                    later.append(replace(place, start=now + 1, end=now + 2))
                break
    return started


def just_backfill(sim: OnClusters, now: int, queue: list[Job], rank: Callable) -> Started:
    """JustBF: all are seated in order, anew at every pass."""
    stays, started = sim.stays(now), []
    for job in queue:
        place = seat(sim.site, stays, sim.asks[job.index], now, job.fit_s)
        if place is not None:
            stays.append(place)
            if place.start == now:
                started.append((job, place))
    return started


def easy_reserving(sim: OnClusters, now: int, queue: list[Job], rank: Callable) -> Started:
    """EASY(reservations=k): the first k that do not fit are seated, anew after each start; the others delay none of them."""
    started: Started = []
    while True:
        stays = sim.stays(now) + [replace(place, end=now + job.estimate) for job, place in started]
        rest, reserved, begun = [job for job in queue if job not in [other for other, _ in started]], 0, False
        while rest and reserved < sim.reservations and not begun:
            job = rest.pop(0)
            place = seat(sim.site, stays, sim.asks[job.index], now, job.fit_s)
            if place is not None:
                stays.append(place)
                begun = place.start == now
                reserved += 1
        if begun:
            assert place is not None
            started.append((job, place))
            continue
        for job in sorted(rest, key=rank):
            place = seat(sim.site, stays, sim.asks[job.index], now, job.fit_s, only_at_once=True)
            if place is not None:
                stays.append(place)
                started.append((job, place))
        return started


def conservative(sim: OnClusters, now: int, queue: list[Job], rank: Callable) -> Started:
    """Conservative: a job keeps its place in the plan until it can have an earlier one.

    After early ends each in turn, in order of planned starts, is seated anew among all others as planned. Where some job may stay
    longer than planned, all are seated anew in that order.
    """
    old = sorted((job for job in queue if job.planned is not None), key=lambda job: (job.planned, job.arrival))
    new = [job for job in queue if job.planned is None]
    stays = sim.stays(now) + [sim.places[job.index] for job in old if not sim.longer]
    for job in new if sim.as_planned else [*old, *new]:
        if job in old and not sim.longer:
            stays.remove(sim.places[job.index])
        place = seat(sim.site, stays, sim.asks[job.index], now, job.fit_s)
        job.planned = None
        if place is not None:
            stays.append(place)
            sim.places[job.index], job.planned = place, place.start
    sim.as_planned, sim.longer = True, False
    return [(job, sim.places[job.index]) for job in [*old, *new] if job.planned == now]


ON_CLUSTERS: dict[str, Callable[[OnClusters, int, list[Job], Callable], Started]] = {
    "Strict": partial(in_order, strict=True),
    "List": in_order,
    "EASY": lambda sim, *rest: (easy if sim.reservations == 1 else easy_reserving)(sim, *rest),
    "JustBF": just_backfill,
    "Conservative": conservative,
}


def simulated_on(
    site: Site,
    asks: Sequence[Ask],
    *jobs: Sequence[int],
    **policy: object,
) -> tuple[list[Job], OnClusters]:
    """The jobs as :func:`tests.oracle.scheduler.simulated` submits them, scheduled on ``site``, and the state that holds their places."""
    states = []

    def state(*given: object) -> OnClusters:
        states.append(OnClusters(*given, site=site, asks=asks))  # type: ignore[arg-type]
        return states[0]

    return simulated(*jobs, max(jobs[2], default=1), simulation=state, **policy), states[0]  # type: ignore[arg-type]
