"""The methods that stand for election as ``runtime-<trace>``, from the simplest: how each is trained. The one place where a candidate is added."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from models.gradient_boosting import GradientBoosting, fit
from models.packed.methods import Boosting, Last2, Method, Requested
from models.walk_forward import REMEMBERED_JOBS


@dataclass(frozen=True)
class Trainer:
    """How a method is trained: ``train(inputs, runtime_s, seed)`` on jobs that have ended, in the order of their submission.

    ``learns`` is false for a method that is all formula: trained again it is the same, so it never challenges itself.
    """

    train: Callable[[pd.DataFrame, np.ndarray, int], Method]
    parameters: Callable[[int], Mapping[str, object]]
    learns: bool


def _boosting(inputs: pd.DataFrame, runtime_s: np.ndarray, seed: int) -> Method:
    recent = slice(-REMEMBERED_JOBS, None)
    return Boosting(fit(GradientBoosting(seed=seed), inputs.iloc[recent], runtime_s[recent]))


TRAINERS: dict[str, Trainer] = {
    "last2": Trainer(lambda *_: Last2(), lambda _: {}, learns=False),
    "lightgbm": Trainer(_boosting, lambda seed: vars(GradientBoosting(seed=seed)), learns=True),
}
"""By name, from the simplest: of two that are equally good the simpler is chosen."""


def train(name: str, inputs: pd.DataFrame, runtime_s: np.ndarray, seed: int) -> Method:
    """The method ``name`` trained on ended jobs; where none has ended, the requested time answers for it."""
    return TRAINERS[name].train(inputs, runtime_s, seed) if len(runtime_s) else Requested()
