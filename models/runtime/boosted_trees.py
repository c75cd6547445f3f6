"""The kernel of ``lightgbm`` (:mod:`models.runtime.lightgbm`): what boosted trees answer.

Simulator and registered models run this file.
"""

from __future__ import annotations

import math

import numpy as np

from features.jit import kernel
from models.trees import leaf_of


@kernel
def corrected(x, guess, requested, links, learned, trees, leaves):
    """Return seconds in 1..``requested``: a first ``guess``, corrected by all ``trees``.

    The guess is a logarithm. ``links`` int64 [trees * leaves, 3] has the nodes of each tree. ``learned`` begins with as many thresholds, followed by the
    values of the leaves.
    """
    for tree in range(trees):
        first = tree * leaves
        guess += learned[links.shape[0] + first + leaf_of(links, first, learned, first, x)]
    return np.rint(min(max(math.exp(guess), 1.0), 1.0 * requested))
