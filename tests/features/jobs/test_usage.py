"""What a log used at once, counted second by second, and what is said before it is simulated."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features import Trace, clean, jobs_from
from features.errors import InputError
from features.jobs.usage import doubts, usage, with_allocated

JOBS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 20), st.integers(1, 20), st.integers(1, 9)), min_size=1, max_size=12)


def table(rows: list[tuple[int, int, int, int]]) -> pd.DataFrame:
    submit, wait, runtime, procs = zip(*rows, strict=True)
    asked = {"submit_s": submit, "wait_s": wait, "runtime_s": runtime, "requested_s": runtime, "procs": procs, "nodes": 1}
    return jobs_from(pd.DataFrame(asked))


@settings(max_examples=40)
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


def test_without_waits_nothing_is_known() -> None:
    assert usage(table([(0, 0, 5, 2)]).assign(wait_s=pd.NA)) == (0, None, None, None)


@pytest.mark.parametrize(("allocated", "doubtful"), [(100, False), (104, False), (106, True), (94, True)])
def test_work_allocated_apart_from_work_requested_is_warned_of_in_place_of_the_peak(allocated: int, doubtful: bool) -> None:
    jobs = table([(0, 0, 100, 100), (0, 0, 100, 100)]).assign(allocated_procs=pd.array([allocated] * 2, "Int64"))
    trace = Trace("a", jobs, procs=120)
    (line,) = doubts(jobs, 180, clean(trace).rejected_jobs)
    assert line.startswith("jobs occupy") == doubtful
    assert clean(with_allocated(trace)).jobs["procs"].tolist() == [allocated] * 2


def test_what_makes_a_simulation_doubtful_is_said() -> None:
    trace = Trace("a", table([(0, 0, 100, 3), (0, 0, 100, 9), (50, 0, 10, 3)]))
    with pytest.raises(InputError, match="processors is unknown; give --procs 15, the most in use at once"):
        clean(trace)
    cleaned = clean(trace, procs=4)
    load, wide, peak = doubts(cleaned.jobs, cleaned.procs, cleaned.rejected_jobs)
    assert load == "jobs ask for 1.65 times what 4 processors can do, so the queue grows without end: is --procs right?"
    assert wide == "1 job asks for more than 4 processors, up to 9: left out; is --procs right?"
    assert peak == "its records have 6 processors in use at once, at the peak 6, not 4: is --procs right?"
    roomy = clean(trace, procs=15)
    assert doubts(roomy.jobs, 60, roomy.rejected_jobs) == []
