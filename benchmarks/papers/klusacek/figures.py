"""Figures 1 to 8 of Klusacek & Chlumsky (2017) for schedules by label.

The first schedule of each label is drawn; a bar is the mean over its replicates. Every function draws into a figure's panels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter, PercentFormatter

from features.clock import DAY_S
from pipelines.report.style import INK, MUTED, encode, figure
from sim.metrics.satisfaction import acceptable_wait_s, dissatisfaction, user_jobs
from sim.metrics.schedule_metrics import bounded_slowdown, evaluate
from sim.metrics.user_fairness import per_user
from sim.schedule import Schedule

_PALETTE = (INK, "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
_HOUR_S = 3600
WIDTHS = (1, 2, 4, 8, 16, 32, 64, 128)
"""Largest processors of the classes of figure 2; wider jobs are in one class more."""
WALLTIMES_S = tuple(hours * _HOUR_S for hours in (1, 4, 12, 24, 48, 168))
"""Longest requests of the classes of figure 2; longer jobs are in one class more."""
_GAINS = {"wait_gain": "mean wait", "slowdown_gain": "mean bounded slowdown", "fairness_gain": "fairness"}
_CROPPED = 0.02
"""Share of moves, the largest and the least, beyond the axis of figure 4."""
_LEAST_NUWT = 1e-4

Replicates = Mapping[str, Sequence[Schedule]]


def drawn(schedules: Replicates) -> dict[str, bytes]:
    """Return every figure that the schedules can fill as PNG, by name."""
    searched = {label: each[0] for label, each in schedules.items() if each[0].searches is not None and len(each[0].searches)}
    figures: dict[str, Callable[[Figure], None]] = {
        "1-overall": lambda on: overall(on, schedules),
        "2-classes": lambda on: by_class(on, schedules),
        "3-7-fairness": lambda on: fairness(on, schedules),
        "6-waits": lambda on: waits(on, schedules),
        "8-satisfaction": lambda on: satisfaction(on, schedules),
    }
    if searched:
        figures |= {"4-moves": lambda on: moves(on, next(iter(searched.values()))), "5-costs": lambda on: costs(on, searched)}
    images = {}
    for name, draw in figures.items():
        with figure(10.5, 3.6, any(each.generated for each in next(iter(schedules.values())))) as drawing:
            draw(drawing)
            for axis in (each for panel in drawing.axes for each in (panel.xaxis, panel.yaxis) if each.get_scale() == "log"):
                axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
                axis.set_minor_formatter(NullFormatter())
            handles, labels = drawing.axes[0].get_legend_handles_labels()
            if len(labels) > 1:
                drawing.legend(handles, labels, loc="outside upper center", ncols=4, fontsize=8.5)
            images[name] = encode(drawing, "png")
    return images


def _coloured(labels: Replicates | Mapping[str, Schedule]) -> list[tuple[str, str]]:
    return list(zip(labels, cycle(_PALETTE), strict=False))


def overall(drawing: Figure, schedules: Replicates) -> None:
    """Draw utilization, mean wait and mean bounded slowdown (figures 1 and 6)."""
    used, waited, slowed = drawing.subplots(1, 3)
    _bars(used, "utilization", schedules, lambda each: float(evaluate(each)["utilization"]))
    _bars(waited, "mean wait, h", schedules, lambda each: float(_waits(each).mean()) / _HOUR_S)
    _bars(slowed, "mean bounded slowdown", schedules, lambda each: float(bounded_slowdown(each).mean()))


def by_class(drawing: Figure, schedules: Replicates) -> None:
    """Draw mean waits by processors and by requested hours (figure 2)."""
    for panel, (column, limits, unit) in zip(
        drawing.subplots(1, 2), (("procs", WIDTHS, 1), ("requested_s", WALLTIMES_S, _HOUR_S)), strict=True
    ):
        for place, (label, colour) in enumerate(_coloured(schedules)):
            classes = np.searchsorted(limits, schedules[label][0].jobs[column])
            jobs = np.bincount(classes, minlength=len(limits) + 1)
            total = np.bincount(classes, _waits(schedules[label][0]), len(limits) + 1)
            means = np.divide(total, jobs, out=np.full(len(total), np.nan), where=jobs > 0) / _HOUR_S
            panel.bar(np.arange(len(means)) + 0.8 * place / len(schedules), means, 0.8 / len(schedules), color=colour, label=label)
        panel.set_xticks(range(len(limits) + 1), [*(f"≤ {limit // unit}" for limit in limits), "more"])
        panel.set(title="mean wait, h", xlabel="processors" if unit == 1 else "requested hours")


def fairness(drawing: Figure, schedules: Replicates) -> None:
    """Draw NUWT: its mean over users, and the share of users at most (figures 3 and 7)."""
    bars, shares = drawing.subplots(1, 2)
    _bars(bars, "NUWT, mean over users", schedules, lambda each: float(evaluate(each)["nuwt_mean"]))
    for label, colour in _coloured(schedules):
        values = np.sort(np.maximum(per_user(schedules[label][0])["nuwt"].dropna().to_numpy(), _LEAST_NUWT))
        _step(shares, values, colour, label)
    shares.set(title="share of users at most", xlabel="NUWT of a user", xscale="log")
    shares.axvline(1.0, color=MUTED, linewidth=1, linestyle="--")


def moves(drawing: Figure, schedule: Schedule) -> None:
    """Draw accepted moves over time: the relative improvement of each criterion (figure 4)."""
    assert schedule.searches is not None
    days = (schedule.searches["time_s"] - schedule.jobs["submit_s"].min()) / DAY_S
    for panel, (name, title) in zip(drawing.subplots(1, 3), _GAINS.items(), strict=True):
        gains = schedule.searches[name].to_numpy(np.float64)
        reach = max(*np.abs(np.quantile(gains, [_CROPPED, 1 - _CROPPED])), 1e-4)
        panel.plot(days, gains, ".", color=_PALETTE[1], markersize=2, alpha=0.5, rasterized=True)
        panel.set(title=title, ylim=(-reach, reach), xlabel="days since the first submission")


def costs(drawing: Figure, schedules: Mapping[str, Schedule]) -> None:
    """Draw the wall time of an iteration and of a search against the jobs in the plan (the last panel of figure 5)."""
    left, right = drawing.subplots(1, 2)
    for label, colour in _coloured(schedules):
        table = schedules[label].search_costs
        assert table is not None
        table = table[(table["iterations"] > 0) & (table["seconds"] > 0)]
        for panel, seconds in ((left, table["seconds"] / table["iterations"]), (right, table["seconds"])):
            panel.plot(table["plan_jobs"], 1e6 * seconds, ".", color=colour, markersize=2.5, label=label, rasterized=True)
    for panel, title in ((left, "one iteration of the search, µs"), (right, "one search, µs")):
        panel.set(title=title, xlabel="jobs in the plan", yscale="log")


def waits(drawing: Figure, schedules: Replicates) -> None:
    """Draw the share of jobs that wait at most so long (figure 6)."""
    panel = drawing.subplots()
    for label, colour in _coloured(schedules):
        _step(panel, np.sort(np.maximum(_waits(schedules[label][0]), 1.0)), colour, label)
    panel.set(xlabel="wait at most, s", ylabel="share of jobs", xscale="log")


def satisfaction(drawing: Figure, schedules: Replicates) -> None:
    """Draw acceptable waits, complaints of a user, and all complaints by seriousness (figure 8)."""
    users, levels, surface = drawing.subplots(1, 3)
    for label, colour in _coloured(schedules):
        counts = np.sort(per_user(schedules[label][0])["complaints"].to_numpy())[::-1]
        users.step(np.arange(1, len(counts) + 1), counts, where="mid", color=colour, label=label)
        serious = dissatisfaction(user_jobs(schedules[label][0]))
        serious = np.sort(serious[serious > 1.0])[::-1]
        levels.plot(np.arange(1, len(serious) + 1), serious, color=colour)
    users.set(title="complaints of a user", xlabel="users, most complaints first")
    levels.set(title="wait over acceptable wait", xlabel="complaints, most serious first", yscale="log")
    procs, hours = np.geomspace(1, 256, 49), np.geomspace(0.25, 400, 97)
    accepted_h = acceptable_wait_s(*np.meshgrid(procs, hours * _HOUR_S)) / _HOUR_S
    mesh = surface.pcolormesh(procs, hours, np.log10(accepted_h), cmap="cividis_r", rasterized=True)
    surface.set(title="log10 of the acceptable wait, h", xlabel="processors", ylabel="requested h", xscale="log", yscale="log")
    drawing.colorbar(mesh, ax=surface)


def _bars(panel: Axes, title: str, schedules: Replicates, value: Callable[[Schedule], float]) -> None:
    """Draw a bar a label, the mean of ``value`` over its replicates, which are dots."""
    for place, (label, colour) in enumerate(_coloured(schedules)):
        values = [value(each) for each in schedules[label]]
        panel.bar(place, float(np.mean(values)), 0.62, color=colour, label=label)
        panel.plot(np.full(len(values), place + 0.2), values, ".", color="white", markeredgecolor=INK)
    panel.set_xticks([])
    panel.set_title(title)


def _step(panel: Axes, ordered: np.ndarray, colour: str, label: str) -> None:
    panel.step(ordered, np.arange(1, len(ordered) + 1) / len(ordered), where="post", color=colour, label=label)
    panel.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))


def _waits(schedule: Schedule) -> np.ndarray:
    return (schedule.jobs["start_s"] - schedule.jobs["submit_s"]).to_numpy(np.float64)
