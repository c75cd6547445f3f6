"""The methods of registered models: they answer submissions, and are written to files.

To add a method, add one class here and one line in :mod:`models.registry.candidates`. ``lightgbm`` has boosted trees,
``quantile`` a forest; both know the features that they read. The forest's kernels are those of the simulator
(:mod:`models.runtime.quantile_forest`): trees are learned once, leaves and calibrated levels are updated every night.
The file is packed unchanged into registered models.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from features.jit import njit
from features.jobs.like_jobs import ALIKE, COMMON, PER_LEVEL, UNKNOWN
from models.runtime.levels import UPPER
from models.runtime.memory import Memory
from models.runtime.quantile_forest import (
    BINS,
    ENDS,
    LEVEL,
    POINT_SHARES,
    REACH,
    SHARES,
    STEP,
    beyond,
    distribute,
    mass_at,
    thresholds_at,
)
from models.runtime.quantile_forest import LEVELS as LEVEL_COUNT
from models.trees import corrected

from .snapshot import GROUPS, Columns

TREES_FILE = "trees.npz"


@dataclass(frozen=True)
class Trees:
    """Boosted trees, which correct the logarithm of a first guess.

    That is the last runtime of the most similar jobs.

    ``columns`` are the features that they read. ``nodes`` int64 [trees, leaves, 3] (feature, child if it is at most the
    threshold, other child; child -1 is leaf 0) and ``thresholds`` and ``values`` float64 [trees, leaves] are as in
    ``models.trees``. There are no trees before enough jobs have ended.
    """

    columns: tuple[str, ...]
    nodes: np.ndarray
    thresholds: np.ndarray
    values: np.ndarray

    def predict(self, inputs: np.ndarray, requested: np.ndarray) -> np.ndarray:
        """Return predictions from ``inputs`` [jobs, columns], float64 [jobs].

        They are whole seconds in 1..request.
        """
        seconds, links = np.empty(len(inputs)), self.nodes.reshape(-1, 3)
        learned = np.concatenate((self.thresholds.ravel(), self.values.ravel()))
        request_s = np.array(requested, np.float64)  # a column of a table is read-only, and would be compiled for apart
        _predict(seconds, inputs, request_s, links, learned, *self.values.shape)
        return seconds

    def write(self, directory: Path) -> None:
        """Write the file that :meth:`read` reads."""
        np.savez_compressed(
            directory / TREES_FILE,
            columns=np.array(self.columns),
            nodes=self.nodes,
            thresholds=self.thresholds,
            values=self.values,
        )

    @classmethod
    def read(cls, directory: Path) -> Trees:
        """Read the file that :meth:`write` wrote; OSError for a missing one."""
        with np.load(directory / TREES_FILE) as learned:
            return cls(tuple(learned["columns"].tolist()), learned["nodes"], learned["thresholds"], learned["values"])


@njit
def _predict(seconds, inputs, requested, links, learned, trees, leaves):
    for i in range(len(inputs)):
        x = inputs[i]
        seconds[i] = corrected(x, x[len(x) - COMMON + ALIKE], requested[i], links, learned, trees, leaves)


FOREST_FILE, LEAVES_FILE = "forest.npz", "leaves.npz"
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

    ``columns`` are the features that it reads. ``links`` int64 [trees x leaves, 3], ``leaves`` float32 [trees x leaves,
    LEAF] and ``model`` float64 are as in the kernels' ``Memory``; of ``model`` the scratch and what is behind it are
    left out.
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
        return tuple(self.model[LEVEL : LEVEL + int(self.model[LEVEL_COUNT])].tolist())

    def predict(self, inputs: np.ndarray, submitted: SubmissionColumns) -> tuple[np.ndarray, np.ndarray]:
        """Return the most accurate points [jobs] and the quantiles of ``levels`` [jobs, levels].

        Float64, whole seconds in 1..request, from ``inputs`` [jobs, columns]. Jobs without like jobs are answered as
        all jobs.
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
        np.savez_compressed(directory / FOREST_FILE, links=self.links, thresholds=thresholds, columns=columns, plan=plan)
        counts = self.leaves.astype(np.min_scalar_type(int(self.leaves.max(initial=0))))
        np.savez_compressed(directory / LEAVES_FILE, counts=counts, model=self.model[:first], at_s=np.int64(self.at_s))

    @classmethod
    def read(cls, directory: Path) -> Forest:
        """Read the files that :meth:`write` wrote; OSError for a missing one."""
        with np.load(directory / FOREST_FILE) as learned, np.load(directory / LEAVES_FILE) as dated:
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

    ``wanted`` are their levels. ``quantiles`` [jobs, levels] are those of whole runtimes at ``levels``. Whole seconds
    in 1..request; a job that has reached its request gets the request at every level.
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


