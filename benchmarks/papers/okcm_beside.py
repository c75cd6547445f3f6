"""Set what else Li & Zhang show of OKCM beside what is at hand: latency, rivals, figures 1, 3 and 4.

Latency is processor time of learning and predicting in the walk at once (:mod:`benchmarks.papers.okcm_accuracy`), where the paper says less than
0.003 s a job. Accuracies of rivals are those of data/runtime-prediction.csv, where the paper says 3.3 to 6.3 points below OKCM's. Figure 1
is of CEA-Curie, 70 % of whose jobs come within a minute of the job before; the trace is not at hand. Figure 4 shows the correction of Tsafrir et al.
with the authors' steps, and no values: here ``tsafrir(steps=okcm)`` under EASY, of jobs that outlive OKCM's prediction. Figure 3, the runtimes of a
user of ANL-Intrepid, is missing: that trace is not at hand.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.common.logs import load
from benchmarks.common.pages import STUDIES
from benchmarks.common.tables import markdown
from benchmarks.papers.okcm_at_once import predict_at_once
from features.jobs.cleaning import CleanTrace
from sim import simulate

TRACES = ("SDSC-SP2", "KTH-SP2", "LANL-CM5", "ALCF-Theta")
RIVALS = ("svr", "lightgbm")
STEPS, REPEATS = 5, 5


def accuracies() -> pd.DataFrame:
    """Return accuracies in per cent by predictor and trace, of whole traces, from the page about predictors."""
    rows = pd.read_csv(STUDIES / "data" / "runtime-prediction.csv")
    rows = rows[rows["section"].str.startswith("tables: ") & rows["table"].str.contains(", the whole trace: ")]
    wide = rows.pivot(index=["section", "line"], columns="column", values="value").reset_index()
    wide["trace"], wide["value"] = (
        wide["section"].str.removeprefix("tables: "),
        wide["accuracy, %"].str.split().str[0].astype(float),
    )
    return wide.pivot(index="predictor", columns="trace", values="value")


def microseconds(trace: CleanTrace) -> float:
    """Return the processor time of OKCM's learning and predicting, microseconds a job, median of some runs after one that does not count."""
    taken = []
    for _ in range(REPEATS + 1):
        began = time.process_time()
        predict_at_once(trace.jobs, procs=trace.procs, predictor="okcm", clock=trace.clock)
        taken.append(time.process_time() - began)
    return 1e6 * statistics.median(taken[1:]) / len(trace.jobs)


def within_a_minute(submit_s: np.ndarray) -> float:
    """Return the share of jobs that are submitted less than a minute after the job before."""
    return float((np.diff(submit_s) < 60).mean())


def by_corrections(corrections: np.ndarray) -> list[float]:
    """Return which share of jobs that outlive a prediction end within 1, 2, ... corrections."""
    outlived = corrections[corrections > 0]
    return [float((outlived <= step).mean()) for step in range(1, STEPS + 1)]


def beside_tables(shared: Path) -> list[str]:
    """Return the two tables as lines of Markdown: accuracies of rivals; latency, arrivals and corrections by trace."""
    rows = []
    for title in TRACES:
        trace = load(title, shared)
        jobs = simulate(trace.jobs, procs=trace.procs, predictor="okcm", correction="tsafrir(steps=okcm)", clock=trace.clock).jobs
        shares = by_corrections(jobs["corrections"].to_numpy())
        near = within_a_minute(trace.jobs["submit_s"].to_numpy(np.int64))
        rows.append([title, f"{microseconds(trace):.1f}", f"{near:.0%}", *(f"{share:.0%}" for share in shares)])
    percent = accuracies()
    rivals = [[name, *(f"{percent.at[name, title]:.1f}" for title in percent.columns)] for name in ("okcm", *RIVALS)]
    headings = [
        "",
        "OKCM, µs a job",
        "submitted within a minute",
        "ended after 1 correction",
        *(f"{step}" for step in range(2, STEPS + 1)),
    ]
    return [markdown(["accuracy, %", *percent.columns], rivals), "", markdown(headings, rows)]
