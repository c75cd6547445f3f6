"""Figures of experiments on the simulated cluster, after figures 4 to 11 of Nichols et al.

A scheduler has the same colour in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from pipelines.report.cluster_tables import SIMULATED, models_of
from pipelines.report.style import INK, MUTED, ImageFormat, encode, figure
from pipelines.workflows.cluster_experiments import COIN, NOWCAST, ORACLE, WAYS, Conducted, asked_of, counts_harm, label
from sim.cluster.comparison import ALL

_MODELS = ("#0072b2", "#009e73", "#cc79a7", "#882255", "#56b4e9")
_FIXED = {
    ("", False): MUTED,
    (ORACLE, False): "#e69f00",
    (ORACLE, True): "#d55e00",
    (NOWCAST, False): "#e3c94b",
    (NOWCAST, True): "#a08a1c",
    (COIN, False): "#b8c0c8",
}
"""Colours by what is asked, and whether harm to others counts."""
_BESIDE = 2
"""Panels side by side."""
_HEIGHT = 2.7
_MINUTE = 60.0
_DOTS = 20
"""Max trials drawn as dots."""
_RATIOS = (0.35, 0.5, 0.7, 0.85, 1, 1.2, 1.5, 2, 3, 4, 6, 8, 12, 16)

Draw = Callable[[Axes, Conducted, dict[str, str]], None]


def colours(conducted: Sequence[Conducted]) -> dict[str, str]:
    """Return colours by scheduler.

    Ink for the baseline, those of ``_FIXED``, and models take the palette in turn.
    """
    names = list(dict.fromkeys(scheduler for made in conducted for scheduler in made.schedulers))
    palette = cycle(_MODELS)
    known = {made.baseline: INK for made in conducted}
    return {name: known.get(name) or _FIXED.get((asked_of(name), counts_harm(name))) or next(palette) for name in names}


def varied(conducted: Sequence[Conducted], way: str = "varied_pooled", image: ImageFormat = "svg") -> bytes:
    """Draw runs with variation a trial by application (figures 4 and 5).

    ``way`` is one of :data:`pipelines.workflows.cluster_experiments.WAYS`. Titles have those of all applications, in the order of
    the legend.
    """

    def draw(panel: Axes, made: Conducted, colour: dict[str, str]) -> None:
        values = made.values
        _bars(panel, made, values, way, colour)
        sums = " · ".join(f"{values[name, ALL, way].mean():.1f}" for name in made.schedulers)
        panel.set_title(f"{made.experiment.name}: {sums}", fontsize=9)

    return _panels(conducted, draw, f"runs with variation a trial,\n{WAYS[way]}", image)


def waits(conducted: Sequence[Conducted], image: ImageFormat = "svg") -> bytes:
    """Draw the change of waits of jobs not submitted at once, by application (figure 11).

    Means over trials with intervals; lines at a minute, within which the paper's are.
    """

    def draw(panel: Axes, made: Conducted, colour: dict[str, str]) -> None:
        _changes(panel, made, "wait_later_s", ("difference", "low", "high"), 1.0, colour)
        for level in (-_MINUTE, _MINUTE):
            panel.axhline(level, color=MUTED, linewidth=1, linestyle="--")

    return _panels(conducted, draw, "mean wait longer by, s", image, shown=lambda name: name != conducted[0].baseline)


def improvements(conducted: Sequence[Conducted], image: ImageFormat = "svg") -> bytes:
    """Draw by how much the largest runtime of a trial is lower, by application (figure 9).

    Means over trials with intervals.
    """

    def draw(panel: Axes, made: Conducted, colour: dict[str, str]) -> None:
        _changes(panel, made, "worst", ("relative", "relative_low", "relative_high"), -100.0, colour)

    return _panels(conducted, draw, "largest runtime lower by, %", image, shown=lambda name: name != conducted[0].baseline)


def runtimes(conducted: Sequence[Conducted], image: ImageFormat = "svg") -> bytes:
    """Draw runtimes under the baseline and the first model over the baseline's median.

    By application and nodes (figures 6 to 8): boxes are quartiles, whiskers reach from the min to the max.
    """

    def draw(panel: Axes, made: Conducted, colour: dict[str, str]) -> None:
        drawn = [made.baseline, *models_of(made)[:1]]
        runs = made.runs[made.runs["scheduler"].isin(drawn)]
        usual = runs[runs["scheduler"] == made.baseline].groupby(["application", "nodes"])["runtime_s"].median()
        kind = pd.MultiIndex.from_frame(runs[["application", "nodes"]])
        relative = runs.assign(shown=runs["runtime_s"].to_numpy() / usual.reindex(kind).to_numpy())
        values = {key: rows.to_numpy() for key, rows in relative.groupby(["scheduler", "application", "nodes"])["shown"]}
        kinds = [(name, nodes) for name in made.experiment.applications for nodes in made.experiment.nodes]
        for place, scheduler in enumerate(drawn):
            boxes = panel.boxplot(
                [values[scheduler, name, nodes] for name, nodes in kinds],
                positions=np.arange(len(kinds)) + (place - (len(drawn) - 1) / 2) * 0.36,
                widths=0.3,
                whis=(0, 100),
                patch_artist=True,
                manage_ticks=False,
                medianprops={"color": "white", "linewidth": 1.2},
                whiskerprops={"color": colour[scheduler]},
                capprops={"color": colour[scheduler]},
            )
            for box in boxes["boxes"]:
                box.set(facecolor=colour[scheduler], edgecolor=colour[scheduler])
        scaled = len(made.experiment.nodes) > 1
        _names(panel, [f"{name} {nodes}" if scaled else name for name, nodes in kinds], 60 if scaled else 0)
        panel.set_yscale("log", base=2)
        panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        panel.yaxis.set_major_locator(FixedLocator(_RATIOS))
        panel.yaxis.set_minor_locator(NullLocator())
        panel.set_title(made.experiment.name)

    return _panels(
        conducted,
        draw,
        f"runtime / median of {label(conducted[0].baseline)}",
        image,
        beside=1,
        shown=lambda name: any(name in (made.baseline, *models_of(made)[:1]) for made in conducted),
    )


def makespans(conducted: Sequence[Conducted], image: ImageFormat = "svg") -> bytes:
    """Draw makespans of all experiments: means over trials, each trial as a dot (figure 10)."""
    colour = colours(conducted)
    names = list(colour)
    with figure(10.5, 3.2, True, SIMULATED) as drawing:
        panel = drawing.subplots()
        for at, made in enumerate(conducted):
            values = made.values / 60.0
            for scheduler in made.schedulers:
                x = at + (names.index(scheduler) - (len(names) - 1) / 2) * 0.8 / len(names)
                minutes = values[scheduler, ALL, "makespan_s"]
                panel.bar(x, minutes.mean(), 0.72 / len(names), color=colour[scheduler])
                if len(minutes) <= _DOTS:
                    panel.plot(np.full(len(minutes), x), minutes, "o", color="white", markeredgecolor=MUTED, markersize=3)
        panel.set_xticks(range(len(conducted)), [made.experiment.name for made in conducted])
        panel.set_ylabel("makespan, min")
        panel.grid(axis="x", visible=False)
        _legend(drawing, names, colour)
        return encode(drawing, image)


def _panels(
    conducted: Sequence[Conducted],
    draw: Draw,
    what: str,
    image: ImageFormat,
    *,
    beside: int = _BESIDE,
    shown: Callable[[str], bool] = lambda name: True,
) -> bytes:
    """Draw a panel an experiment.

    ``what`` is the title of the vertical axes, ``shown`` says which schedulers are in the legend.
    """
    colour = colours(conducted)
    columns = min(beside, len(conducted))
    lines = -(-len(conducted) // columns)
    with figure(10.5, _HEIGHT * lines + 0.5, True, SIMULATED) as drawing:
        panels = drawing.subplots(lines, columns, squeeze=False).ravel()
        for panel, made in zip(panels, conducted, strict=False):
            draw(panel, made, colour)
            panel.set_ylabel(what, fontsize=8)
            panel.grid(axis="x", visible=False)
        for panel in panels[len(conducted) :]:
            panel.set_visible(False)
        _legend(drawing, [name for name in colour if shown(name)], colour)
        return encode(drawing, image)


def _bars(panel: Axes, made: Conducted, values: pd.DataFrame, metric: str, colour: dict[str, str]) -> None:
    """Draw means over trials of one metric, a group of bars an application."""
    names, count = made.experiment.applications, len(made.schedulers)
    for place, scheduler in enumerate(made.schedulers):
        x = np.arange(len(names)) + (place - (count - 1) / 2) * 0.8 / count
        panel.bar(x, [values[scheduler, name, metric].mean() for name in names], 0.8 / count, color=colour[scheduler])
    _names(panel, names)


def _changes(
    panel: Axes, made: Conducted, metric: str, columns: tuple[str, str, str], scale: float, colour: dict[str, str]
) -> None:
    """Draw changes of one metric from the baseline's, a group of bars an application.

    Times ``scale``, with their intervals.
    """
    found = made.found[made.found["metric"] == metric].set_index(["scheduler", "application"])
    names, others = made.experiment.applications, made.schedulers[1:]
    for place, scheduler in enumerate(others):
        x = np.arange(len(names)) + (place - (len(others) - 1) / 2) * 0.8 / len(others)
        change, low, high = (scale * found[column].loc[[(scheduler, name) for name in names]].to_numpy() for column in columns)
        panel.bar(x, change, 0.8 / len(others), color=colour[scheduler])
        panel.vlines(x, low, high, color=MUTED, linewidth=1.1)
    panel.axhline(0, color=INK, linewidth=0.8)
    _names(panel, names)
    panel.set_title(made.experiment.name)


def _names(panel: Axes, names: Sequence[str], rotation: float = 0) -> None:
    panel.set_xticks(range(len(names)), list(names), fontsize=8, rotation=rotation)


def _legend(drawing: Figure, names: Sequence[str], colour: dict[str, str]) -> None:
    handles = [Patch(color=colour[name], label=label(name)) for name in names]
    drawing.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 5))
