"""Step functions count the jobs and processors of every second."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.schedule import busy_procs, queue_length
from tests.sim.metrics.test_schedule_metrics import schedule_of

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
