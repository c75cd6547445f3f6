"""The user-history features against their definition in plain Python, and against a perturbed future."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import InputError
from features.jobs.cleaning import CleanTrace, clean
from features.jobs.history import completed_jobs
from features.jobs.runtime_features import FEATURES, runtime_features
from features.jobs.schema import Trace, conform
from models.registry.candidates import accounting
from pipelines.lake.tables import features_of
from pipelines.training.ledger import ReplayedTrace
from tests.support.fresh import seeds

CLOCK = ["cos_day", "sin_day", "cos_week", "sin_week"]
NAN = math.nan


def table(rows: list[dict]) -> pd.DataFrame:
    """A cleaned canonical table of ``rows``, in their order; what they leave out is null, requests are ample."""
    columns = {name: [row.get(name) for row in rows] for name in ("allocated_procs", "user")}
    numbers = {name: np.array([row[name] for row in rows], np.int64) for name in ("submit_s", "runtime_s", "procs")}
    jobs = conform(
        {
            **numbers,
            **columns,
            "job_id": np.arange(1, len(rows) + 1),
            "requested_s": [row.get("requested_s", row["runtime_s"] + 100) for row in rows],
        },
        len(rows),
    )
    return jobs.astype({"runtime_s": "int64", "procs": "int64", "requested_s": "int64"})


def random_trace(jobs: int, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """A dense random trace, full of same-second events and jobs that run at a time, and its start times."""
    rows = [
        {
            "submit_s": int(submit),
            "runtime_s": int(rng.integers(1, 60)),
            "procs": int(rng.integers(1, 9)),
            "allocated_procs": None if rng.random() < 0.3 else int(rng.integers(1, 17)),
            "user": (None, "a", "b", "c", "d")[int(rng.choice(5, p=[0.1, 0.5, 0.2, 0.15, 0.05]))],
        }
        for submit in np.cumsum(rng.integers(0, 6, jobs))
    ]
    return table(rows), np.array([row["submit_s"] for row in rows]) + rng.integers(0, 20, jobs)


@st.composite
def traces(draw: st.DrawFn) -> tuple[pd.DataFrame, np.ndarray]:
    """Short traces in which everything meets: one second, no wait, no user, one user."""
    users = draw(st.sampled_from([(None, "a", "b"), ("a",), ("a", "b", "c")]))
    rows, starts, submit = [], [], draw(st.integers(0, 10**9))
    for _ in range(draw(st.integers(1, 25))):
        submit += draw(st.integers(0, 3))
        rows.append(
            {
                "submit_s": submit,
                "runtime_s": draw(st.integers(1, 8)),
                "procs": draw(st.integers(1, 5)),
                "allocated_procs": draw(st.none() | st.integers(1, 5)),
                "user": draw(st.sampled_from(users)),
            }
        )
        starts.append(submit + draw(st.integers(0, 4)))
    return table(rows), np.array(starts)


def local(jobs: pd.DataFrame) -> np.ndarray:
    return jobs["submit_s"].to_numpy(np.int64)


# The definition, job by job and without any state.


def defined(jobs: pd.DataFrame, start_s: np.ndarray) -> list[dict[str, float]]:
    """The history (clock apart) of every job of ``jobs``, from the definition alone: look at all the jobs of its user."""
    everything = []
    for row, job in enumerate(jobs.itertuples()):
        times = {"row": row, "start": int(start_s[row]), "end": int(start_s[row]) + job.runtime_s}
        allocated = job.procs if pd.isna(job.allocated_procs) else int(job.allocated_procs)
        everything.append({**times, "runtime": job.runtime_s, "procs": job.procs, "allocated": allocated, "user": job.user})
    of_user: dict[str, list[dict]] = {}
    for job in everything:
        of_user.setdefault("" if pd.isna(job["user"]) else job["user"], []).append(job)
    of_user[""] = []
    return [
        known_of(now, job["procs"], of_user["" if pd.isna(job["user"]) else job["user"]])
        for job, now in zip(everything, jobs["submit_s"].tolist(), strict=True)
    ]


def known_of(now: int, procs: int, of_user: list[dict]) -> dict[str, float]:
    ended = sorted((job for job in of_user if job["end"] <= now), key=lambda job: (job["end"], job["start"], job["row"]))
    running = [job for job in of_user if job["start"] < now < job["end"]]
    runtimes = [job["runtime"] for job in reversed(ended)]
    mean_procs = mean([job["procs"] for job in ended])
    return {
        "completed_jobs": len(ended),
        "last_runtime_s": runtimes[0] if len(runtimes) > 0 else NAN,
        "second_last_runtime_s": runtimes[1] if len(runtimes) > 1 else NAN,
        "third_last_runtime_s": runtimes[2] if len(runtimes) > 2 else NAN,
        "mean_last2_runtime_s": mean(runtimes[:2]) if len(runtimes) > 1 else NAN,
        "mean_last3_runtime_s": mean(runtimes[:3]) if len(runtimes) > 2 else NAN,
        "mean_runtime_s": mean(runtimes),
        "sum_runtime_s": sum(runtimes),
        "mean_procs": mean_procs,
        "mean_allocated_procs": mean([job["allocated"] for job in ended]),
        "procs_over_mean": procs / mean_procs,
        "running_jobs": len(running),
        "running_mean_procs": mean([job["procs"] for job in running]),
        "occupied_procs": sum(job["procs"] for job in running),
        "longest_running_s": max((now - job["start"] for job in running), default=NAN),
        "sum_running_s": sum(now - job["start"] for job in running),
        "break_s": now - ended[-1]["end"] if ended else NAN,
    }


def mean(values: list[int]) -> float:
    return sum(values) / len(values) if values else NAN


def assert_as_defined(jobs: pd.DataFrame, start_s: np.ndarray) -> None:
    past = runtime_features(jobs, start_s, local(jobs))
    assert tuple(past.columns) == FEATURES
    assert (past.dtypes == "float64").all()
    expected = pd.DataFrame(defined(jobs, start_s), dtype="float64")
    pd.testing.assert_frame_equal(past[list(expected)], expected, check_exact=True)
    assert past["completed_jobs"].tolist() == completed_jobs(jobs, start_s).tolist()


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(traces())
def test_history_is_its_definition_on_short_traces(trace: tuple[pd.DataFrame, np.ndarray]) -> None:
    assert_as_defined(*trace)


@pytest.mark.parametrize("seed", seeds(2))
def test_history_is_its_definition_on_random_traces(seed: int) -> None:
    assert_as_defined(*random_trace(400, np.random.default_rng(seed)))


def test_clock_is_the_wall_clock_from_monday() -> None:
    jobs = table([{"submit_s": number, "runtime_s": 1, "procs": 1, "user": "a"} for number in range(4)])
    instants = ["1997-03-31 00:00:00", "1997-03-31 06:00:00", "1997-04-02 12:00:00", "1997-04-03 12:00:00"]  # 31 March: a Monday
    clock = pd.DatetimeIndex(instants).to_numpy().astype("datetime64[s]").astype(np.int64)
    past = runtime_features(jobs, local(jobs), clock)
    days = 2 * np.pi * np.array([0, 0.25, 2.5, 3.5])
    for name, expected in {
        "cos_day": np.cos(days),
        "sin_day": np.sin(days),
        "cos_week": np.cos(days / 7),
        "sin_week": np.sin(days / 7),
    }.items():
        np.testing.assert_allclose(past[name], expected, atol=1e-12)


# Nothing of the future.


def perturbed(jobs: pd.DataFrame, start_s: np.ndarray, row: int, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """``jobs`` with all that happens after the submission of ``row`` made different, as far as it can be."""
    now = int(jobs["submit_s"].iloc[row])
    after = np.arange(len(jobs)) > row
    submit = jobs["submit_s"].to_numpy().copy()
    submit[after] = now + np.sort(rng.integers(0, 200, after.sum()))
    start = start_s.copy()
    waiting = start_s >= now  # jobs not started before now may start at any time from now on
    start[waiting] = np.maximum(submit, now)[waiting] + rng.integers(0, 50, waiting.sum())
    runtime = jobs["runtime_s"].to_numpy().copy()
    unended = start_s + runtime > now
    runtime[unended] = np.maximum(now - start, 0)[unended] + rng.integers(1, 100, unended.sum())
    changed = jobs.assign(submit_s=submit, runtime_s=runtime)
    for name, values in {
        "procs": rng.integers(1, 50, len(jobs)),
        "requested_s": rng.integers(1, 1_000, len(jobs)),
        "allocated_procs": rng.integers(1, 50, len(jobs)),
    }.items():
        changed[name] = changed[name].where(~after, pd.Series(values).astype(changed[name].dtype))
    users = changed["user"].cat.codes.to_numpy().copy()
    users[after] = rng.integers(-1, len(changed["user"].cat.categories), after.sum())
    changed["user"] = pd.Categorical.from_codes(users, dtype=changed["user"].dtype)
    return changed, start


def assert_the_future_does_not_matter(jobs: pd.DataFrame, start: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> None:
    inputs = runtime_features(jobs, start, local(jobs))
    for row in rows:
        otherwise, otherwise_start = perturbed(jobs, start, row, rng)
        assert not otherwise["runtime_s"].equals(jobs["runtime_s"])
        past, past_start = jobs.iloc[: row + 1], start[: row + 1]
        for table_, start_ in ((otherwise, otherwise_start), (past, past_start)):
            again = runtime_features(table_, start_, local(table_))
            pd.testing.assert_series_equal(again.iloc[row], inputs.iloc[row], check_exact=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(2))
def test_no_input_depends_on_the_future_of_a_random_trace(seed: int) -> None:
    rng = np.random.default_rng(seed)
    assert_the_future_does_not_matter(*random_trace(300, rng), np.arange(0, 300, 5), rng)


# Bad input, and speed.


def overrunning(recorded_s: int) -> CleanTrace:
    """Of one user, A asks for 100 s and runs ``recorded_s`` from 0 on; B is submitted at 500."""
    columns = {"job_id": [1, 2], "submit_s": [0, 500], "wait_s": [0, 0], "runtime_s": [recorded_s, 10], "procs": [4, 1]}
    return clean(Trace("t", conform({**columns, "requested_s": [100, 10], "user": ["a", "a"]}, 2), procs=8))


def test_a_job_that_runs_beyond_its_request_is_learned_from_when_it_has_ended() -> None:
    cleaned, start = overrunning(1000), np.array([0, 500])
    assert cleaned.jobs["runtime_s"].tolist() == [100, 10]
    records = accounting(cleaned.jobs, start)
    assert records.end_s.tolist() == [1000, 510]
    assert records.ended(999).tolist() == [1]
    for past in (records.features, features_of(cleaned).features):
        assert past[["completed_jobs", "running_jobs", "occupied_procs", "longest_running_s"]].iloc[1].tolist() == [0, 1, 4, 500]
    at_600 = records.snapshot(600).users.iloc[0]
    assert (at_600["completed_jobs"], at_600["last_runtime_s"]) == (1, 10)  # B alone
    at_1000 = records.snapshot(1000).users.iloc[0]
    assert (at_1000["completed_jobs"], at_1000["last_runtime_s"], at_1000["last_end_s"]) == (2, 100, 1000)
    replayed = ReplayedTrace(cleaned, start, "recorded")
    assert replayed.accounting(999).jobs["job_id"].tolist() == [2]
    assert replayed.accounting(1000).jobs["job_id"].tolist() == [1, 2]


@pytest.mark.parametrize("recorded_s", [501, 2000, 50_000])
def test_nothing_known_at_a_submission_depends_on_how_long_a_running_job_still_runs(recorded_s: int) -> None:
    start = np.array([0, 500])
    one, other = (accounting(overrunning(seconds).jobs, start).features for seconds in (recorded_s, 700))
    pd.testing.assert_frame_equal(one, other)
    ended = accounting(overrunning(500).jobs, start).features  # which it has just
    assert ended["completed_jobs"].tolist() == [0, 1]


def test_an_end_before_a_runtime_is_over_is_refused() -> None:
    jobs = table([{"submit_s": 0, "runtime_s": 10, "procs": 1, "user": "a"}])
    with pytest.raises(InputError, match="job 1 ends before its runtime is over"):
        runtime_features(jobs, np.array([0]), np.array([0]), np.array([9]))
