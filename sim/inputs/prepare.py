"""Inputs of a simulation, checked and converted: jobs, the machine, dependencies."""

from __future__ import annotations

from functools import partial
from numbers import Integral
from typing import NamedTuple

import numpy as np

from features import limits
from features.clock import Clock
from features.deferred import pd
from features.errors import InputError
from features.jobs.columns import Table, TableColumns, column, framed
from features.jobs.dependencies import Graph
from features.jobs.schema import codes
from models.runtime.dispatch import OUTSIDE
from models.runtime.memory import Memory
from models.runtime.protocol import Predictor, TablePredictor
from sim.inputs.estimates import Foreknown, as_estimates, check_answerable, plain, planned_by, wall_clock_steps
from sim.kernel.corrections import CORRECTIONS, RENEWED
from sim.kernel.dependencies import Dependencies
from sim.kernel.orders import Scoring
from sim.kernel.run import Sweep
from sim.kernel.state import Estimates, Jobs
from sim.machine.nodes import Description, Layout, Requests, as_pools, could_hold
from sim.policy import NO_SCORES, Policy
from sim.schedulers.names import Scheduler
from sim.schedulers.scores import as_scoring

TIMES_AND_PROCS = ("submit_s", "runtime_s", "procs", "requested_s")
"""Columns of whole numbers that the kernel reads."""


class Prepared(NamedTuple):
    """A checked jobs table with the kernel's columns, for a machine of ``procs`` processors.

    Times count from the first submission, which is second ``origin``. ``waits`` says what jobs wait for; None if all
    are submitted as recorded. One object serves many simulations.
    """

    jobs: Table
    arrays: Jobs
    origin: int
    procs: int
    machine: OnClusters | None = None
    waits: Graph | None = None


class OnClusters(NamedTuple):
    """A machine of clusters, and what the jobs ask of it."""

    layout: Layout
    requests: Requests


def prepare(jobs: Table, procs: int, machine: Description | None = None) -> Prepared:
    """Return ``jobs`` ready to be simulated; InputError as :func:`sim.simulate`.

    They run on a pool of ``procs`` processors, or on a ``machine`` of clusters that has ``procs``.
    """
    return Prepared(jobs, *as_arrays(jobs, procs), int(procs), None if machine is None else on_clusters(framed(jobs), machine))


def on_clusters(jobs: pd.DataFrame, machine: Description) -> OnClusters:
    """Return what ``jobs`` ask of ``machine``; InputError if it can never hold one of them."""
    layout, requests = machine.arrays_for(jobs)
    requests = requests._replace(eligible=could_hold(layout, requests))
    if (bad := requests.eligible == 0).any():
        first = jobs["job_id"].iloc[int(np.argmax(bad))]
        raise InputError(
            f"{int(bad.sum())} jobs fit in no cluster that they may use, the first is job {first}: clean the trace first"
        )
    return OnClusters(*as_pools(layout, requests))


def as_arrays(jobs: Table, procs: int) -> tuple[Jobs, int]:
    """Return the kernel's columns of a checked table, and its first submission.

    Times count from the first submission. Within the limits of :mod:`features.limits` no sum of seconds wraps.
    """
    check_machine(procs)
    return counted(kernel_columns(jobs), jobs, procs)


def kernel_columns(jobs: Table) -> Jobs:
    """Return the kernel's columns of a table, as recorded.

    Raises InputError if ``jobs`` is no jobs table.
    """
    check_table(jobs)
    submit, runtime, wide, requested = (check_limit(jobs, name, _whole(jobs, name)) for name in TIMES_AND_PROCS)
    return Jobs(submit, runtime, wide, requested, plain(codes(jobs, "user")))


def counted(columns: Jobs, jobs: Table, procs: int) -> tuple[Jobs, int]:
    """Return ``columns`` with times from the first submission on, and that submission.

    ``columns`` are those of ``jobs``. Raises InputError for jobs that cannot be simulated.
    """
    submit, runtime, wide, requested, _ = columns
    for bad, what in (
        (np.diff(submit, prepend=submit[0]) < 0, "are submitted before the job above them"),
        (runtime < 1, "have a runtime below one second"),
        (wide < 1, "without processors"),
        (wide > procs, f"are wider than the machine's {procs} processors"),
        (runtime > requested, "run longer than their request"),
    ):
        if bad.any():
            first = column(jobs, "job_id")[int(np.argmax(bad))]
            raise InputError(f"{int(bad.sum())} jobs {what}, the first is job {first}: clean the trace first")
    origin = int(submit[0])
    return columns._replace(submit=submit - origin), origin


