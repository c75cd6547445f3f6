"""Walk-forward prediction: each week is predicted by a model of jobs ended before it."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import lightgbm
import numpy as np
import pandas as pd

from features.clock import WEEK_S
from models.runtime.gradient_boosting import GradientBoosting, fit, predict

ENOUGH_JOBS = 200
"""Ended jobs below which no model is trained."""
REMEMBERED_JOBS = 100_000
"""Most recent ended jobs a model is trained on: more cost time and no longer change its accuracy."""


@dataclass(frozen=True)
class WalkForward:
    """Predictions of a whole trace.

    ``predicted_s`` float64 [jobs]; ``model`` int64 [jobs], the row of ``models`` that predicted the job, -1 where there was none yet and
    the request was predicted; ``models`` has a row a model: ``begin_s`` of the week it predicts, ``trained_jobs``, ``predicted_jobs``.
    """

    predicted_s: np.ndarray
    model: np.ndarray
    models: pd.DataFrame

    @property
    def fallback_jobs(self) -> int:
        """Jobs predicted by their request for want of a model."""
        return int((self.model < 0).sum())


def walk_forward(
    jobs: pd.DataFrame,
    inputs: pd.DataFrame,
    end_s: np.ndarray,
    *,
    config: GradientBoosting = GradientBoosting(),  # noqa: B008 - frozen
    period_s: int = WEEK_S,
    progress: Callable[[int, int], None] | None = None,
) -> WalkForward:
    """Predict ``jobs`` (canonical table, in order of submission) from ``inputs``.

    ``end_s`` int64 [jobs] is when each job ended, as far as the history behind ``inputs`` goes. Weeks of ``period_s`` count from the
    first submission. A period without ``ENOUGH_JOBS`` ended jobs before it is predicted by the request.
    """
    submit = jobs["submit_s"].to_numpy(np.int64)
    runtime = jobs["runtime_s"].to_numpy(np.float64)
    period = (submit - submit[0]) // period_s
    predicted = jobs["requested_s"].to_numpy(np.float64).copy()
    model = np.full(len(jobs), -1, np.int64)
    by_end = np.argsort(end_s, kind="stable")
    ends = end_s[by_end]

    def one(number: int) -> tuple[int, np.ndarray, int, np.ndarray | None]:
        begin = int(submit[0] + number * period_s)
        asked = np.flatnonzero(period == number)
        ended = np.sort(by_end[: np.searchsorted(ends, begin, side="left")][-REMEMBERED_JOBS:])
        if len(ended) < ENOUGH_JOBS:
            return begin, asked, len(ended), None
        return begin, asked, len(ended), predict(fit(config, inputs.iloc[ended], runtime[ended]), inputs.iloc[asked])

    rows: list[dict[str, int]] = []
    numbers = np.unique(period)
    # weeks know nothing of each other; one thread a week beats many threads in one small training
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for done, (begin, asked, trained, seconds) in enumerate(pool.map(one, numbers.tolist())):
            if seconds is not None:
                predicted[asked] = seconds
                model[asked] = len(rows)
                rows.append({"begin_s": begin, "trained_jobs": trained, "predicted_jobs": len(asked)})
            if progress is not None:
                progress(done + 1, len(numbers))
    return WalkForward(predicted, model, pd.DataFrame(rows, columns=["begin_s", "trained_jobs", "predicted_jobs"]))


def final_model(
    jobs: pd.DataFrame,
    inputs: pd.DataFrame,
    config: GradientBoosting = GradientBoosting(),  # noqa: B008 - frozen
) -> lightgbm.Booster:
    """The model for what comes after a trace: trained on its last ``REMEMBERED_JOBS`` jobs."""
    return fit(config, inputs.iloc[-REMEMBERED_JOBS:], jobs["runtime_s"].to_numpy(np.float64)[-REMEMBERED_JOBS:])
