"""Draw the picture of the README: what predictors change on KTH-SP2 under two corrections.

``python -m benchmarks.studies.picture`` prints the figures, ``--write`` draws docs/kth-sp2.png. Every policy is
replayed with shaken submissions (:mod:`benchmarks.common.replays`), so that intervals contain a schedule's
chaos. Needs the traces under ``--shared``.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from benchmarks.common.pages import HOUSE, SHARED, made_by
from benchmarks.common.replays import REPLAYS, all_replayed, replays_of
from benchmarks.studies.schedules import load
from pipelines.report.style import INK, MUTED, encode, figure
from sim.campaigns.policy_frontier import Sums, change
from sim.policy import Policy

BASE = Policy("EASY", "requested")
SCHEDULER = "EASY-SJBF"
PREDICTORS = ("last2", "nag", "lightgbm", "quantile")
CORRECTIONS = {"tsafrir": "#d55e00", "conditional(when=pass)": "#0072b2"}
WORDS = {
    "tsafrir": "corrected once outlived (tsafrir)",
    "conditional(when=pass)": "asked again at every pass (conditional(when=pass))",
}
METRICS = {"mean_bounded_slowdown": "slowdown", "awf_s": "AWF: packing", "p2sf_s": "P²SF: packing and fairness"}
ROWS = (
    Policy(SCHEDULER, "requested"),
    *(Policy(SCHEDULER, name, correction) for correction in CORRECTIONS for name in PREDICTORS),
    Policy(SCHEDULER, "clairvoyant"),
)


def draw(sums: Mapping[Policy, Sums], path: Path) -> None:
    """A panel a metric, a row a predictor, a block a correction; filled where the interval excludes no change."""
    blocks = [policy.correction if policy.predictor in PREDICTORS else policy.predictor for policy in ROWS]
    steps = [1.0 if place == 0 or blocks[place] == blocks[place - 1] else 1.6 for place in range(len(ROWS))]
    height = dict(zip(ROWS, np.cumsum(steps) - steps[0], strict=True))
    with figure(9.6, 4.2, generated=False) as canvas:
        panels = canvas.subplots(1, len(METRICS), sharey=True)
        for panel, (metric, title) in zip(panels, METRICS.items(), strict=True):
            panel.set_title(title)
            panel.axvline(0.0, color=INK, linewidth=1)
            for policy in ROWS:
                _mark(panel, sums, policy, metric, height[policy])
            panel.grid(axis="y", visible=False)
            panel.set_xlabel("change, % (left is better)")
        panels[0].set_yticks([height[policy] for policy in ROWS], [policy.predictor for policy in ROWS])
        panels[0].set_ylim(max(height.values()) + 0.6, -0.6)
        handles = [Line2D([], [], marker="o", color=colour, label=WORDS[correction]) for correction, colour in CORRECTIONS.items()]
        handles.append(Line2D([], [], marker="o", markerfacecolor="white", color=MUTED, label="may be no change"))
        canvas.legend(handles=handles, loc="outside upper center", ncols=3, fontsize=8.5)
        path.write_bytes(encode(canvas, "png"))


def _mark(panel: Axes, sums: Mapping[Policy, Sums], policy: Policy, metric: str, height: float) -> None:
    made = change(sums[policy], sums[BASE], metric)
    colour = CORRECTIONS.get(policy.correction, INK)
    if made.low is not None and made.high is not None:
        panel.plot([100 * made.low, 100 * made.high], [height, height], color=colour, linewidth=2, alpha=0.8)
    face = colour if made.sure else "white"
    panel.plot(100 * (made.relative or 0.0), height, "o", color=colour, markerfacecolor=face, markersize=6.5, markeredgewidth=1.5)


def table(sums: Mapping[Policy, Sums], pairs: Sequence[tuple[Policy, Policy]]) -> str:
    """Each first policy against the second as Markdown, bold where the interval excludes no change, with the extremes of single replays."""
    lines = ["| policy | against | replays | " + " | ".join(METRICS.values()) + " |", "| --- " * (3 + len(METRICS)) + "|"]
    for policy, base in pairs:
        cells = []
        for metric in METRICS:
            made = change(sums[policy], sums[base], metric)
            low, high, least, most = (
                100 * (end if end is not None else np.nan) for end in (made.low, made.high, made.minimum, made.maximum)
            )
            mark = "**" if made.sure else ""
            value = f"{mark}{100 * (made.relative or 0):+.1f}{mark}"
            cells.append(f"{value} [{low:+.1f}, {high:+.1f}], single replays {least:+.1f} to {most:+.1f}")
        lines.append(f"| {policy} | {base} | {replays_of(policy)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--shared", type=Path, default=SHARED, help="where traces/ is")
    parser.add_argument("--keep", type=Path, default=HOUSE / ".queuecast" / "replays", help="where finished replays are kept")
    parser.add_argument("--workers", type=int, help="threads, by default one a core")
    parser.add_argument("--write", action="store_true", help="draw docs/kth-sp2.png")
    options = parser.parse_args()
    trace = load("KTH-SP2", options.shared)
    sums = all_replayed("KTH-SP2", trace, [BASE, *ROWS], options.keep, REPLAYS, options.workers)[0]["whole"]
    weeks = sums[BASE]["awf_s"].numerator.shape[1]
    same = Policy(SCHEDULER, "requested")
    best = [Policy(SCHEDULER, "quantile", correction) for correction in CORRECTIONS]
    pairs = [(policy, base) for base in (BASE, same) for policy in ROWS if policy != base]
    pairs += [(each, Policy(SCHEDULER, other, each.correction)) for each in best for other in PREDICTORS if other != "quantile"]
    print(f"KTH-SP2, changes in %, {weeks} weeks. {made_by('studies.picture')}", table(sums, pairs), sep="\n\n")
    if options.write:
        draw(sums, HOUSE / "docs" / "kth-sp2.png")


if __name__ == "__main__":
    main()