PREDICTED = "predicted_s"
LEVELS = {f"predicted_{100 * level:02.0f}_s": level for level in (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95)}
"""Levels of the returned quantiles, by column. A level is the share of jobs that run at most as long."""
DATED = (LEAVES_FILE, GROUPS)
"""Files that change every night without training, beside the users' histories."""


class Method:
    """A trained method. ``outputs`` names its answers, ``predicted_s`` first.

    All are seconds in 1..request. ``optional`` are columns of a submission that help if present. ``state`` is what it
    has learned, None for a fixed formula. It reads ``columns`` of the table ``runtime_features``.
    """

    name: str
    outputs: tuple[str, ...] = (PREDICTED,)
    optional: tuple[str, ...] = ()
    state: Any = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the features that it reads."""
        raise NotImplementedError

    @property
    def levels(self) -> tuple[float, ...]:
        """Return the levels of :meth:`predict_quantiles`, ascending in (0, 1)."""
        return ()

    def predict_quantiles(self, features: Columns) -> tuple[np.ndarray, np.ndarray]:
        """Return ``predicted_s`` [jobs] and quantiles [jobs, levels], float64."""
        point = self.predict(features)[PREDICTED]
        return point, np.empty((len(point), 0))

    def predict(self, features: Columns) -> dict[str, np.ndarray]:
        """Return answers by name, float64 [jobs].

        ``features`` are those of the table ``runtime_features``, of its rows or from a snapshot
        (``Snapshot.features``): arrays by name, or a table.
        """
        raise NotImplementedError

    def write(self, directory: Path) -> None:
        """Write the trained state to files in ``directory``; a fixed formula writes none."""

    @classmethod
    def read(cls, directory: Path) -> Method:
        """Read what :meth:`write` wrote; OSError for a missing file."""
        return cls()


def matrix(features: Columns, columns: tuple[str, ...]) -> np.ndarray:
    """Return ``columns`` as learners read them, float64 [jobs, columns].

    Missing values are ``UNKNOWN``.
    """
    inputs = np.column_stack([np.asarray(features[name], np.float64) for name in columns])
    return np.where(np.isnan(inputs), UNKNOWN, inputs)


class Requested(Method):
    """The requested time."""

    name = "requested"
    columns = ("requested_s",)

    def predict(self, features: Columns) -> dict[str, np.ndarray]:
        return {PREDICTED: np.asarray(features["requested_s"], np.float64)}


class Last2(Method):
    """The mean of the user's last two ended runtimes, rounded down, at most the request.

    Tsafrir, Etsion & Feitelson 2007.
    """

    name = "last2"
    columns = ("requested_s", "mean_last2_runtime_s")

    def predict(self, features: Columns) -> dict[str, np.ndarray]:
        requested, last2 = (np.asarray(features[name], np.float64) for name in self.columns)
        return {PREDICTED: np.clip(np.where(np.isnan(last2), requested, np.floor(last2)), 1.0, requested)}


class _Learned(Method):
    """A method with its own state, of type ``kept``."""

    optional = ("group", "executable")
    kept: type[Trees | Forest]

    def __init__(self, state: Any) -> None:
        self.state = state

    @property
    def columns(self) -> tuple[str, ...]:
        return self.state.columns

    def write(self, directory: Path) -> None:
        self.state.write(directory)

    @classmethod
    def read(cls, directory: Path) -> Method:
        return cls(cls.kept.read(directory))


class LightGBM(_Learned):
    """Boosted trees (:class:`Trees`): the simulator's ``lightgbm``."""

    name = "lightgbm"
    kept = Trees

    def predict(self, features: Columns) -> dict[str, np.ndarray]:
        requested = np.asarray(features["requested_s"], np.float64)
        return {PREDICTED: self.state.predict(matrix(features, self.columns), requested)}


class Quantile(_Learned):
    """The distribution of runtimes (:class:`Forest`): its most accurate point, and quantiles.

    Its name is the simulator's name for that point; there ``quantile`` alone is the median.
    """

    name = "quantile(order=accuracy)"
    outputs = (PREDICTED, *LEVELS)
    kept = Forest

    @property
    def levels(self) -> tuple[float, ...]:
        return self.state.levels

    def predict_quantiles(self, features: Columns) -> tuple[np.ndarray, np.ndarray]:
        submitted = SubmissionColumns(*(np.asarray(features[name], np.float64) for name in ("requested_s", "procs")))
        return self.state.predict(matrix(features, self.columns), submitted)

    def predict(self, features: Columns) -> dict[str, np.ndarray]:
        point, quantiles = self.predict_quantiles(features)
        return {PREDICTED: point, **{name: quantiles[:, self.levels.index(level)] for name, level in LEVELS.items()}}


METHODS: dict[str, type[Method]] = {method.name: method for method in (Requested, Last2, LightGBM, Quantile)}
"""The methods by name, the simplest first."""
