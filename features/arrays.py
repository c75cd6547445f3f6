"""Operations on whole arrays in kernels.

Compiled they are loops, which allocate nothing; in plain Python they are numpy's.
"""

from __future__ import annotations

import numpy as np

from features.jit import COMPILED, kernel


@kernel
def add_scaled(total, weight, values):
    """Add ``weight`` times ``values`` to ``total``, an array of float64."""
    if COMPILED:
        for i in range(len(total)):
            total[i] += weight * values[i]
    else:
        total += np.float64(weight) * values
