"""Repeat the second example of Goponenko et al. (2022): what runtime predictions change.

Part of :mod:`benchmarks.papers.goponenko2022`, which runs it. Each scheduler is judged by the metric it is
best at. The slides draw bars and print no numbers: there are conclusions to check, and no digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.common.tables import markdown
from benchmarks.papers.goponenko2022 import AWF, BSLD, METRICS, P2SF, traces
from pipelines.report.style import INK, encode, figure
from sim import Campaign, campaign_schedules
from sim.metrics.comparison import compare

JUDGED = (("EASY-SJBF", BSLD), ("SAF-JustBF", BSLD), ("LAF-JustBF", AWF), ("JustBF", P2SF))
"""The slides' four pairs of scheduler and metric."""
PREDICTORS = ("last2", "cv-triple", "hierarchy", "sp2", "sp3", "sp4")
FIRST_SHOWN = PREDICTORS[:3]
"""What the slides have introduced where they show slowdown; SP-x comes after, against under-prediction."""
EXACT = ("clairvoyant", "clairvoyant*2", "clairvoyant*0.5")
"""The bound, and the same steady error to either side: twice the runtime (at most the request) and half of it."""
CORRECTED = (*PREDICTORS, "clairvoyant*0.5")
"""Predictors that jobs outlive."""
CORRECTIONS = ("requested", "tsafrir")
"""The slides name none; these are the two of the literature."""
TOLD = {"clairvoyant": "exact", "clairvoyant*2": "exact × 2", "clairvoyant*0.5": "exact × ½"}
UNDER = "underprediction_rate"
_COLOURS = ("#0072b2", "#d55e00")


def comparisons(shared: Path, quick: bool = False) -> dict[str, pd.DataFrame]:
    """Compare every predictor and correction with requested times, by trace.

    With the same scheduler, one row a metric.
    """
    made = {}
    for title, trace, jobs in traces(shared, quick):
        tables = []
        for scheduler, _ in JUDGED:
            schedules = []
            for predictors, corrections in (
                (("requested", "clairvoyant", "clairvoyant*2"), ("requested",)),
                (CORRECTED, CORRECTIONS),
            ):
                asked = Campaign(schedulers=(scheduler,), predictors=predictors, corrections=corrections)
                schedules += campaign_schedules(jobs, asked, procs=trace.procs, trace=trace.name, clock=trace.clock)
            tables.append(compare(schedules, (scheduler, "requested"), (*METRICS, UNDER)))
        made[title] = pd.concat(tables, ignore_index=True)
    return made


def cell(table: pd.DataFrame, scheduler: str, predictor: str, correction: str, metric: str) -> pd.Series:
    """Return the one row of a scheduler, predictor, correction and metric.

    Predictors that no job outlives have no correction but the first.
    """
    known = correction if predictor in CORRECTED else CORRECTIONS[0]
    found = table[
        (table["scheduler"] == scheduler)
        & (table["predictor"] == predictor)
        & (table["correction"] == known)
        & (table["metric"] == metric)
    ]
    return found.iloc[0]


def conclusions(table: pd.DataFrame) -> list[tuple[str, str]]:
    """Check what the slides conclude on one trace, with the numbers that decide."""
    better, beyond, told = {}, {}, {}
    for scheduler, metric in JUDGED:
        predictors = FIRST_SHOWN if metric == BSLD else PREDICTORS
        rows = [cell(table, scheduler, each, fix, metric) for each in predictors for fix in CORRECTIONS]
        better[scheduler] = sum(bool(row["relative"] < 0) for row in rows) / len(rows)
        beyond[scheduler] = sum(bool(row["high"] < 0) for row in rows) / len(rows)
        told[scheduler] = (
            f"{better[scheduler] * len(rows):.0f} of {len(rows)} with {scheduler}, {beyond[scheduler] * len(rows):.0f} beyond the interval"
        )
    easy = [better[scheduler] > 0.5 for scheduler, metric in JUDGED if metric == BSLD]
    hard = [beyond[scheduler] <= 0.5 for scheduler, metric in JUDGED if metric != BSLD]
    said = [
        (
            "improving slowdown by predictions is easy",
            f"{_verdict(all(easy), any(easy))}, if most of last2, cv-triple and hierarchy with either correction should be better: "
            f"{told['EASY-SJBF']}; {told['SAF-JustBF']}",
        ),
        (
            "improving AWF and P2SF by predictions is difficult",
            f"{_verdict(all(hard), any(hard))}, if at most half of all predictors with either correction should be better beyond the interval: "
            f"at AWF {told['LAF-JustBF']}; at P2SF {told['JustBF']}",
        ),
    ]
    worse, numbers = [], []
    for scheduler, metric in (("LAF-JustBF", AWF), ("JustBF", P2SF)):
        over = cell(table, scheduler, "clairvoyant*2", "requested", metric)
        for fix in CORRECTIONS:
            under = cell(table, scheduler, "clairvoyant*0.5", fix, metric)
            worse.append(bool(under["relative"] > over["relative"]))
            numbers.append(
                f"{METRICS[metric]} of {scheduler} {_told(under)} with half the runtime ({fix}), {_told(over)} with twice the runtime"
            )
    said.append(
        (
            "under-prediction hurts packing and fairness more than over-prediction",
            f"{_verdict(all(worse), any(worse))}: {'; '.join(numbers)}",
        )
    )
    return said


