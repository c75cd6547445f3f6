"""The registered form of ``quantile``: equal to the kernel's, no future, always an answer."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from features.clock import DAY_S
from models.packed.forest import Forest
from models.packed.methods import LEVELS, Quantile
from models.registry import quantile_training
from models.registry.accounting import accounting
from models.registry.candidates import carried_on, outdated, train
from models.registry.quantile_training import carry_on, grow, up_to_the_second
from models.registry.walk import by_end
from models.runtime import job_features, quantile
from tests.support.learning import ORIGIN_S, ZONE


@pytest.fixture(scope="module")
def forest(known, at):
    return grow(known, at, seed=0)


def carried(forest: Forest, known, at: int) -> Forest:
    return next(carry_on(forest, known, [at]))


def asked_after(known, at):
    return np.flatnonzero(known.jobs["submit_s"].to_numpy() > at)


def kernel_says(known, walk, rows, order):
    """Features, quantiles and points of ``rows`` by the simulator's kernel and what ``walk`` remembers."""
    place = np.argsort(order)[rows]
    for job in place:
        quantile.estimate(walk.memory, job, walk.columns)
    features = walk.memory.keys.shape[1] * job_features.PER_LEVEL + job_features.COMMON
    said = walk.memory.jobs[place]
    return said[:, :features], said[:, features : features + len(walk.plan.levels)], walk.points()[place]


@pytest.mark.slow
@pytest.mark.parametrize("nights", [1, 12])
def test_every_job_is_told_what_the_kernel_says_with_the_same_memory(known, at, nights):
    order = by_end(known)
    walk = quantile_training._Walk(known, order, 0)
    for night in range(nights):
        until = at - (nights - 1 - night) * DAY_S
        walk.learn(until, since_s=at - 15 * DAY_S)
        if nights > 1:  # else there is one leaf
            walk.retrain(until)
    made, rows = walk.forest(at), asked_after(known, at)
    assert len(made.nodes) == (1 if nights == 1 else quantile.TREES)
    features, quantiles, points = kernel_says(known, walk, rows, order)
    asked = known.asked(rows)
    assert asked["user"].isna().any()
    assert asked["executable"].isna().any()
    np.testing.assert_allclose(made.groups.describe(asked)[0], features, rtol=1e-12, atol=1e-12)
    found, levels = made.predict(asked)
    np.testing.assert_allclose(levels, quantiles, rtol=0, atol=1.0)  # whole seconds, which rounding may tell apart
    assert (levels != quantiles).mean() < 0.001
    assert (found != points).mean() < 0.005
    assert len(np.unique(found)) > (3 if nights == 1 else 100)


@pytest.mark.parametrize("plan", [{}, {"answers": {"predicted_50_s": 0.5}}], ids=["now", "of three answers"])
def test_what_is_written_is_read_back(known, at, forest, tmp_path, plan):
    forest.write(tmp_path)
    with np.load(tmp_path / "forest.npz") as learned:
        written = dict(learned)
    plan = json.loads(str(written.pop("plan"))) | plan
    np.savez(tmp_path / "forest.npz", plan=np.array(json.dumps(plan)), **written)
    again, asked = Forest.read(tmp_path), known.asked(asked_after(known, at))
    for one, other in zip(forest.predict(asked), again.predict(asked), strict=True):
        np.testing.assert_array_equal(one, other)
    assert quantile_training.fits(again)
    (tmp_path / "groups.parquet").unlink()
    with pytest.raises(OSError, match="groups"):
        Forest.read(tmp_path)


@pytest.mark.slow
def test_a_night_knows_no_end_after_it(known, at, forest):
    late = known.end_s > at
    runtime = known.jobs["runtime_s"].to_numpy().copy()
    runtime[late] = np.maximum(at + 1 - known.start_s[late], 1) + 77
    jobs = known.jobs.assign(runtime_s=runtime, requested_s=np.maximum(known.jobs["requested_s"], runtime))
    other = accounting(jobs, known.start_s, ORIGIN_S, ZONE)
    earlier = grow(known, at - 3 * DAY_S, seed=0)
    for one, two in ((forest, grow(other, at, seed=0)), (carried(earlier, known, at), carried(earlier, other, at))):
        for name in ("nodes", "thresholds", "counts", "calibrated", "tilt", "work"):
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
        pd.testing.assert_frame_equal(one.groups.table, two.groups.table)
    assert int(forest.groups.table["last_end_s"].max()) <= at


@pytest.mark.slow
def test_carried_on_the_trees_stay_and_the_rest_is_what_ended_since(known, at):
    earlier = grow(known, at - 3 * DAY_S, seed=0)
    later = carried(earlier, known, at)
    np.testing.assert_array_equal(later.nodes, earlier.nodes)
    new = ((known.end_s > at - 3 * DAY_S) & (known.end_s <= at)).sum()
    assert new > 100
    added = (later.counts.astype(np.int64) - earlier.counts)[:, :, : quantile.BINS].sum(axis=(1, 2))
    np.testing.assert_array_equal(added, new)
    assert (later.calibrated != earlier.calibrated).mean() > 0.9
    assert later.work[-1] - earlier.work[-1] == new
    users = later.groups.table[later.groups.table["level"] == 3].set_index("user")
    ended = known.jobs["user"][known.end_s <= at].value_counts()
    np.testing.assert_array_equal(users["ended"], ended[users.index])
    assert carried(later, known, at - DAY_S) is later


