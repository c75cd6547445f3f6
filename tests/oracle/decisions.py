"""The oracle with start decisions (Nichols et al., algorithm 2).

A job that a pass would start may be skipped (rules of :mod:`sim.kernel.outside`). A skipped job counts as absent for the
rest of that pass: what the pass decides then is what the algorithm decides of the others alone, from the beginning, since it is
asked in the order in which it starts jobs. Plain Python like the oracle itself, and as slow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from zlib import crc32

from tests.oracle.scheduler import Job, Simulation
from tests.support.workloads import Workload, policy_of, source_of

WAKE_S = 30  # after a pass that skipped a job, if nothing else causes one


@dataclass(frozen=True)
class Answer:
    """What was asked, and when, and the answer."""

    job: int
    now_s: int
    skipped: bool


@dataclass
class Whim:
    """A start decision that depends on seed, job and time alone.

    It skips so many in a hundred, and remembers its answers.
    """

    seed: int = 0
    percent: int = 50
    name: str = "whim"
    answers: list[Answer] = field(default_factory=list)

    def skip(self, row: int, now_s: int) -> bool:
        skipped = crc32(repr((self.seed, int(row), int(now_s))).encode()) % 100 < self.percent
        self.answers.append(Answer(int(row), int(now_s), skipped))
        return skipped


@dataclass
class Deciding(Simulation):
    """A simulation with start decisions; a job is skipped ``most`` times at most."""

    decision: Any = None
    most: int = 10
    skips: dict[int, int] = field(default_factory=dict)  # by job

    def schedule(self, now: int) -> list[Job]:
        self.wake = None  # whatever this pass was for, it is one
        return super().schedule(now)

    def chosen(self, now: int, queue: list[Job], rank: Callable) -> list[Job]:
        reserved = {job: job.planned for job in queue}  # what a trial plan says of a start is forgotten
        skipped: list[Job] = []
        asked: set[Job] = set()
        while True:
            for job in queue:
                job.planned = reserved[job]
            started = super().chosen(now, [job for job in queue if job not in skipped], rank)
            doubtful = (job for job in started if job not in asked and self.skips.get(job.index, 0) < self.most)
            job = next(doubtful, None)
            if job is None:
                break
            asked.add(job)
            if self.decision.skip(job.index, now):
                skipped.append(job)
        for job in skipped:
            self.skips[job.index] = self.skips.get(job.index, 0) + 1
            if self.algorithm == "Conservative":
                job.planned = now  # it could have started now, and no job may take a better place
        if skipped:
            self.wake = now + WAKE_S
        return started


def decided(load: Workload, scheduler: str, decision: Any, *, skips: int = 10, predictor: Any = None, **policy: Any) -> list[Job]:
    """Return the jobs as the oracle starts them when ``decision`` is asked.

    ``scheduler`` is its full name.
    """
    simulation = partial(Deciding, decision=decision, most=skips)
    return load.jobs_by_oracle(**policy_of(scheduler) | source_of(load, predictor) | policy, simulation=simulation)
