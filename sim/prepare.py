"""Inputs of a simulation, checked and converted: jobs, estimates, dependencies."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from numbers import Integral
from typing import NamedTuple

import numpy as np
import pandas as pd

from features import limits
from features.clock import DAY_S, Clock
from features.errors import InputError
from features.jobs.dependencies import Graph
from features.jobs.schema import codes
from models.runtime.dispatch import OUTSIDE, TABLE, answers_apart
from models.runtime.memory import Memory
from models.runtime.names import predictor as named_predictor
from models.runtime.protocol import CompiledPredictor, OnlinePredictor, Predictor, TablePredictor
from sim.kernel.corrections import CORRECTIONS, RENEWED
from sim.kernel.dependencies import Dependencies
from sim.kernel.run import SUMS, Sweep
from sim.kernel.scores import Scoring
from sim.kernel.state import Estimates, Jobs
from sim.machine.nodes import Description, Layout, Requests, could_hold
from sim.names import Scheduler
from sim.policy import NO_SCORES, Policy
from sim.scores import as_scoring

TIMES_AND_PROCS = ("submit_s", "runtime_s", "procs", "requested_s")
"""Columns of whole numbers that the kernel reads."""


class Prepared(NamedTuple):
    """A checked jobs table with the kernel's columns, for a machine of ``procs`` processors.

    Times count from the first submission, which is second ``origin``. ``waits`` says what jobs wait for, None: all are submitted as recorded.
    Made once for many simulations.
    """

    jobs: pd.DataFrame
    arrays: Jobs
    origin: int
    procs: int
    machine: OnClusters | None = None
    waits: Graph | None = None


class OnClusters(NamedTuple):
    """A machine of clusters, and what the jobs ask of it."""

    layout: Layout
    requests: Requests


def prepare(jobs: pd.DataFrame, procs: int, machine: Description | None = None) -> Prepared:
    """Return ``jobs`` ready to be simulated; InputError as :func:`sim.simulate`.

    On a pool of ``procs`` processors, or on a ``machine`` of clusters with so many.
    """
    return Prepared(jobs, *as_arrays(jobs, procs), int(procs), None if machine is None else on_clusters(jobs, machine))


def on_clusters(jobs: pd.DataFrame, machine: Description) -> OnClusters:
    """Return what ``jobs`` ask of ``machine``; InputError for jobs that it can never hold."""
    layout, requests = machine.arrays_for(jobs)
    requests = requests._replace(eligible=could_hold(layout, requests))
    if (bad := requests.eligible == 0).any():
        first = jobs["job_id"].iloc[int(np.argmax(bad))]
        raise InputError(
            f"{int(bad.sum())} jobs that no cluster they may use can hold, the first is job {first}: clean the trace first"
        )
    return OnClusters(layout, requests)


def as_arrays(jobs: pd.DataFrame, procs: int) -> tuple[Jobs, int]:
    """Return the kernel's columns of a table; check its assumptions and the limits.

    Times count from the first submission. Within the limits of :mod:`features.limits` no sum of seconds wraps.
    """
    check_machine(procs)
    return counted(kernel_columns(jobs), jobs, procs)


def kernel_columns(jobs: pd.DataFrame) -> Jobs:
    """Return the kernel's columns of a table, as recorded.

    InputError for what is no jobs table.
    """
    check_table(jobs)
    submit, runtime, wide, requested = (check_limit(jobs, name, _whole(jobs, name)) for name in TIMES_AND_PROCS)
    return Jobs(submit, runtime, wide, requested, _plain(codes(jobs, "user")))


def counted(columns: Jobs, jobs: pd.DataFrame, procs: int) -> tuple[Jobs, int]:
    """Return ``columns`` with times that count from the first submission, and that.

    They are those of ``jobs``; InputError for jobs that cannot be simulated.
    """
    submit, runtime, wide, requested, _ = columns
    for bad, what in (
        (np.diff(submit, prepend=submit[0]) < 0, "submitted before the job above it"),
        (runtime < 1, "with a runtime below one second"),
        (wide < 1, "without processors"),
        (wide > procs, f"wider than the machine's {procs} processors"),
        (runtime > requested, "running longer than its request"),
    ):
        if bad.any():
            first = jobs["job_id"].iloc[int(np.argmax(bad))]
            raise InputError(f"{int(bad.sum())} jobs {what}, the first is job {first}: clean the trace first")
    origin = int(submit[0])
    return columns._replace(submit=submit - origin), origin


def check_machine(procs: object) -> None:
    """Raise InputError unless ``procs`` is a number of processors."""
    if not isinstance(procs, Integral) or isinstance(procs, bool) or int(procs) < 1:
        raise InputError(f"procs is {procs!r}, not a whole number of at least 1 processor")
    if int(procs) > limits.PROCESSORS:
        raise InputError(f"procs is {procs:,}, and a machine has at most {limits.PROCESSORS:,} processors")


def check_limit(jobs: pd.DataFrame, name: str, values: np.ndarray) -> np.ndarray:
    """Return ``values``, a column of ``jobs``; InputError for one beyond its limit."""
    most = limits.COLUMNS[name]
    beyond = (values > most) | (values < -most)
    if beyond.any():
        row = int(np.argmax(beyond))
        raise InputError(
            f"{name} {values[row]:,} of job {jobs['job_id'].iloc[row]} is beyond the limit of {most:,}: clean the trace first"
        )
    return values


def check_table(jobs: object) -> None:
    """Raise InputError unless ``jobs`` is a jobs table with the needed columns, without nulls."""
    if not isinstance(jobs, pd.DataFrame):
        hint = "give its .jobs" if hasattr(jobs, "jobs") else "features.jobs_from makes one of a DataFrame"
        raise InputError(f"a {type(jobs).__name__} is no jobs table: {hint}")
    if len(jobs) == 0:
        raise InputError("there are no jobs to simulate")
    if len(jobs) > limits.JOBS:
        raise InputError(f"there are {len(jobs):,} jobs to simulate, and the limit is {limits.JOBS:,}")
    for name in ("job_id", *TIMES_AND_PROCS, "user"):
        if name not in jobs:
            raise InputError(f"the jobs table has no column {name}: features.jobs_from makes a table of what there is")
        if not isinstance(jobs[name], pd.Series):
            raise InputError(f"the jobs table has the column {name} twice")
    if not isinstance(jobs["user"].dtype, pd.CategoricalDtype):
        raise InputError(f"column user is of type {jobs['user'].dtype}, not of categories: features.jobs_from makes them")


def _whole(jobs: pd.DataFrame, name: str) -> np.ndarray:
    """Return a column of whole numbers, int64 [jobs]; InputError for any other."""
    column = jobs[name]
    if column.isna().any():
        raise InputError(f"{name} is missing for {int(column.isna().sum())} jobs: clean the trace first")
    if not pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_bool_dtype(column.dtype):
        raise InputError(f"column {name} is of type {column.dtype}, not of whole numbers: features.jobs_from tells more")
    if not pd.api.types.is_integer_dtype(column.dtype):
        values = column.to_numpy(np.float64)
        if (wrong := ~np.isfinite(values) | (values % 1 != 0)).any():
            row = int(np.argmax(wrong))
            raise InputError(f"{name} {values[row]} of job {jobs['job_id'].iloc[row]} is no whole number")
    return _plain(column.to_numpy(np.int64))


def _plain(values: np.ndarray) -> np.ndarray:
    """Return a contiguous, writable array: one argument type, so the kernel is compiled once."""
    return np.require(values, np.int64, ["C", "W"])


def as_predictor(predictor: str | Predictor | Sequence[float] | np.ndarray | pd.Series) -> Predictor:
    """Return a name, an object, or predicted runtimes as a predictor.

    A Series is aligned by its index labels, anything else by position.
    """
    if isinstance(predictor, str):
        return named_predictor(predictor)
    if isinstance(predictor, (TablePredictor, CompiledPredictor, OnlinePredictor)):
        return predictor
    if isinstance(predictor, pd.Series):
        return TablePredictor("given", partial(_aligned, predictor))
    table = _numbers(predictor)
    return TablePredictor("given", lambda jobs: table)


def _aligned(predicted: pd.Series, jobs: pd.DataFrame) -> np.ndarray:
    """Return predictions [jobs] by the index labels of the table; InputError for none or two."""
    if not predicted.index.equals(jobs.index):
        for index, whose in ((predicted.index, "the predictions"), (jobs.index, "the jobs")):
            if not index.is_unique:
                raise InputError(f"the index of {whose} has {index[index.duplicated()][0]!r} twice, so a Series cannot be aligned")
        lost = ~jobs.index.isin(predicted.index)
        if lost.any() or len(predicted) != len(jobs):
            what = f"no value for {int(lost.sum()):,} of {len(jobs):,} jobs" if lost.any() else f"{len(predicted):,} values"
            raise InputError(
                f"predictions are a Series with {what} by the index of the table of {len(jobs):,} jobs: "
                "give it that index, or an array to go by position"
            )
        predicted = predicted.reindex(jobs.index)
    return _numbers(predicted)


def _numbers(predicted: object) -> np.ndarray:
    try:
        if isinstance(predicted, pd.Series):
            return predicted.to_numpy(np.float64, na_value=np.nan)
        return np.asarray(predicted, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"a {type(predicted).__name__} is no predictor: give a name, a predictor, or seconds, one a job"
        ) from error


class Inputs(NamedTuple):
    """Inputs of the kernel beside its settings: jobs, estimates, dependencies and memory.

    Of the predictor also its ``code`` and how many predictions were ``clamped``, and how many ``bits`` of an event number jobs.
    """

    arrays: Jobs
    estimates: Estimates
    dependencies: Dependencies
    memory: Memory
    code: int
    clamped: int
    bits: int


class Foreknown(NamedTuple):
    """A predictor before a simulation: its estimates and its memory.

    Estimates are filled if they are known beforehand. Of them so many were ``clamped``; ``code`` is the predictor's.
    """

    estimates: Estimates
    clamped: int
    code: int
    memory: Memory

    def again(self) -> Foreknown:
        """Return the same for another simulation, which changes neither."""
        if self.code == TABLE:
            return self
        order, fit, end = self.estimates
        point = np.zeros_like(order)
        apart = (point, point) if fit is order else (np.zeros_like(fit), np.zeros_like(end))
        return self._replace(estimates=Estimates(point, *apart), memory=self.memory.copied())


def inputs(
    workload: Prepared,
    source: Predictor,
    policy: Policy,
    clock: Clock,
    plan: Scheduler,
    known: Foreknown | None = None,
) -> Inputs:
    """Return the kernel's inputs for ``policy``, whose scheduler is ``plan``.

    ``known`` is :func:`as_estimates` of the predictor ``source``, where it was made before.

    InputError where the correction cannot ask it, and as :func:`sim.simulate`.
    """
    arrays, waits = workload.arrays, workload.waits
    estimates, clamped, code, memory = known or as_estimates(source, workload.jobs, arrays, clock)
    estimates = planned_by(estimates, arrays, plan)
    if policy.correction.startswith("conditional") and isinstance(source, TablePredictor) and source.quantiles is None:
        check_answerable(source.name, estimates.end, arrays.runtime)
    if CORRECTIONS[policy.correction] == RENEWED and code == OUTSIDE:
        raise InputError(
            f"correction {policy.correction} asks too often for a predictor in Python, and {source.name} is one: conditional is for those"
        )
    if waits is None:
        return Inputs(arrays, estimates, NO_DEPENDENCIES, memory, code, clamped, clock_bits(arrays, estimates))
    asking, empty, unknown = as_dependencies(waits, arrays, estimates)
    bits = clock_bits(arrays, estimates, _think_s(waits))
    return Inputs(empty, unknown, asking, memory._replace(row=asking.row), code, clamped, bits)


def as_estimates(source: Predictor, jobs: pd.DataFrame, arrays: Jobs, clock: Clock) -> Foreknown:
    """Return the predictor ``source`` before a simulation of ``jobs``.

    Its memory has the wall ``clock``.
    """
    total = len(jobs)
    if isinstance(source, TablePredictor):
        predicted = np.asarray(source.estimate(jobs), np.float64)
        if predicted.shape != (total,):
            raise InputError(f"predictor {source.name}: {predicted.shape} predictions for {total} jobs")
        whole, clamped = whole_seconds(predicted, arrays.requested if source.capped else None, source.name, jobs)
        return Foreknown(Estimates(whole, whole, whole), clamped, TABLE, _told(source, jobs))
    if isinstance(source, CompiledPredictor):
        point = np.zeros(total, np.int64)
        apart = (np.zeros(total, np.int64), np.zeros(total, np.int64)) if answers_apart(source.code) else (point, point)
        memory = source.memory(jobs)._replace(row=np.arange(total), clock=wall_clock_steps(jobs, clock))
        return Foreknown(Estimates(point, *apart), 0, source.code, memory)
    return Foreknown(Estimates(*(np.zeros(total, np.int64) for _ in range(3))), 0, OUTSIDE, Memory())


def planned_by(estimates: Estimates, arrays: Jobs, plan: Scheduler) -> Estimates:
    """Return ``estimates``, which only order jobs where ``plan`` goes by their requests."""
    return Estimates(estimates.order, arrays.requested, arrays.requested) if plan.by_request else estimates


def _told(source: TablePredictor, jobs: pd.DataFrame) -> Memory:
    """Return the memory of a table: its quantiles in whole seconds, if any."""
    if source.quantiles is None:
        return Memory()
    seconds = np.rint(source.quantiles(jobs).to_numpy(np.float64))
    if seconds.shape[0] != len(jobs) or not np.isfinite(seconds).all():
        raise InputError(f"predictor {source.name}: its quantiles are not finite seconds, a row for each of {len(jobs)} jobs")
    return Memory(keys=_plain(seconds.astype(np.int64)), row=np.arange(len(jobs)))


def scoring_of(plan: Scheduler, workload: Prepared, clock: Clock) -> Scoring:
    """Return the programs of ``plan``, where its orders are scores.

    With what they need of the workload.
    """
    if plan.order.score is None and plan.backfill.score is None:
        return NO_SCORES
    return as_scoring(plan.order.score, plan.backfill.score, workload.procs, partial(wall_clock_steps, workload.jobs, clock))


def told_quantiles(source: Predictor, memory: Memory, jobs: pd.DataFrame) -> pd.DataFrame | None:
    """Return predicted quantiles at submission, a row a job, a column a level, or None."""
    told = None
    if isinstance(source, CompiledPredictor) and source.distribution is not None:
        told = source.distribution(memory)
    elif isinstance(source, TablePredictor) and source.quantiles is not None:
        told = source.quantiles(jobs)
    return None if told is None or told.shape[1] == 0 else told


_LATER_S = 3650 * DAY_S
"""How long after the last recorded submission changes of the wall clock are still known: where jobs follow others, submissions may be later."""


def wall_clock_steps(jobs: pd.DataFrame, clock: Clock) -> np.ndarray:
    """Return ``Memory.clock`` for a simulation of ``jobs``, from the first submission on."""
    submit = jobs["submit_s"]
    first, last = int(submit.iloc[0]), int(submit.iloc[-1])
    steps = clock.steps(first, last + _LATER_S)
    return steps + np.array([-first, first])


def whole_seconds(predicted: np.ndarray, requested: np.ndarray | None, name: str, jobs: pd.DataFrame) -> tuple[np.ndarray, int]:
    """Return predictions as whole seconds in 1..request, int64, and the number clamped.

    1.. where ``requested`` is None.
    """
    if not np.isfinite(predicted).all():
        first = int(np.argmin(np.isfinite(predicted)))
        raise InputError(f"predictor {name}: predicts {predicted[first]} for job {jobs['job_id'].iloc[first]}")
    rounded = np.rint(predicted)
    limited = np.maximum(rounded, 1.0)
    if requested is not None:
        limited = np.minimum(limited, requested)
    if len(limited) and limited.max() > 2.0**53:
        raise InputError(f"predictor {name}: predicts {limited.max():g} s, more than the simulator's clock holds")
    return limited.astype(np.int64), int((limited != rounded).sum())


def check_answerable(name: str, predicted: np.ndarray, runtime: np.ndarray) -> None:
    """Raise InputError where a job outlives its prediction in a table; seconds [jobs] both.

    A table cannot be asked again.
    """
    if (predicted < runtime).any():
        raise InputError(f"correction conditional asks the predictor again, and predictor {name} is a table of one answer a job")


def clock_bits(arrays: Jobs, estimates: Estimates, later: int = 0) -> int:
    """Return the bits of an event that number jobs; InputError if the seconds do not fit.

    The other bits must hold the seconds, ``later`` ones included. A plan of all jobs, one after the other, then fits an int64.
    """
    bits = max(len(arrays.submit) - 1, 1).bit_length()
    latest = int(arrays.submit[-1]) + int(arrays.requested.sum()) + 2 * int(estimates.end.max()) + later
    if latest >= 1 << (62 - bits):
        raise InputError(
            f"{len(arrays.submit)} jobs over up to {latest} seconds do not fit the simulator's clock: are the times in seconds?"
        )
    return bits


_NOTHING = np.zeros(0, np.int64)
NO_DEPENDENCIES = Dependencies(Jobs(*[_NOTHING] * 5), Estimates(*[_NOTHING] * 3), *[_NOTHING] * 12)

NO_SWEEP = Sweep(np.zeros((0, SUMS)), np.zeros((0, 6)), np.zeros((0, 0), np.int64), _NOTHING, _NOTHING, np.zeros(1), Memory())


def as_dependencies(graph: Graph, arrays: Jobs, estimates: Estimates) -> tuple[Dependencies, Jobs, Estimates]:
    """Return the dependencies, and empty tables of jobs and estimates for the kernel to fill.

    The kernel fills them as jobs arrive.
    """
    total, batches = len(graph.batch), len(graph.parents)
    empty = Jobs(*(np.zeros(total, np.int64) for _ in arrays))
    if estimates.order is estimates.end:  # one answer to all questions
        point = np.zeros(total, np.int64)
        known = Estimates(point, point, point)
    else:
        known = Estimates(*(np.zeros(total, np.int64) for _ in estimates))
    sizes = np.bincount(graph.batch, minlength=batches)
    dependencies = Dependencies(
        given=arrays,
        estimates=estimates,
        batch=graph.batch,
        after=graph.after_s,
        earliest=np.where(graph.not_before, arrays.submit, 0),
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
    return dependencies, empty, known


def _think_s(graph: Graph) -> int:
    """Return more seconds than any chain of batches adds to the ends that it waits for."""
    longest = np.zeros(len(graph.parents), np.int64)
    np.maximum.at(longest, graph.batch, graph.after_s)
    return int(longest.sum())
