"""Candidates that keep a state of their own: nothing of the future, one walk as night by night, and always from the training on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from features.clock import DAY_S
from features.jobs.runtime_features import FEATURES
from models.packed.methods import PREDICTED, Boosting, Method, Quantile
from models.packed.snapshot import UserSnapshot
from models.registry.candidates import Accounting, accounting, fit, refresh, refresh_each
from tests.support.learning import ORIGIN_S, ZONE, as_submitted, asked_after

LEARNERS = (Boosting, Quantile)


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
