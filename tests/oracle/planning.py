"""PlanRS in plain Python: a plan is lists of jobs, and all that follows from them is worked out anew each time.

Where the kernel relies on something, this does not: a job fits if it does at every moment of its duration, sums are taken over all
jobs of a plan, and what is free at a moment over all that runs or is planned then. The same random numbers are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.oracle.clusters import FOREVER, OnClusters, Stay, place_at, seat
from tests.oracle.scheduler import Job


class Generator:
    """Random numbers of L'Ecuyer (1988)."""

    def __init__(self, seed: int) -> None:
        one, other = np.random.SeedSequence(seed).generate_state(2, np.uint64)
        self.one, self.other = 1 + int(one) % 2147483562, 1 + int(other) % 2147483398

    def below(self, bound: int) -> int:
        self.one, self.other = self.one * 40014 % 2147483563, self.other * 40692 % 2147483399
        return (self.one - self.other) % 2147483562 * bound // 2147483562


@dataclass
class Planning(OnClusters):
    """A simulation by PlanRS, with the fields of :class:`sim.schedulers.names.PlanRS` in ``rule``."""

    rule: Any = None
    seed: int = 0
    lists: list[list[Job]] = field(default_factory=list)
    at: dict[Job, int] = field(default_factory=dict)
    next_search: int = 0
    past: dict[Any, float] = field(default_factory=dict)
    usage: dict[Any, float] = field(default_factory=dict)
    ended: list[Job] = field(default_factory=list)

    def finish(self, job: Job) -> list[Job]:
        self.ended.append(job)
        return super().finish(job)

    def schedule(self, now: int) -> list[Job]:
        if not self.lists:
            self.lists = [[] for _ in self.site.clusters]
            self.random = Generator(self.seed)
        started = self.cycle(now)
        if self.rule.iterations and now >= self.next_search:
            self.next_search = now + self.rule.interval
            if sum(map(len, self.lists)) > (len(self.site.clusters) == 1) and self.search(now):
                started += self.cycle(now)
        return started

    def cycle(self, now: int) -> list[Job]:
        for cluster in range(len(self.site.clusters)):
            self.update(cluster, now)
        planned = {job for jobs in self.lists for job in jobs}
        for job in sorted((job for job in self.waiting if job not in planned), key=lambda job: job.arrival):
            start, cluster = min(
                (self.gap(job, cluster, now), cluster) for cluster in range(len(self.site.clusters)) if self.holds(job, cluster)
            )
            jobs = self.lists[cluster]
            jobs.insert(sum(self.at[other] <= start for other in jobs), job)
            self.update(cluster, now)
        started = []
        for jobs in self.lists:
            for job in list(jobs):
                if self.at[job] == now:
                    jobs.remove(job)
                    started.append(job)
                    job.start = now
                    self.waiting.remove(job)
                    self.running.append(job)
        return started

    def holds(self, job: Job, cluster: int) -> bool:
        """Tell whether a cluster can hold the job if it is empty."""
        return place_at(self.site, [], self.asks[job.index], cluster, 0, 1) is not None

    def update(self, cluster: int, now: int) -> None:
        """Seat jobs in order, none before the one in front of it, each where it fits for as long as it lasts."""
        stays, last = self.stays(now), now
        for job in self.lists[cluster]:
            for time in sorted({last} | {stay.end for stay in stays if last < stay.end < FOREVER}):
                chosen = place_at(self.site, stays, self.asks[job.index], cluster, time, job.fit_s)
                if chosen is not None:
                    break
            stays.append(Stay(self.asks[job.index], time, time + job.fit_s, cluster, chosen))
            self.at[job], self.places[job.index], last = time, stays[-1], time

    def gap(self, job: Job, cluster: int, now: int) -> float:
        """When a job fits first among all that runs and is planned; infinity in a cluster that cannot hold it."""
        stays = self.stays(now) + [self.places[other.index] for others in self.lists for other in others]
        for time in sorted({now} | {stay.end for stay in stays if now < stay.end < FOREVER}):
            if place_at(self.site, stays, self.asks[job.index], cluster, time, job.fit_s) is not None:
                return time
        return math.inf

    # the search

    def search(self, now: int) -> bool:
        self.account()
        for cluster in range(len(self.site.clusters)):
            self.update(cluster, now)
        whose = [job for jobs in self.lists for job in jobs]
        self.counting = list(dict.fromkeys(job.user for job in whose if job.user is not None))
        best = self.criteria(now)
        accepted = False
        for _ in range(self.rule.iterations):
            candidates = [(cluster, job) for cluster, jobs in enumerate(self.lists) for job in jobs]
            source, job = candidates[self.random.below(len(candidates))]
            eligible = sorted(c for c in self.asks[job.index].clusters if self.holds(job, c))
            target = eligible[self.random.below(len(eligible))] if len(self.site.clusters) > 1 else source
            before = [list(jobs) for jobs in self.lists]
            position = self.random.below(len(self.lists[target]) + (target != source))
            self.lists[source].remove(job)
            self.lists[target].insert(position, job)
            for each in {source, target}:
                self.update(each, now)
            trial = self.criteria(now)
            weights = (self.rule.wait, self.rule.slowdown, self.rule.fairness)
            gains = [w * ((b - t) / max(b, 1e-9)) for w, b, t in zip(weights, best, trial, strict=True)]
            if self.lists != before and gains[0] + gains[1] + gains[2] > 0:
                best, accepted = trial, True
            else:
                self.lists = before
                for each in {source, target}:
                    self.update(each, now)
        return accepted

    def account(self) -> None:
        """Bring up to date what users have waited and consumed."""
        for job in self.ended:
            self.past[job.user] = self.past.get(job.user, 0.0) + job.start - job.submit
            self.usage[job.user] = self.usage.get(job.user, 0.0) + job.runtime * self.claim(job)
        self.ended = []

    def claim(self, job: Job) -> float:
        ask, nodes = self.asks[job.index], [node for cluster in self.site.clusters for node in cluster]
        procs = float(ask.chunks * ask.each[0])
        if len(ask.each) < 2:
            return procs
        there = [sum(node.capacity[resource] for node in nodes) for resource in (0, 1)]
        return (procs + ask.chunks * ask.each[1] * (there[0] / max(there[1], 1))) / 2

    def criteria(self, now: int) -> tuple[float, float, float]:
        planned = [job for jobs in self.lists for job in jobs]
        wait = slowdown = 0
        for job, start in ((job, self.at[job]) for job in planned):
            wait += start - job.submit
            slowdown += max(65536, int((start - job.submit + job.fit_s) * (65536 / max(job.fit_s, 10))))
        return float(wait), slowdown / 65536, self.unfairness(now, planned)

    def unfairness(self, now: int, planned: list[Job]) -> float:
        nuwt = []
        for user in self.counting:
            waits = sum(self.at[job] - job.submit for job in planned if job.user == user)
            used = self.usage.get(user, 0.0)
            for job in self.running:
                if job.user == user and job.predicted_end > now:
                    waits += job.start - job.submit
                    used += (now - job.start) * self.claim(job)
            nuwt.append((self.past.get(user, 0.0) + waits) * (1.0 / max(used, 3600.0)))
        mean = sum(nuwt) / max(len(nuwt), 1)
        return mean + math.sqrt(sum((mean - each) ** 2 for each in nuwt) / max(len(nuwt), 1))


