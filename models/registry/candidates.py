"""The candidates for ``runtime-<trace>``, the simplest first, and how each is trained.

To add a candidate, add its training here and its answers in :mod:`models.packed.methods`.

``quantile`` is trained from rows of the table ``runtime_features``. All trees of a night's model were grown in its last
nights: as in the simulator, all are grown that many nights before and a few are replaced each night, while leaves and
levels learn from each job that ends. After training the trees stay fixed. Each night the model is refreshed: leaves and
calibrated levels learn what ended since training. They always start from the training, so that served answers can be
reproduced at any time.

They are trained from :class:`Accounting`: the ended jobs of a trace with their features.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd

from features.clock import DAY_S, local_clock_s
from features.jit import njit
from features.jobs.like_jobs import PER_LEVEL, columns_of
from features.jobs.runtime_features import FEATURES, States, distinct, runtime_features, states_at
from features.jobs.schema import recorded_end_s
from models.packed.methods import PLAN, Forest, Last2, LightGBM, Method, Quantile, Requested, Trees, matrix
from models.runtime import lightgbm, quantile, quantile_forest
from models.runtime.levels import weigh
from models.runtime.memory import Memory, width
from models.runtime.options import read
from models.runtime.quantile_forest import GROWN, LEVELS, TREES, count, distribute, learn_from, mass_at, work_at


@dataclass(frozen=True)
class Accounting:
    """Ended jobs: a cleaned canonical table, starts int64 [jobs], and their features.

    The table is in order of submission. Ends are those recorded, although the runtimes that models learn are cut at the
    request. ``features`` is the table ``runtime_features`` (:mod:`features.jobs.runtime_features`), a row a job: models
    are trained from it. ``origin_unix_s`` and ``timezone`` as in ``features.clock``. ``source`` says whether the starts
    were recorded or simulated.
    """

    jobs: pd.DataFrame
    start_s: np.ndarray
    features: pd.DataFrame
    origin_unix_s: int | None = None
    timezone: str | None = None
    source: str = ""
    end_s: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "end_s", recorded_end_s(self.jobs, self.start_s))

    @property
    def until_s(self) -> int:
        """Return the last end."""
        return int(self.end_s.max())

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the features that learners read: of the levels that the jobs tell apart."""
        return columns_of(tuple(distinct(self.jobs)))

    def ended(self, at_s: int) -> np.ndarray:
        """Return rows of the jobs that had ended by ``at_s``."""
        return np.flatnonzero(self.end_s <= at_s)

    def by_end(self, after_s: int, until_s: int) -> np.ndarray:
        """Return rows of jobs that ended after ``after_s`` and by ``until_s``, by end."""
        order = np.lexsort((self.start_s, self.end_s))
        first, last = np.searchsorted(self.end_s[order], [after_s, until_s], side="right")
        return order[first:last]

    def snapshot(self, at_s: int) -> States:
        """Return users and groups as of a night at ``at_s``."""
        return states_at(self.jobs, self.start_s, at_s, self.end_s, running=False)

    def served(self, rows: np.ndarray, at_s: np.ndarray | int) -> pd.DataFrame:
        """Return features of jobs from the accounting of the nights ``at_s``.

        ``rows`` of the jobs ascend, and so do the nights, int64 [rows] or one for all.
        """
        local = self._local(self.jobs["submit_s"].to_numpy(np.int64))
        nights = np.broadcast_to(np.asarray(at_s, np.int64), len(rows))
        return runtime_features(self.jobs, self.start_s, local, self.end_s, rows=rows, known_s=nights)

    def _local(self, submit_s: np.ndarray) -> np.ndarray:
        return local_clock_s(submit_s, self.origin_unix_s, self.timezone)


def accounting(
    jobs: pd.DataFrame, start_s: np.ndarray, origin_unix_s: int | None = None, timezone: str | None = None, source: str = ""
) -> Accounting:
    """Return :class:`Accounting` of ended jobs, whose features are made now.

    Errors are those of ``features.jobs.history.events_of``.
    """
    local = local_clock_s(jobs["submit_s"].to_numpy(np.int64), origin_unix_s, timezone)
    table = runtime_features(jobs, start_s, local, recorded_end_s(jobs, start_s))
    return Accounting(jobs, start_s, table, origin_unix_s, timezone, source)


