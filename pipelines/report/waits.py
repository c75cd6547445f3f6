"""Waits as a picture: by the width of jobs, and by the hour of their submission."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from features.clock import DAY_S, Clock, local_clock_s
from pipelines.report.gantt import window_of
from pipelines.report.style import MUTED, figure, key, log_durations, looks
from sim.schedule import Schedule

_SHORTEST_S = 1.0
"""Shorter waits are drawn with this length, since the axis is logarithmic."""


def figure_of_waits(schedules: Sequence[Schedule], clock: Clock, from_s: float | None = None, to_s: float | None = None) -> Figure:
    """Draw the mean and the 90 % quantile of waits, by processors and by hour of submission.

    Widths are in classes that end at powers of two. Hours are those of the ``clock`` of the trace. Bars below show
    the first schedule's shares of jobs. Jobs are those submitted between two seconds of the trace, by default all. Raises
    InputError as :func:`~pipelines.report.gantt.window_of`.
    """
    window = window_of(schedules, from_s, to_s)
    table = looks(key(schedule) for schedule in schedules)
    with figure(10.5, 5.0, any(schedule.generated for schedule in schedules)) as drawing:
        panels = drawing.subplots(2, 2, sharex="col", sharey="row", height_ratios=(3, 1))
        values = [60.0]
        for number, schedule in enumerate(schedules):
            look, jobs = table[key(schedule)], schedule.jobs[schedule.jobs["submit_s"].between(*window)]
            waits = (jobs["start_s"] - jobs["submit_s"]).clip(lower=_SHORTEST_S)
            width = np.ceil(np.log2(jobs["procs"].to_numpy(np.float64))).astype(np.int64)
            hour = local_clock_s(jobs["submit_s"].to_numpy(np.int64), *clock) % DAY_S // 3_600
            for (above, below), by in zip(panels.T, (width, hour), strict=True):
                groups = waits.groupby(by)
                mean, late = groups.mean(), groups.quantile(0.9)
                above.plot(mean.index, mean, look.marker, linestyle="-", color=look.colour, markersize=4, label=look.label)
                above.plot(late.index, late, linestyle=":", color=look.colour, linewidth=1.2)
                values += [*mean, *late]
                if number == 0:
                    share = 100.0 * groups.size() / len(jobs)
                    below.bar(share.index, share, color=MUTED, width=0.7)
        widest = int(np.ceil(np.log2(max(schedule.jobs["procs"].max() for schedule in schedules))))
        shortest, longest = min(values) / 2.0, 2.0 * max(values)
        panels[0, 0].set(title="by width", ylabel="wait: mean, and 90 % quantile (dotted)", yscale="log", ylim=(shortest, longest))
        log_durations(panels[0, 0].yaxis, longest, shortest)
        panels[0, 0].yaxis.set_minor_locator(NullLocator())
        panels[0, 1].set_title("by hour of submission")
        panels[1, 0].set(xlabel="processors, up to", ylabel="% of jobs")
        panels[1, 0].set_xticks(range(widest + 1), [f"{2**power:,}" for power in range(widest + 1)], fontsize=8, rotation=45)
        panels[1, 1].set_xlabel("hour of the day" if clock.origin_unix_s is not None else "hour since second 0 of the trace, of 24")
        panels[1, 1].set_xticks(range(0, 24, 3))
        drawing.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8.5)
    return drawing
