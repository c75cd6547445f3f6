"""The oracle of ``Harm``: the rule of :mod:`sim.kernel.harm` read aloud, in plain Python.

Nothing is kept from one decision to the next but what the rule itself remembers. Its constants are its own; given are
the numbers by which runtimes are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from statistics import fmean
from typing import Any

from sim.schedulers.harm import Harm, uniforms
from tests.oracle.clusters import FOREVER, Ask, Site, Stay, place_at, seat
from tests.oracle.decisions import Deciding
from tests.oracle.scheduler import Job
from tests.support.workloads import Workload, source_of

CONSTANTS = {
    "scenarios": 16,
    "width_credit": 0.2,
    "fairness": 2.0,
    "lateness": 4.0,
    "urgency": 0.5,
    "order_urgency": 2.0,
    "packing": 1.0,
    "short": 0.05,
    "short_level": 0.9,
}
"""The rule's constants where none are given, of the oracle's own."""
Ends = dict[Job, int]
"""Jobs on the machine, and until when."""
LEVELS = [number / 40 for number in range(1, 40)]


@dataclass
class Harming(Deciding):
    """A machine under the rule; ``uniforms`` by job and scenario.

    A predictor with a method ``quantiles`` tells distributions, any other one a number.
    """

    rule: Harm = field(default_factory=partial(Harm, **CONSTANTS))
    uniforms: Any = None
    runtimes: dict[Job, list[int]] = field(default_factory=dict)
    place: dict[Job, float] = field(default_factory=dict)  # in the queue
    ended: list[Job] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.order = lambda job, now: self.place[job]

    # Scales

    def z(self) -> float:
        """P2SF so far."""
        above = sum(job.procs * (self.response(job) ** 4 - self.wait(job) ** 4) for job in self.ended)
        below = sum(job.procs * (self.response(job) ** 3 - self.wait(job) ** 3) for job in self.ended)
        return 0.75 * above / below if self.ended else 0

    def rate(self) -> float:
        if not self.ended:
            return 0
        area = sum(job.procs * job.runtime * self.response(job) for job in self.ended)
        return area / sum(max(1, self.response(job) / max(job.runtime, 10)) for job in self.ended)

    def wait(self, job: Job) -> int:
        return job.start - job.submit

    def response(self, job: Job) -> int:
        return job.end - job.submit

    # Distributions

    def submit(self, job: Job) -> None:
        super().submit(job)
        self.tell(job, job.submit, 0)
        job.estimate = job.requested  # what EASY by requested times plans with; it never expires
        self.place[job] = job.submit - self.rule.width_credit * self.z() * (job.procs / self.machine) ** 0.5

    def tell(self, job: Job, now: int, elapsed: int) -> None:
        self.runtimes[job] = [job.end_s]
        if hasattr(self.predictor, "quantiles"):
            asked = sorted(round(seconds) for seconds in self.predictor.quantiles(job.index, now, elapsed, LEVELS))
            longer = sorted(seconds if seconds > elapsed else job.requested if elapsed else 1 for seconds in asked)
            self.runtimes[job] = [min(seconds, job.requested) for seconds in longer]

    def renew(self, now: int) -> list[Job]:
        """Ask again about jobs that have outlived all that was told of them, if there is more to be told."""
        for job in self.running:
            if len(self.runtimes[job]) > 1 and now - job.start >= self.runtimes[job][-1] and job.end > now:
                self.tell(job, now, now - job.start)
        return []

    def draws(self, job: Job, elapsed: int = 0) -> list[int]:
        """The job's runtime in each scenario, of those that it has not outlived."""
        runtimes = self.runtimes[job]
        outlived = sum(seconds <= elapsed for seconds in runtimes)
        if outlived == len(runtimes):
            return [job.requested] * self.rule.scenarios
        begin = (outlived + 0.5) / (len(runtimes) + 1) if outlived else 0
        shares = [begin + uniform * (1 - begin) for uniform in self.uniforms[job.index]]
        nearest = [int(share * (len(runtimes) + 1) + 0.5) - 1 for share in shares]
        return [runtimes[min(max(level, 0), len(runtimes) - 1)] for level in nearest]

    def latest(self, job: Job) -> int:
        """The quantile nearest to ``short_level``."""
        runtimes = self.runtimes[job]
        return (
            runtimes[0]
            if len(runtimes) == 1
            else min(zip(LEVELS, runtimes, strict=True), key=lambda at: abs(at[0] - self.rule.short_level))[1]
        )

    # Decisions

    def finish(self, job: Job) -> list[Job]:
        self.ended.append(job)
        return super().finish(job)

    def chosen(self, now: int, queue: list[Job], rank: Callable) -> list[Job]:
        started: list[Job] = []
        skipped: list[Job] = []
        while waiting := [job for job in queue if job not in started + skipped]:
            job = self.next(now, waiting, started)
            if job is None:
                break
            asked = self.decision is not None and self.skips.get(job.index, 0) < self.most
            if asked and self.decision.skip(job.index, now):
                self.skips[job.index] = self.skips.get(job.index, 0) + 1
                self.wake = now + 30
                skipped.append(job)
            else:
                started.append(job)
        return started

    def next(self, now: int, waiting: list[Job], started: list[Job]) -> Job | None:
        """Which of ``waiting`` starts next."""
        rule, machine, head = self.rule, self.machine, waiting[0]
        running = [(job, job.start) for job in self.running if job.predicted_end > now] + [(job, now) for job in started]
        ends: list[Ends] = [{} for _ in range(rule.scenarios)]
        for job, start in running:
            for scenario, seconds in zip(ends, self.draws(job, now - start), strict=True):
                scenario[job] = start + seconds
        by_request = {job: start + job.requested for job, start in running}
        shadow = self.begins(now, by_request, head)
        reached = [self.begins(now, scenario, head) for scenario in ends]
        wait = fmean(reached) - now
        headed = [start + seconds for start, seconds in zip(reached, self.draws(head), strict=True)]

        mean = {job: fmean(self.draws(job)) for job in waiting}
        backlog = sum(job.procs * mean[job] for job in waiting) / machine
        weight = {job: job.procs * mean[job] * (now - job.submit) ** 4 for job in waiting}
        total = sum(weight.values())
        usual = total / (backlog * machine)  # waited^4, weighted by work
        price = {job: job.procs * (now - job.submit) ** 4 / usual if total else 0 for job in waiting}
        share = {job: weight[job] / total if total else 0 for job in waiting}
        urgent = {job: fmean(1 / max(p, 10) for p in self.draws(job)) * self.rate() / backlog for job in waiting}

        fits = shadow == now
        candidates = [job for job in waiting[1:] if self.begins(now, by_request, job) == now]
        starving = self.starvation_s is not None and now - head.submit > self.starvation_s
        if starving and fits:
            candidates = []
        if fits:
            candidates = [job for job in candidates if self.latest(job) <= rule.short * self.z()]

        def score(job: Job) -> float:
            return rule.order_urgency * urgent[job] + price[job]

        for job in sorted(candidates, key=score, reverse=True):
            beside = [self.begins_beside(now, scenario, head, start, job) for scenario, start in zip(ends, reached, strict=True)]
            else_waits = fmean(min(pair) for pair in zip(beside, headed, strict=True)) - now
            worth = rule.lateness * machine * share[job] + rule.urgency * urgent[job]
            gain = job.procs * min(mean[job], wait) + worth * else_waits
            for _ in self.try_places(now, by_request, job):
                if starving and self.begins(now, by_request | {job: now + job.requested}, head) > shadow:
                    continue
                later = [
                    self.begins(now, scenario | {job: now + seconds}, head)
                    for scenario, seconds in zip(ends, self.draws(job), strict=True)
                ]
                delay = fmean(new - old for new, old in zip(later, reached, strict=True))
                if delay * (rule.packing * head.procs + rule.fairness * machine * share[head]) <= gain:
                    return job
        return head if fits and next(self.try_places(now, by_request, head)) is None else None

    # The machine: one pool of processors

    def begins(self, now: int, ends: Ends, job: Job, beside: int = 0) -> float:
        """When ``job`` could start, if those in ``ends`` are there until then, and ``beside`` processors are taken."""
        needed = job.procs + beside - self.machine
        moments = [now, *(end for end in ends.values() if end > now)]
        return min((time for time in moments if needed + sum(n.procs for n, end in ends.items() if end > time) <= 0), default=inf)

    def begins_beside(self, now: int, ends: Ends, head: Job, start: float, job: Job) -> float:
        """When ``job`` could start beside ``head``, which can at ``start``."""
        return self.begins(now, ends, job, beside=head.procs)

    def try_places(self, now: int, ends: Ends, job: Job) -> Iterator[None]:
        """Let ``job``, which fits, take each place that it can, one after the other."""
        yield None


