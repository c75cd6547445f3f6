"""Feature tables of two papers, as their text defines them, from the users' history.

Gaussier, Glesser, Reis & Trystram, "Improving backfilling by using machine learning to predict running times" (SC 2015), table 2;
Li, Zhang et al., OKCM, table 1. In both, "the last job of the same user" is the last that had *ended* at submission, and
"historical" means ended: nothing else is known then. The quirks of the programs published with them are not reproduced.
"""

from __future__ import annotations

import pandas as pd

GAUSSIER: dict[str, str] = {
    "requested_s": "p~_j",
    "last_runtime_s": "p_{j-1}^(k)",
    "second_last_runtime_s": "p_{j-2}^(k)",
    "third_last_runtime_s": "p_{j-3}^(k)",
    "mean_last2_runtime_s": "AVE_2^(k)(p)",
    "mean_last3_runtime_s": "AVE_3^(k)(p)",
    "mean_runtime_s": "AVE_all^(k)(p)",
    "procs": "q_j",
    "mean_procs": "AVE_hist,rj^(k)(q)",
    "procs_over_mean": "q_j / AVE_hist,rj^(k)(q)",
    "running_mean_procs": "AVE_curr,rj^(k)(q)",
    "running_jobs": "jobs currently running",
    "longest_running_s": "longest current running time",
    "sum_running_s": "sum current running times",
    "occupied_procs": "occupied resources",
    "break_s": "break time",
    "cos_day": "cos(2 pi / t_day * (r_j mod t_day))",
    "sin_day": "sin(2 pi / t_day * (r_j mod t_day))",
    "cos_week": "cos(2 pi / t_week * (r_j mod t_week))",
    "sin_week": "sin(2 pi / t_week * (r_j mod t_week))",
}
"""Columns of :func:`gaussier` and their symbols in table 2, in its order."""

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


def gaussier(jobs: pd.DataFrame, history: pd.DataFrame) -> pd.DataFrame:
    """Return table 2 of Gaussier et al. 2015: float64 [jobs], columns :data:`GAUSSIER`.

    ``jobs`` is a cleaned canonical table, ``history`` its ``features.jobs.history.history``. No value is NaN. The table states 0
    for each missing one of the last three runtimes. Our choices where it is silent: every other feature without jobs is 0 too;
    the averages of the last two and three take the runtimes that exist, as the published program does; times of day and week are
    the local wall clock's, weeks from Monday (the table prints the release date, whose origin only turns the phase).
    """
    return _table(jobs, history)[list(GAUSSIER)].fillna(0.0)


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
