"""Measure how good the distributions of ``quantile`` are: calibration and sharpness.

They stand beside predictors that know nothing; a section of docs/studies/quantile.md.
``python -m benchmarks.studies.distributions`` prints the section, for ``--trace`` or for all;
:mod:`benchmarks.studies.quantiles` puts it on the page.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.common.pages import SHARED, made_by
from benchmarks.common.tables import markdown
from benchmarks.studies.schedules import load
from features.clock import DAY_S, local_clock_s
from features.jobs.cleaning import CleanTrace
from pipelines.report.sharpness_plots import coverage_curves, loss_curves
from pipelines.report.style import INK, MUTED, encode, figure
from sim import simulate
from sim.predictions.quality import Quality, judge
from sim.predictions.sharpness import CONSTANT, NO_FEATURES, RANDOM, outside

TRACES = ("KTH-SP2", "SDSC-SP2", "LANL-CM5", "ALCF-Theta")
DISTRIBUTION = "quantile"
BASELINES = ("requested", NO_FEATURES, "nag")
"""What the quantiles of a distribution should not lose to at any level."""
ROWS = (DISTRIBUTION, *BASELINES, CONSTANT, RANDOM)
LEVELS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
AIMS = {0.8: (0.75, 0.85), 0.95: (0.92, 0.98)}
"""Shares of processor-seconds that a quantile should hold for."""
_COLOURS = ("#0072b2", "#d55e00", "#009e73")


CALIBRATION = f"""Under plain EASY, the whole trace from its first job. A level is moved after each job that ends, so the share of jobs that outlive its
quantile comes out as asked, whatever is predicted: one hour for every job, `{CONSTANT}`, and a random number between a second and the
request, `{RANDOM}`, put through the same update come out so, too. Counted are, over the levels 0.5, 0.8 and 0.95, 30-day windows whose rate is
outside the 99 % band: *by chance*, when the jobs of a user's day go wrong together; *with feedback*, a narrower band, since the update by
itself keeps rates near the level. It is simulated: the same submissions and ends, outcomes uniform in their distributions and as alike
within a user's day as the observed ones, the same update; what moves the upper levels of `quantile` in processor-seconds is left out."""
SHARPNESS = f"""What tells distributions apart is a proper score: the quantile loss by level, in seconds a job, and the CRPS, twice its mean over all
levels (each of 0.05 to 0.95 stands for those nearest to it, the outermost for the tails; a job that runs exactly to its quantile costs nothing there).
A prediction of one number is that number at every level. `{NO_FEATURES}` is the distribution of all runtimes ended so far, cut at
the request. The least of each column is bold. The table shows two of the four traces;
[data/quantile.csv](data/quantile.csv) has all rows of this page's tables."""
COVERAGE = """Shares of jobs, and of processor-seconds, that run at most as long as the quantile; then the range of shares of jobs over tenths of the
requested time and over widths (1, 2, 3-4, 5-8, ... processors)."""
CAPTION = """*Above: jobs that outlive a quantile in each 30 days, and the 99 % band with feedback. Middle: quantile loss by level, grey what knows
nothing. Below: shares at most as long as a quantile by tenths of the requested time; dotted what was asked.*"""


class Judged(NamedTuple):
    """A trace's predictions as distributions, under plain EASY, and their cost.

    Of ``quantile``: seconds, microseconds a job, nights.
    """

    title: str
    quality: Quality
    seconds: float
    retraining: float
    prediction_us: float
    nights: int