@dataclass
class HarmingOnClusters(Harming):
    """The rule on clusters of nodes; ``places`` holds where each job that has started is, by its number."""

    site: Site = field(default_factory=lambda: Site([]))
    asks: Sequence[Ask] = ()
    places: dict[int, Stay] = field(default_factory=dict)

    def nothing_fits(self, now: int) -> bool:
        return not self.waiting

    def stays(self, ends: Ends) -> list[Stay]:
        return [replace(self.places[job.index], end=end) for job, end in ends.items()]

    def begins(self, now: int, ends: Ends, job: Job, beside: Any = None) -> float:
        stays = self.stays(ends) + ([beside] if beside else [])
        moments = sorted({now, *(end for end in ends.values() if end > now)})
        return next((time for time in moments if seat(self.site, stays, self.asks[job.index], time, 1, only_at_once=True)), inf)

    def begins_beside(self, now: int, ends: Ends, head: Job, start: float, job: Job) -> float:
        """The head's nodes are those that it takes at ``start``."""
        nodes = seat(self.site, self.stays(ends), self.asks[head.index], int(start), 1, only_at_once=True)
        assert nodes is not None
        return self.begins(now, ends, job, beside=replace(nodes, start=now, end=FOREVER))

    def try_places(self, now: int, ends: Ends, job: Job) -> Iterator[None]:
        stays = self.stays(ends)
        for cluster in range(len(self.site.clusters)):
            ask = self.asks[job.index]
            nodes = place_at(self.site, stays, ask, cluster, now, 1)
            if nodes is not None:
                self.places[job.index] = Stay(ask, now, FOREVER, cluster, nodes)
                yield None


def starts(
    load: Workload,
    rule: Harm | None = None,
    predictor: Any = None,
    *,
    seed: int = 0,
    on: tuple[Site, Sequence[Ask]] | None = None,
    **policy: Any,
) -> list[int]:
    """Return the starts by the oracle; ``decision`` and ``skips`` among ``policy`` as in :mod:`tests.oracle.decisions`.

    ``on`` a site of clusters, with what each job asks of it; None: on one pool.
    """
    rule = rule or Harm(**CONSTANTS)
    deciding = {"decision": policy.pop("decision", None), "most": policy.pop("skips", 10)}
    machine = Harming if on is None else partial(HarmingOnClusters, site=on[0], asks=on[1])
    simulation = partial(machine, rule=rule, uniforms=uniforms(len(load.submit), rule.scenarios, seed).tolist(), **deciding)
    return [job.start for job in load.jobs_by_oracle(**source_of(load, predictor), **policy, simulation=simulation)]
