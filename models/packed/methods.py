"""The methods of registered models: they answer submissions, and are written to files.

To add a method, add one class here (its own code in a file of its own, packed too) and one line in
``models.registry.candidates``. Packed unchanged into registered models.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from features.jobs.like_jobs import UNKNOWN

from .boosting import Trees
from .forest import LEAVES, Forest, SubmissionColumns
from .snapshot import GROUPS, Columns

PREDICTED = "predicted_s"
LEVELS = {f"predicted_{100 * level:02.0f}_s": level for level in (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95)}
"""Levels of the returned quantiles, by column. A level is the share of jobs that run at most as long."""
DATED = (LEAVES, GROUPS)
"""Files that change every night without training, beside the users' histories."""


class Method:
    """A trained method. ``outputs`` names its answers, ``predicted_s`` first.

    All are seconds in 1..request. ``optional`` are columns of a submission that help if present. ``state`` is what it has learned,
    None for a fixed formula. It reads ``columns`` of the table ``runtime_features``.
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

        ``features`` are those of the table ``runtime_features``, of its rows or from a snapshot (``Snapshot.features``): arrays
        by name, or a table.
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


class Boosting(_Learned):
    """Boosted trees (``boosting.py``): the simulator's ``lightgbm``."""

    name = "lightgbm"
    kept = Trees

    def predict(self, features: Columns) -> dict[str, np.ndarray]:
        requested = np.asarray(features["requested_s"], np.float64)
        return {PREDICTED: self.state.predict(matrix(features, self.columns), requested)}


class Quantile(_Learned):
    """The distribution of runtimes (``forest.py``): its most accurate point, and quantiles.

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


METHODS: dict[str, type[Method]] = {method.name: method for method in (Requested, Last2, Boosting, Quantile)}
"""The methods by name, the simplest first."""
