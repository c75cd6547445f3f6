"""What must hold of every schedule, whatever the workload."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
