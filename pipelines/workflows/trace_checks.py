"""Asset checks of a trace's tables: what a fault of the site's export, of an option or of the disk would break.

What the step before has just enforced (an order, a clipped range) is not checked again: a test does that. Checks of severity ERROR block what
comes after them.
"""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg
import numpy as np
import pandas as pd

from features.jobs.cleaning import CleanTrace
from features.jobs.schema import fingerprint
from pipelines.assets.checks import broken, holds
from pipelines.workflows.stages import BY_USERS
from sim.metrics.timeline import busy_procs
from sim.schedule import Schedule, recorded

DROPPED = 0.05
"""Share of jobs that may be dropped before it is worth a look."""
LOAD = (0.02, 1.2)
"""Offered load of a machine that is neither idle nor given more work than it can ever do; beyond, the number of processors is often wrong."""
OVERBOOKED = 0.01
"""Share of the time in which the recorded schedule may hold more processors than there are; clocks of accounting differ by seconds."""
FALLBACK = 0.5
LEARNED = (BY_USERS, "lightgbm", "quantile(order=accuracy)")
"""Learned predictors that aim at accuracy."""
_WARN = dg.AssetCheckSeverity.WARN

JOBS = {
    "reads_back_as_written": "Read back from the lake, the jobs are those that were cleaned, and belong to the rejected ones beside them.",
    "few_jobs_dropped": f"At most {DROPPED:.0%} of the jobs were dropped (a warning if not).",
    "load_is_plausible": f"The jobs ask for {LOAD[0]:.0%} to {LOAD[1]:.0%} of the machine's time (a warning if not: look at the processors).",
    "recorded_schedule_fits": "By the recorded waits, running jobs hold no more processors than there are (a warning if not).",
}
HISTORY = {
    "recounted_by_hand": "Of some jobs, what had ended of their user is counted once more from the jobs, without the compiled pass.",
}
PREDICTIONS = {
    "first_jobs_get_their_request": "Where no two jobs of a user have ended, last2 is the request: predictions and history are aligned.",
    "models_take_over": f"At most {FALLBACK:.0%} of the jobs are predicted by their request for want of a model (a warning if not).",
}
PREDICTION_METRICS = {
    "learning_helps": "The learned predictors are at least as accurate as the requested time (a warning if not).",
}
SCHEDULES = {
    "never_more_processors_than_there_are": "At no moment do the running jobs hold more processors than the machine has.",
    "no_start_before_submission": "No job starts before it was submitted.",
    "reads_back_as_written": "Read back from the lake, every schedule has the starts that were simulated.",
}


def check_jobs(cleaned: CleanTrace, stored: CleanTrace) -> list[dg.AssetCheckResult]:
    """Of a trace just ingested; ``stored`` is what the lake gives back."""
    jobs, read = cleaned.jobs, max(cleaned.jobs_read, 1)
    dropped = int((cleaned.rejected_jobs["action"] == "dropped").sum())
    area = float((jobs["runtime_s"].to_numpy(np.float64) * jobs["procs"].to_numpy(np.float64)).sum())
    span = float(jobs["submit_s"].iloc[-1] - jobs["submit_s"].iloc[0])
    load = area / (cleaned.procs * span) if span > 0 else float("inf")
    same = fingerprint(stored.jobs) == fingerprint(jobs) and len(stored.rejected_jobs) == len(cleaned.rejected_jobs)
    share, peak = overbooked(cleaned)
    return [
        holds("reads_back_as_written", same, jobs=len(stored.jobs), rejected=len(stored.rejected_jobs)),
        holds("few_jobs_dropped", dropped <= DROPPED * read, severity=_WARN, dropped=dropped, read=read),
        holds("load_is_plausible", LOAD[0] <= load <= LOAD[1], severity=_WARN, load=load, processors=cleaned.procs),
        holds(
            "recorded_schedule_fits", share <= OVERBOOKED, severity=_WARN, share_of_time=share, peak=peak, processors=cleaned.procs
        ),
    ]


