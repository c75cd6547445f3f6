"""Jobs hold as many processors as they have, each alone while it runs; files of other programs say which."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.storage.schedule_files import write_schedules
from sim.metrics.seats import seats
from tests.support.workloads import Workload, workloads


@settings(max_examples=20, deadline=None)
@given(workloads(), st.sampled_from(["FCFS-EASY", "FCFS-List"]), st.sampled_from(["per-second", "per-event"]))
def test_every_job_holds_its_processors_alone(load: Workload, scheduler: str, semantics: str) -> None:
    schedule = load.schedule(scheduler, semantics=semantics)
    held = [{procs for first, last in spans for procs in range(first, last + 1)} for spans in seats(schedule)]
    assert [len(each) for each in held] == load.procs
    assert set().union(*held) <= set(range(load.machine))
    runs = list(zip(held, schedule.jobs["start_s"], schedule.jobs["end_s"], strict=True))
    for at, (mine, start, end) in enumerate(runs):
        assert all(not mine & others for others, begin, until in runs[:at] if begin < end and start < until)


THREE = Workload(4, [0, 0, 1], [10, 5, 5], [1, 2, 3], [10, 5, 9], ["a", None, "b"], [10, 5, 9])


def test_jobs_csv_is_as_batsim_writes_it_and_evalys_reads_it(tmp_path: Path) -> None:
    schedule = replace(THREE.schedule("EASY"), trace="three")
    write_schedules(tmp_path / "easy_jobs.csv", [schedule], None, {})
    table = pd.read_csv(tmp_path / "easy_jobs.csv")
    of_evalys = (
        "job_id workload_name submission_time requested_number_of_resources requested_time success starting_time execution_time"
    )
    assert table.columns.tolist() == [
        *of_evalys.split(),
        *["finish_time", "waiting_time", "turnaround_time", "stretch", "allocated_resources"],
    ]
    assert table["allocated_resources"].tolist() == ["0", "1-2", "1-3"]
    assert table.loc[2].tolist() == [3, "three", 1, 3, 9, 1, 5, 5, 10, 4, 9, 1.8, "1-3"]
