"""Show what OKCM's published accuracy rests on: when runtimes become known.

Predictors learn as jobs end in a simulation under EASY, or at once: the trace is walked in order of submission, with every runtime known before
the next submission, which no system can have. OKCM's constants are not published: ``GRID`` tries others, and
``FROM_LAST`` adds its regression to the last runtime, which is not in the paper. :mod:`benchmarks.papers.okcm2023` makes the card.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.common.tables import markdown
from benchmarks.papers.okcm_at_once import predict_at_once
from features.jobs.cleaning import CleanTrace
from models.runtime.evaluation import accuracy
from sim import simulate

TRACES = ("SDSC-SP2", "KTH-SP2")
LAST = "knn(window=1)"
PREDICTORS = ("requested", LAST, "last2", "knn", "hierarchy", "nag", "okcm")
GRID = tuple(
    f"okcm(delta={delta},eta={eta},lambda={shrink},weights={weights})"
    for delta, eta, shrink, weights in product((1, 100, 1000, 30_000), (1000, 3000, 10_000), (0, 100), ("user", "shared"))
)
"""OKCM's regression as its equations stand, with other constants, of which the paper gives none."""
FROM_LAST = tuple(f"okcm(delta=1,eta={eta},lambda=0,weights=shared,base=last)" for eta in (1, 100, 1000))
"""The same regression added to the last runtime, ever faster."""


class Walked(NamedTuple):
    """Accuracies of one trace in per cent.

    ``table`` is by predictor, columns ``at_once ends``; then the point of ``GRID`` best on the first half, and the most that
    any of them has on the whole trace.
    """

    title: str
    table: pd.DataFrame
    chosen: str
    most: float


def walked(title: str, trace: CleanTrace) -> Walked:
    """Predict the trace both ways.

    Constants of OKCM are chosen with runtimes known at once, on the first half.
    """
    half = len(trace.jobs) // 2

    def at_once(name: str) -> np.ndarray:
        jobs = predict_at_once(trace.jobs, procs=trace.procs, predictor=name, clock=trace.clock).jobs
        return 100 * accuracy(jobs["predicted_s"].to_numpy(np.float64), jobs["runtime_s"].to_numpy(np.float64))

    def ends(name: str) -> float:
        jobs = simulate(trace.jobs, procs=trace.procs, predictor=name, clock=trace.clock).jobs
        return float(100 * accuracy(jobs["predicted_s"].to_numpy(np.float64), jobs["runtime_s"].to_numpy(np.float64)).mean())

    tried = {name: at_once(name) for name in GRID}
    chosen = max(GRID, key=lambda name: tried[name][:half].mean())
    names = (*PREDICTORS, chosen, *FROM_LAST)
    table = pd.DataFrame(
        {"at_once": {name: float(at_once(name).mean()) for name in names}, "ends": {name: ends(name) for name in names}}
    )
    return Walked(title, table, chosen, max(float(values.mean()) for values in tried.values()))


def walks_table(walks: Sequence[Walked]) -> str:
    """Return the two walks side by side, in Markdown."""
    names = list(dict.fromkeys(name for each in walks for name in each.table.index))
    words = {LAST: "the last runtime", **{each.chosen: f"best of {len(GRID)} on the first half of {each.title}" for each in walks}}
    heads = [f"{each.title}: {when}" for each in walks for when in ("known at once, %", "known at the end, %")]
    rows = []
    for name in names:
        tables = [each.table.loc[name] if name in each.table.index else None for each in walks]
        cells = [f"{row[column]:.1f}" if row is not None else "" for row in tables for column in ("at_once", "ends")]
        rows.append([f"`{name}`" + (f", {words[name]}" if name in words else ""), *cells])
    rows.append([MOST, *(cell for each in walks for cell in (f"{each.most:.1f}", ""))])
    return markdown(["", *heads], rows)


MOST = f"`okcm`, most of {len(GRID)} choices of constants"
"""A row of the table."""