def overbooked(cleaned: CleanTrace) -> tuple[float, int]:
    """Share of the recorded time in which running jobs hold more processors than there are, and the most they hold; 0, 0 where waits are missing."""
    if len(cleaned.jobs) == 0 or cleaned.jobs["wait_s"].isna().any():
        return 0.0, 0
    times, values = busy_procs(recorded(cleaned.jobs, cleaned.procs, trace=cleaned.name, generated=cleaned.generated))
    length = np.diff(times)
    return float(length[values[:-1] > cleaned.procs].sum() / max(length.sum(), 1)), int(values.max())


def check_predictions(table: pd.DataFrame, completed_jobs: np.ndarray, fallback_jobs: int) -> list[dg.AssetCheckResult]:
    """Of a table of predictions in the order of the jobs; ``completed_jobs`` of its user at each submission are of the history."""
    few = completed_jobs < 2
    return [
        broken(
            "first_jobs_get_their_request", int((table["last2"] != table["requested"])[few].sum()), "predictions", of=int(few.sum())
        ),
        holds(
            "models_take_over",
            fallback_jobs <= FALLBACK * len(table),
            "predictions",
            severity=_WARN,
            by_request=fallback_jobs,
            of=len(table),
        ),
    ]


def check_prediction_metrics(accuracy: pd.Series) -> list[dg.AssetCheckResult]:
    """Of the accuracy of each predictor over all jobs, by its name."""
    return [
        holds(
            "learning_helps",
            bool(accuracy[list(LEARNED)].min() >= accuracy["requested"]),
            "prediction_metrics",
            severity=_WARN,
            **{name: float(accuracy[name]) for name in (*LEARNED, "requested")},
        )
    ]


def check_schedules(made: Sequence[Schedule], stored: Sequence[Schedule]) -> list[dg.AssetCheckResult]:
    """Of the schedules of one trace; ``stored`` are those that the lake gives back."""
    jobs = sum(len(schedule.jobs) for schedule in made)
    moved = abs(len(made) - len(stored)) + sum(
        int((kept.jobs["start_s"].to_numpy() != schedule.jobs["start_s"].to_numpy()).sum())
        for schedule, kept in zip(made, stored, strict=False)
    )
    return [
        broken(
            "never_more_processors_than_there_are",
            sum(int((busy_procs(schedule).values > schedule.procs).sum()) for schedule in made),
        ),
        broken(
            "no_start_before_submission",
            sum(int((schedule.jobs["start_s"] < schedule.jobs["submit_s"]).sum()) for schedule in made),
            of=jobs,
        ),
        broken("reads_back_as_written", moved, of=jobs),
    ]


def check_history(jobs: pd.DataFrame, table: pd.DataFrame, end_s: np.ndarray, sample: int = 50) -> list[dg.AssetCheckResult]:
    """Of a table of user history whose rows are those of ``jobs``; ``end_s`` int64 [jobs] are the ends it goes by."""
    rows = np.unique(np.linspace(0, len(jobs) - 1, min(sample, len(jobs))).astype(np.int64))
    submit, runtime = jobs["submit_s"].to_numpy(np.int64), jobs["runtime_s"].to_numpy(np.float64)
    user = jobs["user"].cat.codes.to_numpy()
    wrong = 0
    for row in rows:
        if user[row] < 0:
            continue
        ended = np.flatnonzero((user == user[row]) & (end_s <= submit[row]))
        last = table["last_runtime_s"].iloc[row]
        latest = runtime[ended[end_s[ended] == end_s[ended].max()]] if len(ended) else np.zeros(0)
        wrong += int(table["completed_jobs"].iloc[row] != len(ended) or (len(ended) > 0 and last not in latest))
    return [broken("recounted_by_hand", wrong, of=len(rows))]
