"""Design matrix and answers of the gradient boosting regressor.

It learns the logarithm of runtime over a baseline: the mean of the user's last two runtimes that had ended, else the last one,
else the request, never beyond the request. Trees give steps; relative to the baseline a step means "as usual" or "not this time",
and exact repetitions, which are most of a user's past, stay exact. Packed unchanged into registered models.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

PAST_RUNTIMES = (
    "last_runtime_s",
    "second_last_runtime_s",
    "third_last_runtime_s",
    "mean_last2_runtime_s",
    "mean_last3_runtime_s",
    "mean_runtime_s",
)


def design_columns(columns: Iterable[str]) -> list[str]:
    """Return names of the columns that :func:`design` makes of ``columns``, in order."""
    relative = [f"{name}/{by}" for by in ("requested_s", "baseline_s") for name in PAST_RUNTIMES]
    return [*columns, *relative, "requested_s/baseline_s", "baseline_s"]


def design(inputs: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return the design matrix, float64 [jobs, len(design_columns)], and the baseline in s.

    ``inputs`` are model inputs (``features.jobs.inputs.model_inputs`` or ``History.inputs``), requests of at least a second; the
    baseline is float64 [jobs]. The matrix holds the inputs, the past runtimes relative to request and to baseline, and the
    baseline: a tree splits on one column and cannot divide two.
    """
    matrix = inputs.to_numpy(np.float64)
    place = {name: index for index, name in enumerate(inputs.columns)}
    requested = matrix[:, place["requested_s"]]
    baseline = matrix[:, place["mean_last2_runtime_s"]]
    for name in ("last_runtime_s", "requested_s"):
        baseline = np.where(np.isnan(baseline), matrix[:, place[name]], baseline)
    baseline = np.clip(baseline, 1.0, requested)
    past = matrix[:, [place[name] for name in PAST_RUNTIMES]]
    relative = (past / requested[:, None], past / baseline[:, None], requested / baseline, baseline)
    return np.column_stack((matrix, *relative)), baseline


def predict(booster: Any, inputs: pd.DataFrame) -> np.ndarray:
    """Predict runtimes, seconds in 1..request, float64 [jobs].

    ``booster`` is a ``lightgbm.Booster``. Raises ValueError if it was trained on other columns than ``inputs`` gives.
    """
    if booster.feature_name() != design_columns(inputs.columns):
        raise ValueError(f"the booster was trained on other columns than these inputs: {booster.feature_name()}")
    matrix, baseline = design(inputs)
    if len(matrix) == 0:
        return np.empty(0)
    correction = booster.predict(matrix, num_threads=1)
    return np.clip(baseline * np.exp(correction), 1.0, inputs["requested_s"].to_numpy(np.float64))
