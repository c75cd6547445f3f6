"""The predictor of a registered model, from its directory of settings and data."""

from __future__ import annotations

from pathlib import Path

from .policy_predictor import PolicyPredictor
from .runtime_predictor import RuntimePredictor
from .settings import read_settings
from .start_predictor import StartPredictor
from .variability_predictor import VariabilityPredictor

Predictor = RuntimePredictor | VariabilityPredictor | PolicyPredictor | StartPredictor
PREDICTORS: dict[str, type[Predictor]] = {
    "runtime": RuntimePredictor,
    "variability": VariabilityPredictor,
    "policy": PolicyPredictor,
    "start": StartPredictor,
}
"""Predictors by the kind named in the settings."""


def load(directory: Path) -> Predictor:
    """Load the predictor of the kind named by the settings in ``directory``.

    Raises ValueError for an unknown format, OSError for a missing file.
    """
    return PREDICTORS[read_settings(directory)["model"]](directory)
