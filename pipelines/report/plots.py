"""The report's figures: changes, distributions, time, Gantt charts and prediction quality.

Every function takes values and returns the bytes of an image, ``png`` or ``svg``. ``table`` holds the looks of a whole
comparison, so that a combination looks the same in all its figures; by default those of the schedules given.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PatchCollection
from matplotlib.colors import LogNorm
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from features.clock import DAY_S
from pipelines.report.style import INK, MUTED, ImageFormat, Looks, encode, figure, key, log_durations, looks
from sim.metrics.names import METRICS
from sim.metrics.schedule_metrics import TAU_S, bounded_slowdown
from sim.metrics.timeline import busy_procs, gantt, queue_length, resample
from sim.schedule import Schedule

PANELS = ("mean_bounded_slowdown", "mean_wait_s", "awf_s", "p2sf_s")
_LOG_FROM = 2.0
"""A panel whose largest change exceeds a factor of 1 + this is drawn on a logarithmic scale of ratios."""
_DENSITIES = 5
"""Max predictors drawn as densities, in the order given."""
_POINTS = 400
"""Points of a distribution's curve."""
_STEPS = 200
"""Steps of a time axis."""


def metrics_by_combination(
    comparison: pd.DataFrame,
    baseline: tuple[str, str],
    generated: bool,
    metrics: Sequence[str] = PANELS,
    image: ImageFormat = "png",
) -> bytes:
    """Draw relative changes of metrics to the baseline with intervals.

    A panel a metric, a row a combination. ``comparison`` comes from :func:`sim.metrics.comparison.compare`. A metric whose
    baseline is 0 has an empty panel, which says so.
    """
    rows = comparison.set_index(["scheduler", "predictor", "correction"])
    table = looks(rows.index.unique())
    height = 0.9 + 0.27 * len(table)
    with figure(10.5, height, generated) as drawing:
        panels = drawing.subplots(1, len(metrics), sharey=True, squeeze=False)[0]
        for panel, metric in zip(panels, metrics, strict=True):
            chosen = rows[rows["metric"] == metric]
            panel.set_title(METRICS[metric].title.removeprefix("mean "))  # beside each other there is no room for more
            panel.grid(axis="y", linewidth=0.5)
            low, high = _ratio_axis(panel, chosen)
            for place, (combination, look) in enumerate(table.items()):
                row = chosen.loc[[combination]].iloc[0]
                if not np.isfinite(row["relative"]):
                    continue
                if not low <= row["relative"] <= high:
                    aside = ("◂ {}", 0.02, "left") if row["relative"] < low else ("{} ▸", 0.98, "right")
                    text = aside[0].format(_signed(row["relative"], 0))
                    panel.text(
                        aside[1], place, text, transform=panel.get_yaxis_transform(), ha=aside[2], va="center", color=look.colour
                    )
                    continue
                if np.isfinite(row["low"]):
                    panel.plot(np.log1p([row["low"], row["high"]]), [place, place], color=look.colour, linewidth=1.6, alpha=0.75)
                panel.plot(np.log1p(row["relative"]), place, look.marker, color=look.colour, markersize=5.5)
        panels[0].set_yticks(range(len(table)), [look.label for look in table.values()])
        panels[0].set_ylim(len(table) - 0.4, -0.6)
        drawing.supxlabel(f"change relative to {' / '.join(baseline)} (left is better)", fontsize=9)
        return encode(drawing, image)


def _ratio_axis(panel: Axes, chosen: pd.DataFrame) -> tuple[float, float]:
    """Set up an axis of log ratios, ticked in per cent, over the simulated combinations.

    A recorded schedule is often far off and may lie beyond it. Near 0 the axis is linear, and a factor of two looks the same up
    and down. Returns its limits as relative changes.
    """
    changes = chosen.loc[chosen.index.get_level_values("predictor") != "", ["relative", "low", "high"]].to_numpy(np.float64)
    changes = changes[np.isfinite(changes) & (changes > -1)]
    if len(changes) == 0:
        panel.text(0.5, 0.5, "the baseline is 0", transform=panel.transAxes, ha="center", color=MUTED)
        panel.set_xticks([])
        return 0.0, 0.0
    low, high = np.log1p(min(changes.min(), -0.01)), np.log1p(max(changes.max(), 0.01))
    margin = 0.05 * (high - low)
    panel.set_xlim(low - margin, high + margin)
    panel.axvline(0.0, color=MUTED, linewidth=1)
    if np.expm1(high) > _LOG_FROM:
        candidates = [0, 1, 9, 99, 999, -0.5, -0.9, 3, 31, 315, -0.75]
    else:
        candidates = sorted(
            MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(float(np.expm1(low)), float(np.expm1(high))), key=abs
        )
    kept: list[float] = []
    for tick in [tick for tick in candidates if tick > -1]:
        place = np.log1p(tick)
        if low - margin <= place <= high + margin and all(abs(place - np.log1p(other)) > 0.3 * (high - low) for other in kept):
            kept.append(float(tick))
    digits = 0 if np.allclose(np.multiply(kept, 100), np.round(np.multiply(kept, 100))) else 1
    panel.set_xticks(np.log1p(kept), [_signed(tick, digits) for tick in kept])
    return float(np.expm1(low - margin)), float(np.expm1(high + margin))


