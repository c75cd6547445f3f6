"""Predicted distributions as tables of quantiles, and their losses.

A predicted distribution is a table of quantiles, float64 [jobs, levels] seconds. Its quantile (pinball) loss, that of Koenker &
Bassett 1978, is a proper score: it tells sharp distributions from wide ones, where calibration alone does not.
"""

from __future__ import annotations

import numpy as np

from features.deferred import pd

LEVELS = np.arange(1, 20) / 20
"""Levels at which distributions are compared: 0.05 to 0.95."""


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


def losses(quantiles: np.ndarray, levels: np.ndarray, runtime_s: np.ndarray) -> np.ndarray:
    """Return each job's quantile loss at each level, float64 [jobs, levels] seconds.

    ``quantiles`` is [jobs, levels].
    """
    short = np.asarray(runtime_s, np.float64)[:, None] - quantiles
    return np.maximum(levels * short, (levels - 1.0) * short)
