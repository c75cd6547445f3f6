"""A Python predictor in conversation with the event loop, which stops whenever it wants an answer."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from features.errors import InputError
from models.runtime.protocol import END, FIT, ORDER, OnlinePredictor
from sim.kernel.loop import ASK, ASK_AGAIN
from sim.kernel.state import ANSWER, ASKED, DOUBTED, ENDED, NEXT, STARTED, Estimates, Jobs, State


class Conversation:
    """Told of starts and ends as they happened, asked as the loop asks; counts the answers that had to be clamped.

    ``row`` maps the kernel's jobs to rows of the table, which differ where jobs depend on each other.
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
    ) -> None:
        self._source = source
        self._job_ids = jobs["job_id"].to_numpy()
        self._arrays, self._estimates, self._state = arrays, estimates, state
        self._origin = origin
        self._row = row
        self._told_starts = self._told_ends = 0
        self.clamped = 0
        source.begin(jobs)

    def answer(self, reason: int, now: int) -> None:
        """Answer what the loop, which stopped at ``now``, asks for."""
        self._tell()
        if reason == ASK:
            self._answer_submissions(now)
        elif reason == ASK_AGAIN:
            self._answer_again()

    def _tell(self) -> None:
        """What has started and ended since, in the order in which it happened; an end before the starts of its second."""
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
                asked = self._ask(question, row, now, 0)
                answer = min(max(asked, 1), requested)
                answers[job] = answer
                changed |= answer != asked
            self.clamped += changed

    def _answer_again(self) -> None:
        """How long does a job that has outlived its prediction take in all? An answer that is not longer than it has run says nothing new, and
        leaves its request."""
        state = self._state
        job = int(state.counters[DOUBTED])
        elapsed = int(state.planned[job] - state.start[job])
        requested = int(self._arrays.requested[job])
        asked = self._ask(END, int(self._row[job]), int(state.planned[job]), elapsed)
        answer = asked if elapsed < asked <= requested else requested
        self.clamped += answer != asked
        state.counters[ANSWER] = answer

    def _ask(self, question: int, row: int, now: int, elapsed: int) -> int:
        predicted = self._source.estimate(question, row, now + self._origin, elapsed)
        if not math.isfinite(predicted):
            raise InputError(f"predictor {self._source.name}: predicts {predicted} for job {self._job_ids[row]}")
        return round(predicted)