HALF_LIFE_S = 72 * 3600
QUEUES_S = [3600, 7200, *(days * 86400 for days in (1, 2, 4, 7, 14, 61))]


@dataclass
class OrigBackfill(OnClusters):
    """A simulation by OrigBF, with the fields of :class:`sim.schedulers.names.OrigBF` in ``rule``."""

    rule: Any = None
    usage: dict[Any, float] = field(default_factory=dict)
    accounted: int | None = None
    ended: list[Job] = field(default_factory=list)
    promised: dict[Job, int] = field(default_factory=dict)  # kept reservations

    def finish(self, job: Job) -> list[Job]:
        self.ended.append(job)
        return super().finish(job)

    def place_of(self, job: Job) -> int:
        return sum(job.requested > most for most in QUEUES_S)

    def account(self, now: int, last: int, first: int) -> None:
        for job in [*self.ended, *(job for job in self.running if job.predicted_end > now)]:
            seconds = min(now, job.end) - max(job.start, last)
            self.usage[job.user] = self.usage.get(job.user, 0.0) + max(seconds, 0) * job.procs
        self.ended = []
        halvings = (now - first) // HALF_LIFE_S - (last - first) // HALF_LIFE_S
        self.usage = {user: used * 0.5**halvings for user, used in self.usage.items()}

    def chosen(self, now: int, queue: list[Job], rank: Callable) -> list[Job]:
        first = queue[0].first
        last = first if self.accounted is None else self.accounted
        self.account(now, last, first)
        self.accounted = now
        kept = [job for job in self.promised if job in queue]
        order = sorted(kept, key=lambda job: (self.promised[job], job.arrival))
        order += sorted(
            (job for job in queue if job not in kept),
            key=lambda job: (self.place_of(job), int(self.usage.get(job.user, 0.0)), job.arrival),
        )
        stays, started, self.promised = self.stays(now), [], {}
        for job in order:
            place = seat(self.site, stays, self.asks[job.index], now, job.fit_s)
            if place is None or place.start == FOREVER:
                continue
            stays.append(place)
            if place.start == now:
                started.append(job)
                self.places[job.index] = place
            elif self.rule.reservations == "kept":
                self.promised[job] = place.start
        return started
