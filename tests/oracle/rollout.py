"""The oracle of ``Rollout``: the rule of :mod:`sim.choices` read aloud, in plain Python.

The policies that run ahead are oracles too, on copies of the jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean
from typing import Any

from sim.harm import uniforms
from sim.rollout import Rollout
from tests.oracle.clusters import Ask, OnClusters, Site
from tests.oracle.harm import Harming
from tests.oracle.scheduler import SEMANTICS, Job, Simulation
from tests.support.workloads import Workload, policy_of, source_of


@dataclass
class Rolling(Simulation):
    """A machine that goes by one of several policies."""

    rule: Rollout = field(default_factory=Rollout)
    per: str = "per-second"
    choice: int = 0  # when the next is due
    uniforms: Any = None
    runtimes: dict[Job, list[int]] = field(default_factory=dict)
    ended: list[Job] = field(default_factory=list)
    tell, draws = Harming.tell, Harming.draws

    def __post_init__(self) -> None:
        self.go_by(self.rule.policies[0])

    def go_by(self, name: str) -> None:
        for what, value in policy_of(name).items():
            setattr(self, what, value)

    def submit(self, job: Job) -> None:
        super().submit(job)
        if self.rule.plans == "requested":
            job.end_s = job.order_s
        self.tell(job, job.submit, 0)
        if self.rule.plans == "requested":
            job.fit_s = job.end_s = job.estimate = job.requested

    def finish(self, job: Job) -> list[Job]:
        self.ended.append(job)
        return super().finish(job)

    def has_choice(self, now: int) -> bool:
        """Whether some waiting job fits, but not all together."""
        free, needed = self.free(now), [job.procs for job in self.waiting]
        return bool(needed) and min(needed) <= free < sum(needed)

    def another(self) -> Simulation:
        """A machine on which a policy runs ahead."""
        return Simulation(self.machine, "", "", "", self.ahead_correction(), None, 1, self.starvation_s)

    def schedule(self, now: int) -> list[Job]:
        if now >= self.choice and self.has_choice(now):
            self.choice = now + self.rule.every
            self.tell_more(now)
            costs = self.costs(now)
            best = next(name for name in self.rule.policies if costs[name] <= min(costs.values()) + 1e-12)
            self.go_by(best)
        return super().schedule(now)

    def tell_more(self, now: int) -> None:
        """Ask again about jobs that have outlived all that was told of them, if there is more to be told."""
        for job in self.running:
            if job.predicted_end > now and len(self.runtimes[job]) > 1 and now - job.start >= self.runtimes[job][-1]:
                self.tell(job, now, now - job.start)

    def costs(self, now: int) -> dict[str, float]:
        """What is made least, of each policy."""
        running = [job for job in self.running if job.predicted_end > now]
        drawn = {job: self.draws(job, now - job.start if job in running else 0) for job in (*running, *self.waiting)}

        def metrics(name: str, scenario: int) -> tuple[float, float, float]:
            ahead = self.another()
            for what, value in policy_of(name).items():
                setattr(ahead, what, value)
            ahead.expiry, ahead.every = self.expiry, self.every
            copies = {job: copy(job) for job in (*running, *self.waiting)}
            for job, other in copies.items():
                other.runtime = max(drawn[job][scenario], now - job.start + 1 if job in running else 1)
            ahead.running, ahead.waiting = [copies[job] for job in running], [copies[job] for job in self.waiting]
            ahead.schedule(now)
            SEMANTICS[self.per](ahead, [], now)
            done = [*self.ended, *copies.values()]
            slowdowns = [max(1, (job.end - job.submit) / max(job.runtime, 10)) for job in done]
            areas = [(job.procs * job.runtime, job.end - job.submit) for job in done]
            fourth = sum(job.procs * ((job.end - job.submit) ** 4 - (job.start - job.submit) ** 4) for job in done)
            third = sum(job.procs * ((job.end - job.submit) ** 3 - (job.start - job.submit) ** 3) for job in done)
            awf = sum(area * response for area, response in areas) / sum(area for area, _ in areas)
            return fmean(slowdowns), awf, 0.75 * fourth / third

        means = {
            name: [fmean(metric) for metric in zip(*(metrics(name, k) for k in range(self.rule.scenarios)), strict=True)]
            for name in dict.fromkeys(self.rule.policies)
        }
        weights, first = (self.rule.slowdown, self.rule.awf, self.rule.p2sf), means[self.rule.policies[0]]
        return {
            name: sum(weight * metric / other for weight, metric, other in zip(weights, mean, first, strict=True))
            for name, mean in means.items()
        }

    def ahead_correction(self) -> str:
        """A predictor cannot be asked in the midst of a rollout."""
        return "requested" if self.correction.startswith("conditional") else self.correction


@dataclass
class RollingOnClusters(Rolling, OnClusters):
    """The rule on clusters of nodes."""

    def has_choice(self, now: int) -> bool:
        stays, together = self.stays(now), True
        for job in sorted(self.waiting, key=lambda job: job.arrival):
            place = self.at_once(stays, job, now)
            together = together and place is not None
            stays += [place] if place else []
        return not together and any(self.fits_now(job, now) for job in self.waiting)

    def another(self) -> Simulation:
        given = (self.machine, "", "", "", self.ahead_correction(), None, 1, self.starvation_s)
        return OnClusters(*given, site=self.site, asks=self.asks, places=dict(self.places))


def starts(
    load: Workload,
    rule: Rollout,
    predictor: Any = None,
    *,
    seed: int = 0,
    on: tuple[Site, Sequence[Ask]] | None = None,
    **policy: Any,
) -> list[int]:
    """Return the starts by the oracle.

    ``on`` a site of clusters, with what each job asks of it; None: on one pool.
    """
    per = policy.get("semantics", "per-second").partition("(")[0]
    rolling = Rolling if on is None else partial(RollingOnClusters, site=on[0], asks=on[1])
    simulation: Callable = partial(rolling, rule=rule, per=per, uniforms=uniforms(len(load.submit), rule.scenarios, seed).tolist())
    return [job.start for job in load.jobs_by_oracle(**source_of(load, predictor), **policy, simulation=simulation)]
