"""The feature table of OKCM (Li, Zhang et al., table 1), as its text defines it, from the users' history.

"The last job of the same user" is the last that had *ended* at submission, and "historical" means ended: nothing else is known then.
"""

from __future__ import annotations

import pandas as pd

OKCM: dict[str, str] = {
    "procs": "x0",
    "requested_s": "x1",
    "last_runtime_s": "x2",
    "second_last_runtime_s": "x3",
    "mean_last2_runtime_s": "x4",
    "third_last_runtime_s": "x5",
    "mean_last3_runtime_s": "x6",
    "sum_runtime_s": "x7",
    "mean_runtime_s": "x8",
    "mean_procs": "x9",
    "mean_allocated_procs": "x10",
    "procs_over_mean": "x11",
    "sin_week": "x12",
    "sin_day": "x13",
    "break_s": "x14",
}
"""Columns of :func:`okcm` and their symbols in table 1, in its order."""

RUNTIMES = (
    "last_runtime_s",
    "second_last_runtime_s",
    "third_last_runtime_s",
    "mean_last2_runtime_s",
    "mean_last3_runtime_s",
    "mean_runtime_s",
)
"""Columns whose missing values OKCM replaces by the requested time; x2 by its text."""


def okcm(jobs: pd.DataFrame, history: pd.DataFrame) -> pd.DataFrame:
    """Return table 1 of OKCM: float64 [jobs], columns :data:`OKCM`, no NaN.

    Its nodes are our processors. The table states one fill: x2 is the requested time for a first job. Our choices where it is
    silent: x3 and x5 are the requested time too; x4 and x6 average the runtimes that exist of the last two and three, x8 all of
    them, and are the requested time if there is none; x9 and x10 are the job's own processors if nothing has ended, so that x11
    is 1; x7, a sum, and x14, an interval, are then 0. A "first" job is one without ended jobs at its submission.
    """
    table = _table(jobs, history)
    for name in RUNTIMES:
        table[name] = table[name].fillna(table["requested_s"])
    for name in ("mean_procs", "mean_allocated_procs"):
        table[name] = table[name].fillna(table["procs"])
    table["procs_over_mean"] = table["procs_over_mean"].fillna(1.0)
    table["break_s"] = table["break_s"].fillna(0.0)
    return table[list(OKCM)]


def _table(jobs: pd.DataFrame, history: pd.DataFrame) -> pd.DataFrame:
    """Join submission and history; means of the last two and three over as many as exist.

    NaN where none exists.
    """
    if not jobs.index.equals(history.index):
        raise ValueError("jobs and history have different rows")
    last2 = history["mean_last2_runtime_s"].fillna(history["last_runtime_s"])
    return history.assign(
        requested_s=jobs["requested_s"].astype("float64"),
        procs=jobs["procs"].astype("float64"),
        mean_last2_runtime_s=last2,
        mean_last3_runtime_s=history["mean_last3_runtime_s"].fillna(last2),
    )
