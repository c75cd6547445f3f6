"""The protocol between simulator and predictor.

The simulator reports submissions, starts and ends, and asks for estimates. Three questions can have three answers:
``ORDER`` (where in the queue does the job belong?), ``FIT`` (will it end before the reservation?) and ``END`` (when
will it end, once it runs?). A point predictor gives one answer to all. A predictor has one of three forms: a table
known before the simulation, a state machine compiled into the simulator, or any Python object with the methods of
:class:`OnlinePredictor`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from features.deferred import pd
from models.runtime.memory import Memory

ORDER, FIT, END = 0, 1, 2
"""The questions."""


@dataclass(frozen=True)
class TablePredictor:
    """A predictor whose answers are all known before the simulation.

    ``estimate(jobs)`` gives seconds, float64 [jobs]. If ``capped``, a prediction outside 1..request is clamped and counted;
    published multiples of the request are not. ``quantiles(jobs)``, if given, returns quantiles of each job's runtime: seconds,
    one row per job, one column per level in (0, 1), ascending. A job that outlives its prediction (corrections ``conditional``)
    gets the next quantile and, beyond them or without any, the request. ``by_columns``: ``estimate`` also takes
    :class:`features.jobs.columns.TableColumns`.
    """

    name: str
    estimate: Callable[[Any], np.ndarray]
    capped: bool = True
    quantiles: Callable[[pd.DataFrame], pd.DataFrame] | None = None
    by_columns: bool = False


@dataclass(frozen=True)
class CompiledPredictor:
    """A predictor that learns inside the kernel: its code, and fresh memory for a jobs table.

    ``retrain``, if there is one, is called at each midnight (``features.clock.Clock``) that the simulation passes, or
    at the last of each ``every`` midnights: with the memory, the jobs that have ended so far (rows of the kernel's
    jobs, int64, in the order of their ends) and all runtimes (int64 [jobs]; only those of the ended jobs may be read).
    The simulation continues with the memory that it returns. ``distribution``, if there is one, returns from the final
    memory the quantiles predicted at each job's submission: one column per level in (0, 1), seconds, float64 [jobs].
    Codes: :mod:`models.runtime.dispatch`.
    """

    name: str
    code: int
    memory: Callable[[pd.DataFrame], Memory]
    retrain: Callable[[Memory, np.ndarray, np.ndarray], Memory] | None = None
    distribution: Callable[[Memory], pd.DataFrame] | None = None
    every: int = 1


@runtime_checkable
class OnlinePredictor(Protocol):
    """A predictor in plain Python that learns during the run.

    ``job`` is a row of ``jobs``; times are the trace's seconds. Within one second the simulator reports ends, then
    submissions, and then asks for the estimates of the submitted jobs. It reports the starts that follow before any
    event of a later second.
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
    """A predictor in plain Python with a distribution of each runtime: one more method.

    Schedulers that weigh distributions (``Harm``) call it once at submission, and again if the job outlives all its
    quantiles. Answers are rounded and clamped: they ascend, exceed the elapsed time, and do not exceed the request.
    """

    def quantiles(self, job: int, now_s: int, elapsed_s: int, levels: np.ndarray) -> Sequence[float]:
        """Return quantiles of the runtime of ``job`` in seconds, one for each of ``levels``.

        Levels ascend in (0, 1). For a job that has run ``elapsed_s`` seconds and still runs, they are conditional on
        that.
        """


Predictor: TypeAlias = TablePredictor | CompiledPredictor | OnlinePredictor
