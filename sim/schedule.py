"""A schedule as a value (submissions, starts, predictions), with free functions beside it.

Over time it is step functions, of queue length and busy processors, given by their breakpoints: ``values[i]`` holds
from ``times[i]`` up to, not including, ``times[i + 1]``, the last value forever. A pool only counts processors; files
of other programs name them, and pictures draw them.
"""

from __future__ import annotations

import heapq
from bisect import bisect
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

import numpy as np

from features.deferred import pd
from features.errors import InputError
from features.jobs.columns import Table, TableColumns, column, tabled
from features.jobs.schema import start_s
from sim.outcome import Outcome
from sim.policy import Policy

IDENTITY = (
    "trace",
    "scheduler",
    "predictor",
    "correction",
    "semantics",
    "starvation_s",
    "dependencies",
    "seed",
    "shake_s",
    "users",
    "load",
    "squeeze",
    "procs",
    "machine",
    "tau_s",
    "generated",
)
"""Key of a row of results: a schedule's settings, and the threshold of its bounded slowdown."""


@tabled("jobs")
@dataclass(frozen=True)
class Schedule:
    """One simulated (or recorded) schedule.

    ``jobs`` has one row a job, in the order of the trace:
    ``job_id submit_s start_s end_s procs runtime_s requested_s user predicted_s corrections``. Times are seconds from
    the trace's origin. ``submit_s`` is the recorded submission, moved if the replay is shaken (by up to ``shake_s``,
    drawn by ``seed``: :mod:`features.jobs.workload_changes`), and simulated if jobs wait for others (``dependencies``,
    ``users``). ``predicted_s`` is the estimate at submission that orders the queue; ``corrections`` counts replacements
    of an outlived prediction. Where runtimes depend on the schedule, ``undisturbed_s`` does not. The other fields say
    what produced the schedule. ``simulate_s`` is the wall time of the simulation alone; ``retrain_s`` of it trained
    predictors at midnight. ``machine`` names a machine of clusters, "" is one pool of ``procs`` processors.
    ``quantiles``, of a predictor of distributions, are those of each job's runtime at its submission: seconds, a row a
    job in the same order, a column a level in (0, 1). ``never_started`` are the numbers of jobs that a site's replay
    never starts; ``jobs`` leaves them out.
    """

    jobs: pd.DataFrame
    procs: int
    machine: str = ""
    trace: str = ""
    scheduler: str = "EASY"
    predictor: str = "requested"
    correction: str = "requested"
    semantics: str = "per-second"
    starvation_s: int | None = None
    dependencies: bool = False
    seed: int = 0
    shake_s: int = 0
    users: str = "open"
    load: float = 1.0
    squeeze: float = 1.0
    generated: bool = False
    clamped_predictions: int = 0
    simulate_s: float = 0.0
    retrain_s: float = 0.0
    quantiles: pd.DataFrame | None = None
    never_started: tuple[int, ...] = ()

    def __repr__(self) -> str:
        """Return five lines: the policy, the machine, settings, jobs and waits."""
        jobs, machine = self.jobs, self.machine or "one pool"
        wait = (jobs["start_s"] - jobs["submit_s"]) if len(jobs) else pd.Series([0])
        return "\n".join(
            (
                f"Schedule of {self.trace or 'a trace'}{', generated' if self.generated else ''}: {self.label}, correction {self.correction}",
                f"  machine    {self.procs:,} processors, {machine}",
                f"  semantics  {self.semantics}, users {self.users}, seed {self.seed}",
                f"  jobs       {len(jobs):,}, columns {' '.join(map(str, jobs.columns))}",
                f"  waits      mean {wait.mean():,.0f} s, max {wait.max():,.0f} s; sim.evaluate(schedule) has all metrics",
            )
        )

    def _repr_html_(self) -> str:
        """Return the HTML for a notebook: those lines, and the first and last jobs."""
        return f"<pre>{escape(repr(self))}</pre>{self.jobs.to_html(max_rows=10)}"

    @property
    def label(self) -> str:
        """Return scheduler and predictor, as tables and plots name the schedule."""
        return self.scheduler if self.predictor == "" else f"{self.scheduler} / {self.predictor}"

    @property
    def policy(self) -> Policy:
        """Return the policy that made it."""
        return Policy(**{name: getattr(self, name) for name in Policy._fields})


def as_schedule(
    outcome: Outcome, jobs: Table, policy: Policy, *, procs: int, trace: str, generated: bool, machine: str = ""
) -> Schedule:
    """Return the schedule that ``policy`` made of ``jobs``, from its outcome in that order.

    The trace's name tells whether users react or the load differs.
    """
    table = schedule_table(jobs, outcome.start, outcome.predicted, outcome.corrections, outcome.submit)
    return Schedule(
        jobs=table,  # type: ignore[bad-argument-type]
        procs=procs,
        machine=machine,
        trace=policy.label(trace),
        generated=generated,
        clamped_predictions=outcome.clamped,
        simulate_s=outcome.seconds,
        retrain_s=outcome.retraining,
        quantiles=outcome.quantiles,
        **policy._replace(predictor=outcome.predictor)._asdict(),
    )