def _signed(change: float, digits: int) -> str:
    if change > _LOG_FROM:
        return f"×{change + 1:,.0f}"
    return "0" if change == 0 else f"{100 * change:+.{digits}f} %".replace("-", "−")


def distributions(
    schedules: Sequence[Schedule], tau_s: float = TAU_S, table: Looks | None = None, image: ImageFormat = "png"
) -> bytes:
    """Draw the shares of jobs above each wait and each slowdown, both axes logarithmic.

    Means are made in these tails.
    """
    table = table or looks(key(schedule) for schedule in schedules)
    with figure(10.5, 3.9, any(schedule.generated for schedule in schedules)) as drawing:
        left, right = drawing.subplots(1, 2, sharey=True)
        longest = slowest = 10.0
        for schedule in schedules:
            look = table[key(schedule)]
            wait = (schedule.jobs["start_s"] - schedule.jobs["submit_s"]).to_numpy(np.float64)
            slowdown = bounded_slowdown(schedule, tau_s)
            longest, slowest = max(longest, wait.max()), max(slowest, slowdown.max())
            for panel, values in ((left, wait), (right, slowdown)):
                grid, share = _exceedance(values)
                panel.plot(grid, share, color=look.colour, linestyle=look.dashes, linewidth=1.5, label=look.label)
        for panel in (left, right):
            panel.set_xscale("log")
            panel.set_yscale("log")
            panel.set_ylim(0.7 / len(schedules[0].jobs), 1.3)
            panel.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g} %"))
        log_durations(left.xaxis, longest)
        left.set(xlim=(1, longest), title="waits", xlabel="wait longer than", ylabel="share of jobs")
        right.set(xlim=(1, slowest), title=f"bounded slowdowns (τ = {tau_s:g} s)", xlabel="bounded slowdown above")
        right.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        drawing.legend(*left.get_legend_handles_labels(), loc="outside right center", fontsize=8.5, handlelength=3)
        return encode(drawing, image)


