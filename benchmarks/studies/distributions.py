"""Judge how good the distributions of ``quantile`` are: calibration, sharpness, coverage and cost.

They stand beside predictors that know nothing; :mod:`benchmarks.studies.quantiles` makes the card. Whole traces under plain EASY, from their
first job. Calibration: a level is moved after each job that ends, so the share of jobs that outlive its quantile comes out as asked, whatever is
predicted, also for one hour for every job and a random number up to the request put through the same update. Counted are, over the levels 0.5,
0.8 and 0.95, 30-day windows whose rate is outside the 99 % band: *by chance*, when the jobs of a user's day go wrong together; *with
feedback*, a narrower, simulated band, since the update by itself keeps rates near the level. Sharpness: the quantile loss by level, in seconds a
job, and the CRPS, twice its mean over all levels; a prediction of one number is that number at every level, ``(no features)`` the distribution of
all runtimes ended so far, cut at the request. Coverage: shares of jobs, and of processor-seconds, at most as long as the quantile, and their range
over tenths of the requested time and over widths.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from benchmarks.common.tables import markdown
from features.clock import DAY_S, local_clock_s
from features.jobs.cleaning import CleanTrace
from pipelines.report.style import INK, MUTED, encode, figure
from sim import simulate
from sim.predictions.quality import Quality, judge
from sim.predictions.sharpness import CONSTANT, NO_FEATURES, RANDOM, REFERENCES, outside

TRACES = ("KTH-SP2", "SDSC-SP2", "LANL-CM5", "ALCF-Theta")
DISTRIBUTION = "quantile"
BASELINES = ("requested", NO_FEATURES, "nag")
"""What the quantiles of a distribution should not lose to at any level."""
ROWS = (DISTRIBUTION, *BASELINES, CONSTANT, RANDOM)
LEVELS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
_COLOURS = ("#0072b2", "#d55e00", "#009e73")


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


def section(judgements: Sequence[Judged]) -> list[str]:
    """Return calibration, sharpness and coverage as Markdown."""
    headings = {"Calibration": calibration_table, "Sharpness": loss_table, "For which jobs the quantiles hold": coverage_table}
    return [line for heading, table in headings.items() for line in (f"## {heading}", "", table(judgements), "")]


def calibration_table(judgements: Sequence[Judged]) -> str:
    rows = []
    for each in judgements:
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


def loss_table(judgements: Sequence[Judged]) -> str:
    rows = []
    for each in judgements:
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
    past_levels = table.columns.to_numpy(np.float64)
    return pd.DataFrame({level: table.iloc[:, int(np.abs(past_levels - level).argmin())] for level in LEVELS})


def coverage_table(judgements: Sequence[Judged]) -> str:
    lines = []
    for each in judgements:
        for level, rows in _coverage(each).groupby("level"):
            by = {str(name): mine for name, mine in rows.groupby("by")}
            whole = by["all"].iloc[0]
            ranges = [f"{by[name]['at_most'].min():.1%} to {by[name]['at_most'].max():.1%}" for name in ("request", "width")]
            lines.append([each.title, f"{level:g}", f"{whole['at_most']:.1%}", f"{whole['work_at_most']:.1%}", *ranges])
    return markdown(["trace", "quantile", "of jobs", "of processor-seconds", "by tenths of the request", "by width"], lines)


def _coverage(each: Judged) -> Any:
    table = each.quality.sharpness.coverage
    return table[table["predictor"] == DISTRIBUTION]


def cost_table(judgements: Sequence[Judged]) -> str:
    rows = [
        [each.title, f"{each.nights}", f"{each.seconds:.1f}", f"{each.retraining:.1f}", f"{each.prediction_us:.0f}"]
        for each in judgements
    ]
    return markdown(["trace", "nights", "simulation, s", "of it training, s", "µs a job, training apart"], rows)


def draw(judgements: Sequence[Judged], path: Path) -> None:
    """Draw rates in 30 days with their band, losses by level, and coverage by request.

    A column a trace.
    """
    with figure(3.6 * len(judgements) + 1.0, 8.6, generated=False) as canvas:
        panels = canvas.subplots(3, len(judgements), squeeze=False)
        for (above, middle, below), each in zip(panels.T, judgements, strict=True):
            sharpness = each.quality.sharpness
            rates: Any = sharpness.windows[sharpness.windows["predictor"] == DISTRIBUTION]
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
            _loss_curves(middle, sharpness.losses)
            rows = _coverage(each)
            _coverage_curves(below, rows[rows["by"] == "request"])
            below.set_xlabel("requested time from")
        panels[0, 0].set_ylabel("jobs that outlive the quantile, %", color=INK)
        panels[2, 0].set_ylabel("at most as long as the quantile", color=INK)
        for panel in panels[:, -1]:
            panel.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), fontsize=8)
        path.write_bytes(encode(canvas, "png"))


def _loss_curves(panel: Axes, table: pd.DataFrame) -> None:
    """Draw quantile losses by level: requests in ink, references in grey."""
    looks = {"requested": (INK, "-"), **{name: (MUTED, dash) for name, dash in zip(REFERENCES, (":", "--", "-."), strict=True)}}
    for name in ROWS:
        rows = table[table["predictor"] == name]
        colour, dash = looks.get(name, (_COLOURS[0] if "distribution" in set(rows["kind"]) else _COLOURS[1], "-"))
        panel.plot(rows["level"], rows["pinball_s"] / 60, color=colour, linestyle=dash, label=name)
    panel.set(xlabel="level of the quantile", ylabel="quantile loss, minutes", xlim=(0, 1))
    panel.set_ylim(bottom=0)


def _coverage_curves(panel: Axes, rows: pd.DataFrame) -> None:
    """Draw shares of jobs and processor-seconds within quantiles, of the rows that are ``by`` requested time."""
    groups: Any = rows.groupby("level")
    for colour, (level, mine) in zip(_COLOURS, groups, strict=False):
        place = np.arange(len(mine))
        panel.axhline(level, color=colour, linewidth=0.8, linestyle=":")
        panel.plot(place, mine["at_most"], "o-", color=colour, markersize=3.5, linewidth=1.2, label=f"{level:g}: jobs")
        panel.plot(
            place, mine["work_at_most"], "s--", color=colour, markersize=3, linewidth=1.0, label=f"{level:g}: processor-seconds"
        )
        panel.set_xticks(
            place, [f"{begin / 60:.0f}m" if begin < 7200 else f"{begin / 3600:.2g}h" for begin in mine["begin"]], rotation=45
        )
    panel.set_ylim(0, 1.02)
    panel.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.3g} %"))
