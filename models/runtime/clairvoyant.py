"""The bound: a predictor that knows the runtime, or predicts a multiple of it."""

import numpy as np

from models.runtime.protocol import TablePredictor


def clairvoyant(factor: float = 1.0) -> TablePredictor:
    """Predict ``factor`` times the actual runtime, at most the request."""
    name = "clairvoyant" if factor == 1.0 else f"clairvoyant*{factor:g}"
    return TablePredictor(name, lambda jobs: np.asarray(jobs["runtime_s"], float) * factor, by_columns=True)
