"""Traces at another load and squeezed: which columns change, by how much, and what they are called."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from features.errors import InputError
from features.jobs.workload_changes import scaled
from sim import evaluate, simulate
from tests.support.workloads import Workload, crowd

LOAD = Workload(4, [100, 107, 121], [10, 3, 1], [1, 2, 4], [12, 7, 2], ["a", "b", "a"], [10, 3, 1], wait=[0, 0, 5])
CROWD = crowd(np.random.default_rng(2), 200)


def test_a_load_divides_times_between_submissions_alone() -> None:
    table = scaled(LOAD.table(), load=2)
    assert table["submit_s"].tolist() == [100, 103, 110]
    assert table["runtime_s"].tolist() == LOAD.runtime
    assert table["wait_s"].isna().all()
    others = table.columns.drop(["submit_s", "wait_s"])
    pd.testing.assert_frame_equal(table[others], LOAD.table()[others])


def test_a_squeeze_divides_all_times_to_whole_seconds_of_at_least_one() -> None:
    table = scaled(LOAD.table(), squeeze=7)
    assert table[["submit_s", "runtime_s", "requested_s"]].to_numpy().T.tolist() == [[100, 101, 103], [1, 1, 1], [2, 1, 1]]
    assert scaled(LOAD.table(), load=2, squeeze=3.5)["submit_s"].tolist() == [100, 101, 103]
    assert LOAD.table()["submit_s"].tolist() == LOAD.submit


def test_what_is_simulated_is_the_changed_trace_and_is_called_so() -> None:
    schedule = simulate(CROWD.table(), procs=64, predictor="clairvoyant", load=1.5, squeeze=2, trace="toy")
    plain = simulate(scaled(CROWD.table(), 1.5, 2), procs=64, predictor="clairvoyant")
    pd.testing.assert_frame_equal(schedule.jobs, plain.jobs)
    assert (schedule.trace, schedule.load, schedule.squeeze) == ("toy (load 1.5, squeeze 2)", 1.5, 2)
    denser = evaluate(simulate(CROWD.table(), procs=64, load=3.0))
    assert denser["mean_wait_s"] > 2 * evaluate(simulate(CROWD.table(), procs=64))["mean_wait_s"]


def test_predictions_of_the_recorded_runtimes_are_refused_of_squeezed_ones() -> None:
    with pytest.raises(InputError, match="squeeze divides runtimes, and given predictions are of the runtimes as recorded"):
        CROWD.schedule("EASY", squeeze=7)
    assert CROWD.schedule("EASY", load=7.0).load == 7
