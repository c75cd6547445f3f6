"""Questions about starts, made from accounting, with all that is known at that moment.

A job is asked about at its submission and, while it still waits, at fixed ages. At such a moment it is known that it
waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd

from features.clock import Clock, local_clock_s
from features.jobs.cleaning import CleanTrace
from features.jobs.schema import codes
from models.packed.queue_state import FEATURES, QueueJobs, states
from models.packed.start_distribution import SCENARIOS
from models.packed.start_predictor import STARTS
from models.runtime.distribution import from_table
from models.starts.model import Questions
from sim.inputs.predicted_limits import told_along
from sim.starts.ahead import Ahead, PresentQueue

AGES_S = (600, 3_600, 14_400, 86_400)
"""Waits after which a job that still waits is asked about again."""
_SPREAD, _SPREAD_S = 0.15, 90.0
"""Width by which scenarios are blurred, in the logarithm of seconds, and seconds added before taking it.

Chosen on the recorded Slurm runs micro-1, pair-A and pair24-A."""
_LOGISTIC = np.log(1.0 / ((np.arange(16) + 0.5) / 16) - 1.0)
PLAN = "plan_s"
"""Column of a job's planned start, seconds from the question on."""


def queued(clean: CleanTrace, start_s: np.ndarray, end_s: np.ndarray, seed: int = 0) -> QueueJobs:
    """Return the jobs of a trace as recorded, with predicted distributions of runtimes.

    The predictor ``quantile`` learns along the record and predicts at submission
    (:func:`sim.inputs.predicted_limits.told_along`).
    """
    jobs = clean.jobs
    requested = jobs["requested_s"].to_numpy(np.int64)
    quantiles = from_table(told_along(jobs, end_s, clean.clock, seed), requested)
    submit, procs = jobs["submit_s"].to_numpy(np.int64), jobs["procs"].to_numpy(np.int64)
    user, queue, account = (codes(jobs, name) for name in ("user", "queue", "group"))
    return QueueJobs(submit, start_s, np.maximum(end_s, start_s + 1), procs, requested, user, queue, account, quantiles)


def moments(submit_s: np.ndarray, start_s: np.ndarray, since_s: int, until_s: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and seconds of all questions, by time, int64 [questions].

    Questions lie from ``since_s`` to before ``until_s``. Submissions and starts are int64 [jobs].
    """
    row, at = np.arange(len(submit_s)), submit_s
    rows, times = [row], [at]
    for age in AGES_S:
        waits = start_s > submit_s + age
        rows.append(row[waits])
        times.append(at[waits] + age)
    row_of, when = np.concatenate(rows), np.concatenate(times)
    chosen = (when >= since_s) & (when < until_s)
    order = np.lexsort((row_of[chosen], when[chosen]))
    return row_of[chosen][order], when[chosen][order]


def ask(
    jobs: QueueJobs,
    row: np.ndarray,
    at_s: np.ndarray,
    ahead: Ahead,
    clock: Clock,
    progress: Callable[[int, int], object] | None = None,
) -> Questions:
    """Return questions about jobs ``row`` at ``at_s``, ascending.

    They contain the states, scenarios and plans of these moments.
    """
    local = local_clock_s(at_s, *clock)
    described = states(jobs, row, at_s, local, ahead.procs)
    scenarios, planned = np.empty((len(row), SCENARIOS)), np.empty(len(row))
    for number, (job, queue) in enumerate(queues(jobs, row, at_s)):
        alone = np.array([job])
        scenarios[number] = start_quantiles(ahead.starts(queue, alone)[:, 0])
        planned[number] = ahead.plan(queue, jobs.requested, only=alone)[0]
        if progress is not None and number % 256 == 0:
            progress(number, len(row))
    return Questions(row, at_s, described, scenarios, planned)


def queues(jobs: QueueJobs, row: np.ndarray, at_s: np.ndarray) -> Iterator[tuple[int, PresentQueue]]:
    """Yield for each question the job, and the queue then, in order of submission."""
    gone_by = np.maximum.accumulate(jobs.end)
    for job, now in zip(row.tolist(), at_s.tolist(), strict=True):
        first, last = int(np.searchsorted(gone_by, now, "right")), int(np.searchsorted(jobs.submit, now, "right"))
        rows = np.arange(first, last)
        rows = rows[(jobs.submit[rows] < now) | (rows <= job)]
        begun = jobs.start[rows]
        yield job, PresentQueue(jobs, rows[(begun < now) & (jobs.end[rows] > now)], rows[begun >= now], now)


def start_quantiles(starts_s: np.ndarray) -> np.ndarray:
    """Return starts in any number of scenarios as ``SCENARIOS`` quantiles, seconds."""
    if len(starts_s) == SCENARIOS:
        return np.sort(starts_s).astype(np.float64)
    return np.quantile(starts_s, (np.arange(SCENARIOS) + 0.5) / SCENARIOS)


def blurred(starts_s: np.ndarray, within_s: float) -> np.ndarray:
    """Return the starts in scenarios as a wider sample, float64 [sample, jobs].

    What scenarios leave out errs in proportion to the wait: each start of ``starts_s`` [scenarios, jobs] is spread by a
    logistic distribution in the logarithm of seconds. Starts of ``within_s`` or later, which are not known, stay.
    """
    starts = starts_s.astype(np.float64)
    sample = np.exp(np.log(starts + _SPREAD_S) + _SPREAD * _LOGISTIC[:, None, None]) - _SPREAD_S
    return np.where(starts >= within_s, starts, np.clip(sample, 0.0, within_s)).reshape(-1, starts.shape[1])


def as_table(questions: Questions, job_id: np.ndarray) -> pd.DataFrame:
    """Return questions as a table: ``job_id at_s``, the state, scenarios, plan."""
    head = pd.DataFrame({"job_id": job_id[questions.row], "at_s": questions.at_s})
    values = pd.DataFrame(
        np.column_stack((questions.states, questions.scenarios, questions.plan_s)), columns=[*FEATURES, *STARTS, PLAN]
    )
    return pd.concat([head, values], axis=1)


def from_states(table: pd.DataFrame, row: np.ndarray) -> Questions:
    """Return the questions of a table ``queue_states``.

    They are about the jobs ``row``, int64 [questions].
    """
    described, starts = (table[list(names)].to_numpy(np.float64) for names in (FEATURES, STARTS))
    return Questions(row, table["at_s"].to_numpy(np.int64), described, starts, table[PLAN].to_numpy(np.float64))
