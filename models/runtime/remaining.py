"""Distributions for schedulers: quantiles, and what remains of a running job.

A predictor gives a job's quantiles once, at its submission: whole seconds at the L evenly spaced levels 1/(L + 1), ..., L/(L +
1). Each stands for the levels nearest to it, the outermost also for the tails beyond them. So a runtime has L possible values, and
one that many quantiles share is an atom. A running job keeps the values that it has not outlived, in the same proportions; if there
are none, its request is left. A point is a distribution of one level. Compiled predictors of distributions write quantiles by
:func:`models.runtime.dispatch.tell_quantiles`, tables hold them, and predictors in Python may return them
(:class:`models.runtime.protocol.TellsQuantiles`). :mod:`sim.kernel.scenarios` cuts and draws.
"""

from __future__ import annotations

import numpy as np

from features.deferred import pd
from models.runtime.distribution import at_levels

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