@pytest.mark.slow
def test_two_nights_at_a_time_or_one_by_one_make_no_difference_to_what_is_served(known, at):
    """Consumers got each night's version; what was served is told later from the training alone."""
    earlier = grow(known, at - 3 * DAY_S, seed=0)
    asked = known.asked(asked_after(known, at))
    at_once = carried(earlier, known, at)
    step = carried(carried(earlier, known, at - DAY_S), known, at)
    np.testing.assert_array_equal(at_once.counts, step.counts)
    for one, other in zip(at_once.predict(asked), step.predict(asked), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_nights_carried_through_in_one_walk_are_those_carried_on_one_by_one(known, at):
    """The run serves a third of a trace so; what is not over by a night must not be in it."""
    earlier = grow(known, at - 3 * DAY_S, seed=0)
    nights = [at - 4 * DAY_S, at - 2 * DAY_S, at - DAY_S, at]
    asked = known.asked(asked_after(known, at))
    for night, through in zip(nights, carry_on(earlier, known, nights), strict=True):
        alone = carried(earlier, known, night)
        assert through.at_s == alone.at_s
        for name in ("counts", "calibrated", "tilt", "work"):
            np.testing.assert_array_equal(getattr(through, name), getattr(alone, name))
        columns = list(alone.groups.table.columns)
        in_order = [each.groups.table.sort_values(columns, ignore_index=True) for each in (through, alone)]
        pd.testing.assert_frame_equal(*in_order)
        np.testing.assert_array_equal(through.predict(asked)[0], alone.predict(asked)[0])


@pytest.mark.slow
def test_up_to_the_second_a_job_is_told_what_a_night_at_its_submission_would_say(known, at, forest):
    rows = asked_after(known, at)
    now = up_to_the_second(forest, known, rows)
    for place in range(5, 300, 30):
        submit = int(known.jobs["submit_s"].iloc[rows[place]])
        then = carried(forest, known, submit)
        assert then.predict(known.asked(rows[[place]]))[0][0] == now[place]
    assert (now != forest.predict(known.asked(rows))[0]).mean() > 0.5
    assert ((now >= 1) & (now <= known.jobs["requested_s"].to_numpy()[rows])).all()


def test_a_user_never_seen_is_answered_like_nobody_known_and_by_group_or_request(known, at, forest):
    asked = known.asked(asked_after(known, at)).head(40)

    def say(**changes):
        return forest.predict(asked.assign(**changes))[0]

    stranger = say(user="a user never seen")
    np.testing.assert_array_equal(stranger, say(user=None))
    np.testing.assert_array_equal(say(user=None, group=None), forest.predict(asked.drop(columns="group").assign(user=None))[0])
    np.testing.assert_array_equal(say(user=None, group="new", executable="new"), say(user="new", group=None, executable="newer"))
    assert (stranger != say(user=None, group="new")).any()
    assert ((stranger >= 1) & (stranger <= asked["requested_s"])).all()
    # what they said of themselves matters, so the answers differ from job to job
    assert len(np.unique(say(user="new", group="new", executable="new"))) > 5


def test_quantiles_ascend_and_lie_within_the_request(known, at, forest):
    asked = known.asked(asked_after(known, at))
    _, quantiles = forest.predict(asked)
    assert (np.diff(quantiles, axis=1) >= 0).all()
    assert ((quantiles >= 1) & (quantiles <= asked["requested_s"].to_numpy()[:, None])).all()


@pytest.mark.slow
def test_quantiles_as_served_are_outlived_about_as_often_as_they_should(known):
    outlived = []
    for day in range(8, 1, -1):
        at = known.until_s - day * DAY_S
        submit = known.jobs["submit_s"].to_numpy()
        rows = np.flatnonzero((submit > at) & (submit <= at + DAY_S))
        told = Quantile(grow(known, at, seed=0)).answer({}, known.asked(rows))
        outlived.append(np.column_stack([known.jobs["runtime_s"].to_numpy()[rows] > told[name] for name in LEVELS]))
    np.testing.assert_allclose(np.concatenate(outlived).mean(axis=0), [1 - level for level in LEVELS.values()], atol=0.06)


def test_before_there_are_enough_jobs_for_trees_there_is_one_leaf(known):
    at = int(np.sort(known.end_s)[quantile.ENOUGH // 2])
    made = grow(known, at, seed=0)
    assert made.counts.shape[0] == 1
    asked = known.asked(asked_after(known, at)[:30])
    assert ((made.predict(asked)[0] >= 1) & (made.predict(asked)[0] <= asked["requested_s"])).all()
    assert train(Quantile.name, known, int(known.jobs["submit_s"].iloc[0]), 0).name == "requested"
    later = carried(made, known, at + DAY_S)
    assert later.counts[:, :, : quantile.BINS].sum() == (known.end_s <= at + DAY_S).sum()


def test_a_forest_grown_with_other_settings_is_not_carried_on(known, at, forest, monkeypatch):
    from models.packed.methods import Quantile

    assert not outdated(Quantile(forest))
    monkeypatch.setattr(quantile, "STEP", 2 * quantile.STEP)
    assert outdated(Quantile(forest))
    with pytest.raises(ValueError, match="can only be trained anew"):
        carried_on(Quantile(forest), known, known.until_s)
