"""Figures of schedulers that plan, after figures 1 to 8 of Klusacek & Chlumsky (2017).

Schedules come by label, with the replicates of one policy behind it: a bar is the mean over replicates, a curve the first one. A
scheduler has the same colour in all figures, with users that react hatched or dashed. Every function returns the bytes of an
image.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, PercentFormatter

from features.clock import DAY_S
from pipelines.report.style import INK, MUTED, ImageFormat, encode, figure, log_durations
from pipelines.workflows.planning import Replicates
from sim.metrics.satisfaction import seriousness, surface_h
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
_DOTS = 20_000
"""Max points of a scatter plot, evenly taken."""
_LEAST_NUWT = 1e-4
_PLAIN = FuncFormatter(lambda value, _: f"{value:,g}")


def colours(labels: Sequence[str]) -> dict[str, str]:
    """Return a colour for each label: that of its scheduler, in their order."""
    table = dict(zip(dict.fromkeys(map(_scheduler, labels)), cycle(_PALETTE), strict=False))
    return {label: table[_scheduler(label)] for label in labels}


def _scheduler(label: str) -> str:
    """Return a label without what it says of users."""
    return label.partition(", ")[0]


def _line(label: str) -> dict[str, Any]:
    """Return the line of a label: dashed where its users react."""
    return {"linewidth": 1.5, "linestyle": "-" if label == _scheduler(label) else (0, (3, 1.5))}


def _fill(label: str) -> dict[str, Any]:
    """Return the face of a label's bar: hatched where its users react."""
    return {"alpha": 0.85} if label == _scheduler(label) else {"alpha": 0.5, "hatch": "////", "edgecolor": "white"}


def overall(schedules: Replicates, image: ImageFormat = "svg") -> bytes:
    """Draw utilization, mean wait and mean bounded slowdown (figures 1 and 6).

    Whiskers are the standard deviation over jobs, dots single replicates.
    """
    with _figure(schedules, 3.3) as drawing:
        used, waited, slowed = drawing.subplots(1, 3)
        _bars(used, schedules, [[_value(each, "utilization") for each in made] for made in schedules.values()])
        used.set_title("utilization")
        used.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
        for panel, title, of_jobs in ((waited, "mean wait, h", _waits_h), (slowed, "mean bounded slowdown", bounded_slowdown)):
            values = [[of_jobs(each) for each in made] for made in schedules.values()]
            means = [[float(each.mean()) for each in made] for made in values]
            _bars(panel, schedules, means, [float(made[0].std()) for made in values])
            panel.set_title(title)
        _legend(drawing, used)
        return encode(drawing, image)


def by_class(schedules: Replicates, image: ImageFormat = "svg") -> bytes:
    """Draw mean waits by processors and by requested time, with counts of jobs (figure 2)."""
    first = next(iter(schedules.values()))[0]
    with _figure(schedules, 3.6) as drawing:
        for panel, (column, all_limits, title) in zip(
            drawing.subplots(1, 2),
            (
                ("procs", WIDTHS, "by processors"),
                ("requested_s", WALLTIMES_S, "by requested time"),
            ),
            strict=True,
        ):
            limits = [limit for limit in all_limits if limit < first.jobs[column].max()]
            names = _class_names(limits, hours=column == "requested_s")
            width = 0.8 / len(schedules)
            counts = np.bincount(np.searchsorted(limits, first.jobs[column]), minlength=len(names))
            for place, (label, made) in enumerate(schedules.items()):
                means = np.mean([_means(each, column, limits) for each in made], axis=0) / _HOUR_S
                at = np.arange(len(names)) + (place - (len(schedules) - 1) / 2) * width
                panel.bar(at, means, width * 0.92, color=colours([*schedules])[label], label=label, **_fill(label))
            panel.set_xticks(range(len(names)), [f"{name}\n{count:,}" for name, count in zip(names, counts, strict=True)])
            panel.tick_params(axis="x", labelsize=7.5)
            panel.set(title=f"mean wait {title}, h", xlabel="class, and its jobs")
            panel.grid(axis="x", visible=False)
        _legend(drawing, drawing.axes[0])
        return encode(drawing, image)


