"""``quantile`` in a registered model: a forest, and the features that it reads.

Its kernels are those of the simulator (:mod:`models.runtime.quantile_forest`). Trees are learned once; leaves and calibrated levels
are updated every night. Packed into registered models.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from features.jit import njit
from features.jobs.like_jobs import PER_LEVEL
from models.runtime.levels import UPPER
from models.runtime.memory import Memory
from models.runtime.quantile_forest import (
    BINS,
    LEVEL,
    LEVELS,
    POINT_SHARES,
    REACH,
    SHARES,
    beyond,
    distribute,
    mass_at,
    thresholds_at,
)
from models.runtime.ratios import ENDS, STEP

TREES, LEAVES = "forest.npz", "leaves.npz"
"""Files of what is learned once, and of the nightly state."""
PLAN = {
    "step": STEP,
    "bins": BINS,
    "reach": REACH,
    "ends": ENDS.tolist(),
    "shares": [*SHARES, *POINT_SHARES],
    "upper": UPPER,
}
"""What the arrays of a forest rest on: a forest of another plan can only be trained anew."""


class SubmissionColumns(NamedTuple):
    """The kernels' columns of submissions, float64 [jobs]."""

    requested: np.ndarray
    procs: np.ndarray


@dataclass(frozen=True)
class Forest:
    """A quantile regression forest as of ``at_s`` (the trace's second).

    ``columns`` are the features that it reads. ``links`` int64 [trees x leaves, 3], ``leaves`` float32 [trees x leaves, LEAF] and
    ``model`` float64 are as in the kernels' ``Memory``; of ``model`` the scratch and what is behind it are left out.
    """

    columns: tuple[str, ...]
    at_s: int
    links: np.ndarray
    leaves: np.ndarray
    model: np.ndarray
    plan: str = json.dumps(PLAN)

    @property
    def levels(self) -> tuple[float, ...]:
        """Return the levels of the quantiles."""
        return tuple(self.model[LEVEL : LEVEL + int(self.model[LEVELS])].tolist())

    def predict(self, inputs: np.ndarray, submitted: SubmissionColumns) -> tuple[np.ndarray, np.ndarray]:
        """Return the most accurate points [jobs] and the quantiles of ``levels`` [jobs, levels].

        Float64, whole seconds in 1..request, from ``inputs`` [jobs, columns]. Jobs without like jobs are answered as all jobs.
        """
        width, levels = len(self.columns), len(self.levels)
        memory = self.memory(np.empty((len(inputs), width + levels + 1)))
        memory.jobs[:, :width] = inputs
        # columns of tables are read-only or strided, and each kind would be compiled apart
        _distribute(memory, SubmissionColumns(np.array(submitted.requested, np.float64), np.array(submitted.procs, np.float64)))
        point = np.minimum(memory.jobs[:, width + levels], submitted.requested)
        return np.maximum(point, 1.0), memory.jobs[:, width : width + levels]

    def memory(self, jobs: np.ndarray) -> Memory:
        """Return the forest as the kernels' memory, with ``jobs``.

        ``jobs`` is [jobs, features + levels + 1]. Links and leaves are shared.
        """
        model = np.zeros(mass_at(len(self.levels)) + len(PLAN["ends"]) + self.leaves.shape[1])
        model[: len(self.model)] = self.model
        keys = np.empty((0, len(self.columns) // PER_LEVEL), np.int64)
        return Memory(jobs=jobs, links=self.links, leaves=self.leaves, model=model, keys=keys)

    def write(self, directory: Path) -> None:
        """Write the files that :meth:`read` reads."""
        first, last = thresholds_at(len(self.levels)), mass_at(len(self.levels))
        thresholds, columns, plan = self.model[first:last], np.array(self.columns), np.array(self.plan)
        np.savez_compressed(directory / TREES, links=self.links, thresholds=thresholds, columns=columns, plan=plan)
        counts = self.leaves.astype(np.min_scalar_type(int(self.leaves.max(initial=0))))
        np.savez_compressed(directory / LEAVES, counts=counts, model=self.model[:first], at_s=np.int64(self.at_s))

    @classmethod
    def read(cls, directory: Path) -> Forest:
        """Read the files that :meth:`write` wrote; OSError for a missing one."""
        with np.load(directory / TREES) as learned, np.load(directory / LEAVES) as dated:
            columns, plan = tuple(learned["columns"].tolist()), str(learned["plan"])
            model = np.concatenate((dated["model"], learned["thresholds"]))
            return cls(columns, int(dated["at_s"]), learned["links"], dated["counts"].astype(np.float32), model, plan)


@njit
def _distribute(memory, submitted):
    """Write every job's quantiles and point behind its features."""
    for job in range(len(memory.jobs)):
        distribute(memory, job, submitted)


def conditional(
    levels: Sequence[float], quantiles: np.ndarray, requested: np.ndarray, elapsed: np.ndarray, wanted: Sequence[float]
) -> np.ndarray:
    """Return quantiles of runtimes beyond ``elapsed`` seconds, float64 [jobs, wanted].

    ``wanted`` are their levels. ``quantiles`` [jobs, levels] are those of whole runtimes at ``levels``. Whole seconds in 1..request; a job that has reached its
    request gets the request at every level.
    """
    seconds = np.empty((len(quantiles), len(wanted)))
    _beyond(seconds, *(np.array(values, np.float64) for values in (levels, quantiles, requested, elapsed, wanted)))
    return seconds


@njit
def _beyond(seconds, levels, quantiles, requested, elapsed, wanted):
    for job in range(len(seconds)):
        for i in range(len(wanted)):
            seconds[job, i] = requested[job]
            if elapsed[job] < requested[job]:
                exact = beyond(levels, quantiles[job], requested[job], elapsed[job], wanted[i])
                seconds[job, i] = min(max(np.rint(exact), math.floor(elapsed[job]) + 1.0), requested[job])
