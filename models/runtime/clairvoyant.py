"""The bound: a predictor that knows the runtime, or predicts a multiple of it."""

from models.runtime.protocol import TablePredictor


def clairvoyant(factor: float = 1.0) -> TablePredictor:
    """Predict ``factor`` times the actual runtime, at most the request."""
    name = "clairvoyant" if factor == 1.0 else f"clairvoyant*{factor:g}"
    return TablePredictor(name, lambda jobs: jobs["runtime_s"].to_numpy(float) * factor)