def fairness(schedules: Replicates, image: ImageFormat = "svg") -> bytes:
    """Draw NUWT: mean and standard deviation, users by class, cumulative (figures 3 and 7)."""
    values = {label: per_user(made[0])["nuwt"].dropna().to_numpy() for label, made in schedules.items()}
    most = max(1.0, *(each.max(initial=0.0) for each in values.values()))
    edges = np.geomspace(_LEAST_NUWT, 10 ** np.ceil(np.log10(most)), 25)
    with _figure(schedules, 3.3) as drawing:
        bars, classes, shares = drawing.subplots(1, 3)
        means = [[_value(each, "nuwt_mean") for each in made] for made in schedules.values()]
        _bars(bars, schedules, means, [float(each.std()) for each in values.values()])
        bars.set_title("NUWT, mean over users")
        for label, colour in colours([*schedules]).items():
            found = np.maximum(values[label], _LEAST_NUWT)
            classes.stairs(np.histogram(found, edges)[0], edges, color=colour, label=label, **_line(label))
            ordered = np.sort(found)
            shares.step(ordered, np.arange(1, len(ordered) + 1) / len(ordered), where="post", color=colour, **_line(label))
        for panel in (classes, shares):
            panel.set_xscale("log")
            panel.xaxis.set_major_locator(LogLocator(numticks=5))
            panel.xaxis.set_major_formatter(_PLAIN)
            panel.axvline(1.0, color=MUTED, linewidth=1, linestyle="--")
            panel.set_xlabel("NUWT of a user")
        classes.set_title("users by NUWT")
        shares.set(title="share of users at most", ylim=(0, 1.02))
        shares.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
        _legend(drawing, classes)
        return encode(drawing, image)


def moves(schedule: Schedule, image: ImageFormat = "png") -> bytes:
    """Draw accepted moves over time: the relative improvement of each criterion (figure 4).

    ``schedule`` has searches. The axes leave out the largest and least of them, as the paper's do.
    """
    table = _thinned(schedule.searches)
    days = (table["time_s"] - schedule.jobs["submit_s"].min()) / DAY_S
    with figure(10.5, 3.3, schedule.generated) as drawing:
        for panel, (name, title) in zip(drawing.subplots(1, 3, sharex=True), _GAINS.items(), strict=True):
            gains = table[name].to_numpy(np.float64)
            low, high = np.quantile(gains, [_CROPPED, 1 - _CROPPED]) if len(gains) else (0.0, 0.0)
            reach = max(abs(low), abs(high), 1e-4)
            panel.plot(days, gains, ".", color=_PALETTE[1], markersize=2, alpha=0.5, rasterized=True)
            panel.axhline(0.0, color=MUTED, linewidth=1)
            panel.set(title=title, ylim=(-reach, reach), xlabel="days since the first submission")
            panel.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
        return encode(drawing, image)


def costs(schedules: Mapping[str, Schedule], image: ImageFormat = "png") -> bytes:
    """Draw what searches cost against the jobs in the plan (figure 5).

    An iteration, and all of one search; ``schedules`` have the costs of searches.
    """
    with figure(10.5, 3.6, any(each.generated for each in schedules.values())) as drawing:
        left, right = drawing.subplots(1, 2, sharex=True)
        tables = [_thinned(each.search_costs) for each in schedules.values()]
        tables = [table[(table["iterations"] > 0) & (table["seconds"] > 0)] for table in tables]
        for panel, title, cost in (
            (left, "one iteration of the search, µs", lambda table: 1e6 * table["seconds"] / table["iterations"]),
            (right, "one search, ms", lambda table: 1e3 * table["seconds"]),
        ):
            for label, colour, table in zip(schedules, _PALETTE[1:], tables, strict=False):
                panel.plot(
                    table["plan_jobs"], cost(table), ".", color=colour, markersize=2.5, alpha=0.5, label=label, rasterized=True
                )
            panel.set(title=title, xlabel="jobs in the plan", yscale="log")
            panel.yaxis.set_major_formatter(_PLAIN)
        if len(schedules) > 1:
            drawing.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=5, fontsize=8.5, markerscale=4)
        return encode(drawing, image)


def waits(schedules: Replicates, image: ImageFormat = "svg") -> bytes:
    """Draw the share of jobs that wait at most so long (figure 6), with the mean wait of each."""
    with _figure(schedules, 3.6) as drawing:
        panel = drawing.subplots()
        longest = 60.0
        for label, colour in colours([*schedules]).items():
            wait = np.sort(_waits(schedules[label][0]))
            longest = max(longest, float(wait[-1]))
            mean = float(wait.mean())
            share = float((wait <= mean).mean())
            panel.step(
                np.maximum(wait, 1.0),
                np.arange(1, len(wait) + 1) / len(wait),
                where="post",
                color=colour,
                label=f"{label}: {share:.0%} wait at most the mean",
                **_line(label),
            )
            panel.plot(max(mean, 1.0), share, "o", color=colour, markersize=5)
        panel.set_xscale("log")
        log_durations(panel.xaxis, longest)
        panel.set(xlim=(1, longest), ylim=(0, 1.02), xlabel="wait at most (dots: the mean wait)", ylabel="share of jobs")
        panel.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
        drawing.legend(*panel.get_legend_handles_labels(), loc="outside right center", fontsize=8.5)
        return encode(drawing, image)


