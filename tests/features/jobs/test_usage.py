"""What a log used at once, counted second by second, and what is said before it is simulated."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features import Trace, clean, jobs_from
from features.jobs.usage import advised, doubts, usage, with_allocated

JOBS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 20), st.integers(1, 20), st.integers(1, 9)), min_size=1, max_size=12)


def table(rows: list[tuple[int, int, int, int]]) -> pd.DataFrame:
    submit, wait, runtime, procs = zip(*rows, strict=True)
    asked = {"submit_s": submit, "wait_s": wait, "runtime_s": runtime, "requested_s": runtime, "procs": procs, "nodes": 1}
    return jobs_from(pd.DataFrame(asked))


@settings(max_examples=10)
@given(JOBS)
def test_what_is_in_use_is_what_a_count_of_each_second_finds(rows: list[tuple[int, int, int, int]]) -> None:
    seconds = np.zeros((2, 80), int)
    for submit, wait, runtime, procs in rows:
        seconds[:, submit + wait : submit + wait + runtime] += np.array([[procs], [1]])
    busy = np.flatnonzero(seconds[0])
    within = seconds[:, busy[0] : busy[-1] + 1]
    in_use = usage(table(rows))
    assert (in_use.procs.peak, in_use.nodes.peak) == tuple(within.max(axis=1))
    assert in_use.procs.high == np.quantile(within[0], 0.999, method="inverted_cdf")
    assert in_use.waited == np.mean([wait > 60 for _, wait, *_ in rows])


@pytest.mark.parametrize(
    ("size", "procs", "reason"),
    [
        (8, 8, "stated; records that overlap have up to 12 in use"),
        (12, 12, "stated"),
        (5, 12, "5 stated, but a job asks for 6; 12 was enough for 99.9 % of the time"),
        (None, 12, "not stated; 12 was enough for 99.9 % of the time"),
    ],
)
def test_what_is_stated_counts_unless_it_is_impossible(size: int | None, procs: int, reason: str) -> None:
    jobs = table([(0, 0, 100, 6), (0, 0, 100, 6), (1000, 0, 100, 1)])
    assert advised(jobs, size, usage(jobs).procs) == (procs, reason)


def test_a_machine_that_cannot_do_the_work_is_not_believed() -> None:
    jobs = table([(second, 0, 100, 1) for second in range(100)])
    number, reason = advised(jobs, 1, usage(jobs).procs)
    assert number == 100
    assert reason.startswith("1 stated, but jobs ask for 101.01 times what that can do")


@pytest.mark.parametrize(("allocated", "doubtful"), [(100, False), (104, False), (106, True), (94, True)])
def test_work_allocated_apart_from_work_requested_is_warned_of_in_place_of_the_peak(allocated: int, doubtful: bool) -> None:
    jobs = table([(0, 0, 100, 100), (0, 0, 100, 100)]).assign(allocated_procs=pd.array([allocated] * 2, "Int64"))
    trace = Trace("a", jobs, procs=120)
    (line,) = doubts(jobs, 180, clean(trace).rejected_jobs)
    assert line.startswith("jobs were allocated") == doubtful
    assert clean(with_allocated(trace)).jobs["procs"].tolist() == [allocated] * 2


@pytest.mark.parametrize(("every_s", "warned"), [(1, False), (900, True)])
def test_a_span_of_less_than_a_day_is_not_warned_of_for_its_load(every_s: int, warned: bool) -> None:
    jobs = table([(every_s * row, 0, 2 * every_s, 1) for row in range(100)])
    lines = doubts(jobs, 1, clean(Trace("a", jobs, procs=1)).rejected_jobs)
    assert any("would grow without end" in line for line in lines) == warned
