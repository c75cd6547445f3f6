"""Candidates that keep a state of their own: nothing of the future, one walk as night by night, and always from the training on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from features.clock import DAY_S
from models.packed.methods import PREDICTED, Boosting, Method, Quantile
from models.registry.accounting import Accounting, accounting
from models.registry.candidates import carried_on, carried_through, train, up_to_the_second
from tests.support.learning import ORIGIN_S, ZONE, asked_after

LEARNERS = (Boosting, Quantile)


@pytest.fixture(scope="module", params=LEARNERS, ids=lambda kind: kind.name)
def trained(request: pytest.FixtureRequest, records: Accounting, at: int) -> Method:
    return train(request.param.name, records, at, 0)


@pytest.fixture(scope="module")
def earlier(trained: Method, records: Accounting, at: int) -> Method:
    """The same method, trained three nights before."""
    return train(trained.name, records, at - 3 * DAY_S, 0)


def same(one: Method, other: Method) -> None:
    """Assert that all that two methods have learned is equal; groups may lie in another order."""
    assert vars(one.state).keys() == vars(other.state).keys()
    for name, learned in vars(one.state).items():
        if isinstance(learned, np.ndarray):
            np.testing.assert_array_equal(learned, getattr(other.state, name))
    tables = [each.state.groups.table for each in (one, other)]
    pd.testing.assert_frame_equal(*(table.sort_values(list(table), ignore_index=True) for table in tables))
    assert one.state.groups.at_s == other.state.groups.at_s


def points(method: Method, records: Accounting, rows: np.ndarray) -> np.ndarray:
    return method.answer({}, records.asked(rows))[PREDICTED]


def test_a_night_knows_no_end_after_it(trained: Method, earlier: Method, records: Accounting, at: int) -> None:
    late = records.end_s > at
    runtime = records.jobs["runtime_s"].to_numpy().copy()
    runtime[late] = np.maximum(at + 1 - records.start_s[late], 1) + 77
    jobs = records.jobs.assign(runtime_s=runtime, requested_s=np.maximum(records.jobs["requested_s"], runtime))
    other = accounting(jobs, records.start_s, ORIGIN_S, ZONE)
    same(trained, train(trained.name, other, at, 0))
    same(carried_on(earlier, records, at), carried_on(earlier, other, at))
    assert int(trained.state.groups.table["last_end_s"].max()) <= at


def test_what_is_written_is_read_back(trained: Method, tmp_path: Path) -> None:
    trained.write(tmp_path)
    same(trained, type(trained).read(tmp_path))
    (tmp_path / "groups.parquet").unlink()
    with pytest.raises(OSError, match="groups"):
        type(trained).read(tmp_path)


@pytest.mark.slow
def test_trees_stay_and_many_nights_in_one_walk_are_those_one_by_one(earlier: Method, records: Accounting, at: int) -> None:
    """Consumers got each night's version; what was served is told later from the training alone, a third of a trace in one walk."""
    nights = [at - 4 * DAY_S, at - DAY_S, at]
    step = earlier
    for night, through in zip(nights, carried_through(earlier, records, nights), strict=True):
        same(through, carried_on(earlier, records, night))
        step = carried_on(step, records, night)
        assert through.state.groups.at_s == max(night, at - 3 * DAY_S)
        np.testing.assert_array_equal(through.state.nodes, earlier.state.nodes)
        rows = asked_after(records, at)
        np.testing.assert_array_equal(points(through, records, rows), points(step, records, rows))
    assert through.state.groups.table["ended"].sum() > earlier.state.groups.table["ended"].sum()
    nameless = records.jobs.assign(group=pd.Categorical([None] * len(records.jobs)))
    with pytest.raises(ValueError, match="can only be trained anew"):
        carried_on(earlier, accounting(nameless, records.start_s, ORIGIN_S, ZONE), at)


@pytest.mark.slow
def test_up_to_the_second_a_job_is_told_what_a_night_at_its_submission_would_say(
    trained: Method, records: Accounting, at: int
) -> None:
    rows = asked_after(records, at)
    now = up_to_the_second(trained, records, rows)
    for place in range(5, 300, 60):
        then = carried_on(trained, records, int(records.jobs["submit_s"].iloc[rows[place]]))
        assert points(then, records, rows[[place]])[0] == now[place]
    assert (now != points(trained, records, rows)).mean() > 0.3
    assert ((now >= 1) & (now <= records.jobs["requested_s"].to_numpy()[rows])).all()
