"""The most important features of a variability model as bars, coloured by source."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from pipelines.report.style import BLUE, GREEN, GRID, INK, MUTED, ORANGE, PURPLE, SKY, VERMILION, figure, rows_named

TOP = 25
_COLOURS = (BLUE, VERMILION, GREEN, SKY, "#f0e442")
_OTHERS = {"probe": (PURPLE, "probes"), "type": (ORANGE, "type of application")}
_BAR = 0.22
"""Height of a bar in inches."""


def importances(
    importance: pd.Series,
    classifier: str,
    system: str,
    *,
    permuted: bool = False,
    generated: bool = False,
) -> Figure:
    """Draw the ``TOP`` features of ``importance``, most important first.

    ``importance`` is float64 with the features' names ``<sampler>.<metric>.<statistic>`` as index. ``permuted`` importance is a
    loss of average precision, any other the learner's own share of all. ``generated``: the system is simulated. The title gives
    the share of the other features.
    """
    ranked = importance.sort_values(ascending=False, kind="stable")
    shown = ranked.head(TOP)
    sources = [name.split(".", 1)[0] for name in shown.index]
    colours = _colours([name.split(".", 1)[0] for name in importance.index])
    with figure(8.0, 1.15 + _BAR * len(shown), generated, "simulated cluster") as drawing:
        axes = drawing.subplots()
        axes.barh(range(len(shown)), shown.to_numpy(np.float64), color=[colours[source] for source in sources], height=0.72)
        rows_named(axes, [name.split(".", 1)[1] for name in shown.index])
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="y", visible=False)
        axes.grid(axis="x", color=GRID)
        axes.axvline(0, color=MUTED, linewidth=0.8)
        positive = ranked.clip(lower=0)
        rest = 1 - positive.head(TOP).sum() / positive.sum() if positive.sum() > 0 else 0.0
        left = f"; the other {len(ranked) - len(shown)} have {rest:.0%} of all" if len(ranked) > len(shown) else ""
        axes.set_title(f"{system}: features that {classifier} uses{left}", color=INK)
        axes.set_xlabel("average precision lost when the feature is shuffled" if permuted else "importance, share of all")
        present = list(dict.fromkeys(sources))
        handles = [Patch(color=colours[source], label=_OTHERS.get(source, ("", source))[1]) for source in present]
        drawing.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return drawing


def _colours(sources: list[str]) -> dict[str, str]:
    """Return colours: samplers in turn, in the order of the features; probes and types fixed."""
    samplers = [name for name in dict.fromkeys(sources) if name not in _OTHERS]
    table = {name: _COLOURS[place % len(_COLOURS)] for place, name in enumerate(samplers)}
    return table | {name: colour for name, (colour, _) in _OTHERS.items()}
