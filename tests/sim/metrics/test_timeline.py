"""Step functions and Gantt rectangles keep what they draw: waits, areas, and no two jobs on one processor."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import InputError
from sim.metrics.timeline import busiest_window, busy_procs, gantt, queue_length, resample
from tests.conftest import needs_shared
from tests.sim.metrics.test_schedule_metrics import reference, schedule_of

jobs = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 30), st.integers(1, 30), st.integers(1, 5)), min_size=1, max_size=15)


def schedule_from(rows):
    return schedule_of(*zip(*sorted(rows), strict=True))


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(jobs)
def test_step_functions_count_what_is_there_at_every_second(rows):
    schedule = schedule_from(rows)
    table = schedule.jobs
    for steps, enter, leave, weight in (
        (queue_length(schedule), "submit_s", "start_s", np.ones(len(table), int)),
        (busy_procs(schedule), "start_s", "end_s", table["procs"]),
    ):
        for second in range(int(steps.times[0]), int(steps.times[-1]) + 1):
            present = (table[enter] <= second) & (second < table[leave])
            assert steps.values[np.searchsorted(steps.times, second, side="right") - 1] == weight[present].sum()


@settings(deadline=None, max_examples=40)
@given(jobs, st.integers(1, 50))
def test_resampling_keeps_the_integral(rows, step):
    times, values = busy_procs(schedule_from(rows))
    starts, means = resample(times, values, step)
    widths = np.diff(np.append(starts, times[-1]))
    assert (widths > 0).all()
    assert (widths[:-1] == step).all()
    assert (means * widths).sum() == pytest.approx((values[:-1] * np.diff(times)).sum())


def test_resampled_values_are_means_over_time():
    starts, means = resample(np.array([0, 1, 4, 10]), np.array([8, 0, 3, 0]), 4)
    np.testing.assert_array_equal(starts, [0, 4, 8])
    np.testing.assert_array_equal(means, [2.0, 3.0, 3.0])


def test_a_queue_that_is_always_empty_is_resampled_to_one_step():
    starts, means = resample(*queue_length(schedule_of([7], [0], [10], [1])), 4)
    assert (starts.tolist(), means.tolist()) == ([7], [0.0])


def test_a_step_of_no_length_is_refused():
    with pytest.raises(InputError, match="positive"):
        resample(np.array([0, 1]), np.array([1, 0]), 0)


@pytest.mark.slow
@settings(deadline=None, max_examples=20)
@given(jobs, st.integers(0, 60), st.integers(1, 60))
def test_gantt_places_every_job_of_the_window_on_its_own_processors(rows, begin, length):
    schedule = schedule_from(rows)
    window = (begin, begin + length)
    chart = gantt(schedule, window)
    inside = schedule.jobs[(schedule.jobs["end_s"] > window[0]) & (schedule.jobs["start_s"] < window[1])].set_index("job_id")
    assert chart.groupby("job_id")["rows"].sum().to_dict() == inside["procs"].to_dict()
    for second in range(*window):
        running = chart[(chart["start_s"] <= second) & (second < chart["end_s"])]
        rows_taken = [row for piece in running.itertuples() for row in range(piece.row, piece.row + piece.rows)]
        assert len(rows_taken) == len(set(rows_taken))


def test_gantt_takes_the_lowest_free_rows_and_splits_a_job_around_the_others():
    # Rows 0, 1-2 and 3; the second job ends first and the first runs on: the last job, of three processors, gets 1-2 and 4.
    schedule = schedule_of([0, 0, 0, 10], [0, 0, 0, 0], [50, 10, 50, 5], [1, 2, 1, 3])
    chart = gantt(schedule, (0, 60))
    pieces = [tuple(piece) for piece in chart[["job_id", "row", "rows"]].itertuples(index=False)]
    assert pieces == [(1, 0, 1), (2, 1, 2), (3, 3, 1), (4, 1, 2), (4, 4, 1)]


def test_free_rows_beside_each_other_are_one_piece():
    # the middle row is freed last, and joins those above and below it
    chart = gantt(schedule_of([0, 0, 0, 30], [0, 0, 0, 0], [10, 20, 10, 5], [1, 1, 1, 3]), (0, 60))
    pieces = [tuple(piece) for piece in chart[["job_id", "row", "rows"]].itertuples(index=False)]
    assert pieces == [(1, 0, 1), (2, 1, 1), (3, 2, 1), (4, 0, 3)]


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(jobs, st.integers(1, 80))
def test_the_busiest_window_is_the_busiest_of_all(rows, length):
    schedule = schedule_from(rows)
    table = schedule.jobs
    begin, end = busiest_window(schedule, length)
    first, last = int(table["submit_s"].min()), int(table["end_s"].max())
    demand = [int(table["procs"][(table["submit_s"] <= second) & (second < table["end_s"])].sum()) for second in range(first, last)]
    if last - first <= length:
        assert (begin, end) == (first, last)
        return
    totals = [sum(demand[i : i + length]) for i in range(last - first - length + 1)]
    assert (begin, end) == (first + totals.index(max(totals)), first + totals.index(max(totals)) + length)


def test_the_earliest_of_equal_windows_may_end_where_a_job_does():
    assert busiest_window(schedule_of([0, 7], [0, 0], [10, 2], [1, 5]), 5) == (4, 9)


@needs_shared
@pytest.mark.parametrize(("name", "machine"), [("kth-sp2", 100), ("sdsc-sp2", 128)])
def test_a_whole_trace_never_holds_more_than_the_machine_and_keeps_waits_and_areas(name, machine):
    schedule = reference(name, "easy_requested", machine)
    table = schedule.jobs
    times, busy = busy_procs(schedule)
    assert busy.max() <= machine
    assert (busy[:-1] * np.diff(times)).sum() == (table["procs"] * table["runtime_s"]).sum()
    times, waiting = queue_length(schedule)
    assert (waiting[:-1] * np.diff(times)).sum() == (table["start_s"] - table["submit_s"]).sum()
    chart = gantt(schedule, busiest_window(schedule, 2 * 86_400))
    assert (chart["row"] + chart["rows"]).max() <= machine
