"""The candidates for ``runtime-<trace>``, the simplest first, and how each is trained.

To add a candidate, add its training here and its answers in :mod:`models.packed.methods`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from features.jobs.runtime_features import FEATURES
from models.packed.boosting import Trees
from models.packed.methods import Boosting, Last2, Method, Quantile, Requested, matrix
from models.registry import quantile_training
from models.registry.accounting import Accounting
from models.runtime import lightgbm


def _as_trained(method: Method, accounting: Accounting, nights: Sequence[int]) -> Iterator[Method]:
    return iter([method] * len(nights))


@dataclass(frozen=True)
class Estimator:
    """How a method is trained and kept up to date, in scikit-learn's words.

    ``fit(accounting, at_s, seed)`` trains it as of a night at ``at_s``; it is called only if some job has ended by then, and uses
    only what accounting held then. ``get_params(seed)`` are the parameters of the training, to be logged. The method that it
    returns has ``predict`` and ``predict_quantiles``. ``learns`` is false for a fixed formula: training it again changes nothing,
    so it never challenges itself. ``refresh(method, accounting, nights)`` yields the trained method in later nights, ascending,
    if it goes on learning.
    """

    fit: Callable[[Accounting, int, int], Method]
    get_params: Callable[[int], Mapping[str, object]]
    learns: bool
    refresh: Callable[[Method, Accounting, Sequence[int]], Iterator[Method]] = _as_trained


def _boosted(accounting: Accounting, at_s: int, seed: int) -> Method:
    """Grow trees from the rows of the most recent jobs ended by ``at_s``."""
    rows, columns = accounting.by_end(-(2**62), at_s)[-int(lightgbm.USUAL["jobs"]) :], accounting.columns
    inputs, runtime = matrix(accounting.features.iloc[rows], columns), accounting.jobs["runtime_s"].to_numpy(np.int64)[rows]
    trees, leaves = (int(lightgbm.USUAL[name]) for name in ("trees", "leaves"))
    return Boosting(Trees(columns, *lightgbm.grown(inputs, runtime, trees if len(rows) >= lightgbm.ENOUGH else 0, leaves, seed)))


TRAINERS: dict[str, Estimator] = {
    "last2": Estimator(lambda *_: Last2(), lambda _: {}, learns=False),
    Boosting.name: Estimator(
        _boosted,
        lambda seed: (
            lightgbm.USUAL
            | {"seed": str(seed)}
            | {"learning_rate": lightgbm.LEARNING_RATE, "min_jobs_in_leaf": lightgbm.MIN_JOBS_IN_LEAF}
        ),
        learns=True,
    ),
    Quantile.name: Estimator(
        lambda accounting, at_s, seed: Quantile(quantile_training.grow(accounting, at_s, seed)),
        lambda _: quantile_training.parameters(),
        learns=True,
        refresh=lambda method, accounting, nights: map(Quantile, quantile_training.refresh(method.state, accounting, nights)),
    ),
}
"""Trainers by name, the simplest first: of two equally good methods the simpler is chosen."""


def fit(name: str, accounting: Accounting, at_s: int, seed: int) -> Method:
    """Train the method ``name`` as of a night at ``at_s``.

    If no job has ended by then, return the requested time as the method.
    """
    return TRAINERS[name].fit(accounting, at_s, seed) if len(accounting.ended(at_s)) else Requested()


def refresh(method: Method, accounting: Accounting, at_s: int) -> Method:
    """Return a trained method as of a night at ``at_s``: same training, that night's state."""
    return next(refresh_each(method, accounting, [at_s]))


def refresh_each(method: Method, accounting: Accounting, nights: Sequence[int]) -> Iterator[Method]:
    """Yield :func:`refresh` for each of the ``nights``, ascending, in one pass."""
    return (
        TRAINERS[method.name].refresh(method, accounting, nights)
        if method.name in TRAINERS
        else _as_trained(method, accounting, nights)
    )


def outdated(method: Method) -> bool:
    """Tell whether this code cannot refresh ``method``, only train it anew."""
    fits = not isinstance(method, Quantile) or quantile_training.fits(method.state)
    return not (fits and set(method.columns) <= set(FEATURES))
