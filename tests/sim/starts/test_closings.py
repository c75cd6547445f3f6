"""Closings that were planted in a log are found in it, and replays keep to them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from features.clock import Clock
from features.jobs.schema import conform
from sim.simulation import simulate
from sim.starts.closings import Closed, closings, drained, replayed

HOUR_S, DAY_S = 3600, 86_400
CLOCK = Clock(4 * DAY_S, None)  # second 0 is a Monday
TIMES = tuple(day * DAY_S + hour * HOUR_S for day in range(7) for hour in (8, 17))
PLANTED = Closed(40, closings=TIMES, origin_s=4 * DAY_S)


def drawn(count: int = 1200) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    requested = rng.choice([600, HOUR_S, 3 * HOUR_S, 8 * HOUR_S], count)
    columns = {
        "job_id": np.arange(1, count + 1),
        "submit_s": np.sort(rng.integers(0, 60 * DAY_S, count)),
        "runtime_s": np.maximum((requested * rng.random(count)).astype(np.int64), 1),
        "procs": rng.integers(1, 5, count),
        "requested_s": requested,
    }
    return conform(columns, count).astype(dict.fromkeys(columns, "int64"))


def starts(pool: Closed, jobs: pd.DataFrame) -> np.ndarray:
    return jobs["submit_s"].to_numpy(np.int64) + replayed(pool, jobs).astype(np.int64)


def test_no_job_is_planned_to_run_over_a_closing_and_every_job_starts() -> None:
    jobs = drawn()
    start, requested = starts(replace(PLANTED, procs=6), jobs), jobs["requested_s"].to_numpy(np.int64)
    times = (np.arange(30)[:, None] * 7 * DAY_S + np.array(TIMES)).ravel()
    follows = times[np.searchsorted(times, start, "right")]
    assert (start + requested <= follows).all()
    assert (start >= jobs["submit_s"]).all()


def test_a_job_longer_than_any_open_time_starts_at_any_hour() -> None:
    jobs = drawn(50)
    jobs = jobs.assign(requested_s=jobs["requested_s"].mask(jobs.index == 7, 3 * DAY_S))
    assert starts(PLANTED, jobs)[7] == jobs["submit_s"][7]


def test_without_closings_it_is_the_pool() -> None:
    jobs = drawn(300)
    pool = simulate(jobs, procs=5).jobs
    assert replayed(Closed(5), jobs).tolist() == (pool["start_s"] - pool["submit_s"]).tolist()


def test_closings_are_read_from_the_starts_alone() -> None:
    jobs = drawn()
    requested = jobs["requested_s"].to_numpy(np.int64)
    assert set(TIMES) <= set(closings(starts(replace(PLANTED, procs=6), jobs), requested, least=5))
    assert closings(starts(Closed(6), jobs), requested, least=5) == ()


@pytest.mark.slow
def test_closings_are_found_and_changed_only_where_others_are_nearer() -> None:
    jobs = drawn(8000)

    def closings_of(pool: Closed, since: Closed | None, until_s: int = 1 << 60) -> tuple[int, ...]:
        start = starts(pool, jobs)
        inferred = drained(jobs, 40, CLOCK, start, start + jobs["runtime_s"].to_numpy(np.int64), until_s, since)
        return inferred.closings if inferred else ()

    assert closings_of(PLANTED, PLANTED) == TIMES
    assert set(TIMES) < set(closings_of(PLANTED, None)), "half an hour beside is read from the starts as well"
    assert set(TIMES) <= set(closings_of(PLANTED, replace(PLANTED, closings=TIMES[:-1])))
    assert closings_of(replace(PLANTED, closings=()), PLANTED) == ()
    assert closings_of(PLANTED, None, until_s=DAY_S) == (), "jobs that end later are not looked at"
    assert closings_of(PLANTED, None, until_s=-1) == ()
