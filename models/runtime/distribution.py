"""Predicted distributions: tables of quantiles, and the form for schedulers.

A predicted distribution is a table of quantiles, float64 [jobs, levels] seconds.

To a scheduler a predictor gives a job's quantiles once, at its submission: whole seconds at the L evenly spaced levels
1/(L + 1), ..., L/(L + 1). Each stands for the levels nearest to it, the outermost also for the tails beyond them. So a
runtime has L possible values, and one that many quantiles share is an atom. A running job keeps the values that it has
not outlived, in the same proportions; if there are none, its request is left. A point is a distribution of one level.
Compiled predictors of distributions write quantiles by :func:`models.runtime.dispatch.tell_quantiles`, tables hold
them, and predictors in Python may return them (:class:`models.runtime.protocol.TellsQuantiles`).
:mod:`sim.kernel.scenarios` cuts and draws.
"""

from __future__ import annotations

import numpy as np

from features.deferred import pd


def at_levels(quantiles: pd.DataFrame, levels: np.ndarray) -> np.ndarray:
    """Return the quantiles at ``levels``, float64 [jobs, levels], from a table by level.

    Linear interpolation between two levels of the table; the outermost levels also stand for those beyond them.
    """
    table_levels = np.array(quantiles.columns, np.float64)
    values = quantiles.to_numpy(np.float64)
    if np.array_equal(table_levels, levels):
        return values
    probabilities = np.clip(np.asarray(levels, np.float64), table_levels[0], table_levels[-1])
    above = np.clip(np.searchsorted(table_levels, probabilities), 1 if len(table_levels) > 1 else 0, len(table_levels) - 1)
    below = np.maximum(above - 1, 0)
    gap = table_levels[above] - table_levels[below]
    share = np.divide(probabilities - table_levels[below], gap, out=np.ones(len(probabilities)), where=gap > 0)
    # a level in the table is returned unchanged
    share = np.where(np.isclose(share, 0.0), 0.0, np.where(np.isclose(share, 1.0), 1.0, share))
    return values[:, below] * (1.0 - share) + values[:, above] * share


LEVELS = np.arange(1, 40) / 40
"""Levels that every predictor of distributions must give. ``quantile`` keeps just these."""


def whole_quantiles(quantiles: np.ndarray, requested: np.ndarray) -> np.ndarray:
    """Return quantiles [jobs, levels] as whole seconds in 1..request, ascending by level."""
    whole = np.rint(quantiles)
    np.minimum(np.maximum(whole, 1, out=whole), np.asarray(requested)[:, None], out=whole)
    return np.maximum.accumulate(whole, axis=1, out=whole).astype(np.int64)


def from_table(quantiles: pd.DataFrame, requested: np.ndarray) -> np.ndarray:
    """Return a table of quantiles, one column per level, at ``LEVELS``: int64 [jobs, levels].

    Linear between the table's levels, constant beyond its outermost ones.
    """
    return whole_quantiles(at_levels(quantiles, LEVELS), requested)
