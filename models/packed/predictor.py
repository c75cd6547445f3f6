"""The predictor of a registered model, from its directory of settings and data."""

from __future__ import annotations

from pathlib import Path

from .policy_predictor import PolicyPredictor
from .runtime_predictor import RuntimePredictor
from .settings import read_settings
from .variability_predictor import VariabilityPredictor

PREDICTORS: dict[str, type[RuntimePredictor] | type[VariabilityPredictor] | type[PolicyPredictor]] = {
    "runtime": RuntimePredictor,
    "variability": VariabilityPredictor,
    "policy": PolicyPredictor,
}
"""By the kind that the settings name."""


def load(directory: Path) -> RuntimePredictor | VariabilityPredictor | PolicyPredictor:
    """Load the predictor whose kind the settings in ``directory`` name.

    Raises ValueError for an unknown format, OSError for a missing file.
    """
    return PREDICTORS[read_settings(directory)["model"]](directory)
