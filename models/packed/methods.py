"""The methods a registered model can hold: from model inputs to answers, and to and from the files that travel with it.

A further method is one more class here (its own code in a file of its own, packed too) and one more line in ``models.trainers``.
Packed as it stands into registered models.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd

from .boosting import predict

PREDICTED = "predicted_s"
TREES = "trees.txt"


class Method(Protocol):
    """A trained method. ``outputs`` names its answers, the first of them ``predicted_s``; all are seconds in 1..request."""

    name: str
    outputs: tuple[str, ...]
    packages: tuple[str, ...]

    def answer(self, inputs: pd.DataFrame) -> dict[str, np.ndarray]:
        """Answers by name, float64 [jobs], for model inputs (``features.inputs.model_inputs``, ``History.inputs``)."""

    def write(self, directory: Path) -> None:
        """Put what was learned into files in ``directory``."""

    @classmethod
    def read(cls, directory: Path) -> Method:
        """The inverse of :meth:`write`; OSError for a file that is not there."""


class Requested:
    """The requested time."""

    name = "requested"
    outputs: tuple[str, ...] = (PREDICTED,)
    packages: tuple[str, ...] = ()

    def answer(self, inputs: pd.DataFrame) -> dict[str, np.ndarray]:
        return {PREDICTED: inputs["requested_s"].to_numpy(np.float64)}

    def write(self, directory: Path) -> None:
        """Nothing was learned."""

    @classmethod
    def read(cls, directory: Path) -> Requested:
        return cls()


class Last2(Requested):
    """The mean of the user's last two completed runtimes, rounded down, at most the request (Tsafrir, Etsion & Feitelson 2007)."""

    name = "last2"

    def answer(self, inputs: pd.DataFrame) -> dict[str, np.ndarray]:
        requested = inputs["requested_s"].to_numpy(np.float64)
        last2 = np.floor(inputs["mean_last2_runtime_s"].to_numpy(np.float64))
        return {PREDICTED: np.clip(np.where(np.isnan(last2), requested, last2), 1.0, requested)}


class Boosting:
    """Gradient boosted trees (``boosting.py``); ``booster`` is a ``lightgbm.Booster``."""

    name = "lightgbm"
    outputs: tuple[str, ...] = (PREDICTED,)
    packages: tuple[str, ...] = ("lightgbm",)

    def __init__(self, booster: Any) -> None:
        self.booster = booster

    def answer(self, inputs: pd.DataFrame) -> dict[str, np.ndarray]:
        return {PREDICTED: predict(self.booster, inputs)}

    def write(self, directory: Path) -> None:
        (directory / TREES).write_text(self.booster.model_to_string(), encoding="utf-8")

    @classmethod
    def read(cls, directory: Path) -> Boosting:
        import lightgbm

        return cls(lightgbm.Booster(model_str=(directory / TREES).read_text(encoding="utf-8")))


METHODS: dict[str, type[Method]] = {each.name: each for each in (Requested, Last2, Boosting)}
"""By name, from the simplest."""
