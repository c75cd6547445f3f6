"""The nearest neighbours compiled into the simulator: as in plain Python, as worked out by hand, blind to the future."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import pi, sin
from statistics import median

import numpy as np
import pandas as pd

from tests.support.walls import Wall, own
from tests.support.workloads import Workload, by_kernel


@dataclass(eq=False)
class KnnByHand:
    """The oracle: lists of ended jobs by user, told and asked as any predictor outside the kernel. Distances are rounded to nine digits."""

    k: int = 1
    window: int = 25
    name: str = "knn-by-hand"
    point: bool = True
    clock: Wall = own
    ended_jobs: dict[str | None, list[int]] = field(default_factory=dict)

    def label(self) -> str:
        return f"knn(k={self.k},window={self.window})"

    def begin(self, jobs: pd.DataFrame) -> None:
        names = ("submit_s", "runtime_s", "procs", "requested_s")
        self.submit, self.runtime, self.procs, self.requested = (jobs[name].tolist() for name in names)
        self.user: list[str | None] = [None if pd.isna(user) else str(user) for user in jobs["user"]]
        self.ended_jobs = {}

    def submitted(self, job: int, now: int) -> None:
        self.submit[job] = now  # which it is not where it follows another job

    def started(self, job: int, now: int) -> None: ...

    def ended(self, job: int, now: int) -> None:
        if self.user[job] is not None:
            self.ended_jobs.setdefault(self.user[job], []).append(job)

    def place(self, job: int) -> tuple[float, ...]:
        return self.procs[job], self.requested[job], round(sin(2 * pi * (self.clock(self.submit[job]) % 86_400) / 86_400), 9)

    def estimate(self, question: int, job: int, now: int, elapsed: int) -> float:
        past = self.ended_jobs.get(self.user[job], [])[-self.window :]
        if not past:
            return self.requested[job]
        points = np.array([self.place(one) for one in [*past, job]])
        variance = np.var(points, axis=0, ddof=1)
        differ = np.ptp(points, axis=0) > 0
        distance = ((points - points[-1]) ** 2 / np.where(differ, variance, 1.0)).sum(axis=1).round(9)
        nearest = sorted(range(len(past)), key=lambda i: (distance[i], -self.submit[past[i]], -i))
        return round(median(self.runtime[past[i]] for i in nearest[: self.k]))


DAY, MORNING = 86_400, 3 * 3600
"""Jobs a whole number of days apart are at the same time of day."""


def last_prediction(*rows: tuple[int, int, int, int]) -> int:
    """Of one user's jobs, one after the other, given by submission, processors, request and runtime."""
    submit, procs, requested, runtime = (list(column) for column in zip(*rows, strict=True))
    load = Workload(64, submit, runtime, procs, requested, ["ann"] * len(rows), requested)
    return by_kernel(load, predictor="knn(k=1)").predicted[-1]


def test_equally_distant_jobs_go_by_submission() -> None:
    asked = (9 * DAY, 4, 900, 1)
    long_first = [(0, 4, 3 * DAY, 2 * DAY), (DAY, 4, 3 * DAY, 200)]  # the second ends before the first
    assert last_prediction(*long_first, (9 * DAY, 4, 3 * DAY, 1)) == 200
    # two processors less, two seconds more: as far, each being the only one that differs in its way
    assert last_prediction((0, 2, 900, 100), (DAY, 4, 902, 200), asked) == 200
    assert last_prediction((0, 4, 902, 100), (DAY, 2, 900, 200), asked) == 200
    # 03:00 and 09:00 have one sine
    assert last_prediction((MORNING, 4, 900, 100), (DAY + 3 * MORNING, 4, 900, 200), (9 * DAY + MORNING, 4, 900, 1)) == 200
