"""Adapter between a Python predictor and the event loop, which stops for each answer."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Real

import numpy as np

from features.deferred import pd
from features.errors import InputError, shown
from models.runtime.protocol import END, FIT, ORDER, OnlinePredictor, TellsQuantiles
from models.runtime.remaining import LEVELS, whole_quantiles
from sim.kernel.loop import ASK, ASK_AGAIN
from sim.kernel.scenarios import RETOLD
from sim.kernel.state import ANSWER, ASKED, DOUBTED, ENDED, NEXT, STARTED, Estimates, Jobs, State


class Conversation:
    """Reports starts and ends in order, asks for estimates, and counts clamped answers.

    ``row`` maps the kernel's jobs to rows of the table; they differ if jobs depend on each other. ``quantiles`` [rows, levels]
    are filled too if a scheduler weighs distributions.
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
