"""The agent of :mod:`benchmarks.studies.rl_backfilling`, without torch: its network in numpy, and a model of MLflow.

A registered version runs this very file, where neither Queuecast nor torch is installed; so it imports neither.
"""

from __future__ import annotations

from typing import Any

import mlflow
import numpy as np

SLOTS, OF_JOB, OF_MACHINE = 32, 7, 7
"""Candidates that it sees, and the numbers of one and of the moment in an observation."""
LAYERS = (OF_JOB + OF_MACHINE + 1, 32, 16, 8, 1)
"""Numbers of a candidate, the hidden layers of RLScheduler's kernel network, and its score."""
WEIGHTS = "weights"
"""The artifact of a version that holds them, an ``.npz``."""


def inputs(jobs: np.ndarray, machine: np.ndarray) -> np.ndarray:
    """Return what the network sees of candidates and "none", float32 [moments, slots + 1, LAYERS[0]].

    ``jobs`` [moments, slots, OF_JOB] and ``machine`` [moments, OF_MACHINE] are observations of Backfill-v0.
    """
    moments, slots, count = jobs.shape
    seen = np.zeros((moments, slots + 1, LAYERS[0]), np.float32)
    seen[:, :slots, :count] = jobs
    seen[:, :, count:-1] = machine[:, None]
    seen[:, slots, -1] = 1.0
    return seen


def scores(weights: dict[str, np.ndarray], seen: np.ndarray) -> np.ndarray:
    """Return the kernel network's score of each action [moments, actions]."""
    last = len(LAYERS) - 2
    for layer in range(last + 1):
        seen = seen @ weights[f"weights{layer}"].T + weights[f"biases{layer}"]
        seen = seen if layer == last else np.maximum(seen, 0.0)
    return seen[..., 0]


def actions(weights: dict[str, np.ndarray], jobs: np.ndarray, machine: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the action of the highest score that the mask [moments, slots + 1] allows, int64 [moments]."""
    return np.where(mask, scores(weights, inputs(jobs, machine)), -np.inf).argmax(axis=1)


class Backfiller(mlflow.pyfunc.PythonModel):
    """Answers observations ``jobs machine mask`` of Backfill-v0, a row a moment, with actions."""

    def load_context(self, context: Any) -> None:
        """Read the weights."""
        self.weights = dict(np.load(context.artifacts[WEIGHTS]))

    def predict(self, context: Any, model_input: dict[str, np.ndarray], params: dict[str, Any] | None = None) -> np.ndarray:
        """Return int64 [moments]."""
        return actions(self.weights, model_input["jobs"], model_input["machine"], model_input["mask"])


mlflow.models.set_model(Backfiller())
