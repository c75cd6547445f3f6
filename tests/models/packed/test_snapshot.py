"""A snapshot gives new submissions the features that the whole trace would, and knows nothing later than its instant."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from features.jobs.runtime_features import FEATURES, runtime_features, states_at
from models.packed.snapshot import UserSnapshot
from tests.features.jobs.test_history import local, perturbed, random_trace, table, traces
from tests.support.fresh import seeds


def features(jobs: pd.DataFrame, start: np.ndarray, at: int, asked: pd.DataFrame) -> pd.DataFrame:
    """Features of what is asked, from a snapshot at ``at``."""
    served = UserSnapshot(*states_at(jobs, start, at), at).features(asked)
    return pd.DataFrame(served, index=asked.index)


def submissions(jobs: pd.DataFrame, local_s: np.ndarray) -> pd.DataFrame:
    """What a job says of itself: the columns that the packed code may see."""
    return jobs[["user", "group", "executable", "procs", "requested_s", "submit_s"]].assign(local_s=local_s)


def assert_as_from_the_trace(jobs: pd.DataFrame, start: np.ndarray, local_s: np.ndarray, rows: np.ndarray) -> None:
    """For a job submitted at the snapshot's instant, column by column and to the last bit (the sine tables of numpy aside)."""
    expected = runtime_features(jobs, start, local_s)
    asked = submissions(jobs, local_s)
    for row in rows:
        now = int(jobs["submit_s"].iloc[row])
        got, clock = features(jobs, start, now, asked.iloc[[row]]), ["cos_day", "sin_day", "cos_week", "sin_week"]
        assert tuple(got) == FEATURES
        pd.testing.assert_frame_equal(got.drop(columns=clock), expected.drop(columns=clock).iloc[[row]], check_exact=True)
        np.testing.assert_allclose(got[clock], expected[clock].iloc[[row]], rtol=0, atol=1e-15)


@pytest.mark.slow
@settings(max_examples=3, deadline=None)
@given(traces())
def test_snapshot_gives_the_features_of_a_job_submitted_then_in_short_traces(trace: tuple[pd.DataFrame, np.ndarray]) -> None:
    jobs, start = trace
    assert_as_from_the_trace(jobs, start, local(jobs), np.arange(len(jobs)))


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(traces(), st.integers(0, 40), st.integers(0, 30), st.sampled_from(["a", "b", "c", "nobody's"]))
def test_clock_alone_moves_on_after_the_snapshot(trace: tuple[pd.DataFrame, np.ndarray], after: int, wait: int, user: str) -> None:
    """As long as nothing more of the user starts or ends, a later submission gets the inputs the whole trace would give it."""
    jobs, start = trace
    assume(jobs["user"].notna().any())  # a trace that names nobody has no key "user": whoever asks is of the same group
    at = int(jobs["submit_s"].iloc[0]) + after
    now = at + wait
    end = start + jobs["runtime_s"].to_numpy()
    of_user = (jobs["user"] == user).to_numpy(bool)
    if (of_user & (((start >= at) & (start < now)) | ((end > at) & (end <= now)))).any():
        now = at
    new = {"submit_s": now, "runtime_s": 1, "procs": 3, "user": user}
    before = jobs["submit_s"].to_numpy() <= now
    users = jobs["user"].astype("str")
    rows = jobs[before].assign(user=users[before]).to_dict("records")
    everything = table([*rows, new])
    starts = np.append(start[before], now)
    expected = runtime_features(everything, starts, local(everything)).iloc[[-1]]
    asked = submissions(everything, local(everything)).iloc[[-1]]
    # groups without the user learn from others' jobs that have ended meanwhile, and "alike" falls back on them
    own = [name for name in FEATURES if not name.startswith(("requested_procs", "group", "executable", "alike"))]
    pd.testing.assert_frame_equal(features(jobs, start, at, asked)[own], expected[own])


@pytest.mark.thorough
def test_many_rows_are_the_rows_one_by_one() -> None:
    jobs, start = random_trace(300, np.random.default_rng(11))
    at, asked = int(jobs["submit_s"].iloc[200]), submissions(jobs, local(jobs)).iloc[200:]
    together = features(jobs, start, at, asked)
    one_by_one = pd.concat([features(jobs, start, at, asked.iloc[[row]]) for row in range(len(asked))])
    pd.testing.assert_frame_equal(together, one_by_one, atol=1e-15, rtol=0)
    assert features(jobs, start, at, asked.iloc[:0]).shape == (0, len(FEATURES))


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1))
def test_snapshot_holds_nothing_later_than_its_instant(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs, start = random_trace(300, rng)
    for row in range(0, 300, 30):
        now = int(jobs["submit_s"].iloc[row])
        changed, past = perturbed(jobs, start, row, rng), (jobs.iloc[: row + 1], start[: row + 1])
        for other in (changed, past):
            for table_, taken in zip(states_at(*other, now), states_at(jobs, start, now), strict=True):
                pd.testing.assert_frame_equal(table_, taken)


def test_unknown_and_null_users_and_an_empty_snapshot_mean_no_history() -> None:
    jobs, start = random_trace(50, np.random.default_rng(2))
    asked = pd.DataFrame({"user": ["stranger", None], "procs": 2, "requested_s": 60, "submit_s": 90, "local_s": 90})
    own = [name for name in FEATURES if not name.startswith(("requested", "procs", "hour", "weekday", "alike", "cos", "sin"))]
    expected = runtime_features(jobs, start, local(jobs))[own].iloc[0]  # a trace's first job has no history
    for at_s in (90, -1):
        for row in (0, 1):
            got = features(jobs, start, at_s, asked)[own].iloc[row]
            pd.testing.assert_series_equal(got, expected, check_names=False)