def judged(title: str, trace: CleanTrace) -> Judged:
    """Judge ``quantile`` and its baselines in simulations of the whole trace."""
    jobs = trace.jobs
    names = (DISTRIBUTION, *(name for name in BASELINES if name != NO_FEATURES))
    schedules = [simulate(jobs, procs=trace.procs, predictor=name, trace=title, clock=trace.clock) for name in names]
    submit = jobs["submit_s"].to_numpy(np.int64)
    quality = judge(jobs, schedules, local_clock_s(submit, trace.origin_unix_s, trace.timezone), baseline="requested")
    first = schedules[0]
    each = 1e6 * (first.simulate_s - first.retrain_s) / len(jobs)
    return Judged(title, quality, first.simulate_s, first.retrain_s, each, int(submit[-1] // DAY_S - submit[0] // DAY_S))


def section(made: Sequence[Judged], picture: str) -> list[str]:
    """Calibration, sharpness and coverage as Markdown.

    ``picture`` is the file that :func:`draw` makes.
    """
    return [
        "## Calibration, which proves little",
        "",
        CALIBRATION,
        "",
        calibration_table(made),
        "",
        "## Sharpness",
        "",
        SHARPNESS,
        "",
        loss_table(made),
        "",
        *(f"* {verdict(each)}" for each in made),
        "",
        "## For which jobs the quantiles hold",
        "",
        COVERAGE,
        "",
        coverage_table(made),
        "",
        *(f"* {aimed(each)}" for each in made),
        "",
        f"![Rates in 30 days, loss by level, coverage by requested time]({picture})",
        "",
        CAPTION,
        "",
    ]


def calibration_table(made: Sequence[Judged]) -> str:
    rows = []
    for each in made:
        scores = each.quality.sharpness.scores.set_index("predictor")["crps_s"]
        counted = outside(each.quality.sharpness.windows)
        for name in (DISTRIBUTION, CONSTANT, RANDOM):
            mine = counted[counted["predictor"] == name]
            rates = ", ".join(f"{rate:.1%}" for rate in mine["rate"])
            of = int(mine["windows"].sum())
            counts = [f"{int(mine[column].sum())} of {of}" for column in ("by_chance", "with_feedback")]
            rows.append([each.title, name, rates, *counts, f"{scores[name]:,.0f}"])
    headings = ["trace", "predictor", "outlive 0.5, 0.8, 0.95", "outside, by chance", "outside, with feedback", "CRPS, s"]
    return markdown(headings, rows, keys=2)


def loss_table(made: Sequence[Judged]) -> str:
    rows = []
    for each in made:
        losses: Any = losses_of(each)
        scores: Any = each.quality.sharpness.scores.set_index("predictor")
        least = losses.min()
        for name in ROWS:
            row = scores.loc[name]
            cells = [f"{row['crps_s']:,.0f}" + ("" if pd.isna(row["low"]) else f" [{row['low']:,.0f}, {row['high']:,.0f}]")]
            for level in LEVELS:
                shown = f"{losses.at[name, level]:,.0f}"
                cells.append(f"**{shown}**" if losses.at[name, level] == least[level] else shown)
            rows.append([each.title, name, *cells])
    return markdown(["trace", "predictor", "CRPS, s", *(f"{level:g}" for level in LEVELS)], rows, keys=2)


def losses_of(each: Judged) -> pd.DataFrame:
    """Mean quantile loss, a row a predictor, a column a level of ``LEVELS``."""
    table: Any = each.quality.sharpness.losses.pivot(index="predictor", columns="level", values="pinball_s")
    known = table.columns.to_numpy(np.float64)
    return pd.DataFrame({level: table.iloc[:, int(np.abs(known - level).argmin())] for level in LEVELS})


def verdict(each: Judged) -> str:
    """At which levels the distribution loses to a baseline, and by how much."""
    table: Any = each.quality.sharpness.losses.pivot(index="predictor", columns="level", values="pinball_s")
    own, best = table.loc[DISTRIBUTION], table.loc[list(BASELINES)].min()
    worse = [level for level in table.columns if own[level] > best[level]]
    if not worse:
        return f"{each.title}: at no level from 0.05 to 0.95 is the loss above that of the best baseline."
    which = table.loc[list(BASELINES)].idxmin()
    told = ", ".join(f"{level:g} ({own[level]:,.0f} s against {best[level]:,.0f} of {which[level]})" for level in worse)
    return f"{each.title}: the loss is above that of the best baseline at {len(worse)} of {len(own)} levels: {told}. The aim, at none, is missed."


def coverage_table(made: Sequence[Judged]) -> str:
    lines = []
    for each in made:
        for level, rows in _coverage(each).groupby("level"):
            by = {str(name): mine for name, mine in rows.groupby("by")}
            whole = by["all"].iloc[0]
            ranges = [f"{by[name]['at_most'].min():.1%} to {by[name]['at_most'].max():.1%}" for name in ("request", "width")]
            lines.append([each.title, f"{level:g}", f"{whole['at_most']:.1%}", f"{whole['work_at_most']:.1%}", *ranges])
    return markdown(["trace", "quantile", "of jobs", "of processor-seconds", "by tenths of the request", "by width"], lines)


def aimed(each: Judged) -> str:
    """Whether quantiles hold for as many processor-seconds as they should."""
    rows = _coverage(each)
    whole = rows[rows["by"] == "all"].set_index("level")["work_at_most"]
    told = []
    for level, (low, high) in AIMS.items():
        share = float(whole.iloc[int(np.abs(whole.index.to_numpy(np.float64) - level).argmin())])
        kept = "within" if low <= share <= high else "outside"
        told.append(f"the {level:.0%} quantile holds for {share:.1%} of processor-seconds, {kept} {low:.0%} to {high:.0%}")
    return f"{each.title}: " + "; ".join(told) + "."


def _coverage(each: Judged) -> Any:
    table = each.quality.sharpness.coverage
    return table[table["predictor"] == DISTRIBUTION]


def cost_table(made: Sequence[Judged]) -> str:
    rows = [
        [each.title, f"{each.nights}", f"{each.seconds:.1f}", f"{each.retraining:.1f}", f"{each.prediction_us:.0f}"]
        for each in made
    ]
    return markdown(["trace", "nights", "simulation, s", "of it training, s", "µs a job, training apart"], rows)


def draw(made: Sequence[Judged], path: Path) -> None:
    """Draw rates in 30 days with their band, losses by level, and coverage by request.

    A column a trace.
    """
    with figure(3.6 * len(made) + 1.0, 8.6, generated=False) as canvas:
        panels = canvas.subplots(3, len(made), squeeze=False)
        for (above, middle, below), each in zip(panels.T, made, strict=True):
            found = each.quality.sharpness
            rates: Any = found.windows[found.windows["predictor"] == DISTRIBUTION]
            for colour, (level, windows) in zip(_COLOURS, rates.groupby("level"), strict=False):
                days = 30 * windows["month"].to_numpy() + 15
                above.fill_between(
                    days,
                    100 * windows["feedback_low"],
                    100 * windows["feedback_high"],
                    color=colour,
                    alpha=0.2,
                    linewidth=0,
                    step="mid",
                )
                above.axhline(100 * (1 - level), color=MUTED, linewidth=0.8, linestyle=":")
                above.plot(days, 100 * windows["rate"], "o-", color=colour, markersize=3.5, linewidth=1, label=f"{level:g}")
            above.set(title=each.title, xlabel="days from the first submission")
            above.set_ylim(bottom=0)
            loss_curves(middle, found.losses, ROWS)
            rows = _coverage(each)
            coverage_curves(below, rows[rows["by"] == "request"])
            below.set_xlabel("requested time from")
        panels[0, 0].set_ylabel("jobs that outlive the quantile, %", color=INK)
        panels[2, 0].set_ylabel("at most as long as the quantile", color=INK)
        for panel in panels[:, -1]:
            panel.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), fontsize=8)
        path.write_bytes(encode(canvas, "png"))


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--shared", type=Path, default=SHARED, help="where traces/ is")
    parser.add_argument("--trace", action="append", choices=TRACES, help="only this one; may be given again")
    parser.add_argument("--out", type=Path, help="write the picture to this file")
    options = parser.parse_args(argv)
    made = [judged(title, load(title, options.shared)) for title in options.trace or TRACES]
    print("\n".join([*section(made, "quantile.png"), "## Cost", "", cost_table(made), "", made_by("studies.distributions", argv)]))
    if options.out is not None:
        draw(made, options.out)


if __name__ == "__main__":
    main()
