"""Common parts of plain-Python predictors retrained each night: features, midnights.

Features come from lists of ended jobs. The learners themselves are beside the tests that compare the compiled ones with them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import numpy as np
import pandas as pd

from tests.support.walls import Wall, next_day, own

DAY_S = 86_400
LEVELS = [
    "user+executable+requested_s+procs",
    "user+requested_s",
    "user+executable",
    "user",
    "requested_s+procs",
    "group",
    "executable",
]


def levels_by_hand(jobs: pd.DataFrame) -> list[str]:
    """Without columns of which nothing is known; each combination once."""
    kept = ["+".join(key for key in level.split("+") if jobs[key].notna().any()) for level in LEVELS]
    return [level for i, level in enumerate(kept) if level and level not in kept[:i]]


class Nightly:
    """A plain-Python predictor of features at submission; ``retrain`` is called at midnights.

    Without more it predicts the last runtime of the most alike jobs of which one has ended, or the request.
    """

    name = "nightly"
    point = True
    clock: Wall = staticmethod(own)

    def begin(self, jobs: pd.DataFrame) -> None:
        self.runtime, self.requested, self.procs = (jobs[name].tolist() for name in ("runtime_s", "requested_s", "procs"))
        levels = levels_by_hand(jobs)
        given = jobs.astype(object).where(jobs.notna(), None).to_dict("records")
        self.alike = [{level: self.key(row, level) for level in levels} for row in given]
        self.past: dict[Any, list[tuple[int, int]]] = defaultdict(list)  # ends and runtimes of jobs that were alike
        self.inputs: dict[int, dict[str, float]] = {}  # features by name, of each job submitted
        self.arrived: list[int] = []
        self.ended_jobs: list[int] = []
        self.nights: list[list[int]] = []
        self.corrections: dict[int, float] = {}  # of the model of the last night
        self.begun = False  # the day that begins at the next midnight: a running job was asked about behind it
        self.midnight = next_day(int(jobs["submit_s"].iloc[0]), self.clock)

    @staticmethod
    def key(row: dict[str, Any], level: str) -> Any:
        """Return what the job has in common with others; None without a known user."""
        values = {key: row[key] for key in level.split("+")}
        nobody = any(values.get(key, "somebody") is None for key in ("user", "group"))
        return None if nobody else (level, *values.values())

    def features(self, job: int, now: int) -> dict[str, float]:
        row, first_guess = {}, None
        for level, key in self.alike[job].items():
            past = self.past[key] if key is not None else []
            runtimes = [runtime for _, runtime in past]
            recent = sorted(runtimes[-16:])
            row[f"{level}:ended"] = math.log(1 + len(past))
            row[f"{level}:last"] = math.log(runtimes[-1]) if runtimes else -1
            row[f"{level}:second_last"] = math.log(runtimes[-2]) if len(runtimes) > 1 else -1
            row[f"{level}:median"] = math.log(recent[len(recent) // 2]) if runtimes else -1
            row[f"{level}:quartile"] = math.log(recent[len(recent) // 4]) if runtimes else -1
            row[f"{level}:third_quartile"] = math.log(recent[3 * len(recent) // 4]) if runtimes else -1
            row[f"{level}:since"] = math.log(1 + now - past[-1][0]) if past else -1
            if runtimes and first_guess is None:
                first_guess = runtimes[-1]
        row["log_request"], row["log_procs"] = math.log(self.requested[job]), math.log(self.procs[job])
        second = self.clock(now)
        row["hour"], row["weekday"] = second % DAY_S / 3600, second // DAY_S % 7
        row["alike"] = math.log(min(first_guess or self.requested[job], self.requested[job]))
        return row

    def pass_midnight(self, now: int) -> None:
        """Before anything of this second, as long as there is still something to be predicted."""
        if now >= self.midnight and len(self.arrived) < len(self.runtime):
            self.begin_day()
            self.midnight, self.begun = next_day(now, self.clock), False

    def begin_day(self) -> None:
        """Once for all midnights since something happened last."""
        if not self.begun:
            self.nights.append(self.ended_jobs.copy())
            self.corrections.clear()
            self.retrain()
        self.begun = True

    def retrain(self) -> None: ...

    def submitted(self, job: int, now: int) -> None:
        self.pass_midnight(now)
        self.arrived.append(job)
        self.inputs[job] = self.features(job, now)

    def started(self, job: int, now: int) -> None: ...

    def ended(self, job: int, now: int) -> None:
        self.pass_midnight(now)
        self.ended_jobs.append(job)
        for key in self.alike[job].values():
            if key is not None:
                self.past[key].append((now, self.runtime[job]))

    def x(self, jobs: list[int]) -> np.ndarray:
        """Their features [jobs, features]."""
        return np.array([list(self.inputs[job].values()) for job in jobs], float)

    def correction_of(self, job: int) -> float:
        """What is added to the logarithm of the first guess."""
        return 0.0

    def estimate(self, question: int, job: int, now: int, elapsed: int) -> float:
        if now >= self.midnight and len(self.arrived) < len(self.runtime):
            self.begin_day()
        if job not in self.corrections:
            self.corrections[job] = self.correction_of(job)
        seconds = self.inputs[job]["alike"] + self.corrections[job]
        return min(max(math.exp(min(seconds, 50.0)), 1.0), self.requested[job])
