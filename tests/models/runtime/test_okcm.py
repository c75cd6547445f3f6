"""OKCM compiled into the simulator: as in plain Python, with the features of its table, as worked out by hand, blind to the future."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from sim import simulate
from tests.models.runtime.test_knn import KnnByHand
from tests.support.walls import Wall, own
from tests.support.workloads import Workload, crowd

DAY_S, WEEK_S, MONDAY_S = 86_400, 7 * 86_400, 4 * 86_400
COUNT = 15


class Regression:
    """Weights, largest magnitudes, sums of squared gradients, normalised squares and examples so far, in the paper's letters."""

    def __init__(self, delta: float, eta: float, lambda_: float) -> None:
        self.delta, self.eta, self.lambda_ = delta, eta, lambda_
        self.w, self.s, self.G, self.N, self.t = [0.0] * COUNT, [1e-9] * COUNT, [1e-9] * COUNT, 1e-9, 0

    def predict(self, x: list[float], total: float = 0.0) -> float:
        for w, s, feature in zip(self.w, self.s, x, strict=True):
            total += w * (s / max(s, abs(feature))) * feature
        return total

    def learn(self, x: list[float], runtime: float) -> None:
        predicted, norm = 0.0, 0.0
        for i in range(COUNT):
            if abs(x[i]) > self.s[i]:
                self.w[i] *= self.s[i] / abs(x[i])
                self.s[i] = abs(x[i])
            norm += x[i] * x[i] / (self.s[i] * self.s[i])
            predicted += self.w[i] * x[i]
        self.t += 1
        self.N += norm
        error = predicted - runtime
        slope = error if abs(error) <= self.delta else math.copysign(self.delta, error)
        for i in range(COUNT):
            g = slope * x[i] + 2.0 * self.lambda_ * self.w[i]
            self.G[i] += g * g
            self.w[i] -= self.eta * math.sqrt(self.t / self.N) * g / (self.s[i] * math.sqrt(self.G[i]))


@dataclass(eq=False)
class OkcmByHand:
    """The oracle: everything from the list of the user's ended jobs each time anew."""

    delta: float = 300.0
    eta: float = 1000.0
    lambda_: float = 0.0
    k: int = 1
    switch: int = 25
    weights: str = "user"
    base: str = "zero"
    name: str = "okcm-by-hand"
    point: bool = True
    clock: Wall = own
    allocated: list[int] = field(default_factory=list)

    def label(self) -> str:
        numbers = f"delta={self.delta!r},eta={self.eta!r},lambda={self.lambda_!r},k={self.k},switch={self.switch}"
        return f"okcm({numbers},weights={self.weights},base={self.base})"

    def begin(self, jobs: pd.DataFrame) -> None:
        self.few = KnnByHand(self.k, 10**9, clock=self.clock)
        self.few.begin(jobs)
        self.allocated = jobs["allocated_procs"].fillna(jobs["procs"]).tolist()
        self.learners: dict[str | None, Regression] = {}
        self.last_end: dict[str | None, int] = {}
        self.x: dict[int, list[float]] = {}

    def ended_jobs(self, job: int) -> list[int]:
        return self.few.ended_jobs.get(self.few.user[job], [])

    def learner(self, job: int) -> Regression:
        owner = self.few.user[job] if self.weights == "user" else None
        return self.learners.setdefault(owner, Regression(self.delta, self.eta, self.lambda_))

    def added_to(self, job: int) -> float:
        return self.x[job][2] if self.base == "last" else 0.0

    def submitted(self, job: int, now: int) -> None:
        self.few.submitted(job, now)
        self.x[job] = self.features(job, now)

    def features(self, job: int, now: int) -> list[float]:
        few, ended = self.few, self.ended_jobs(job)
        procs, requested = few.procs[job], few.requested[job]
        runtimes = [few.runtime[one] for one in ended]
        last = runtimes[:-4:-1]

        def mean(values: list[int], otherwise: float) -> float:
            return sum(values) / len(values) if values else otherwise

        first, second, third = [*last, requested, requested, requested][:3]
        mean_procs = mean([few.procs[one] for one in ended], procs)
        x = [procs, requested, first, second, mean(last[:2], requested), third, mean(last, requested), sum(runtimes)]
        x += [mean(runtimes, requested), mean_procs, mean([self.allocated[one] for one in ended], procs), procs / mean_procs]
        second = self.clock(now)
        x += [math.sin(2 * math.pi * ((second - MONDAY_S) % WEEK_S) / WEEK_S), math.sin(2 * math.pi * (second % DAY_S) / DAY_S)]
        x.append(now - self.last_end[few.user[job]] if ended else 0)
        return [float(value) for value in x]

    def started(self, job: int, now: int) -> None: ...

    def ended(self, job: int, now: int) -> None:
        if self.few.user[job] is not None:
            self.learner(job).learn(self.x[job], self.few.runtime[job] - self.added_to(job))
            self.few.ended(job, now)
            self.last_end[self.few.user[job]] = now

    def estimate(self, question: int, job: int, now: int, elapsed: int) -> float:
        if len(self.ended_jobs(job)) <= self.switch or not self.ended_jobs(job):
            return self.few.estimate(question, job, now, elapsed)
        return round(self.learner(job).predict(self.x[job], self.added_to(job)))


