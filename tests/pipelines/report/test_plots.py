"""The picture by processor shows each job of its window, where and as long as it runs."""

from __future__ import annotations

import numpy as np
import pytest

from features.errors import InputError
from pipelines.report.plots import gantt
from sim.schedule import seats
from tests.support.workloads import crowd


def test_every_job_of_the_window_is_drawn_where_it_runs() -> None:
    load = crowd(np.random.default_rng(4), size=80, machine=16)
    schedule = load.schedule("EASY")
    jobs, (first, last) = schedule.jobs, schedule.jobs["submit_s"].quantile([0.3, 0.6])
    drawing = gantt(schedule, first, last)
    drawn = {tuple(map(float, path.vertices[[0, 2]].ravel())) for path in drawing.axes[0].collections[0].get_paths()}
    wanted = {
        ((start - first) / 3600, low, (end - first) / 3600, high + 1.0)
        for spans, start, end in zip(seats(schedule), jobs["start_s"], jobs["end_s"], strict=True)
        for low, high in spans
        if start < last and end > first
    }
    assert drawn == {tuple(map(float, each)) for each in wanted}
    assert drawing.axes[0].get_ylim() == (16, 0)
    assert drawing._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="no job runs between seconds -9 and -5 of the trace"):
        gantt(schedule, -9, -5)
    with pytest.raises(InputError, match="from second 9 to 5 is not a window"):
        gantt(schedule, 9, 5)
