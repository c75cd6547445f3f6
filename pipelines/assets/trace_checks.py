"""Asset checks of a trace's tables: faults of exports, options and disks.

They do not repeat what the previous step enforces (an order, a clipped range): tests check that. Checks of severity ERROR block
the assets after them.
"""

from collections.abc import Sequence
from typing import Any

import dagster as dg
import numpy as np
import pandas as pd

from features.jobs.cleaning import CleanTrace
from features.jobs.schema import fingerprint
from pipelines.assets.checks import broken, holds
from pipelines.training.served import ServedModel
from sim.metrics.timeline import busy_procs
from sim.schedule import Schedule, recorded

DROPPED = 0.05
"""Max share of dropped jobs without a warning."""
LOAD = (0.02, 1.2)
"""Min and max offered load of a machine in use. Outside this range, the number of processors is often wrong."""
OVERBOOKED = 0.01
"""Max share of time in which the recorded schedule may hold too many processors: clocks of accounting differ by seconds."""
_WARN = dg.AssetCheckSeverity.WARN

JOBS = {
    "reads_back_as_written": "Read back from the lake, the jobs are those that were cleaned, and belong to the rejected ones beside them.",
    "few_jobs_dropped": f"At most {DROPPED:.0%} of the jobs were dropped (a warning if not).",
    "load_is_plausible": f"The jobs ask for {LOAD[0]:.0%} to {LOAD[1]:.0%} of the machine's time (a warning if not: look at the processors).",
    "recorded_schedule_fits": "By the recorded waits, running jobs hold no more processors than there are (a warning if not).",
}
FEATURES = {
    "recounted_by_hand": "Of some jobs, what had ended of their user is counted once more from the jobs, without the compiled pass.",
}
SCHEDULES = {
    "never_more_processors_than_there_are": "At no moment do the running jobs hold more processors than the machine has.",
    "no_start_before_submission": "No job starts before it was submitted.",
    "reads_back_as_written": "Read back from the lake, every schedule has the starts that were simulated.",
}
SIMULATED = {
    "consumers_get_what_is_simulated": "Loaded as consumers load it, the registered model answers its first submissions as it does in the simulation.",
    "learning_helps": "The registered model and lightgbm are at least as accurate as the requested time (a warning if not).",
}


def check_jobs(cleaned: CleanTrace, stored: CleanTrace) -> list[dg.AssetCheckResult]:
    """Check an ingested trace; ``stored`` is the same trace, read back from the lake."""
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
    """Return the share of recorded time with too many processors in use, and the max in use.

    Return 0, 0 if waits are missing.
    """
    if len(cleaned.jobs) == 0 or cleaned.jobs["wait_s"].isna().any():
        return 0.0, 0
    times, values = busy_procs(recorded(cleaned.jobs, cleaned.procs, trace=cleaned.name, generated=cleaned.generated))
    length = np.diff(times)
    return float(length[values[:-1] > cleaned.procs].sum() / max(length.sum(), 1)), int(values.max())


def check_schedules(schedules: Sequence[Schedule], stored: Sequence[Schedule]) -> list[dg.AssetCheckResult]:
    """Check the schedules of one trace; ``stored`` are the same, read back from the lake."""
    jobs = sum(len(schedule.jobs) for schedule in schedules)
    moved = abs(len(schedules) - len(stored)) + sum(
        int((kept.jobs["start_s"].to_numpy() != schedule.jobs["start_s"].to_numpy()).sum())
        for schedule, kept in zip(schedules, stored, strict=False)
    )
    return [
        broken(
            "never_more_processors_than_there_are",
            sum(int((busy_procs(schedule).values > schedule.procs).sum()) for schedule in schedules),
        ),
        broken(
            "no_start_before_submission",
            sum(int((schedule.jobs["start_s"] < schedule.jobs["submit_s"]).sum()) for schedule in schedules),
            rows=jobs,
        ),
        broken("reads_back_as_written", moved, rows=jobs),
    ]


def check_simulated_model(model: ServedModel, shown: str, accuracy: pd.Series) -> list[dg.AssetCheckResult]:
    """Check the simulated registered model (predictor ``shown``) and all accuracies."""
    learned = [name for name in (shown, "lightgbm") if name in accuracy]
    accuracies: dict[str, Any] = {str(name): float(accuracy[name]) for name in (*learned, "requested") if name in accuracy}
    return [
        holds(
            "consumers_get_what_is_simulated", model.agrees, version=int(model.version), submissions=model.asked, off_s=model.off_s
        ),
        holds(
            "learning_helps",
            bool(accuracy[learned].min() >= accuracy["requested"]) if "requested" in accuracy else True,
            severity=_WARN,
            **accuracies,
        ),
    ]


def check_features(jobs: pd.DataFrame, table: pd.DataFrame, end_s: np.ndarray, sample: int = 50) -> list[dg.AssetCheckResult]:
    """Check a table of features whose rows are those of ``jobs``.

    ``end_s`` int64 [jobs] holds the ends that the table was computed from.
    """
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
    return [broken("recounted_by_hand", wrong, rows=len(rows))]
