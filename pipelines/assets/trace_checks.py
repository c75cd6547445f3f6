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
SCHEDULES = {
    "never_more_processors_than_there_are": "At no moment do the running jobs hold more processors than the machine has.",
    "no_start_before_submission": "No job starts before it was submitted.",
}
SIMULATED = {
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


def check_schedules(schedules: Sequence[Schedule]) -> list[dg.AssetCheckResult]:
    """Check the schedules of one trace."""
    over = [int((busy_procs(schedule).values > schedule.procs).sum()) for schedule in schedules]
    early = [int((schedule.jobs["start_s"] < schedule.jobs["submit_s"]).sum()) for schedule in schedules]
    return [
        broken("never_more_processors_than_there_are", sum(over)),
        broken("no_start_before_submission", sum(early), rows=sum(len(schedule.jobs) for schedule in schedules)),
    ]


def check_simulated_model(shown: str, accuracy: pd.Series) -> dg.AssetCheckResult:
    """Check all accuracies; the simulated registered model is the predictor ``shown``."""
    learned = [name for name in (shown, "lightgbm") if name in accuracy]
    accuracies: dict[str, Any] = {str(name): float(accuracy[name]) for name in (*learned, "requested") if name in accuracy}
    helps = bool(accuracy[learned].min() >= accuracy["requested"]) if "requested" in accuracy else True
    return holds("learning_helps", helps, severity=_WARN, **accuracies)
