"""The methods of registered models: from a submission to answers, to and from files.

A further method is one more class here (its own code in a file of its own, packed too) and one more line in
``models.registry.candidates``. Packed unchanged into registered models.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import numpy as np

from .boosting import NIGHT, Trees
from .forest import LEAVES, Forest
from .groups import GROUPS, Columns

PREDICTED = "predicted_s"
LEVELS = {f"predicted_{100 * level:02.0f}_s": level for level in (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95)}
"""Levels of the returned quantiles, by column: the share of jobs that run at most as long."""
DATED = (LEAVES, GROUPS, NIGHT)
"""Files of methods that change from night to night without training."""


class Method(Protocol):
    """A trained method. ``outputs`` names its answers, ``predicted_s`` first.

    All are seconds in 1..request. ``levels`` are those of :meth:`distribution`, ascending in (0, 1).
    ``optional`` are columns of a submission that it reads if present; ``packages`` what it needs
    beyond numpy, pandas and pyarrow.
    """

    name: str
    outputs: tuple[str, ...]
    optional: tuple[str, ...]
    packages: tuple[str, ...]

    @property
    def levels(self) -> tuple[float, ...]: ...

    def distribution(self, inputs: Columns, asked: Columns) -> tuple[np.ndarray, np.ndarray]:
        """Return ``predicted_s`` [jobs] and quantiles [jobs, levels], float64."""

    def answer(self, inputs: Columns, asked: Columns) -> dict[str, np.ndarray]:
        """Return answers by name, float64 [jobs].

        ``inputs`` are model inputs (``features.jobs.inputs.model_inputs``, ``History.inputs``) and ``asked`` the same
        submissions: ``user procs requested_s submit_s``, the trace's seconds, and, if known, ``group`` and ``executable``.
        Both are arrays by name, or tables. Columns that a method does not read may be empty.
        """

    def write(self, directory: Path) -> None:
        """Write the trained state to files in ``directory``."""

    @classmethod
    def read(cls, directory: Path) -> Method:
        """Read what :meth:`write` wrote; OSError for a missing file."""


class _Point:
    """A method of one answer: no quantiles."""

    levels: tuple[float, ...] = ()

    def answer(self, inputs: Columns, asked: Columns) -> dict[str, np.ndarray]:
        raise NotImplementedError

    def distribution(self, inputs: Columns, asked: Columns) -> tuple[np.ndarray, np.ndarray]:
        point = self.answer(inputs, asked)[PREDICTED]
        return point, np.empty((len(point), 0))


class Requested(_Point):
    """The requested time."""

    name = "requested"
    outputs: tuple[str, ...] = (PREDICTED,)
    optional: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()

    def answer(self, inputs: Columns, asked: Columns) -> dict[str, np.ndarray]:
        return {PREDICTED: np.asarray(inputs["requested_s"], np.float64)}

    def write(self, directory: Path) -> None:
        """Write nothing: nothing was learned."""

    @classmethod
    def read(cls, directory: Path) -> Requested:
        return cls()


class Last2(Requested):
    """The mean of the user's last two ended runtimes, rounded down, at most the request.

    Tsafrir, Etsion & Feitelson 2007.
    """

    name = "last2"

    def answer(self, inputs: Columns, asked: Columns) -> dict[str, np.ndarray]:
        requested = np.asarray(inputs["requested_s"], np.float64)
        last2 = np.floor(np.asarray(inputs["mean_last2_runtime_s"], np.float64))
        return {PREDICTED: np.clip(np.where(np.isnan(last2), requested, last2), 1.0, requested)}


class Boosting(_Point):
    """Boosted trees (``boosting.py``): the simulator's ``lightgbm``.

    It keeps its own groups of jobs and reads no model inputs.
    """

    name = "lightgbm"
    outputs: tuple[str, ...] = (PREDICTED,)
    optional: tuple[str, ...] = ("group", "executable")
    packages: tuple[str, ...] = ()

    def __init__(self, trees: Trees) -> None:
        self.trees = trees

    def answer(self, inputs: Columns, asked: Columns) -> dict[str, np.ndarray]:
        return {PREDICTED: self.trees.answer(asked)}

    def write(self, directory: Path) -> None:
        self.trees.write(directory)

    @classmethod
    def read(cls, directory: Path) -> Boosting:
        return cls(Trees.read(directory))


class Quantile:
    """The distribution of runtimes (``forest.py``): its most accurate point, and quantiles.

    It keeps its own state and reads no model inputs. Its name is the simulator's for that point; ``quantile`` alone is the median
    there.
    """

    name = "quantile(order=accuracy)"
    outputs: tuple[str, ...] = (PREDICTED, *LEVELS)
    optional: tuple[str, ...] = ("group", "executable")
    packages: tuple[str, ...] = ()

    def __init__(self, forest: Forest) -> None:
        self.forest = forest

    @property
    def levels(self) -> tuple[float, ...]:
        return self.forest.plan.levels

    def distribution(self, inputs: Columns, asked: Columns) -> tuple[np.ndarray, np.ndarray]:
        return self.forest.predict(asked)

    def answer(self, inputs: Columns, asked: Columns) -> dict[str, np.ndarray]:
        point, quantiles = self.forest.predict(asked)
        return {PREDICTED: point, **{name: quantiles[:, self.levels.index(level)] for name, level in LEVELS.items()}}

    def write(self, directory: Path) -> None:
        self.forest.write(directory)

    @classmethod
    def read(cls, directory: Path) -> Quantile:
        return cls(Forest.read(directory))


METHODS: dict[str, type[Method]] = {each.name: each for each in (Requested, Last2, Boosting, Quantile)}
"""By name, from the simplest."""
