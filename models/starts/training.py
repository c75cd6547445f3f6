"""Train distributions of waits on the states of a queue.

The distributions are those of :mod:`models.packed.start_distribution`. If a question's job still waits at training, it is used
for the bins that it has outlasted: it is censored, not dropped.
"""

from __future__ import annotations

import lightgbm
import numpy as np

from models.packed.start_distribution import AT_ONCE, EDGES_S, PINNED, Calibration, Hazard, at_waits, given_waiting, rows_of
from models.trees import plain_trees

TREES, LEAVES, LEARNING_RATE, MIN_ROWS_IN_LEAF = 250, 31, 0.03, 50
"""On the first half of KTH-SP2 under EASY, 100 trees at 0.05 lose 0.5 % of pinball."""
FEATURE_SHARE, ROW_SHARE = 0.6, 0.7
LEARNED = 6_000
"""Max most recent questions to learn from. On the first half of KTH-SP2 12,000 lose 1 % less as recorded, 1 % more under EASY."""
ENOUGH = 100
"""Min answers for a calibration."""
_PRIOR = 50.0
"""Weight, in jobs, of uncalibrated chances beside observed outcomes. Not tuned."""
_POINTS = np.linspace(0.0, 1.0, 41)


def grow(
    states: np.ndarray,
    plans: np.ndarray,
    scenarios: np.ndarray | None,
    waited_s: np.ndarray,
    waits: np.ndarray,
    *,
    seed: int = 0,
    trees: int = TREES,
) -> Hazard:
    """Return trees trained on how long jobs waited.

    ``waited_s`` float64 [questions] is how long a job waited after the question, or has waited so far if it still ``waits`` (bool
    [questions]). The others are as in :func:`models.packed.start_distribution.rows_of`. Raises ValueError without a start.
    """
    begun = np.searchsorted(EDGES_S[:-1], waited_s, "left")  # the bin of the start, or the first that the wait has not outlasted
    rows = np.where(waits, np.searchsorted(EDGES_S[:-1], waited_s, "right"), np.minimum(begun + 1, len(EDGES_S) - 1))
    job = np.repeat(np.arange(len(rows)), rows)
    if not len(job) or waits.all():
        raise ValueError("no job of those asked about has started")
    bins = np.arange(len(job)) - np.repeat(np.cumsum(rows) - rows, rows)
    starts = (bins == begun[job]) & ~waits[job]
    parameters = {
        "objective": "binary",
        "num_leaves": LEAVES,
        "learning_rate": LEARNING_RATE,
        "min_data_in_leaf": MIN_ROWS_IN_LEAF,
        "feature_fraction": FEATURE_SHARE,
        "bagging_fraction": ROW_SHARE,
        "bagging_freq": 1,
        "num_threads": 1,
        "seed": seed,
        "deterministic": True,
        "force_row_wise": True,
        "verbosity": -1,
    }
    settings = {"verbosity": -1, "feature_pre_filter": False, "num_threads": 1, "max_bin": 127}
    matrix = rows_of(states, plans, scenarios, job, bins)
    booster = lightgbm.train(parameters, lightgbm.Dataset(matrix, starts.astype(np.float64), params=settings), trees)
    plain = plain_trees(booster)
    most = max(len(values) for _, _, values in plain)
    nodes, thresholds, values = np.full((len(plain), most, 3), -1), np.zeros((len(plain), most)), np.zeros((len(plain), most))
    for number, (links, limits, leaves) in enumerate(plain):
        nodes[number, : len(links)], thresholds[number, : len(limits)], values[number, : len(leaves)] = links, limits, leaves
    return Hazard(nodes, thresholds, values)


def calibrate(chances: np.ndarray, waited_s: np.ndarray, waits: np.ndarray, age_s: np.ndarray) -> Calibration:
    """Return the calibration of chances by their outcomes, with no change as a prior.

    ``chances`` float64 [questions, edges]; ``waited_s`` and ``waits`` as in :func:`grow`; ``age_s`` float64 [questions] is the
    age of the question. A pinned edge uses only older questions, whose outcome is known. Of jobs that waited, the frequencies are
    the Kaplan-Meier estimate of the chance at which a job started.
    """
    shift, slope = np.array([_odds(chances[:, edge], waited_s, age_s, EDGES_S[edge]) for edge in PINNED]).T
    rest = waited_s > EDGES_S[AT_ONCE]
    if not rest.any():
        return Calibration(shift, slope, np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    at = at_waits(given_waiting(chances[rest]), waited_s[rest])
    return Calibration(shift, slope, _POINTS, _came_true(at, ~waits[rest]))


def _odds(predicted: np.ndarray, waited_s: np.ndarray, age_s: np.ndarray, edge_s: float) -> tuple[float, float]:
    """Return shift and slope of the log odds of starting within ``edge_s``: a ridge logistic regression."""
    decided = age_s > edge_s
    chance = np.clip(predicted[decided], 1e-3, 1.0 - 1e-3)
    odds, came = np.log(chance / (1.0 - chance)), (waited_s[decided] <= edge_s).astype(np.float64)
    inputs, weights = np.column_stack((np.ones(len(odds)), odds)), np.array([0.0, 1.0])
    for _ in range(100):
        mean = 1.0 / (1.0 + np.exp(-np.clip(inputs @ weights, -30.0, 30.0)))
        slope = inputs.T @ (came - mean) - _PRIOR / 4.0 * (weights - (0.0, 1.0))
        curvature = (inputs * (mean * (1.0 - mean))[:, None]).T @ inputs + _PRIOR / 4.0 * np.eye(2)
        step = np.clip(np.linalg.solve(curvature, slope), -1.0, 1.0)  # if chances are far off, a whole step overshoots
        weights = weights + step
        if np.abs(step).max() < 1e-9:
            break
    return float(weights[0]), float(max(weights[1], 0.05))


def _came_true(at: np.ndarray, started: np.ndarray) -> np.ndarray:
    """Return the share of jobs that start by each of ``_POINTS`` of their chance, rising."""
    order = np.argsort(at, kind="stable")
    at, started = at[order], started[order]
    risk = len(at) - np.arange(len(at))
    stays = np.cumprod(1.0 - started / (risk + 0.0))
    by = np.searchsorted(at, _POINTS, "right")
    came = 1.0 - np.concatenate(([1.0], stays))[by]
    seen = started.sum()
    mixed = (came * seen + _POINTS * _PRIOR) / (seen + _PRIOR)
    mixed[0], mixed[-1] = 0.0, 1.0
    return np.maximum.accumulate(mixed)
