"""What must hold of every schedule, whatever the workload; and frozen and published schedules, job for job."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.jobs.schema import REQUIRED, conform
from sim import simulate
from tests.conftest import SHARED, needs_shared
from tests.golden.make_golden import CASES, read
from tests.support.workloads import EASY_NAMES, OTHER_NAMES, Workload, schedulers, workloads

any_predictor = st.sampled_from([None, "requested", "clairvoyant", "last2"])
fcfs_easy = st.sampled_from([name for name in EASY_NAMES if name.startswith("FCFS-")])


def starts(load: Workload, scheduler: str, predictor: object = None) -> list[int]:
    return load.schedule(scheduler, predictor).jobs["start_s"].tolist()


def free_at(load: Workload, start: list[int], now: int) -> int:
    """Processors that no job holds in second ``now``."""
    held = zip(start, load.runtime, load.procs, strict=True)
    return load.machine - sum(procs for begin, runtime, procs in held if begin <= now < begin + runtime)


def events(load: Workload, start: list[int]) -> list[int]:
    """The seconds in which a job is submitted or ends: those of the scheduling passes."""
    ends = {begin + runtime for begin, runtime in zip(start, load.runtime, strict=True)}
    return sorted(ends | set(load.submit))


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(workloads(), schedulers, any_predictor)
def test_every_job_runs_once_after_its_submission_on_processors_nobody_else_holds(
    load: Workload, scheduler: str, predictor: str | None
) -> None:
    start = starts(load, scheduler, predictor)
    assert len(start) == len(load.submit)
    assert all(begin >= submit for begin, submit in zip(start, load.submit, strict=True))
    assert all(free_at(load, start, begin) >= 0 for begin in start)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(workloads(), schedulers, any_predictor)
def test_jobs_start_only_when_one_is_submitted_or_ends(load: Workload, scheduler: str, predictor: str | None) -> None:
    start = starts(load, scheduler, predictor)
    assert set(start) <= set(events(load, start))


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
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


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(workloads(), st.sampled_from([*EASY_NAMES, "FCFS-Strict"]), any_predictor)
def test_the_head_of_an_fcfs_queue_never_waits_while_it_fits(load: Workload, scheduler: str, predictor: str | None) -> None:
    scheduler = "-".join(["FCFS", *scheduler.split("-")[1:]])
    start = starts(load, scheduler, predictor)
    for head, needed in enumerate(load.procs):
        at_the_head = max([load.submit[head], *start[:head]])
        waits = [now for now in events(load, start) if at_the_head <= now < start[head]]
        assert all(free_at(load, start, now) < needed for now in waits)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(workloads(), st.sampled_from([name for name in OTHER_NAMES if name.endswith("List")]))
def test_under_list_nobody_waits_who_would_fit(load: Workload, scheduler: str) -> None:
    start = starts(load, scheduler)
    for now in events(load, start):
        waiting = [job for job in range(len(start)) if load.submit[job] <= now < start[job]]
        assert all(load.procs[job] > free_at(load, start, now) for job in waiting)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(workloads())
def test_strict_fcfs_seats_each_job_after_the_one_before_it(load: Workload) -> None:
    """The whole schedule in a few lines: the first second, from the last job's start on, in which those before leave room."""
    start: list[int] = []
    for job, needed in enumerate(load.procs):
        earliest = max([load.submit[job], *start[-1:]])
        ends = [begin + runtime for begin, runtime in zip(start, load.runtime, strict=False)]
        before = load.first(job)
        start.append(min(now for now in [earliest, *ends] if now >= earliest and free_at(before, start, now) >= needed))
    assert starts(load, "Strict") == start


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(workloads(), schedulers)
def test_twice_as_long_in_everything_is_the_same_schedule_at_half_speed(load: Workload, scheduler: str) -> None:
    submit, runtime, requested, estimates = (
        [2 * seconds for seconds in column] for column in (load.submit, load.runtime, load.requested, load.estimates)
    )
    doubled = replace(load, submit=submit, runtime=runtime, requested=requested, estimates=estimates)
    assert starts(doubled, scheduler) == [2 * start for start in starts(load, scheduler)]


# Frozen and published schedules


def canonical(table: pd.DataFrame) -> pd.DataFrame:
    """A cleaned jobs table of these jobs; the published schedules leave units out of their names."""
    table = table.rename(columns={"submit": "submit_s", "runtime": "runtime_s", "requested": "requested_s"})
    columns = ["job_id", "submit_s", "runtime_s", "procs", "requested_s", "user"]
    return conform(dict(table[columns].astype({"user": "str"})), len(table)).astype(dict.fromkeys(REQUIRED, "int64"))


@pytest.mark.parametrize("name", CASES)
def test_frozen_schedules_come_out_for_every_job(name: str) -> None:
    head, frozen = read(name)
    predictor = frozen[head["predictor"]] if head["predictor"] in frozen else head["predictor"]
    made = simulate(
        canonical(frozen),
        procs=int(head["machine"]),
        scheduler=head["scheduler"],
        predictor=predictor,
        correction=head["correction"],
    )
    for column in ("start_s", "predicted_s", "corrections"):
        np.testing.assert_array_equal(made.jobs[column], frozen[column], err_msg=column)


@needs_shared
@pytest.mark.parametrize(
    ("file", "procs", "scheduler", "predictor", "column", "published"),
    [
        ("kth-sp2-per-second", 100, "Strict", "requested", "start_strict_fcfs", 6814.9733),
        ("kth-sp2-per-second", 100, "List", "requested", "start_list_fcfs", 71.4535),
        ("kth-sp2-per-second", 100, "EASY", "requested", "start_easy_requested", 92.6877),
        ("kth-sp2-per-second", 100, "EASY-SJBF", "requested", "start_sjbf_requested", 69.3936),
        ("kth-sp2-per-second", 100, "JustBF", "requested", "start_justbf_requested", 101.8269),
        ("kth-sp2-per-second", 100, "SAF-JustBF", "requested", "start_saf_justbf_requested", 45.1127),
        ("kth-sp2-per-second", 100, "SAF-JustBF", "clairvoyant", "start_saf_justbf_clairvoyant", 20.9843),
        ("kth-sp2", 100, "EASY", "clairvoyant", "start_easy_clairvoyant", 71.7224),
        ("sdsc-sp2", 128, "EASY", "clairvoyant", "start_easy_clairvoyant", 70.4779),
    ],
)
def test_published_schedules_come_out_for_every_job(
    file: str, procs: int, scheduler: str, predictor: str, column: str, published: float
) -> None:
    reference = pd.read_parquet(SHARED / "schedules" / f"{file}.parquet")
    jobs = simulate(canonical(reference), procs=procs, scheduler=scheduler, predictor=predictor).jobs
    np.testing.assert_array_equal(jobs["start_s"], reference[column])
    response = jobs["end_s"] - jobs["submit_s"]
    assert (response / jobs["runtime_s"].clip(lower=10)).clip(lower=1).mean() == pytest.approx(published, abs=5e-5)
