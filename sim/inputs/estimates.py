"""Predictors before and during a simulation: estimates, quantiles, memory and wall clock.

An adapter answers for a predictor in Python, for whose every answer the event loop stops.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from features.clock import DAY_S, Clock
from features.deferred import pd
from features.errors import InputError, shown
from features.jobs.columns import Table, column, framed
from models.runtime.dispatch import ANSWERS_APART, OUTSIDE, TABLE
from models.runtime.distribution import LEVELS, whole_quantiles
from models.runtime.memory import Memory
from models.runtime.names import predictor as named_predictor
from models.runtime.protocol import END, FIT, ORDER, CompiledPredictor, OnlinePredictor, Predictor, TablePredictor, TellsQuantiles
from sim.kernel.loop import ASK, ASK_AGAIN
from sim.kernel.scenarios import RETOLD
from sim.kernel.state import ANSWER, ASKED, DOUBTED, ENDED, NEXT, STARTED, Estimates, Jobs, State
from sim.schedulers.names import Scheduler


def as_predictor(predictor: str | Predictor | Sequence[float] | np.ndarray | pd.Series) -> Predictor:
    """Return the predictor given as a name, an object, or predicted runtimes.

    A Series is aligned by its index labels, anything else by position.
    """
    if isinstance(predictor, str):
        return named_predictor(predictor)
    if isinstance(predictor, type):
        raise InputError(f"{predictor.__name__} is a class, not a predictor: give an object, {predictor.__name__}()")
    if isinstance(predictor, (TablePredictor, CompiledPredictor, OnlinePredictor)):
        return predictor
    if isinstance(predictor, pd.Series):
        return TablePredictor("given", partial(_aligned, predictor))
    table = _numbers(predictor)
    return TablePredictor("given", lambda jobs: table)


def _aligned(predicted: pd.Series, jobs: pd.DataFrame) -> np.ndarray:
    """Align predictions [jobs] by index label; InputError for a missing or repeated label."""
    if not predicted.index.equals(jobs.index):
        for index, whose in ((predicted.index, "the predictions"), (jobs.index, "the jobs")):
            if not index.is_unique:
                raise InputError(f"the index of {whose} has {index[index.duplicated()][0]!r} twice, so a Series cannot be aligned")
        lost = ~jobs.index.isin(predicted.index)
        if lost.any() or len(predicted) != len(jobs):
            what = f"no value for {int(lost.sum()):,} of {len(jobs):,} jobs" if lost.any() else f"{len(predicted):,} values"
            raise InputError(
                f"the Series of predictions has {what} under the index of the table of {len(jobs):,} jobs: "
                "give it that index, or give an array, which goes by position"
            )
        predicted = predicted.reindex(jobs.index)
    return _numbers(predicted)


def _numbers(predicted: Any) -> np.ndarray:
    try:
        len(predicted)  # a single number, or None, would be an array without jobs
        if isinstance(predicted, pd.Series):
            return predicted.to_numpy(np.float64, na_value=np.nan)
        return np.asarray(predicted, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"a {type(predicted).__name__} is not a predictor: give a name, a predictor, or seconds, one a job"
        ) from error


class Foreknown(NamedTuple):
    """A predictor before a simulation: its estimates and its memory.

    ``estimates`` are filled if they are known beforehand; ``clamped`` counts those that were clamped. ``code`` is the
    predictor's.
    """

    estimates: Estimates
    clamped: int
    code: int
    memory: Memory

    def again(self) -> Foreknown:
        """Return a copy for another simulation; a table is returned itself, as it never changes."""
        if self.code == TABLE:
            return self
        order, fit, end = self.estimates
        point = np.zeros_like(order)
        apart = (point, point) if fit is order else (np.zeros_like(fit), np.zeros_like(end))
        return self._replace(estimates=Estimates(point, *apart), memory=self.memory.copied())


def as_estimates(source: Predictor, jobs: Table, arrays: Jobs, clock: Clock) -> Foreknown:
    """Return ``source`` before a simulation of ``jobs``; its memory has the wall ``clock``."""
    total = len(jobs)
    if isinstance(source, TablePredictor):
        predicted = np.asarray(source.estimate(jobs if source.by_columns else framed(jobs)), np.float64)
        if predicted.shape != (total,):
            raise InputError(f"predictor {source.name}: {predicted.shape} predictions for {total} jobs")
        whole, clamped = whole_seconds(predicted, arrays.requested if source.capped else None, source.name, jobs)
        return Foreknown(Estimates(whole, whole, whole), clamped, TABLE, _table_memory(source, jobs))
    if isinstance(source, CompiledPredictor):
        point = np.zeros(total, np.int64)
        apart = (np.zeros(total, np.int64), np.zeros(total, np.int64)) if source.code in ANSWERS_APART else (point, point)
        memory = source.memory(framed(jobs))._replace(row=np.arange(total), clock=wall_clock_steps(jobs, clock))
        return Foreknown(Estimates(point, *apart), 0, source.code, memory)
    return Foreknown(Estimates(*(np.zeros(total, np.int64) for _ in range(3))), 0, OUTSIDE, Memory())


def planned_by(estimates: Estimates, arrays: Jobs, plan: Scheduler) -> Estimates:
    """Return ``estimates``, with requests for fit and end if ``plan`` plans by requests."""
    return Estimates(estimates.order, arrays.requested, arrays.requested) if plan.by_request else estimates


def _table_memory(source: TablePredictor, jobs: Table) -> Memory:
    """Return the memory of a table: its quantiles in whole seconds, if any."""
    if source.quantiles is None:
        return Memory()
    seconds = np.rint(source.quantiles(framed(jobs)).to_numpy(np.float64))
    if seconds.shape[0] != len(jobs) or not np.isfinite(seconds).all():
        raise InputError(f"predictor {source.name}: its quantiles are not finite seconds, a row for each of {len(jobs)} jobs")
    return Memory(keys=plain(seconds.astype(np.int64)), row=np.arange(len(jobs)))


def told_quantiles(source: Predictor, memory: Memory, jobs: Table) -> pd.DataFrame | None:
    """Return quantiles predicted at submission, a row a job, a column a level, or None."""
    quantiles = None
    if isinstance(source, CompiledPredictor) and source.distribution is not None:
        quantiles = source.distribution(memory)
    elif isinstance(source, TablePredictor) and source.quantiles is not None:
        quantiles = source.quantiles(framed(jobs))
    return None if quantiles is None or quantiles.shape[1] == 0 else quantiles


_LATER_S = 3650 * DAY_S
"""How long after the last recorded submission the wall clock is known: jobs that wait for others may come later."""


def wall_clock_steps(jobs: Table, clock: Clock) -> np.ndarray:
    """Return ``Memory.clock`` for a simulation of ``jobs``, from the first submission on."""
    submit = column(jobs, "submit_s")
    first, last = int(submit[0]), int(submit[-1])
    steps = clock.steps(first, last + _LATER_S)
    return steps + np.array([-first, first])


def whole_seconds(predicted: np.ndarray, requested: np.ndarray | None, name: str, jobs: Table) -> tuple[np.ndarray, int]:
    """Return predictions as whole seconds in 1..request, int64, and the number clamped.

    There is no max if ``requested`` is None.
    """
    if not np.isfinite(predicted).all():
        first = int(np.argmin(np.isfinite(predicted)))
        raise InputError(f"predictor {name}: predicts {predicted[first]} for job {column(jobs, 'job_id')[first]}")
    rounded = np.rint(predicted)
    limited = np.maximum(rounded, 1.0)
    if requested is not None:
        limited = np.minimum(limited, requested)
    if len(limited) and limited.max() > 2.0**53:
        raise InputError(f"predictor {name}: predicts {limited.max():g} s, more than the simulator's clock holds")
    return limited.astype(np.int64), int((limited != rounded).sum())


def check_answerable(name: str, predicted: np.ndarray, runtime: np.ndarray) -> None:
    """Raise InputError if a job outlives its prediction in a table; both are seconds [jobs].

    A table cannot be asked again.
    """
    if (predicted < runtime).any():
        raise InputError(f"correction conditional asks the predictor again, and predictor {name} is a table of one answer a job")


def plain(values: np.ndarray) -> np.ndarray:
    """Return a contiguous, writable int64 array, so that the kernel is compiled only once."""
    return np.require(values, np.int64, ["C", "W"])


class Conversation:
    """Reports starts and ends in order, asks for estimates, and counts clamped answers.

    ``row`` maps the kernel's jobs to rows of the table; they differ if jobs depend on each other. ``quantiles`` [rows,
    levels] are filled too if a scheduler weighs distributions.
    """

    def __init__(
        self,
        source: OnlinePredictor,
        jobs: pd.DataFrame,
        arrays: Jobs,
        estimates: Estimates,
        state: State,
        origin: int,
        row: np.ndarray,
        quantiles: np.ndarray | None = None,
    ) -> None:
        self._source = source
        self._job_ids = jobs["job_id"].to_numpy()
        self._arrays, self._estimates, self._state = arrays, estimates, state
        self._origin = origin
        self._row = row
        self._told_starts = self._told_ends = 0
        self.clamped = 0
        self._quantiles = quantiles
        self._tells = source if quantiles is not None and isinstance(source, TellsQuantiles) else None
        source.begin(jobs)

    def answer(self, reason: int, now: int) -> None:
        """Answer the loop, which stopped at ``now``."""
        self._tell()
        if reason == ASK:
            self._answer_submissions(now)
        elif reason == ASK_AGAIN:
            if self._state.scenarios is None:
                self._answer_again()
            else:
                job = int(self._state.counters[DOUBTED])
                self.tell_more([job], now)
                self._state.scenarios.outlived[job] = RETOLD

    def tell_more(self, jobs: Iterable[int], now: int) -> None:
        """Ask again for quantiles of running jobs, if the predictor has any."""
        self._tell()
        for job in jobs if self._tells is not None else ():
            self._tell_quantiles(int(job), now, now - int(self._state.start[job]))

    def _tell(self) -> None:
        """Report starts and ends since the last call, in order; within a second ends come first."""
        state, counters = self._state, self._state.counters
        while self._told_starts < counters[STARTED] or self._told_ends < counters[ENDED]:
            starter = state.running[self._told_starts] if self._told_starts < counters[STARTED] else -1
            ender = state.ended[self._told_ends] if self._told_ends < counters[ENDED] else -1
            if ender >= 0 and (starter < 0 or state.start[ender] + self._arrays.runtime[ender] <= state.start[starter]):
                self._source.ended(int(self._row[ender]), int(state.start[ender] + self._arrays.runtime[ender]) + self._origin)
                self._told_ends += 1
            else:
                self._source.started(int(self._row[starter]), int(state.start[starter]) + self._origin)
                self._told_starts += 1

    def _answer_submissions(self, now: int) -> None:
        counters = self._state.counters
        first = int(counters[NEXT])
        for job in range(first, first + int(counters[ASKED])):
            row = int(self._row[job])
            self._source.submitted(row, now + self._origin)
            requested = int(self._arrays.requested[job])
            changed = False
            for question, answers in ((ORDER, self._estimates.order), (FIT, self._estimates.fit), (END, self._estimates.end)):
                estimate = self._ask(question, row, now, 0)
                answer = min(max(estimate, 1), requested)
                answers[job] = answer
                changed |= answer != estimate
            self.clamped += changed
            if self._tells is not None:
                self._tell_quantiles(job, now, 0)

    def _tell_quantiles(self, job: int, now: int, elapsed: int) -> None:
        """Ask for quantiles of ``job``; those of at most ``elapsed`` seconds become the request."""
        assert self._tells is not None
        assert self._quantiles is not None
        row, requested = int(self._row[job]), int(self._arrays.requested[job])
        quantiles = np.asarray(self._tells.quantiles(row, now + self._origin, elapsed, LEVELS), np.float64)
        if quantiles.shape != LEVELS.shape or not np.isfinite(quantiles).all():
            raise InputError(f"predictor {self._source.name}: lacks {len(LEVELS)} finite quantiles for job {self._job_ids[row]}")
        quantiles = np.where((elapsed > 0) & (np.rint(quantiles) <= elapsed), requested, quantiles)
        self._quantiles[row] = whole_quantiles(np.sort(quantiles)[None], np.array([requested]))[0]

    def _answer_again(self) -> None:
        """Ask for a new runtime of a job that has outlived its prediction.

        An answer not longer than its elapsed time says nothing new; the request is then used.
        """
        state = self._state
        job = int(state.counters[DOUBTED])
        elapsed = int(state.planned[job] - state.start[job])
        requested = int(self._arrays.requested[job])
        estimate = self._ask(END, int(self._row[job]), int(state.planned[job]), elapsed)
        answer = estimate if elapsed < estimate <= requested else requested
        self.clamped += answer != estimate
        state.counters[ANSWER] = answer

    def _ask(self, question: int, row: int, now: int, elapsed: int) -> int:
        predicted = self._source.estimate(question, row, now + self._origin, elapsed)
        if not (isinstance(predicted, Real) and math.isfinite(predicted)):
            raise InputError(
                f"predictor {self._source.name}: predicts {shown(predicted)} for job {self._job_ids[row]}, not a number of seconds"
            )
        return round(float(predicted))