def check_machine(procs: object) -> None:
    """Raise InputError unless ``procs`` is a number of processors."""
    if not isinstance(procs, Integral) or isinstance(procs, bool) or int(procs) < 1:
        raise InputError(f"procs is {procs!r}, not a whole number of at least 1 processor")
    if int(procs) > limits.PROCESSORS:
        raise InputError(f"procs is {procs:,}, and a machine has at most {limits.PROCESSORS:,} processors")


def check_limit(jobs: Table, name: str, values: np.ndarray) -> np.ndarray:
    """Return ``values``, a column of ``jobs``; InputError for one beyond its limit."""
    most = limits.COLUMNS[name]
    beyond = (values > most) | (values < -most)
    if beyond.any():
        row = int(np.argmax(beyond))
        raise InputError(
            f"{name} {values[row]:,} of job {column(jobs, 'job_id')[row]} is beyond the limit of {most:,}: clean the trace first"
        )
    return values


def check_table(jobs: object) -> None:
    """Raise InputError unless ``jobs`` is a jobs table with the needed columns, without nulls."""
    if isinstance(jobs, TableColumns):  # cleaned
        return
    if not isinstance(jobs, pd.DataFrame):
        hint = "give its .jobs" if hasattr(jobs, "jobs") else "features.jobs_from makes one of a DataFrame"
        raise InputError(f"a {type(jobs).__name__} is not a jobs table: {hint}")
    if len(jobs) == 0:
        raise InputError("there are no jobs to simulate")
    if len(jobs) > limits.JOBS:
        raise InputError(f"there are {len(jobs):,} jobs to simulate, and the limit is {limits.JOBS:,}")
    for name in ("job_id", *TIMES_AND_PROCS, "user"):
        if name not in jobs:
            raise InputError(f"the jobs table has no column {name}: features.jobs_from makes a complete table")
        if not isinstance(jobs[name], pd.Series):
            raise InputError(f"the jobs table has the column {name} twice")
    if not isinstance(jobs["user"].dtype, pd.CategoricalDtype):
        raise InputError(f"column user is of type {jobs['user'].dtype}, not of categories: features.jobs_from makes them")


def _whole(jobs: Table, name: str) -> np.ndarray:
    """Return a column of whole numbers, int64 [jobs]; InputError for any other."""
    if isinstance(jobs, TableColumns):
        return plain(jobs[name])
    column = jobs[name]
    if column.isna().any():
        raise InputError(f"{name} is missing for {int(column.isna().sum())} jobs: clean the trace first")
    if not pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_bool_dtype(column.dtype):
        raise InputError(f"column {name} is of type {column.dtype}, not of whole numbers: features.jobs_from tells more")
    if not pd.api.types.is_integer_dtype(column.dtype):
        values = column.to_numpy(np.float64)
        if (wrong := ~np.isfinite(values) | (values % 1 != 0)).any():
            row = int(np.argmax(wrong))
            raise InputError(f"{name} {values[row]} of job {jobs['job_id'].iloc[row]} is not a whole number")
    return plain(column.to_numpy(np.int64))


class Inputs(NamedTuple):
    """Inputs of the kernel beside its settings: jobs, estimates, dependencies and memory.

    Also the predictor's ``code``, how many predictions were ``clamped``, and how many ``bits`` of an event hold the
    job.
    """

    arrays: Jobs
    estimates: Estimates
    dependencies: Dependencies
    memory: Memory
    code: int
    clamped: int
    bits: int


