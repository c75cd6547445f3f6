"""The registered form of ``quantile``: equal to the kernel's, always an answer."""

from __future__ import annotations

import json

import numpy as np
import pytest

from features.clock import DAY_S
from models.packed.forest import Forest
from models.packed.methods import LEVELS, Quantile
from models.registry import quantile_training
from models.registry.candidates import carried_on, outdated
from models.registry.quantile_training import carry_on, grow
from models.registry.walk import by_end
from models.runtime import job_features, quantile
from tests.support.learning import asked_after


@pytest.fixture(scope="module")
def forest(records, at):
    return grow(records, at, seed=0)


def carried(forest: Forest, records, at: int) -> Forest:
    return next(carry_on(forest, records, [at]))


def kernel_says(records, walk, rows, order):
    """Features, quantiles and points of ``rows`` by the simulator's kernel and what ``walk`` remembers."""
    place = np.argsort(order)[rows]
    for job in place:
        quantile.estimate(walk.memory, job, walk.columns)
    features = walk.memory.keys.shape[1] * job_features.PER_LEVEL + job_features.COMMON
    remembered = walk.memory.jobs[place]
    return remembered[:, :features], remembered[:, features : features + len(walk.plan.levels)], walk.points()[place]


@pytest.mark.slow
@pytest.mark.parametrize("nights", [1, 4])
def test_every_job_is_told_what_the_kernel_says_with_the_same_memory(records, at, nights):
    order = by_end(records)
    walk = quantile_training._Walk(records, order, 0)
    for night in range(nights):
        until = at - (nights - 1 - night) * DAY_S
        walk.learn(until, since_s=at - 15 * DAY_S)
        if nights > 1:  # else there is one leaf
            walk.retrain(until)
    trees, rows = walk.forest(at), asked_after(records, at)
    assert len(trees.nodes) == (1 if nights == 1 else quantile.TREES)
    features, quantiles, points = kernel_says(records, walk, rows, order)
    asked = records.asked(rows)
    assert asked["user"].isna().any()
    assert asked["executable"].isna().any()
    np.testing.assert_allclose(trees.groups.describe(asked)[0], features, rtol=1e-12, atol=1e-12)
    answers, levels = trees.predict(asked)
    np.testing.assert_allclose(levels, quantiles, rtol=0, atol=1.0)  # whole seconds, which rounding may tell apart
    assert (levels != quantiles).mean() < 0.001
    assert (answers != points).mean() < 0.005
    assert len(np.unique(answers)) > (3 if nights == 1 else 100)


def test_a_forest_of_three_answers_is_read(records, at, forest, tmp_path):
    forest.write(tmp_path)
    with np.load(tmp_path / "forest.npz") as learned:
        written = dict(learned)
    plan = json.loads(str(written.pop("plan"))) | {"answers": {"predicted_50_s": 0.5}}
    np.savez(tmp_path / "forest.npz", plan=np.array(json.dumps(plan)), **written)
    again, asked = Forest.read(tmp_path), records.asked(asked_after(records, at))
    for one, other in zip(forest.predict(asked), again.predict(asked), strict=True):
        np.testing.assert_array_equal(one, other)
    assert quantile_training.fits(again)


@pytest.mark.slow
def test_carried_on_the_trees_stay_and_the_rest_is_what_ended_since(records, at):
    earlier = grow(records, at - 3 * DAY_S, seed=0)
    later = carried(earlier, records, at)
    np.testing.assert_array_equal(later.nodes, earlier.nodes)
    new = ((records.end_s > at - 3 * DAY_S) & (records.end_s <= at)).sum()
    assert new > 100
    added = (later.counts.astype(np.int64) - earlier.counts)[:, :, : quantile.BINS].sum(axis=(1, 2))
    np.testing.assert_array_equal(added, new)
    assert (later.calibrated != earlier.calibrated).mean() > 0.9
    assert later.work[-1] - earlier.work[-1] == new
    users = later.groups.table[later.groups.table["level"] == 3].set_index("user")
    ended = records.jobs["user"][records.end_s <= at].value_counts()
    np.testing.assert_array_equal(users["ended"], ended[users.index])
    assert carried(later, records, at - DAY_S) is later


@pytest.mark.thorough
@pytest.mark.slow
def test_quantiles_as_served_are_outlived_about_as_often_as_they_should(records):
    outlived = []
    for day in range(8, 1, -1):
        at = records.until_s - day * DAY_S
        submit = records.jobs["submit_s"].to_numpy()
        rows = np.flatnonzero((submit > at) & (submit <= at + DAY_S))
        answers = Quantile(grow(records, at, seed=0)).answer({}, records.asked(rows))
        outlived.append(np.column_stack([records.jobs["runtime_s"].to_numpy()[rows] > answers[name] for name in LEVELS]))
    np.testing.assert_allclose(np.concatenate(outlived).mean(axis=0), [1 - level for level in LEVELS.values()], atol=0.06)


def test_a_forest_grown_with_other_settings_is_not_carried_on(records, at, forest, monkeypatch):
    from models.packed.methods import Quantile

    assert not outdated(Quantile(forest))
    monkeypatch.setattr(quantile, "STEP", 2 * quantile.STEP)
    assert outdated(Quantile(forest))
    with pytest.raises(ValueError, match="can only be trained anew"):
        carried_on(Quantile(forest), records, records.until_s)
