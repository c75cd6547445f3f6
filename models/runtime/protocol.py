"""The protocol between simulator and predictor.

A predictor is told of submissions, starts and ends, and asked for estimates. Three questions can have three answers: ``ORDER``
(where in the queue does the job belong?), ``FIT`` (will it end before the reservation?) and ``END`` (when will it end, once it
runs?). A point predictor gives one answer to all. A predictor comes in one of three forms: a table known beforehand, a state
machine compiled into the simulator, or any Python object with the methods of :class:`OnlinePredictor`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import pandas as pd

from models.runtime.memory import Memory

ORDER, FIT, END = 0, 1, 2
"""The questions."""


@dataclass(frozen=True)
class TablePredictor:
    """A predictor whose answers are all known before the simulation.

    ``estimate(jobs)`` gives seconds, float64 [jobs]. ``capped`` says that a prediction outside 1..request is clamped and counted;
    published multiples of the request are not. ``quantiles(jobs)``, if given, tells more of each job's runtime: seconds, a row a job,
    a column a level in (0, 1), ascending. For a job that outlives its prediction (corrections ``conditional``) the next quantile
    stands in, and beyond them the request; without columns, the request at once.
    """

    name: str
    estimate: Callable[[pd.DataFrame], np.ndarray]
    capped: bool = True
    quantiles: Callable[[pd.DataFrame], pd.DataFrame] | None = None


@dataclass(frozen=True)
class CompiledPredictor:
    """A predictor that learns inside the kernel: its code, and fresh memory for a jobs table.

    ``retrain``, if there is one, is called at each midnight (``features.clock.Clock``) that the simulation passes: with the
    memory, the jobs that have ended so far (rows of the kernel's jobs, int64, in the order of their ends) and all runtimes (int64
    [jobs]; only those of the ended jobs may be read). The simulation continues with the memory that it returns. ``distribution``,
    if there is one, returns from the final memory what was predicted of each job's runtime at its submission: a column a level in
    (0, 1), seconds, float64 [jobs]. Codes: :mod:`models.runtime.dispatch`.
    """

    name: str
    code: int
    memory: Callable[[pd.DataFrame], Memory]
    retrain: Callable[[Memory, np.ndarray, np.ndarray], Memory] | None = None
    distribution: Callable[[Memory], pd.DataFrame] | None = None


@runtime_checkable
class OnlinePredictor(Protocol):
    """A predictor in plain Python that learns during the run.

    ``job`` is a row of ``jobs``; times are the trace's seconds. Within one second the simulator tells of ends, then of
    submissions, asks for the estimates of the jobs submitted, and tells of the starts that follow before anything of a later
    second.
    """

    name: str

    def begin(self, jobs: pd.DataFrame) -> None:
        """Start a simulation of ``jobs`` (canonical table, in order of submission) from scratch."""

    def submitted(self, job: int, now_s: int) -> None:
        """Handle the submission of ``job``."""

    def started(self, job: int, now_s: int) -> None:
        """Handle the start of ``job``."""

    def ended(self, job: int, now_s: int) -> None:
        """Handle the end of ``job``: its runtime may be used from now on."""

    def estimate(self, question: int, job: int, now_s: int, elapsed_s: int) -> float:
        """Predict runtime in seconds for one of ``ORDER``, ``FIT``, ``END``.

        ``elapsed_s`` is how long the job has run.
        """


@runtime_checkable
class TellsQuantiles(Protocol):
    """A predictor in plain Python that knows a distribution of each runtime: one more method.

    Schedulers that weigh distributions (``Harm``) ask for it once, at the submission, and again if the job outlives all that was
    told. Answers are rounded, and kept within what the job has run, its request, and each other.
    """

    def quantiles(self, job: int, now_s: int, elapsed_s: int, levels: np.ndarray) -> Sequence[float]:
        """Return quantiles of the runtime of ``job`` in seconds, one for each of ``levels``.

        Levels ascend in (0, 1). Of a job that has run ``elapsed_s`` seconds and still runs, quantiles of its whole runtime given that.
        """


Predictor: TypeAlias = TablePredictor | CompiledPredictor | OnlinePredictor