def _verdict(whole: bool, partly: bool) -> str:
    return "holds" if whole else "holds in part" if partly else "does not hold"


def _told(row: pd.Series) -> str:
    return f"{row['relative']:+.1%} [{row['low']:+.1%}, {row['high']:+.1%}]"


HEAD = """## Runtime predictions

Their second example replaces the time limit by a prediction and judges each scheduler by the metric it is best at: mean bounded slowdown of EASY-SJBF
and SAF-JustBF, AWF of LAF-JustBF, P2SF of JustBF. The slides draw bars and print no numbers, so there are no digits to compare, only conclusions to
check. Here are the same four on two of their traces, relative to requested times with the same scheduler. Predictors are theirs; they name no
correction, so both of the literature are shown: to the request, and Tsafrir's. Their "CVT" is `cv-triple`, the published learner of Gaussier et al.
2015. To tell the direction of an error from its size, exact runtimes are also doubled (at most to the request) and halved.

![Change when predictions replace requested times](goponenko-2022-predictions.png)
"""


def page(made: Mapping[str, pd.DataFrame]) -> str:
    """Everything as Markdown."""
    lines = [HEAD]
    heads = [f"{METRICS[metric]} of {scheduler}" for scheduler, metric in JUDGED]
    for title, table in made.items():
        lines += [f"### Predictions on {title}", ""]
        lines += [f"* *{claim}*: {verdict}." for claim, verdict in conclusions(table)]
        cells = []
        for predictor in (*PREDICTORS, *EXACT):
            for correction in CORRECTIONS if predictor in CORRECTED else ("",):
                rows = [cell(table, scheduler, predictor, correction, metric) for scheduler, metric in JUDGED]
                share = cell(table, "JustBF", predictor, correction, UNDER)["value"]
                cells.append([TOLD.get(predictor, predictor), correction, f"{share:.1%}", *map(_told, rows)])
        lines += ["", markdown(["predictor", "correction", "under-predicted (JustBF)", *heads], cells, keys=2), ""]
    return "\n".join(lines)


def draw(made: Mapping[str, pd.DataFrame], path: Path) -> None:
    """Draw a panel for each scheduler and its metric.

    Colours tell traces, filled and open marks corrections.
    """
    with figure(9.6, 6.6, generated=False) as canvas:
        panels = canvas.subplots(2, 2, sharey=True).ravel()
        shown = (*PREDICTORS, *EXACT)
        heights = dict(zip(shown, range(len(shown))[::-1], strict=True))
        for axes, (scheduler, metric) in zip(panels, JUDGED, strict=True):
            for place, (title, table) in enumerate(made.items()):
                for step, correction in enumerate(CORRECTIONS):
                    drawn = [each for each in shown if step == 0 or each in CORRECTED]
                    rows = [cell(table, scheduler, each, correction, metric) for each in drawn]
                    middle = np.array([row["relative"] for row in rows]) * 100
                    reach = np.abs(np.array([[row["low"], row["high"]] for row in rows]).T * 100 - middle)
                    look = {
                        "color": _COLOURS[place],
                        "label": f"{title}, {correction}",
                        "markerfacecolor": _COLOURS[place] if step == 0 else "white",
                    }
                    at = np.array([heights[each] for each in drawn]) + 0.3 - 0.2 * (2 * place + step)
                    axes.errorbar(middle, at, xerr=reach, fmt="os"[step], markersize=4, capsize=2, linewidth=1, **look)
            axes.axvline(0, color=INK, linewidth=0.8, linestyle=":")
            axes.set_xscale("symlog", linthresh=20, linscale=1.5)
            axes.xaxis.set_major_formatter("{x:g}")
            axes.set_title(f"{METRICS[metric]} of {scheduler}")
            axes.set_xlabel("change relative to requested times, %")
        panels[0].set_yticks(list(heights.values()), [TOLD.get(each, each) for each in shown])
        canvas.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
        path.write_bytes(encode(canvas, "png"))
