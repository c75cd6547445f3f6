"""The user's own estimate: the requested time, or a multiple of it."""

import numpy as np

from models.runtime.protocol import TablePredictor


def requested(factor: float = 1.0) -> TablePredictor:
    """Predict ``factor`` times the request.

    A multiple above 1 is not cut at the request, as in the published doubling experiments.
    """
    name = "requested" if factor == 1.0 else f"requested*{factor:g}"
    return TablePredictor(name, lambda jobs: np.asarray(jobs["requested_s"], float) * factor, capped=factor <= 1.0, by_columns=True)
