"""LightGBM regression trees on the log of runtime, trained for mean accuracy.

The loss of a job is 1 - min(p/r, r/p) = 1 - exp(-|log p - log r|): absolute error of the logarithm near the truth, flat for large
errors. It is minimised by majorisation (Hunter & Lange 2004): each round fits the quadratic that touches the loss from above at
the current predictions.
"""

from __future__ import annotations

import lightgbm
import numpy as np

KINK = 0.1
"""Errors of the logarithm below this (10 %) count quadratically: the absolute value has no curvature there to set a step."""


def boost(
    matrix: np.ndarray, target: np.ndarray, *, trees: int, learning_rate: float, leaves: int, min_jobs_in_leaf: int, seed: int
) -> lightgbm.Booster:
    """Grow trees from ``matrix`` float64 [jobs, features] for ``target`` float64 [jobs].

    The target is the logarithm of runtime over a first guess. One thread: nights are trained in parallel, and OpenMP threads that
    wait for each other on a busy machine are slower than one.
    """
    parameters = {
        "objective": loss_of_accuracy,
        "learning_rate": learning_rate,
        "num_leaves": leaves,
        "min_data_in_leaf": min_jobs_in_leaf,
        "num_threads": 1,
        "seed": seed,
        "deterministic": True,
        "force_row_wise": True,  # otherwise LightGBM times both ways and may choose differently
        "verbosity": -1,
    }
    # columns that cannot be split are kept: LightGBM refuses to train if none is left
    settings = {"verbosity": -1, "feature_pre_filter": False, "num_threads": 1, "max_bin": 63, "bin_construct_sample_cnt": 2000}
    return lightgbm.train(parameters, lightgbm.Dataset(matrix, target, params=settings), num_boost_round=trees)


def loss_of_accuracy(predicted: np.ndarray, data: lightgbm.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Return gradient of 1 - exp(-|d|), d = predicted - label, and a majorising curvature."""
    error = predicted - data.get_label()
    curvature = np.exp(-np.abs(error)) / np.maximum(np.abs(error), KINK)
    return curvature * error, curvature
