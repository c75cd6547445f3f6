"""LightGBM's trees as plain arrays: every row ends in the leaf LightGBM puts it in, and what cannot be converted is refused."""

from __future__ import annotations

from typing import Any

import lightgbm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.trees import leaf_of, plain_trees

KINDS: dict[str, dict[str, Any]] = {
    "gbdt": {"boosting": "gbdt", "learning_rate": 0.3},
    "rf": {"boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1, "feature_fraction_bynode": 0.5},
}


def trained(
    x: np.ndarray, y: np.ndarray, rounds: int = 5, categorical: list[int] | None = None, **options: Any
) -> lightgbm.Booster:
    parameters = {"num_leaves": 9, "min_data_in_leaf": 3, "num_threads": 1, "verbosity": -1, "deterministic": True, **options}
    data = lightgbm.Dataset(x, y, categorical_feature=categorical or "auto", params={"verbosity": -1, "feature_pre_filter": False})
    return lightgbm.train(parameters, data, num_boost_round=rounds)


def data(seed: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Features of many and of few values, negative ones among them, one constant, one that nothing depends on."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.normal(size=size), rng.integers(-2, 3, size), np.ones(size), rng.exponential(100, size)])
    return x, np.sin(3 * x[:, 0]) + x[:, 1] ** 2 + rng.normal(0, 0.1, size)


def walked(booster: lightgbm.Booster, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Leaves and their values [rows, trees]; all trees stand in one table, as the predictors keep them, behind something else."""
    trees = plain_trees(booster)
    links = np.vstack([np.full((3, 3), 77), *(nodes for nodes, _, _ in trees)])
    thresholds = np.concatenate([[9.0], *(each for _, each, _ in trees)])
    begins = np.cumsum([0, *(len(nodes) for nodes, _, _ in trees)])
    leaves = np.array([[leaf_of(links, 3 + begin, thresholds, 1 + begin, row) for begin in begins[:-1]] for row in x])
    values = np.array([[values[leaf] for (_, _, values), leaf in zip(trees, row, strict=True)] for row in leaves])
    return leaves, values


@pytest.mark.slow
@settings(max_examples=10)
@given(st.sampled_from(sorted(KINDS)), st.integers(0, 10**6), st.integers(20, 200), st.integers(2, 40))
def test_every_row_ends_in_lightgbm_s_leaf(kind: str, seed: int, size: int, leaves: int) -> None:
    x, y = data(seed, size)
    booster = trained(x, y, num_leaves=leaves, **KINDS[kind])
    asked = np.vstack([x, data(seed + 1, 50)[0]])
    reached, values = walked(booster, asked)
    np.testing.assert_array_equal(reached, booster.predict(asked, pred_leaf=True))
    expected = [[booster.get_leaf_output(tree, leaf) for tree, leaf in enumerate(row)] for row in reached.tolist()]
    np.testing.assert_array_equal(values, expected)
    combined = values.mean(axis=1) if kind == "rf" else values.sum(axis=1)
    np.testing.assert_allclose(combined, booster.predict(asked), rtol=1e-12)


def test_a_value_at_the_threshold_goes_where_lightgbm_sends_it() -> None:
    x, y = data(3, 200)
    booster = trained(x, y, num_leaves=20)
    nodes, thresholds, _ = plain_trees(booster)[0]
    at = np.array([x[0]] * len(nodes))
    at[np.arange(len(nodes)), nodes[:, 0]] = thresholds
    at = at[abs(thresholds) > 1e-30]  # what is smaller LightGBM takes for 0 before it looks
    assert len(at) > 10
    asked = np.vstack([at, np.nextafter(at, np.inf)])
    np.testing.assert_array_equal(walked(booster, asked)[0], booster.predict(asked, pred_leaf=True))


@pytest.mark.parametrize("kind", KINDS)
def test_a_tree_that_nothing_could_split_is_one_leaf(kind: str) -> None:
    x, y = data(3, 20)
    booster = trained(x, y, rounds=2, min_data_in_leaf=15, **KINDS[kind])
    leaves, values = walked(booster, x)
    assert not leaves.any()
    assert {len(each) for _, _, each in plain_trees(booster)} == {1}
    np.testing.assert_allclose(values.mean(axis=1) if kind == "rf" else values.sum(axis=1), booster.predict(x), rtol=1e-12)


@pytest.mark.parametrize("missing", [{"use_missing": True}, {"use_missing": True, "zero_as_missing": True}])
def test_splits_by_what_is_missing_are_refused(missing: dict[str, bool]) -> None:
    x, y = data(3, 200)
    x[::3, 0] = 0.0 if missing.get("zero_as_missing") else np.nan
    x[:, 1:] = 0.5  # nothing else to split by
    with pytest.raises(ValueError, match="cannot be converted"):
        plain_trees(trained(x, y, **missing))
