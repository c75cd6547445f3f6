"""Operations on whole arrays in kernels.

Compiled they are loops, which allocate nothing; in plain Python they are numpy's.
"""

from __future__ import annotations

import numpy as np

from features.jit import COMPILED, kernel


@kernel
def add_weighted(total, weights, table, rows):
    """Add four ``rows`` of ``table``, times ``weights``, to ``total``, an array of float64.

    The sums are those of adding one row after the other.
    """
    (a, b, c, d), (e, f, g, h) = weights, rows
    if COMPILED:
        for i in range(len(total)):
            total[i] = total[i] + a * table[e, i] + b * table[f, i] + c * table[g, i] + d * table[h, i]
    else:
        for weight, row in zip(weights, rows):  # noqa: B905  both are four
            total += np.float64(weight) * table[row, : len(total)]
