"""What must hold of every schedule, whatever the workload; and frozen and published schedules, job for job."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.jobs.schema import REQUIRED, conform
from sim import simulate
from tests.conftest import SHARED, needs_shared
from tests.golden.make_golden import CASES, read
from tests.support.workloads import EASY_NAMES, Workload, workloads

fcfs_easy = st.sampled_from([name for name in EASY_NAMES if name.startswith("FCFS-")])


def starts(load: Workload, scheduler: str, predictor: object = None) -> list[int]:
    return load.schedule(scheduler, predictor).jobs["start_s"].tolist()


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
