"""Candidates: each is trained from rows of the table, always answers, and keeps a state that knows nothing of the future."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from features.clock import DAY_S
from features.jobs.runtime_features import FEATURES
from models.packed.methods import LEVELS, PREDICTED, Forest, LightGBM, Method, Quantile
from models.packed.snapshot import UserSnapshot
from models.registry.candidates import Accounting, accounting, fit, grown_forest, outdated, refresh, refresh_each, refreshed_forests
from models.runtime import lightgbm, quantile_forest
from models.runtime.names import predictor
from tests.support.learning import ORIGIN_S, ZONE, as_submitted, asked_after

LEARNERS = (LightGBM, Quantile)


@pytest.fixture(scope="module", params=LEARNERS, ids=lambda kind: kind.name)
def trained(request: pytest.FixtureRequest, records: Accounting, at: int) -> Method:
    return fit(request.param.name, records, at, 0)


@pytest.fixture(scope="module")
def earlier(trained: Method, records: Accounting, at: int) -> Method:
    """The same method, trained three nights before."""
    return fit(trained.name, records, at - 3 * DAY_S, 0)


def same(one: Method, other: Method) -> None:
    """Assert that all that two methods have learned is equal."""
    assert vars(one.state).keys() == vars(other.state).keys()
    for name, learned in vars(one.state).items():
        np.testing.assert_array_equal(learned, getattr(other.state, name))


def points(method: Method, features: pd.DataFrame) -> np.ndarray:
    return method.predict(features)[PREDICTED]


def test_noise_in_the_table_changes_every_answer(trained: Method, records: Accounting, at: int) -> None:
    """Models are trained from the table: from noise they learn something else."""
    random, table = np.random.default_rng(3), records.features
    noise = pd.DataFrame(random.permuted(table.to_numpy(), axis=0), index=table.index, columns=table.columns)
    from_noise = fit(trained.name, replace(records, features=noise), at, 0)
    asked = records.served(asked_after(records, at), at)
    assert (points(from_noise, asked) != points(trained, asked)).mean() > 0.9
    assert (points(trained, noise.iloc[: len(asked)]) != points(trained, asked)).mean() > 0.9
    assert set(trained.columns) <= set(table)


def test_serving_computes_the_rows_of_the_table(records: Accounting) -> None:
    """For jobs of whose likes and user nothing ended, started or ran since the snapshot, to the last bit."""
    columns, checked = (
        [name for name in FEATURES if not name.startswith(("cos", "sin", "running", "occupied", "longest", "sum_r"))],
        0,
    )
    submit = records.jobs["submit_s"].to_numpy(np.int64)
    for row in range(500, 2500, 80):
        at = int(submit[row])
        served = pd.DataFrame(UserSnapshot(*records.snapshot(at), at).features(as_submitted(records, np.arange(row, row + 1))))
        np.testing.assert_array_equal(served[columns], records.features[columns].iloc[[row]])
        later = int(submit[row] + 60)
        changed = (records.end_s > at) & (records.end_s <= later)
        asked = as_submitted(records, np.arange(row, row + 1)).assign(submit_s=later)
        served = pd.DataFrame(UserSnapshot(*records.snapshot(at), at).features(asked))
        fresh = pd.DataFrame(UserSnapshot(*records.snapshot(later), later).features(asked))
        if not changed.any():
            checked += 1
            pd.testing.assert_frame_equal(served, fresh, check_exact=True)
    assert checked > 3


def test_a_night_knows_no_end_after_it(trained: Method, earlier: Method, records: Accounting, at: int) -> None:
    late = records.end_s > at
    runtime = records.jobs["runtime_s"].to_numpy().copy()
    runtime[late] = np.maximum(at + 1 - records.start_s[late], 1) + 77
    jobs = records.jobs.assign(runtime_s=runtime, requested_s=np.maximum(records.jobs["requested_s"], runtime))
    other = accounting(jobs, records.start_s, ORIGIN_S, ZONE)
    same(trained, fit(trained.name, other, at, 0))
    same(refresh(earlier, records, at), refresh(earlier, other, at))
    for table, changed in zip(records.snapshot(at), other.snapshot(at), strict=True):
        pd.testing.assert_frame_equal(table, changed)


def test_what_is_written_is_read_back(trained: Method, tmp_path: Path) -> None:
    trained.write(tmp_path)
    same(trained, type(trained).read(tmp_path))


@pytest.mark.slow
def test_trees_stay_and_many_nights_in_one_walk_are_those_one_by_one(earlier: Method, records: Accounting, at: int) -> None:
    """Consumers got each night's version; what was served is told later from the training alone, a third of a trace in one walk."""
    nights = [at - 4 * DAY_S, at - DAY_S, at]
    step = earlier
    for night, through in zip(nights, refresh_each(earlier, records, nights), strict=True):
        same(through, refresh(earlier, records, night))
        step = refresh(step, records, night)
        asked = records.served(asked_after(records, at), at)
        np.testing.assert_array_equal(points(through, asked), points(step, asked))


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


def test_one_name_is_one_learner():
    assert predictor("lightgbm").name == LightGBM.name


def test_before_there_are_enough_jobs_the_last_similar_runtime_answers(records):
    at = int(np.sort(records.end_s)[lightgbm.ENOUGH // 2])
    method, asked = fit("lightgbm", records, at, 0), records.served(asked_after(records, at)[:30], at)
    assert len(method.state.nodes) == 0
    np.testing.assert_array_equal(method.predict(asked)["predicted_s"], np.rint(np.exp(asked["alike_log_s"])))
