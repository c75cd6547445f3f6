"""``lightgbm`` in a registered model: boosted trees, and the features that they read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from features.jit import njit
from features.jobs.like_jobs import ALIKE, COMMON
from models.runtime.boosted_trees import corrected

TREES = "trees.npz"


@dataclass(frozen=True)
class Trees:
    """Boosted trees, which correct the logarithm of a first guess.

    That is the last runtime of the most similar jobs.

    ``columns`` are the features that they read. ``nodes`` int64 [trees, leaves, 3] (feature, child if it is at most the threshold,
    other child; child -1 is leaf 0) and ``thresholds`` and ``values`` float64 [trees, leaves] are as in ``models.trees``. There
    are no trees before enough jobs have ended.
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
            directory / TREES,
            columns=np.array(self.columns),
            nodes=self.nodes,
            thresholds=self.thresholds,
            values=self.values,
        )

    @classmethod
    def read(cls, directory: Path) -> Trees:
        """Read the file that :meth:`write` wrote; OSError for a missing one."""
        with np.load(directory / TREES) as learned:
            return cls(tuple(learned["columns"].tolist()), learned["nodes"], learned["thresholds"], learned["values"])


@njit
def _predict(seconds, inputs, requested, links, learned, trees, leaves):
    for i in range(len(inputs)):
        x = inputs[i]
        seconds[i] = corrected(x, x[len(x) - COMMON + ALIKE], requested[i], links, learned, trees, leaves)
