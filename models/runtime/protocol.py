"""What the simulator knows of a predictor: told of submissions, starts and ends, asked for an estimate for a question.

Three questions can have three answers: ``ORDER`` (where in the queue does the job belong?), ``FIT`` (will it end before the reservation?) and
``END`` (when will it end, once it runs?). A point predictor gives one answer to all. A predictor comes in one of three forms: a
table known beforehand, a state machine compiled into the simulator, or any Python object with the methods of :class:`OnlinePredictor`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import pandas as pd

from models.runtime.memory import Memory

ORDER, FIT, END = 0, 1, 2
"""The questions."""


@dataclass(frozen=True)
class TablePredictor:
    """A predictor whose answers for all jobs are known before the simulation: ``estimate(jobs)`` gives seconds, float64 [jobs].

    ``capped`` says that a prediction outside 1..request is clamped and counted; published multiples of the request are not.
    """

    name: str
    estimate: Callable[[pd.DataFrame], np.ndarray]
    capped: bool = True


@dataclass(frozen=True)
class CompiledPredictor:
    """A predictor that learns inside the simulation kernel: its code there (:mod:`models.runtime.dispatch`) and, for a jobs table, its fresh memory.

    ``retrain``, if there is one, is called at each midnight (``features.clock.Clock``) that the simulation passes: with the memory, the jobs that have
    ended so far (rows of the kernel's jobs, int64, in the order of their ends) and all runtimes (int64 [jobs]; only those of the ended
    may be looked at). The memory it returns is gone on with. ``distribution``, if there is one, gives of the memory at the end what was said of
    each job's runtime at its submission: a column a level in (0, 1), seconds, float64 [jobs].
    """

    name: str
    code: int
    memory: Callable[[pd.DataFrame], Memory]
    retrain: Callable[[Memory, np.ndarray, np.ndarray], Memory] | None = None
    distribution: Callable[[Memory], pd.DataFrame] | None = None


@runtime_checkable
class OnlinePredictor(Protocol):
    """A predictor in plain Python that learns during the run. ``job`` is a row of ``jobs``; times are the trace's seconds.

    Within one second the simulator tells of ends, then of submissions, asks for the estimates of the jobs submitted, and tells of
    the starts that follow before anything of a later second.
    """

    name: str

    def begin(self, jobs: pd.DataFrame) -> None:
        """A simulation of ``jobs`` (canonical table, order of submission) starts; forget everything."""

    def submitted(self, job: int, now_s: int) -> None:
        """``job`` was submitted."""

    def started(self, job: int, now_s: int) -> None:
        """``job`` was started."""

    def ended(self, job: int, now_s: int) -> None:
        """``job`` has ended: its runtime may be used from now on."""

    def estimate(self, question: int, job: int, now_s: int, elapsed_s: int) -> float:
        """Predicted runtime in seconds, for one of ``ORDER``, ``FIT``, ``END``; ``elapsed_s`` is how long the job has run."""


Predictor: TypeAlias = TablePredictor | CompiledPredictor | OnlinePredictor
