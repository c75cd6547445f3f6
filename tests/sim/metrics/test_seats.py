"""Jobs hold as many processors as they have, each alone while it runs."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sim.schedule import seats
from tests.support.workloads import Workload, workloads


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
