"""A sweep says of each policy what simulating and evaluating it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from features.errors import InputError
from sim import evaluate
from sim.campaigns.learned_order import MEASURED, MIXED, PreparedSweep, random_weights
from sim.policy import Policy
from tests.support.workloads import Told, crowd

LOAD = crowd(np.random.default_rng(7), size=150, machine=32)


def by_simulation(weights: np.ndarray, backfill: str, tau_s: float, **policy: Any) -> list[list[float]]:
    names = [f"MIXED({','.join(map(repr, row))})-EASY-{backfill}" for row in weights.tolist()]
    return [evaluate(LOAD.schedule(name, **policy), tau_s=tau_s)[list(MEASURED)].tolist() for name in names]


@pytest.mark.parametrize("features", [3, 6])
@pytest.mark.parametrize(
    "policy",
    [
        {"predictor": "requested"},
        {"predictor": "last2", "correction": "tsafrir", "semantics": "per-event"},
        {"predictor": "requested", "starvation_s": 300},
        {"predictor": "last2", "correction": "conditional"},
    ],
    ids=lambda policy: " ".join(map(str, policy.values())),
)
def test_a_sweep_agrees_with_simulations_one_by_one(features: int, policy: dict[str, Any]) -> None:
    weights = random_weights(6, features, seed=features)
    scheduler = "MIXED(1,0,0)-EASY-SPF"
    prepared = PreparedSweep(LOAD.table(), procs=LOAD.machine, policy=Policy(scheduler, **policy), taus_s=(60.0,))
    swept = prepared.measure(weights)
    expected = by_simulation(weights, "SPF", 60.0, **policy)
    np.testing.assert_allclose(swept[list(MEASURED)].to_numpy(), expected, rtol=1e-12)
    assert swept["mean_wait_s"].nunique() > 1, "policies that all do the same would hide that weights are not used"


def test_random_weights_lie_on_the_unit_sphere_of_the_l1_norm_in_all_directions() -> None:
    weights = random_weights(4000, 3, seed=1)
    np.testing.assert_allclose(np.abs(weights).sum(axis=1), 1.0)
    np.testing.assert_allclose((weights > 0).mean(axis=0), 0.5, atol=0.05)
    np.testing.assert_allclose(np.abs(weights).mean(axis=0), 1 / 3, atol=0.02)
    assert np.array_equal(weights, random_weights(4000, 3, seed=1))


@pytest.mark.parametrize(
    ("weights", "predictor", "message"),
    [
        ([[1.0, 2.0]], "requested", "policies, 3 or 6"),
        ([[0.0, 0.0, 0.0]], "requested", "with no row of zeros alone"),
        ([[float("nan"), 0.0, 1.0]], "requested", "finite"),
        ([[1.0, 0.0, 0.0]], Told([], [], []), "told is written in Python"),
        ([[1.0, 0.0, 0.0]], [-5.0], "predictions for 150 jobs"),
        ([[1.0, 0.0, 0.0]], "lightgbm", "not retrained each night"),
    ],
)
def test_what_a_sweep_cannot_take_is_refused_in_one_line(weights: list, predictor: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        PreparedSweep(LOAD.table(), procs=LOAD.machine, policy=MIXED._replace(predictor=predictor)).measure(weights)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"correction": "nonsense"}, "unknown correction 'nonsense'"),
        ({"semantics": "per-minute"}, "unknown semantics 'per-minute'"),
        ({"starvation_s": -1}, "must be 0 to"),
        ({"scheduler": "MIXED(1,0,0)-EASY-XYZ"}, "unknown order"),
        (
            {"scheduler": "EASY-SPF"},
            r"takes MIXED\(...\) or SCORE\(...\) with EASY, JustBF, List, Strict on the jobs as recorded, not EASY-SPF",
        ),
        ({"shake_s": 60}, "on the jobs as recorded"),
        ({"predictor": np.array(LOAD.estimates, float), "correction": "conditional"}, "a table of one answer a job"),
    ],
)
def test_a_sweep_refuses_what_a_simulation_refuses(policy: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        PreparedSweep(LOAD.table(), procs=LOAD.machine, policy=MIXED._replace(**policy)).measure(random_weights(2))