NIGHTS = -(-TREES // quantile.NEW_TREES)
"""Nights after which every tree has been replaced."""


def grown_forest(accounting: Accounting, at_s: int, seed: int) -> Forest:
    """Train the forest as of a night at ``at_s``, on the jobs ended by then."""
    nights = [at_s - DAY_S * number for number in range(NIGHTS, -1, -1)]
    walk = _Walk(accounting, accounting.by_end(-(2**62), at_s), accounting.columns)
    for night in nights:
        walk.learn(night, since_s=nights[0])
        ended = np.arange(np.searchsorted(walk.end, night, side="right"))
        if len(ended) >= quantile.ENOUGH:
            quantile.grow(walk.memory, ended, walk.jobs.runtime, seed)
    return walk.forest(at_s)


def refreshed_forests(forest: Forest, accounting: Accounting, nights: Sequence[int]) -> Iterator[Forest]:
    """Yield the same trees for each of ``nights``, ascending, with all jobs ended by then.

    One walk serves all nights. Raises ValueError if this code no longer grows such forests.
    """
    last, walk = max(nights, default=forest.at_s), None
    for at_s in nights:
        if at_s <= forest.at_s:
            yield forest
            continue
        walk = walk or _Walk.on_from(forest, accounting, last, last)
        walk.learn(at_s, since_s=forest.at_s)
        yield walk.forest(at_s)


def forest_parameters() -> dict[str, object]:
    """Return the parameters by which a forest is grown, to be logged."""
    grown = ("NEW_TREES", "MIN_JOBS_IN_LEAF", "FEATURE_SHARE", "JOB_SHARE", "LEARNED_JOBS")
    kernel = ("TREES", "LEAVES", "SHARES", "POINT_SHARES")
    settings = {name: getattr(quantile, name) for name in grown} | {name: getattr(quantile_forest, name) for name in kernel}
    return {name.lower(): value for name, value in settings.items()}


def can_refresh(forest: Forest) -> bool:
    """Tell whether the current kernels can refresh ``forest``."""
    kept = forest.levels == tuple(quantile.REGULAR.tolist())
    return forest.plan == json.dumps(PLAN) and kept and set(forest.columns) <= set(FEATURES)


class _Jobs(NamedTuple):
    """The kernels' columns, int64 [jobs]."""

    submit: np.ndarray
    runtime: np.ndarray
    requested: np.ndarray
    procs: np.ndarray


class _Walk:
    """Jobs in order of their ends, and a forest that learns event by event from their rows of the table."""

    def __init__(self, accounting: Accounting, rows: np.ndarray, columns: tuple[str, ...]) -> None:
        jobs, table = accounting.jobs.iloc[rows], accounting.features.iloc[rows]
        self.rows, self.columns, self.end = rows, columns, accounting.end_s[rows]
        self.jobs = _Jobs(*(jobs[name].to_numpy(np.int64) for name in ("submit_s", "runtime_s", "requested_s", "procs")))
        inputs = np.empty((len(rows), len(columns) + len(quantile.REGULAR) + 1))
        inputs[:, : len(columns)], inputs[:, len(columns) :] = matrix(table, columns), 0.0
        fresh = Memory(jobs=inputs, keys=np.empty((0, len(columns) // PER_LEVEL), np.int64))
        self.memory = quantile.usual(fresh)
        time, number = np.concatenate((self.end, self.jobs.submit)), np.tile(np.arange(len(rows)), 2)
        submitted = np.repeat([0, 1], len(rows))  # within a second, ends come first
        order = np.lexsort((number, submitted, time))
        self._time, self._event, self._gone = time[order], (2 * number + submitted)[order], 0

    @classmethod
    def on_from(cls, forest: Forest, accounting: Accounting, until_s: int, submitted_s: int) -> _Walk:
        """Return a walk of ``forest`` over jobs ended since, by ``until_s``, and submitted by ``submitted_s``."""
        if not can_refresh(forest):
            raise ValueError("this version of Queuecast cannot add trees to this model: train it again")
        rows = accounting.by_end(forest.at_s, until_s)
        walk = cls(accounting, rows[accounting.jobs["submit_s"].to_numpy(np.int64)[rows] <= submitted_s], forest.columns)
        walk.memory.model[: len(forest.model)] = forest.model
        walk.memory.links[:], walk.memory.leaves[:] = forest.links, forest.leaves
        return walk

    def learn(self, until_s: int, *, since_s: int) -> None:
        """Process all events up to ``until_s``; leaves and levels learn from jobs that end after ``since_s``."""
        begin, self._gone = self._gone, int(np.searchsorted(self._time, until_s, side="right"))
        _events(self.memory, self.jobs, self.end, self._event[begin : self._gone], since_s)

    def forest(self, at_s: int) -> Forest:
        """Return the current memory as a forest."""
        kept = int(self.memory.model[LEVELS])
        learned = self.memory.links.copy(), self.memory.leaves.copy(), self.memory.model[: mass_at(kept)].copy()
        return Forest(self.columns, at_s, *learned)


@njit
def _events(memory, jobs, end, events, since):
    """Process ``events`` in order; each is twice a job's number, plus one for a submission."""
    model, quantiles = memory.model, width(memory)
    for event in events:
        job = event // 2
        grown = model[GROWN] > 1.0
        if event % 2 == 1:
            # levels will learn from jobs that still run after ``since``, so these are estimated
            if jobs.submit[job] > since or (grown and end[job] > since):
                distribute(memory, job, jobs)
        elif end[job] > since and memory.jobs[job, quantiles] > 0.0:
            learn_from(memory, job, jobs)
        elif end[job] > since or not grown:  # the forest, or the single leaf before there is a forest
            weigh(model, work_at(int(model[LEVELS])), jobs.procs[job], jobs.requested[job], jobs.runtime[job])
            count(memory, job, jobs.runtime[job])


def _as_trained(method: Method, accounting: Accounting, nights: Sequence[int]) -> Iterator[Method]:
    return iter([method] * len(nights))


@dataclass(frozen=True)
class Estimator:
    """How a method is trained and kept up to date, in scikit-learn's words.

    ``fit(accounting, at_s, seed)`` trains it as of a night at ``at_s``; it is called only if some job has ended by
    then, and uses only what accounting held then. ``get_params(seed)`` are the parameters of the training, to be
    logged. The method that it returns has ``predict`` and ``predict_quantiles``. ``learns`` is false for a fixed
    formula: training it again changes nothing, so it never challenges itself. ``refresh(method, accounting, nights)``
    yields the trained method in later nights, ascending, if it goes on learning.
    """

    fit: Callable[[Accounting, int, int], Method]
    get_params: Callable[[int], Mapping[str, object]]
    learns: bool
    refresh: Callable[[Method, Accounting, Sequence[int]], Iterator[Method]] = _as_trained


def _lightgbm(accounting: Accounting, at_s: int, seed: int) -> Method:
    """Grow trees from the rows of the most recent jobs ended by ``at_s``."""
    rows, columns = accounting.by_end(-(2**62), at_s)[-lightgbm.OPTIONS["jobs"].usual :], accounting.columns
    inputs, runtime = matrix(accounting.features.iloc[rows], columns), accounting.jobs["runtime_s"].to_numpy(np.int64)[rows]
    trees, leaves = (lightgbm.OPTIONS[name].usual for name in ("trees", "leaves"))
    return LightGBM(Trees(columns, *lightgbm.grown(inputs, runtime, trees if len(rows) >= lightgbm.ENOUGH else 0, leaves, seed)))


TRAINERS: dict[str, Estimator] = {
    "last2": Estimator(lambda *_: Last2(), lambda _: {}, learns=False),
    LightGBM.name: Estimator(
        _lightgbm,
        lambda seed: (
            read({}, lightgbm.OPTIONS)
            | {"seed": str(seed)}
            | {"learning_rate": lightgbm.LEARNING_RATE, "min_jobs_in_leaf": lightgbm.MIN_JOBS_IN_LEAF}
        ),
        learns=True,
    ),
    Quantile.name: Estimator(
        lambda accounting, at_s, seed: Quantile(grown_forest(accounting, at_s, seed)),
        lambda _: forest_parameters(),
        learns=True,
        refresh=lambda method, accounting, nights: map(Quantile, refreshed_forests(method.state, accounting, nights)),
    ),
}
"""Trainers by name, the simplest first: of two equally good methods the simpler is chosen."""


def fit(name: str, accounting: Accounting, at_s: int, seed: int) -> Method:
    """Train the method ``name`` as of a night at ``at_s``.

    If no job has ended by then, return the requested time as the method.
    """
    return TRAINERS[name].fit(accounting, at_s, seed) if len(accounting.ended(at_s)) else Requested()


def refresh(method: Method, accounting: Accounting, at_s: int) -> Method:
    """Return a trained method as of a night at ``at_s``: same training, that night's state."""
    return next(refresh_each(method, accounting, [at_s]))


def refresh_each(method: Method, accounting: Accounting, nights: Sequence[int]) -> Iterator[Method]:
    """Yield :func:`refresh` for each of the ``nights``, ascending, in one pass."""
    return (
        TRAINERS[method.name].refresh(method, accounting, nights)
        if method.name in TRAINERS
        else _as_trained(method, accounting, nights)
    )


def outdated(method: Method) -> bool:
    """Tell whether this code cannot refresh ``method``, only train it anew."""
    fits = not isinstance(method, Quantile) or can_refresh(method.state)
    return not (fits and set(method.columns) <= set(FEATURES))