def recorded(jobs: pd.DataFrame, procs: int, trace: str = "", generated: bool = False) -> Schedule:
    """Return the schedule that a trace recorded, as one of the scheduler ``recorded``.

    Raises InputError if a wait is missing. A site's schedule may hold more processors than ``procs`` at a time (shared
    nodes, another machine size than stated); this is not checked.
    """
    start = start_s(jobs)
    if start is None:
        raise InputError(f"{trace or 'trace'}: does not record every wait, so there is no recorded schedule")
    return Schedule(
        jobs=schedule_table(jobs, start, jobs["requested_s"].to_numpy(np.float64)),  # type: ignore[bad-argument-type]
        procs=procs,
        trace=trace,
        scheduler="recorded",
        predictor="",
        correction="",
        semantics="",
        generated=generated,
    )


def schedule_table(
    jobs: Table,
    start: np.ndarray,
    predicted: np.ndarray,
    corrections: np.ndarray | None = None,
    submit: np.ndarray | None = None,
) -> TableColumns:
    """Return the ``jobs`` table of a Schedule from arrays [jobs] in the same order, seconds.

    Columns of ``jobs`` are copied, so that either table may be edited.
    """
    job_id, submit_s, procs, runtime_s, requested_s = (
        np.array(np.ma.getdata(column(jobs, name))) for name in ("job_id", "submit_s", "procs", "runtime_s", "requested_s")
    )
    everyone = np.arange(len(jobs))
    return TableColumns(
        {
            "job_id": job_id,
            "submit_s": submit_s if submit is None else submit,
            "start_s": start,
            "end_s": start + runtime_s,
            "procs": procs,
            "runtime_s": runtime_s,
            "requested_s": requested_s,
            "user": column(jobs, "user")[everyone],
            "predicted_s": predicted,
            "corrections": np.zeros(len(jobs), np.int64) if corrections is None else corrections,
        }
    )


def checked(schedule: object) -> Schedule:
    """Return ``schedule``; InputError if it is no :class:`Schedule`."""
    if not isinstance(schedule, Schedule):
        raise InputError(f"a {type(schedule).__name__} is not a schedule: give one that simulate, decide or recorded returned")
    return schedule


class Steps(NamedTuple):
    """A step function: ``times`` (int64 [k], ascending, seconds) and ``values`` (int64 [k])."""

    times: np.ndarray
    values: np.ndarray


def queue_length(schedule: Schedule) -> Steps:
    """Return the number of jobs that are submitted and not started."""
    return _count(schedule, "submit_s", "start_s", np.ones(len(schedule.jobs), np.int64))


def busy_procs(schedule: Schedule) -> Steps:
    """Return the processors that running jobs occupy."""
    return _count(schedule, "start_s", "end_s", schedule.jobs["procs"].to_numpy(np.int64))


def _count(schedule: Schedule, enter: str, leave: str, weight: np.ndarray) -> Steps:
    jobs = schedule.jobs
    if len(jobs) == 0:
        raise InputError(f"schedule {schedule.label}: has no jobs")
    moments = np.concatenate((jobs[enter].to_numpy(np.int64), jobs[leave].to_numpy(np.int64)))
    times, at = np.unique(moments, return_inverse=True)
    change = np.zeros(len(times), np.int64)
    np.add.at(change, at, np.concatenate((weight, -weight)))
    return Steps(times, np.cumsum(change))


Span = tuple[int, int]
"""The first and the last processor of a range."""


def seats(schedule: Schedule) -> list[list[Span]]:
    """Return the processors of each job: the lowest free ones, in the order of starts.

    Raises InputError if jobs hold more processors at a time than exist, as recorded jobs may.
    """
    jobs = schedule.jobs.reset_index(drop=True)
    free: list[Span] = [(0, schedule.procs - 1)]
    held: list[list[Span]] = [[] for _ in range(len(jobs))]
    ends: list[tuple[int, int]] = []
    order = jobs.sort_values(["start_s", "submit_s"], kind="stable")[["start_s", "end_s", "procs"]]
    for job, start, end, procs in order.itertuples(name=None):
        while ends and ends[0][0] <= start:
            for span in held[heapq.heappop(ends)[1]]:
                _give_back(free, span)
        while procs > 0:
            if not free:
                number = jobs["job_id"].iloc[job]
                wanting = f"needs more than is free of {schedule.procs:,} processors"
                raise InputError(f"{schedule.label}: job {number} starts at second {start} and {wanting}")
            first, last = free.pop(0)
            if last - first >= procs:
                free.insert(0, (first + procs, last))
                last = first + procs - 1
            held[job].append((first, last))
            procs -= last - first + 1
        heapq.heappush(ends, (end, job))
    return held


def _give_back(free: list[Span], span: Span) -> None:
    """Add a range to the free ones, which stay sorted and merged."""
    first, last = span
    at = bisect(free, span)
    if at < len(free) and free[at][0] == last + 1:
        last = free.pop(at)[1]
    if at > 0 and free[at - 1][1] == first - 1:
        at -= 1
        first = free.pop(at)[0]
    free.insert(at, (first, last))