def inputs(
    workload: Prepared,
    source: Predictor,
    policy: Policy,
    clock: Clock,
    plan: Scheduler,
    foreknown: Foreknown | None = None,
) -> Inputs:
    """Return the kernel's inputs for ``policy``, whose scheduler is ``plan``.

    ``foreknown`` is the result of :func:`as_estimates` for ``source``, if there is one.

    Raises InputError if the correction cannot ask the predictor, and as :func:`sim.simulate`.
    """
    arrays, waits = workload.arrays, workload.waits
    estimates, clamped, code, memory = foreknown or as_estimates(source, workload.jobs, arrays, clock)
    estimates = planned_by(estimates, arrays, plan)
    if policy.correction.startswith("conditional") and isinstance(source, TablePredictor) and source.quantiles is None:
        check_answerable(source.name, estimates.end, arrays.runtime)
    if CORRECTIONS[policy.correction] == RENEWED and code == OUTSIDE:
        raise InputError(
            f"correction {policy.correction} asks too often for a predictor in Python such as {source.name}: use conditional"
        )
    if waits is None:
        return Inputs(arrays, estimates, NO_DEPENDENCIES, memory, code, clamped, clock_bits(arrays, estimates))
    asking, empty, unknown = as_dependencies(waits, arrays, estimates)
    longest = np.zeros(len(waits.parents), np.int64)  # with all of these a chain of batches may add think times
    np.maximum.at(longest, waits.batch, waits.after_s)
    bits = clock_bits(arrays, estimates, int(longest.sum()))
    return Inputs(empty, unknown, asking, memory._replace(row=asking.row), code, clamped, bits)


def scoring_of(plan: Scheduler, workload: Prepared, clock: Clock) -> Scoring:
    """Return the programs of the scores in ``plan``, with the workload's values they need."""
    if plan.order.score is None and plan.backfill.score is None:
        return NO_SCORES
    return as_scoring(plan.order.score, plan.backfill.score, workload.procs, partial(wall_clock_steps, workload.jobs, clock))


def clock_bits(arrays: Jobs, estimates: Estimates, later: int = 0) -> int:
    """Return how many bits of an event hold the job; InputError if the seconds do not fit.

    The other bits must hold the seconds, ``later`` ones included. A plan of all jobs, one after the other, then fits an
    int64.
    """
    bits = max(len(arrays.submit) - 1, 1).bit_length()
    latest = int(arrays.submit[-1]) + int(arrays.requested.sum()) + 2 * int(estimates.end.max()) + later
    if latest >= 1 << (62 - bits):
        raise InputError(
            f"{len(arrays.submit)} jobs over up to {latest} seconds do not fit the simulator's clock: are the times in seconds?"
        )
    return bits


_NOTHING = np.zeros(0, np.int64)
NO_DEPENDENCIES = Dependencies(Jobs(*[_NOTHING] * 5), Estimates(*[_NOTHING] * 3), *[_NOTHING] * 11)

_NO_TIMES = np.zeros((0, 0), np.int64)
NO_SWEEP = Sweep(np.zeros((0, 6)), _NO_TIMES, _NOTHING, _NOTHING, Memory(), _NO_TIMES, 0)


def as_dependencies(graph: Graph, arrays: Jobs, estimates: Estimates) -> tuple[Dependencies, Jobs, Estimates]:
    """Return the dependencies, and empty tables of jobs and estimates.

    The kernel fills the tables as jobs arrive.
    """
    total, batches = len(graph.batch), len(graph.parents)
    empty = Jobs(*(np.zeros(total, np.int64) for _ in arrays))
    if estimates.order is estimates.end:  # one answer to all questions
        point = np.zeros(total, np.int64)
        empty_estimates = Estimates(point, point, point)
    else:
        empty_estimates = Estimates(*(np.zeros(total, np.int64) for _ in estimates))
    sizes = np.bincount(graph.batch, minlength=batches)
    dependencies = Dependencies(
        recorded=arrays,
        estimates=estimates,
        batch=graph.batch,
        after=graph.after_s,
        member=np.argsort(graph.batch, kind="stable"),
        first_member=np.concatenate(([0], np.cumsum(sizes))),
        child=graph.child,
        first_child=graph.first_child,
        last_child=graph.last_child,
        running=sizes,
        parents=graph.parents.copy(),
        due=np.zeros(total, np.int64),
        row=np.zeros(total, np.int64),
    )
    return dependencies, empty, empty_estimates
