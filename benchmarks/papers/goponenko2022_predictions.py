"""Repeat the second example of Goponenko et al. (2022): what runtime predictions change.

Part of :mod:`benchmarks.papers.goponenko2022`, which runs it. It replaces the time limit by a prediction and judges each scheduler by the
metric it is best at, relative to requested times with the same scheduler. The slides draw bars and print no numbers, and name no correction: both
of the literature are tried, to the request and Tsafrir's. Their "CVT" is ``cv-triple``, the published learner of Gaussier et al. 2015. To tell the
direction of an error from its size, exact runtimes are also doubled (at most to the request) and halved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from features.jobs.cleaning import CleanTrace
from sim import Campaign, campaign_schedules
from sim.metrics.comparison import compare

BSLD, AWF, P2SF = "mean_bounded_slowdown", "awf_s", "p2sf_s"
JUDGED = (("EASY-SJBF", BSLD), ("SAF-JustBF", BSLD), ("LAF-JustBF", AWF), ("JustBF", P2SF))
"""The slides' four pairs of scheduler and metric."""
PREDICTORS = ("last2", "cv-triple", "hierarchy", "sp2", "sp3", "sp4")
FIRST_SHOWN = PREDICTORS[:3]
"""What the slides have introduced where they show slowdown; SP-x comes after, against under-prediction."""
CORRECTED = (*PREDICTORS, "clairvoyant*0.5")
"""Predictors that jobs outlive."""
CORRECTIONS = ("requested", "tsafrir")
"""The slides name none; these are the two of the literature."""
UNDER = "underprediction_rate"


def comparisons(traces: Iterable[tuple[str, CleanTrace]], metrics: Sequence[str]) -> pd.DataFrame:
    """Compare every predictor and correction with requested times, with the same scheduler: a row a metric."""
    tables = []
    for title, trace in traces:
        for scheduler, _ in JUDGED:
            schedules = []
            for predictors, corrections in (
                (("requested", "clairvoyant", "clairvoyant*2"), ("requested",)),
                (CORRECTED, CORRECTIONS),
            ):
                asked = Campaign(schedulers=(scheduler,), predictors=predictors, corrections=corrections)
                schedules += campaign_schedules(trace.jobs, asked, procs=trace.procs, trace=trace.name, clock=trace.clock)
            tables.append(compare(schedules, (scheduler, "requested"), (*metrics, UNDER)).assign(trace=title))
    return pd.concat(tables, ignore_index=True)


def cell(table: pd.DataFrame, scheduler: str, predictor: str, correction: str, metric: str) -> pd.Series:
    """Return the one row of a scheduler, predictor, correction and metric.

    Predictors that no job outlives have no correction but the first.
    """
    usual = correction if predictor in CORRECTED else CORRECTIONS[0]
    chosen = table[
        (table["scheduler"] == scheduler)
        & (table["predictor"] == predictor)
        & (table["correction"] == usual)
        & (table["metric"] == metric)
    ]
    return chosen.iloc[0]


def conclusions(table: pd.DataFrame) -> dict[str, tuple[bool, bool]]:
    """Check what the slides conclude on one trace: whether each claim holds, and whether it does in part."""
    better, beyond = {}, {}
    for scheduler, metric in JUDGED:
        predictors = FIRST_SHOWN if metric == BSLD else PREDICTORS
        rows = [cell(table, scheduler, each, fix, metric) for each in predictors for fix in CORRECTIONS]
        better[scheduler] = sum(bool(row["relative"] < 0) for row in rows) / len(rows)
        beyond[scheduler] = sum(bool(row["high"] < 0) for row in rows) / len(rows)
    easy = [better[scheduler] > 0.5 for scheduler, metric in JUDGED if metric == BSLD]
    hard = [beyond[scheduler] <= 0.5 for scheduler, metric in JUDGED if metric != BSLD]
    worse = []
    for scheduler, metric in (("LAF-JustBF", AWF), ("JustBF", P2SF)):
        over = cell(table, scheduler, "clairvoyant*2", "requested", metric)
        worse += [
            bool(cell(table, scheduler, "clairvoyant*0.5", fix, metric)["relative"] > over["relative"]) for fix in CORRECTIONS
        ]
    claims = {
        "improving slowdown by predictions is easy": easy,
        "improving AWF and P2SF by predictions is difficult": hard,
        "under-prediction hurts packing and fairness more than over-prediction": worse,
    }
    return {claim: (all(each), any(each)) for claim, each in claims.items()}
