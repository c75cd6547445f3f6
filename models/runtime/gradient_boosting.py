"""LightGBM regression trees on the log of runtime, trained for mean accuracy.

The loss of a job is 1 - min(p/r, r/p) = 1 - exp(-|log p - log r|): absolute error of the logarithm near the truth, flat for large
errors. It is minimised by majorisation (Hunter & Lange 2004): each round fits the quadratic that touches the loss from above at
the present predictions. The design matrix is in ``models.packed.boosting``, which registered models carry.
"""

from __future__ import annotations

from dataclasses import dataclass

import lightgbm
import numpy as np
import pandas as pd

from models.packed.boosting import design, design_columns
from models.packed.boosting import predict as _predict

KINK = 0.1
"""Errors of the logarithm below this (10 %) count quadratically: there the absolute value has no curvature to take a step by."""


@dataclass(frozen=True)
class GradientBoosting:
    """Parameters of the trees and of the training.

    ``trees``, ``learning_rate``, ``leaves`` and ``min_jobs_in_leaf`` were tuned on KTH-SP2 (recorded starts) and SDSC-SP2 (EASY's
    starts), walk-forward by two to four weeks, for accuracy, and on all of both: figures on these traces are of jobs that were
    used for tuning. Accuracy is flat around these values (0.002 between 50, 100 and 200 trees, 15 to 63 leaves, rates 0.1 to 0.3)
    except that leaves of fewer than 50 jobs learn noise (-0.005 at 20). ``threads`` is LightGBM's; the booster does not depend on
    it. It is one, because walk-forward trains several models side by side, and because OpenMP threads that wait for each other on
    a busy machine are slower than one.
    """

    trees: int = 50
    learning_rate: float = 0.3
    leaves: int = 31
    min_jobs_in_leaf: int = 200
    threads: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("trees", "leaves", "min_jobs_in_leaf", "threads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} = {getattr(self, name)} is not a positive number")
        if self.leaves < 2:
            raise ValueError("a tree of one leaf predicts nothing: leaves must be at least 2")
        if not 0 < self.learning_rate <= 1:
            raise ValueError(f"learning_rate = {self.learning_rate} is not in (0, 1]")


def fit(config: GradientBoosting, inputs: pd.DataFrame, runtime_s: np.ndarray) -> lightgbm.Booster:
    """Train on ended jobs: ``inputs`` [jobs] and ``runtime_s``, positive seconds [jobs].

    Deterministic: same inputs (``features.jobs.inputs``), same config, same booster. With fewer than two leaves' worth of jobs
    the booster predicts the baseline. Raises ValueError for no jobs at all and for runtimes below a second.
    """
    runtime = np.asarray(runtime_s, np.float64)
    if len(runtime) == 0 or len(runtime) != len(inputs):
        raise ValueError(f"cannot train on {len(inputs)} rows of inputs and {len(runtime)} runtimes")
    if not (runtime >= 1).all():
        raise ValueError("cannot train on runtimes below a second")
    matrix, baseline = design(inputs)
    return boost(config, matrix, np.log(runtime / baseline), design_columns(inputs.columns))


def boost(
    config: GradientBoosting, matrix: np.ndarray, target: np.ndarray, columns: list[str] | None = None, **binning: int
) -> lightgbm.Booster:
    """Grow trees from ``matrix`` float64 [jobs, features] for ``target`` float64 [jobs].

    The target is the logarithm of runtime over a first guess. ``columns`` names the features, ``binning`` holds LightGBM's
    parameters of how it bins them.
    """
    parameters = {
        "objective": loss_of_accuracy,
        "learning_rate": config.learning_rate,
        "num_leaves": config.leaves,
        "min_data_in_leaf": config.min_jobs_in_leaf,
        "num_threads": config.threads,
        "seed": config.seed,
        "deterministic": True,
        "force_row_wise": True,  # else LightGBM times both ways and may choose differently
        "verbosity": -1,
    }
    # columns that cannot be split are kept: LightGBM refuses to train where none is left
    settings = {"verbosity": -1, "feature_pre_filter": False, **binning}
    data = lightgbm.Dataset(matrix, target, feature_name=columns or "auto", params=settings)
    return lightgbm.train(parameters, data, num_boost_round=config.trees)


def predict(booster: lightgbm.Booster, inputs: pd.DataFrame) -> np.ndarray:
    """Predict runtimes, seconds in 1..request, float64 [jobs].

    Raises ValueError if the booster was trained on other columns than those of ``inputs``.
    """
    return _predict(booster, inputs)


def loss_of_accuracy(predicted: np.ndarray, data: lightgbm.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Return gradient of 1 - exp(-|d|), d = predicted - label, and a majorising curvature."""
    error = predicted - data.get_label()
    curvature = np.exp(-np.abs(error)) / np.maximum(np.abs(error), KINK)
    return curvature * error, curvature
