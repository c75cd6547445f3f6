"""The registered form of ``quantile``: trained from rows of the table, always an answer."""

from __future__ import annotations

import json

import numpy as np
import pytest

from features.clock import DAY_S
from models.packed.methods import LEVELS, Forest, Quantile
from models.registry.candidates import grown_forest, outdated, refresh, refreshed_forests
from models.runtime import quantile_forest


@pytest.fixture(scope="module")
def forest(records, at):
    return grown_forest(records, at, seed=0)


def refreshed(forest: Forest, records, at: int) -> Forest:
    return next(refreshed_forests(forest, records, [at]))


def test_a_forest_of_another_plan_is_not_refreshed(records, at, forest, tmp_path):
    forest.write(tmp_path)
    with np.load(tmp_path / "forest.npz") as learned:
        written = dict(learned)
    plan = json.loads(str(written.pop("plan"))) | {"step": 0.1}
    np.savez(tmp_path / "forest.npz", plan=np.array(json.dumps(plan)), **written)
    other = Quantile(Forest.read(tmp_path))
    assert outdated(other)
    assert not outdated(Quantile(forest))
    with pytest.raises(ValueError, match="cannot add trees to this model: train it again"):
        refresh(other, records, records.until_s)


@pytest.mark.slow
def test_refreshed_the_trees_stay_and_the_rest_is_what_ended_since(records, at):
    earlier = grown_forest(records, at - 3 * DAY_S, seed=0)
    later = refreshed(earlier, records, at)
    np.testing.assert_array_equal(later.links, earlier.links)
    new = ((records.end_s > at - 3 * DAY_S) & (records.end_s <= at)).sum()
    assert new > 100
    members = (later.leaves - earlier.leaves)[:, quantile_forest.MEMBERS].reshape(quantile_forest.TREES, -1)
    np.testing.assert_array_equal(members.sum(axis=1), new)
    levels = slice(quantile_forest.LEVEL + len(later.levels), quantile_forest.LEVEL + 2 * len(later.levels))
    assert (later.model[levels] != earlier.model[levels]).mean() > 0.9
    assert refreshed(later, records, at - DAY_S) is later


@pytest.mark.thorough
@pytest.mark.slow
def test_quantiles_as_served_are_outlived_about_as_often_as_they_should(records):
    outlived = []
    for day in range(8, 1, -1):
        at = records.until_s - day * DAY_S
        submit = records.jobs["submit_s"].to_numpy()
        rows = np.flatnonzero((submit > at) & (submit <= at + DAY_S))
        answers = Quantile(grown_forest(records, at, seed=0)).predict(records.served(rows, at))
        outlived.append(np.column_stack([records.jobs["runtime_s"].to_numpy()[rows] > answers[name] for name in LEVELS]))
    np.testing.assert_allclose(np.concatenate(outlived).mean(axis=0), [1 - level for level in LEVELS.values()], atol=0.06)
