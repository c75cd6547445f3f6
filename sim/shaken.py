"""Shaken replays of a trace: jobs, predictions and schedule in both orders.

Shaking (:mod:`features.jobs.shaking`) changes the order of submissions, in which the kernel takes jobs. Predictions known
beforehand are those of the trace as recorded. A schedule is returned in the order of the trace, so that replays can be compared
job by job.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from features.errors import InputError
from models.runtime.names import predictor as named_predictor
from models.runtime.names import takes_seed
from models.runtime.protocol import Predictor, TablePredictor
from sim.names import scheduler
from sim.outcome import Outcome


def check_seed(predictors: Iterable[object], seeds: Iterable[int], shake_s: int, schedulers: Iterable[str]) -> None:
    """Raise InputError for a negative seed, and for a seed other than 0 that changes nothing."""
    asked, ruling = list(predictors), list(schedulers)
    for seed in seeds:
        if seed < 0:
            raise InputError(f"seed {seed}: must be 0 or more")
        if seed and not any(moved_by_seed(each, shake_s, ruling) for each in asked):
            names = ", ".join(each if isinstance(each, str) else str(getattr(each, "name", "given")) for each in asked)
            raise InputError(
                f"seed {seed} changes nothing: nothing is random in a schedule with predictions by {names}; move the submissions "
                "(shake), take a predictor that learns at random (lightgbm, quantile) or a scheduler that draws scenarios (Harm), "
                "or leave the seed out"
            )


def moved_by_seed(predictor: object, shake_s: int, schedulers: Iterable[str]) -> bool:
    """Tell whether a schedule with ``predictor`` by any of ``schedulers`` depends on the seed."""
    learns = isinstance(predictor, str) and takes_seed(predictor)
    return shake_s > 0 or learns or any(map(_draws, schedulers))


def _draws(name: str) -> bool:
    """Tell whether a scheduler draws; a name that is none is a policy of the caller's own, which may."""
    try:
        return scheduler(name).draws
    except InputError:
        return True


def seeded(predictor: Any, seed: int) -> Any:
    """Return a predictor given by name with the ``seed``, if it takes one; others unchanged."""
    return named_predictor(predictor, seed) if isinstance(predictor, str) else predictor


def in_order(source: Predictor, recorded: pd.DataFrame, rows: np.ndarray) -> Predictor:
    """Return ``source`` for jobs that are the ``rows`` of ``recorded``.

    Predictions known beforehand are reordered with their jobs.
    """
    if not isinstance(source, TablePredictor):
        return source
    asked, quantiles = source.estimate, source.quantiles

    def estimate(_: pd.DataFrame) -> np.ndarray:
        predicted = np.asarray(asked(recorded), np.float64)
        return predicted[rows] if predicted.shape == (len(recorded),) else predicted

    return replace(
        source, estimate=estimate, quantiles=quantiles and (lambda _: quantiles(recorded).iloc[rows].reset_index(drop=True))
    )


def restored(outcome: Outcome, rows: np.ndarray) -> Outcome:
    """Return the outcome of jobs that are the ``rows`` of a trace, in the order of the trace."""
    back = np.empty_like(rows)
    back[rows] = np.arange(len(rows))
    columns = ("submit", "start", "runtime", "predicted", "corrections", "skips", "unstarted", "requeues", "lost")
    reordered = {name: getattr(outcome, name)[back] for name in columns if len(getattr(outcome, name))}
    if outcome.quantiles is not None:
        reordered["quantiles"] = outcome.quantiles.iloc[back].reset_index(drop=True)
    return outcome._replace(**reordered)