def test_with_allocated_processors_as_in_plain_python() -> None:
    load = crowd(np.random.default_rng(5), size=150, longest_s=7200)
    table = load.table()
    rng = np.random.default_rng(3)
    allocated = pd.Series(rng.integers(1, 200, len(table))).astype("Int64").mask(rng.random(len(table)) < 0.3)
    outcomes = []
    for jobs in (table, table.assign(allocated_procs=allocated.to_numpy())):
        oracle = OkcmByHand(switch=3)
        kernel, expected = (simulate(jobs, procs=load.machine, predictor=one).jobs for one in (oracle.label(), oracle))
        assert kernel["predicted_s"].tolist() == expected["predicted_s"].tolist()
        outcomes.append(kernel["predicted_s"].tolist())
    assert outcomes[0] != outcomes[1]


def test_the_features_are_those_of_the_paper_s_table() -> None:
    """Table 1 of Li, Zhang et al., of one user's jobs at 06:00 on a Monday; the kernel's predictions are equal to this oracle's.

    "Historical" jobs have ended. The table states one fill: x2 is the request of a first job. Where it is silent, x3 and x5 are the request
    too, means are of the runtimes that there are, x9 and x10 the job's own processors, sums and intervals 0.
    """
    load = Workload(9, [0, 60, 100, 130, 700], [100, 50, 500, 30, 10], [4, 2, 6, 9, 3], [600, 300, 900, 60, 20], ["a"] * 5, [1] * 5)
    oracle = OkcmByHand(clock=lambda second: MONDAY_S + 21_600)
    oracle.begin(load.table().assign(allocated_procs=pd.array([8, None, 6, 9, 3], "Int64")))
    submitted = [(now, "submitted", job) for job, now in enumerate(load.submit)]
    for now, what, job in sorted([*submitted, (100, "ended", 0), (120, "ended", 1), (610, "ended", 2)]):
        getattr(oracle, what)(job, now)
    expected = [
        # x0  x1  x2   x3   x4   x5   x6  x7   x8  x9 x10 x11 then x14
        ([4, 600, 600, 600, 600, 600, 600, 0, 600, 4, 4, 1], 0),
        ([2, 300, 300, 300, 300, 300, 300, 0, 300, 2, 2, 1], 0),
        ([6, 900, 100, 900, 100, 900, 100, 100, 100, 4, 8, 1.5], 0),
        ([9, 60, 50, 100, 75, 60, 75, 150, 75, 3, 5, 3], 10),
        ([3, 20, 500, 50, 275, 100, 650 / 3, 650, 650 / 3, 4, 16 / 3, 0.75], 90),
    ]
    sines = [math.sin(math.pi / 14), 1.0]
    np.testing.assert_allclose(
        [oracle.x[job] for job in range(5)], [[*first, *sines, last] for first, last in expected], atol=1e-12
    )
