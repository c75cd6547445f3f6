"""What must hold of every schedule, its step functions and its seats, whatever the workload."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.schedule import busy_procs, queue_length, seats
from tests.sim.metrics.test_schedule_metrics import schedule_of
from tests.support.workloads import EASY_NAMES, Workload, workloads

fcfs_easy = st.sampled_from([name for name in EASY_NAMES if name.startswith("FCFS-")])


def starts(load: Workload, scheduler: str, predictor: object = None) -> list[int]:
    return load.schedule(scheduler, predictor).jobs["start_s"].tolist()


@pytest.mark.slow
@settings(max_examples=25)
@given(workloads(), fcfs_easy, st.data())
def test_easy_never_starts_the_head_after_its_first_reservation(load: Workload, scheduler: str, data: st.DataObject) -> None:
    """If no job outlives its estimate: the reservation is made when all before have started, and only ever brought forward."""
    slack = data.draw(st.lists(st.integers(0, 8), min_size=len(load.submit), max_size=len(load.submit)))
    estimates = np.minimum(np.add(load.runtime, slack), load.requested).tolist()
    start = starts(load, scheduler, estimates)
    for head, needed in enumerate(load.procs):
        now = max([load.submit[head], *start[:head]])  # the head from here on
        if start[head] <= now:
            continue
        ahead = [job for job in range(len(start)) if (start[job] <= now if job < head else start[job] < now)]
        holding = [job for job in ahead if start[job] + load.runtime[job] > now]
        reservation = min(
            start[last] + estimates[last]
            for last in holding
            if load.machine - sum(load.procs[job] for job in holding if start[job] + estimates[job] > start[last] + estimates[last])
            >= needed
        )
        assert start[head] <= reservation, f"job {head} starts at {start[head]}, was reserved for {reservation} at {now}"


jobs = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 30), st.integers(1, 30), st.integers(1, 5)), min_size=1, max_size=15)


def schedule_from(rows):
    return schedule_of(*zip(*sorted(rows), strict=True))


@pytest.mark.slow
@settings(deadline=None, max_examples=10)
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


@settings(max_examples=10, deadline=None)
@given(workloads(), st.sampled_from(["FCFS-EASY", "FCFS-List"]), st.sampled_from(["per-second", "per-event"]))
def test_every_job_holds_its_processors_alone(load: Workload, scheduler: str, semantics: str) -> None:
    schedule = load.schedule(scheduler, semantics=semantics)
    held = [{procs for first, last in spans for procs in range(first, last + 1)} for spans in seats(schedule)]
    assert [len(each) for each in held] == load.procs
    assert set().union(*held) <= set(range(load.machine))
    runs = list(zip(held, schedule.jobs["start_s"], schedule.jobs["end_s"], strict=True))
    for at, (mine, start, end) in enumerate(runs):
        assert all(not mine & others for others, begin, until in runs[:at] if begin < end and start < until)