def satisfaction(schedules: Replicates, image: ImageFormat = "svg") -> bytes:
    """Draw acceptable waits, complaints a user, and all complaints by seriousness (figure 8)."""
    with _figure(schedules, 3.6) as drawing:
        surface, users, levels = drawing.subplots(1, 3)
        _surface(drawing, surface)
        for label, colour in colours([*schedules]).items():
            counts = np.sort(per_user(schedules[label][0])["complaints"].to_numpy())[::-1]
            found = seriousness(schedules[label][0])
            users.step(np.arange(1, len(counts) + 1), counts, where="mid", color=colour, label=label, **_line(label))
            levels.plot(np.arange(1, len(found) + 1), found, color=colour, **_line(label))
        users.set(title="complaints of a user", xlabel="users, most complaints first")
        users.set_yscale("symlog", linthresh=1)
        levels.set(title="seriousness of complaints", xlabel="complaints, most serious first", ylabel="wait over acceptable wait")
        levels.set_yscale("log")
        for panel in (users.yaxis, levels.yaxis):
            panel.set_major_formatter(_PLAIN)
        _legend(drawing, users)
        return encode(drawing, image)


def _surface(drawing: Figure, panel: Axes) -> None:
    """Draw acceptable waits of single jobs by processors and requested time, hours."""
    procs, hours = np.geomspace(1, 256, 49), np.geomspace(0.25, 400, 97)
    drawn = panel.pcolormesh(procs, hours, np.log10(surface_h(procs, hours)), cmap="cividis_r", rasterized=True)
    panel.set(title="acceptable wait of a job", xlabel="processors", ylabel="requested time, h", xscale="log", yscale="log")
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_formatter(_PLAIN)
    bar = drawing.colorbar(drawn, ax=panel, pad=0.02)
    ticks = (0.25, 1, 4, 24, 96, 400)
    bar.set_ticks(np.log10(ticks).tolist(), labels=[f"{tick:g} h" for tick in ticks])


@contextmanager
def _figure(schedules: Replicates, height: float) -> Iterator[Figure]:
    with figure(10.5, height, any(each.generated for made in schedules.values() for each in made)) as drawing:
        yield drawing


def _legend(drawing: Figure, panel: Axes) -> None:
    drawing.legend(*panel.get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=8.5)


def _bars(panel: Axes, schedules: Replicates, values: Sequence[Sequence[float]], spread: Sequence[float] | None = None) -> None:
    """Draw a bar a label, its replicates as dots, and ``spread`` above it as a whisker."""
    for place, ((label, colour), each) in enumerate(zip(colours([*schedules]).items(), values, strict=True)):
        mean = float(np.mean(each))
        panel.bar(place, mean, 0.62, color=colour, label=label, **_fill(label))
        if spread is not None:
            panel.errorbar(place, mean, [[0.0], [spread[place]]], color=MUTED, capsize=4, linewidth=1.2)
        if len(each) > 1:
            panel.plot(np.full(len(each), place + 0.2), each, ".", color="white", markeredgecolor=INK, markersize=6)
        panel.text(place - 0.3, mean, f"{mean:.3g}", va="bottom", ha="left", fontsize=7)
    panel.set_xticks([])
    panel.set_ylim(0, None)
    panel.grid(axis="x", visible=False)


def _value(schedule: Schedule, name: str) -> float:
    return float(evaluate(schedule)[name])


def _waits(schedule: Schedule) -> np.ndarray:
    return (schedule.jobs["start_s"] - schedule.jobs["submit_s"]).to_numpy(np.float64)


def _waits_h(schedule: Schedule) -> np.ndarray:
    return _waits(schedule) / _HOUR_S


def _means(schedule: Schedule, column: str, limits: Sequence[float]) -> np.ndarray:
    """Return mean waits by class of ``column``, float64 [classes], s; NaN for a class without jobs."""
    found = np.searchsorted(limits, schedule.jobs[column])
    total = np.bincount(found, _waits(schedule), len(limits) + 1)
    jobs = np.bincount(found, minlength=len(limits) + 1)
    return np.divide(total, jobs, out=np.full(len(total), np.nan), where=jobs > 0)


def _class_names(limits: Sequence[int], hours: bool) -> list[str]:
    names = [str(limit) for limit in limits]
    if hours:
        names = [f"{limit // _HOUR_S} h" if limit < DAY_S else f"{limit // DAY_S} d" for limit in limits]
    return [*(f"≤ {name}" for name in names), f"> {names[-1]}" if names else "all"]


def _thinned(table: pd.DataFrame | None) -> pd.DataFrame:
    if table is None:
        raise ValueError("the schedule has no searches")
    return table.iloc[:: max(len(table) // _DOTS, 1)]
