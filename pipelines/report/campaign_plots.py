"""Figures of a campaign: policies' distributions over windows, and their ratios by window.

The first is as figure 1 of Legrand, Trystram & Zrigui 2018. Every function takes values by window, one column a policy, and
returns the bytes of an image.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from pipelines.report.style import INK, MUTED, ImageFormat, encode, figure

_LEADERS = 3
_COLOURS = ("#0072b2", "#009e73", "#e69f00", "#cc79a7", "#56b4e9", "#d55e00")
"""Colours of the policies with the lowest means of a panel, the same in all panels."""
_PANELS = 2
"""Panels side by side."""
_STRONGEST = 2.0
"""Colours of ratios end at a factor of 2 to this power, up and down."""


def boxes(values: Mapping[float, pd.DataFrame], baseline: str, generated: bool, image: ImageFormat = "svg") -> bytes:
    """Draw the distribution of windows' mean bounded slowdowns: a panel a tau, a box a policy.

    Sorted by mean (the diamond), on a logarithmic axis. ``values`` holds float64 [windows, policies] by tau. Boxes are quartiles,
    whiskers reach 1.5 times their distance, circles are windows beyond.
    """
    policies = max(len(table.columns) for table in values.values())
    columns = min(len(values), _PANELS)
    lines = -(-len(values) // columns)
    leaders = [name for table in values.values() for name in table.mean().sort_values(kind="stable").index[:_LEADERS]]
    colours = dict(zip(dict.fromkeys(leaders), cycle(_COLOURS), strict=False))
    with figure(10.5, (0.9 + 0.27 * policies) * lines, generated) as drawing:
        panels = drawing.subplots(lines, columns, squeeze=False).ravel()
        for panel, (tau_s, table) in zip(panels, values.items(), strict=False):
            _boxes(panel, table, baseline, colours)
            panel.set(title=f"τ = {tau_s:g} s", xlabel="mean bounded slowdown of a window")
        for panel in panels[len(values) :]:
            panel.set_visible(False)
        return encode(drawing, image)


def _boxes(panel: Axes, table: pd.DataFrame, baseline: str, colours: Mapping[str, str]) -> None:
    means = table.mean().sort_values(kind="stable")
    drawn = panel.boxplot(
        [table[name].to_numpy() for name in means.index],
        orientation="horizontal",
        widths=0.62,
        patch_artist=True,
        showmeans=True,
        meanprops={"marker": "D", "markersize": 4.2, "markerfacecolor": "white", "markeredgecolor": INK},
        medianprops={"color": INK, "linewidth": 1.3},
        whiskerprops={"color": MUTED},
        capprops={"color": MUTED},
        flierprops={"marker": "o", "markersize": 2.8, "markerfacecolor": "none", "markeredgecolor": MUTED},
    )
    for place, (box, name) in enumerate(zip(drawn["boxes"], means.index, strict=True)):
        leads = place < _LEADERS
        box.set(facecolor=colours[name] if leads else MUTED, edgecolor=MUTED, alpha=0.85 if leads else 0.35)
    panel.set_xscale("log")
    panel.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.set_yticks(range(1, len(means) + 1), [f"{name}  {mean:,.1f}" for name, mean in means.items()])
    for label, name in zip(panel.get_yticklabels(), means.index, strict=True):
        label.set_fontweight("bold" if name == baseline else "normal")
    panel.set_ylim(len(means) + 0.6, 0.4)
    panel.grid(axis="y", visible=False)


def by_window(table: pd.DataFrame, baseline: str, unit: str, generated: bool, image: ImageFormat = "svg") -> bytes:
    """Draw the baseline by window, and below it every other policy's ratio to it.

    A row a policy, sorted by mean. ``table`` is float64 [windows, policies], indexed by window number; missing windows stay
    blank.
    """
    others = table.drop(columns=baseline)
    others = others[others.mean().sort_values(kind="stable").index]
    numbers = np.arange(table.index.min(), table.index.max() + 1)
    ratios = np.log2(others.div(table[baseline], axis=0).reindex(numbers).to_numpy())
    scale = ScalarMappable(Normalize(-_STRONGEST, _STRONGEST), "PuOr_r")
    with figure(10.5, 2.2 + 0.27 * len(others.columns), generated) as drawing:
        heights = [1.3, max(0.27 * len(others.columns), 0.5)]
        above, below = drawing.subplots(2, 1, sharex=True, height_ratios=heights)
        above.bar(table.index, table[baseline] - 1, bottom=1, width=0.8, color=MUTED)
        above.set_yscale("log")
        above.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        above.yaxis.set_minor_formatter(NullFormatter())
        above.set(title=f"mean bounded slowdown of {baseline}", ylim=(1, None))
        edges = np.append(numbers - 0.5, numbers[-1] + 0.5)
        below.pcolormesh(
            edges, np.arange(len(others.columns) + 1) - 0.5, ratios.T, cmap=scale.cmap, norm=scale.norm, rasterized=True
        )
        below.set_yticks(range(len(others.columns)), list(others.columns))
        below.set_ylim(len(others.columns) - 0.5, -0.5)
        below.set(title=f"ratio to {baseline}", xlabel=f"{unit}, counted from the first submission")
        below.xaxis.set_major_locator(MaxNLocator(20, integer=True))
        below.grid(visible=False)
        bar = drawing.colorbar(scale, ax=[above, below], pad=0.01, fraction=0.025, extend="both")
        bar.set_ticks([-2, -1, 0, 1, 2], labels=["¼ or less", "½", "1", "2", "4 or more"])
        return encode(drawing, image)
