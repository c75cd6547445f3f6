"""``lightgbm`` without Queuecast: boosted regression trees from plain arrays and numpy.

With the same trees and groups of jobs it answers as the simulator's kernel (``models.runtime.lightgbm``) does; a test checks that
both are equal. Trees are learned once, groups are updated every night. Packed into registered models.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from .groups import GROUPS, Columns, Groups, leaves_of

TREES, NIGHT = "trees.npz", "night.json"
"""Files of the trees, which are learned once, and of the nightly state beside the groups."""


@dataclass(frozen=True)
class Trees:
    """Boosted trees, and the groups of jobs that their features come from.

    ``nodes`` int64 [trees, leaves, 3] and ``thresholds`` float64 [trees, leaves] are as in ``groups.leaves_of``; ``values``
    float64 [trees, leaves] correct the logarithm of the first guess, which is the last runtime of the most similar jobs. There
    are no trees before enough jobs have ended.
    """

    nodes: np.ndarray
    thresholds: np.ndarray
    values: np.ndarray
    groups: Groups

    def answer(self, asked: Columns) -> np.ndarray:
        """Return predictions, whole seconds in 1..request, float64 [asked].

        ``asked`` is as in :meth:`Groups.describe`.
        """
        return self.corrected(*self.groups.describe(asked), np.asarray(asked["requested_s"], np.float64))

    def corrected(self, features: np.ndarray, guess: np.ndarray, requested: np.ndarray) -> np.ndarray:
        """Return predictions for jobs with these ``features`` [jobs, features] and first guesses."""
        log_s = guess.copy()
        leaves = leaves_of(self.nodes, self.thresholds, features) if len(self.nodes) else np.empty((len(guess), 0), np.int64)
        for tree in range(len(self.nodes)):  # in sequence, to add in the kernel's order
            log_s += self.values[tree, leaves[:, tree]]
        return np.rint(np.clip(np.exp(log_s), 1.0, requested))

    def write(self, directory: Path) -> None:
        """Write the files that :meth:`read` reads."""
        np.savez_compressed(directory / TREES, nodes=self.nodes, thresholds=self.thresholds, values=self.values)
        self.groups.table.to_parquet(directory / GROUPS, index=False)
        (directory / NIGHT).write_text(json.dumps({"at_s": self.groups.at_s, "alike": self.groups.alike}), encoding="utf-8")

    @classmethod
    def read(cls, directory: Path) -> Trees:
        """Read the files that :meth:`write` wrote; OSError for a missing one."""
        with np.load(directory / TREES) as learned:
            arrays = (learned["nodes"], learned["thresholds"], learned["values"])
        night = json.loads((directory / NIGHT).read_text(encoding="utf-8"))
        alike = tuple(map(tuple, night["alike"]))
        return cls(*arrays, Groups(alike, pd.read_parquet(directory / GROUPS), night["at_s"]))
