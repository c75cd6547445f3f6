"""Cells of runtimes relative to the request, fine next to the request.

Runtimes are cut at the request, and many jobs run to it or are killed seconds before it. A cell is a range of ln(request /
runtime): ``STEP`` wide far from the request, down to 0.05 % next to it; the last cell is the request itself.
"""

from __future__ import annotations

import math

import numpy as np

from features.jit import kernel

STEP = 0.0625
"""Cells far from the request are 6 % of the runtime wide, the max error of a quantile there. Not tuned."""
FINE = (0.032, 0.016, 0.008, 0.004, 0.002, 0.001, 0.0005)
"""Starts of the cells next to the request. Against one cell of ``STEP`` the loss at 0.8 falls by 2 to 6 % on the first half of
KTH-SP2, where half of the jobs with a long request end within 0.2 % of it."""
FAR = 192
"""Number of cells of ``STEP``: down to a runtime 160,000 times shorter than the request."""
ENDS = np.array([*(STEP * np.arange(FAR, 0, -1)), *FINE, 0.0])
"""Start of each cell, which is the end of the one before. Runtimes ascend: the first cell has the shortest."""
CELLS = len(ENDS)
AT_REQUEST = CELLS - 1
"""The last cell."""
CENTRES = np.exp(-np.append((ENDS[1:] + ENDS[:-1]) / 2.0, 0.0))
"""The middle of each cell, as a share of the request."""
SLACK = 1e-9
"""Max rounding error of a logarithm."""


@kernel
def cell_of(short):
    """Return the cell of a runtime given ``short``, which is ln(request / runtime).

    Runtimes from the request on are in the last cell, those shorter than the first cell in the first.
    """
    short -= SLACK
    if short > ENDS[FAR]:
        return max(FAR - np.int64(math.ceil(short / STEP)), 0)
    cell = AT_REQUEST
    while short > ENDS[cell]:
        cell -= 1
    return cell