def _exceedance(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return points x from 1 to the largest value, and the share of values above each.

    Exact at every point; shares of 0 are left out.
    """
    ordered = np.sort(values)
    grid = np.geomspace(1.0, max(ordered[-1], 1.0 + 1e-9), _POINTS)
    share = 1.0 - np.searchsorted(ordered, grid, side="right") / len(ordered)
    return grid[share > 0], share[share > 0]


def over_time(schedules: Sequence[Schedule], table: Looks | None = None, image: ImageFormat = "png") -> bytes:
    """Draw queue length and utilization over the trace, time-weighted means over steps."""
    table = table or looks(key(schedule) for schedule in schedules)
    with figure(10.5, 4.6, any(schedule.generated for schedule in schedules)) as drawing:
        above, below = drawing.subplots(2, 1, sharex=True)
        for schedule in schedules:
            look = table[key(schedule)]
            waiting, busy = queue_length(schedule), busy_procs(schedule)
            step = max(int(waiting.times[-1] - waiting.times[0]) // _STEPS, 1)
            for panel, steps, scale in ((above, waiting, 1), (below, busy, schedule.procs)):
                starts, means = resample(*steps, step)
                days = (starts + step / 2 - schedule.jobs["submit_s"].min()) / DAY_S
                panel.plot(days, means / scale, color=look.colour, linestyle=look.dashes, linewidth=1.2, label=look.label)
        above.set(title="jobs waiting", ylim=(0, None))
        below.set(title="utilization", ylim=(0, None), xlabel="days since the first submission")
        below.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
        above.margins(x=0.01)
        drawing.legend(*above.get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=8.5, handlelength=3)
        return encode(drawing, image)


def gantt_chart(schedules: Sequence[Schedule], window: tuple[int, int], image: ImageFormat = "png") -> bytes:
    """Draw the same window of several schedules, one above the other on one clock.

    A rectangle is a job, coloured by its wait. Rows of processors are assigned for drawing (:func:`sim.metrics.timeline.gantt`);
    a job may be in several pieces.
    """
    charts = [gantt(schedule, window) for schedule in schedules]
    waits = [(chart["start_s"] - chart["submit_s"]).to_numpy(np.float64) for chart in charts]
    longest = max([60.0 * 60, *(wait.max() for wait in waits if len(wait))])
    scale = ScalarMappable(LogNorm(60.0, longest), "cividis_r")
    with figure(10.5, 0.5 + 2.6 * len(schedules), any(schedule.generated for schedule in schedules)) as drawing:
        panels = drawing.subplots(len(schedules), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for panel, schedule, chart, wait in zip(panels, schedules, charts, waits, strict=True):
            hours = (chart[["start_s", "end_s"]].to_numpy(np.float64) - window[0]) / 3600
            places = chart[["row", "rows"]].to_numpy(np.float64)
            rectangles = [
                Rectangle((begin, row), end - begin, rows) for (begin, end), (row, rows) in zip(hours, places, strict=True)
            ]
            colours = scale.to_rgba(np.maximum(wait, 60.0))
            panel.add_collection(PatchCollection(rectangles, facecolor=colours, edgecolor="white", linewidth=0.35, rasterized=True))
            top = max(schedule.procs, int((chart["row"] + chart["rows"]).max()) if len(chart) else 0)
            panel.set(xlim=(0, (window[1] - window[0]) / 3600), ylim=(0, top), title=schedule.label, ylabel="processors")
            panel.grid(visible=False)
        day = (window[0] - schedules[0].jobs["submit_s"].min()) / DAY_S
        panels[-1].set_xlabel(f"hours since day {day:.2f} from the first submission")
        bar = drawing.colorbar(scale, ax=list(panels), label="wait of the job before it started", pad=0.01, fraction=0.03)
        log_durations(bar.ax.yaxis, longest, 60.0)
        return encode(drawing, image)


def prediction_quality(
    schedules: Sequence[Schedule], accuracies: pd.DataFrame, table: Looks | None = None, image: ImageFormat = "png"
) -> bytes:
    """Draw accuracy by predictor, and predicted against actual runtimes as densities.

    Exact predictions are left out of the densities. ``accuracies`` holds the columns ``predictor`` and ``accuracy``;
    densities are of the predictors that a schedule used.
    """
    table = table or looks(key(schedule) for schedule in schedules)
    colours = {predictor: {look.colour for (_, name, _), look in table.items() if name == predictor} for _, predictor, _ in table}
    colour = {predictor: found.pop() for predictor, found in colours.items() if len(found) == 1}
    first = {schedule.predictor: schedule for schedule in reversed(schedules) if schedule.predictor not in ("", "clairvoyant")}
    names = [name for name in accuracies["predictor"] if name in first][:_DENSITIES]
    columns = 1 + len(names)
    with figure(10.5, 3.1, any(schedule.generated for schedule in schedules)) as drawing:
        panels = drawing.subplots(1, columns, squeeze=False, width_ratios=[1.15] + [1.0] * len(names))[0]
        _accuracy(panels[0], accuracies, colour)
        longest = max((float(first[name].jobs[["predicted_s", "runtime_s"]].max().max()) for name in names), default=10.0)
        for panel, name in zip(panels[1:], names, strict=True):
            jobs = first[name].jobs
            actual, predicted = np.maximum(jobs["runtime_s"], 1), np.maximum(jobs["predicted_s"], 1)
            panel.hexbin(
                actual, predicted, xscale="log", yscale="log", gridsize=34, bins="log", mincnt=1, cmap="cividis_r", linewidths=0.1
            )
            panel.plot([1, longest], [1, longest], color=INK, linewidth=0.8)
            panel.set(title=name, xlim=(1, longest), ylim=(1, longest), xlabel="actual runtime")
            panel.set_box_aspect(1)
            for axis in (panel.xaxis, panel.yaxis):
                log_durations(axis, longest)
            panel.tick_params(labelsize=7.5)
            panel.tick_params(axis="x", rotation=45)
        if len(panels) > 1:
            panels[1].set_ylabel("predicted runtime")
        return encode(drawing, image)


def _accuracy(panel: Axes, metrics: pd.DataFrame, colour: dict[str, str]) -> None:
    places = range(len(metrics))
    colours = [colour.get(name, MUTED) for name in metrics["predictor"]]
    panel.barh(places, metrics["accuracy"], height=0.6, color=colours, alpha=0.85)
    for place, accuracy in zip(places, metrics["accuracy"], strict=True):
        inside = accuracy > 0.2
        x, ink, side = (accuracy - 0.02, "white", "right") if inside else (accuracy + 0.02, INK, "left")
        panel.text(x, place, f"{100 * accuracy:.0f} %", va="center", ha=side, color=ink, fontweight="bold")
    panel.set_yticks(places, metrics["predictor"])
    panel.set(ylim=(len(metrics) - 0.5, -0.5), xlim=(0, 1), title="accuracy min(p/r, r/p)")
    panel.xaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    panel.grid(axis="y", visible=False)
