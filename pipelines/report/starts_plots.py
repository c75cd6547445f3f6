"""Figures of predicted starts: reliability, and the answers of one job over time."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from models.packed.start_distribution import LEVELS
from models.packed.start_predictor import QUANTILES
from pipelines.report.page import Picture, data_uri
from pipelines.report.style import BLUE, INK, MUTED, VERMILION, figure, rows_named
from pipelines.report.wording import duration, instant

BINS = 10
_TICKS = 10
_JOBS = 40


def reliability(begun: pd.DataFrame, generated: bool) -> Figure:
    """Draw shares of waits at most each quantile, and chances to start within 1 h."""
    rest, table = begun.loc[begun["waits"], "place"], bins(begun)
    every = [(begun["waited_s"] <= begun[name]).mean() for name in QUANTILES]
    with figure(7.2, 3.7, generated) as drawing:
        left, right = drawing.subplots(1, 2)
        left.plot(LEVELS, every, "s--", color=MUTED, markersize=4, label="all waits")
        left.plot(LEVELS, [(rest <= level).mean() for level in LEVELS], "o-", color=BLUE, markersize=4, label="over a minute")
        left.set(title="quantiles of the wait", xlabel="level", ylabel="share of waits at most as long")
        left.legend(loc="upper left", fontsize=8)
        right.scatter(table["told"], table["came"], 12 + 130 * table["answers"] / len(begun), color=BLUE, alpha=0.8)
        right.set(title="chance to start within 1 h", xlabel="told", ylabel="came true")
        for panel in (left, right):
            panel.plot([0, 1], [0, 1], color=INK, linewidth=0.9)
            panel.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal")
            panel.xaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %", decimals=0))
            panel.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %", decimals=0))
    return drawing


def bins(begun: pd.DataFrame) -> pd.DataFrame:
    """Return how often chances to start within 1 h came true.

    There is one row per bin with answers: ``answers told came``.
    """
    table = pd.DataFrame({"told": begun["chance_1h"].astype(float), "came": begun["waited_s"] <= 3_600})
    place = np.minimum((table["told"] * BINS).astype(np.int64), BINS - 1)
    return table.groupby(place).agg(answers=("told", "size"), told=("told", "mean"), came=("came", "mean"))


def fan(answers: pd.DataFrame, origin_unix_s: int | None, generated: bool) -> Picture | None:
    """Draw the answers over time of the job asked about most often, and its start.

    Return None if no job was asked about twice.
    """
    span = answers.groupby("job_id")["at_s"].agg(["nunique", "max", "min"])
    if span.empty or span["nunique"].max() < 2:
        return None
    span["span"] = span["max"] - span["min"]
    job = span.sort_values(["nunique", "span"], kind="stable").index[-1]
    some = answers[answers["job_id"] == job].drop_duplicates("at_s", keep="last").sort_values("at_s").reset_index(drop=True)
    at, place = (some["at_s"] - some["at_s"][0]) / 3_600, np.arange(len(some))
    quantiles_h, plan = some[list(QUANTILES)].div(3_600).add(at, axis=0), some["plan_s"] / 3_600 + at
    with figure(7.2, 3.2, generated) as drawing:
        panel = drawing.subplots()
        for low, shade in ((0, 0.15), (1, 0.2), (2, 0.3)):
            panel.fill_between(place, quantiles_h.iloc[:, low], quantiles_h.iloc[:, -1 - low], color=BLUE, alpha=shade, linewidth=0)
        panel.plot(place, quantiles_h["wait_50_s"], "o-", color=BLUE, markersize=4, label="median, 50, 80, 90 % intervals")
        panel.plot(place, plan, "s--", color=MUTED, markersize=4, label="plan by requests")
        if np.isfinite(start := some["waited_s"].iloc[-1] / 3_600 + at.iloc[-1]):
            panel.axhline(start, color=VERMILION, linewidth=1.2, label="it started")
        step = -(-len(some) // _TICKS)
        panel.set_xticks(place[::step], [duration(3_600 * hours) for hours in at[::step]])
        panel.set(xlabel="asked, after the first question", ylabel="start, hours after it")
        panel.set_ylim(bottom=0)
        panel.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, fontsize=8)
    return Picture(
        "", data_uri(drawing), f"Job {job}, asked about {len(some)} times, first at {instant(int(some['at_s'][0]), origin_unix_s)}."
    )


def figure_of_starts(answers: pd.DataFrame) -> Figure:
    """Draw when jobs start: the median and intervals of 50, 80 and 90 %, hours from now.

    ``answers`` has one row per job: ``job_id procs`` and the quantiles of its wait in seconds. The first 40 jobs are drawn.
    """
    some = answers.head(_JOBS)
    hours, place = some[list(QUANTILES)] / 3_600, range(len(some))
    with figure(7.2, 1.0 + 0.3 * len(some), generated=False) as drawing:
        panel = drawing.subplots()
        for low, shade in ((0, 0.15), (1, 0.2), (2, 0.3)):
            left = hours.iloc[:, low]
            panel.barh(place, hours.iloc[:, -1 - low] - left, left=left, color=BLUE, alpha=shade)
        panel.plot(hours["wait_50_s"], place, "o", color=BLUE, markersize=4)
        rows_named(panel, [f"{job}  ({procs:,} procs)" for job, procs in zip(some["job_id"], some["procs"], strict=True)])
        panel.set_xlabel("start, hours from now: median, 50, 80, 90 % intervals")
        panel.set_xlim(left=0)
    return drawing
