"""Infer the times of the week at which a machine is closed from recorded starts.

Some sites drain their machine at fixed times. Hardly any job is then planned to run over such a time. What is read from
the starts is kept only where replays of the log that keep to it come nearer to the record: in the order of waits and in
their means by size.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from features.clock import DAY_S, WEEK_S, Clock, local_clock_s
from sim.machine.nodes import ALWAYS, Hours, Layout, Requests
from sim.simulation import simulate

MONDAY_S = 4 * DAY_S
"""Unix time of the first Monday."""
GAIN = 0.02
"""Min gain in nearness for a change, in the mean of the parts."""
PARTS = 3
"""Number of parts of a log; a change must bring the replay nearer in each."""
OFF = 0.1
"""Cost, in rank correlation, of a factor of ten between mean waits by size."""
_FAR = 1 << 60
"""Later than any second."""
_AFTER_S = 60 * DAY_S
"""Time after the last submission at which closings end, so that each job starts some day."""
_STEP_S = 1800
_RARE = 0.1
"""Fewer than this share of the usual number of jobs planned to run at a time of the week count as none."""
_LEAST = 120
"""Min jobs planned to run at the usual time of the week from which closings are read."""
_ROUNDS = 8
_ALGORITHMS = ("EASY", "List", "EASY-SPF")


@dataclass(frozen=True)
class Closed:
    """A pool of ``procs`` processors that is closed at times of the week.

    At ``closings`` (seconds of the week, which begins on Monday) nothing runs: a job starts only if it is planned to
    end by the next, unless it is longer than any time between two. ``algorithm`` is the scheduler between them, a name
    of :mod:`sim.schedulers.names`. Seconds are those of the clock whose second 0 is ``origin_s`` of the trace.
    """

    procs: int
    algorithm: str = "EASY"
    closings: tuple[int, ...] = ()
    origin_s: int = 0
    name: str = "pool with closings"

    @property
    def text(self) -> str:
        """Return the algorithm and the closings as text, which :func:`closed` reads."""
        return json.dumps({"algorithm": self.algorithm, "closings": self.closings, "origin_s": self.origin_s})

    def arrays_for(self, jobs: pd.DataFrame) -> tuple[Layout, Requests]:
        """Return the empty machine, and the requests of ``jobs``."""
        one, none = np.ones(len(jobs), np.int64), np.zeros(len(jobs), np.int64)
        wide, unlimited = jobs["procs"].to_numpy(np.int64)[:, None].copy(), np.zeros((len(jobs), 0), np.int64)
        left = np.zeros((1, 0), np.int64)
        layout = Layout(np.array([0, 1]), np.array([[self.procs]]), np.zeros(1, np.int64), left, self._hours(jobs))
        return layout, Requests(one, wide, one, none, none, one, unlimited, unlimited)

    def _hours(self, jobs: pd.DataFrame) -> Hours:
        """Return until when jobs may be planned to run; jobs too long for any open time ignore closings."""
        if not self.closings:
            return ALWAYS
        first, last = (int(jobs["submit_s"].iloc[at]) + self.origin_s for at in (0, -1))
        weeks = np.arange((first - MONDAY_S) // WEEK_S - 1, (last + _AFTER_S - MONDAY_S) // WEEK_S + 1) * WEEK_S + MONDAY_S
        times = (weeks[:, None] + np.array(self.closings, np.int64)).ravel()
        until = np.append(times[1:] - self.origin_s, _FAR)
        too_long = jobs["requested_s"].to_numpy(np.int64) > int(np.diff(times).max(initial=0))
        time, kind = np.maximum(times, first) - self.origin_s, np.zeros(len(times), np.int64)
        return Hours(time, kind, until, too_long.astype(np.int64), np.array([_FAR, _FAR]))


def closed(text: str, procs: int) -> Closed | None:
    """Return the pool of a :attr:`Closed.text`, with ``procs``; None for a scheduler's name."""
    if not text.startswith("{"):
        return None
    kept = json.loads(text)
    return Closed(procs, kept["algorithm"], tuple(kept["closings"]), kept["origin_s"])


def drained(
    jobs: pd.DataFrame, procs: int, clock: Clock, start_s: np.ndarray, end_s: np.ndarray, until_s: int, since: Closed | None = None
) -> Closed | None:
    """Return a pool of ``procs`` processors with the closings that jobs kept to, if any.

    Jobs that end after ``until_s`` are not read. ``start_s`` and ``end_s`` int64 [jobs] are recorded; ``since`` changes
    only to a nearer pool.
    """
    ended = np.flatnonzero(end_s <= until_s)
    if len(ended) == 0:
        return None
    jobs, start_s = jobs.iloc[ended].reset_index(drop=True), start_s[ended]
    submit = jobs["submit_s"].to_numpy(np.int64)
    begun = np.flatnonzero(start_s <= submit[-1])
    pool = since or Closed(procs, origin_s=int((local_clock_s(submit, *clock) - submit).min()))
    requested = jobs["requested_s"].to_numpy(np.int64)
    read = closings(start_s[begun] + pool.origin_s - MONDAY_S, requested[begun])
    if not read and not pool.closings:
        return None

    parts, wait_s = np.array_split(begun, PARTS), start_s - submit

    def nearness(changed: Closed) -> np.ndarray:
        """Return the rank correlation with the record and the error by size, float64 [parts, 2]."""
        waits_s = replayed(changed, jobs)
        return np.array(
            [(correlation(waits_s[part], wait_s[part]), off(jobs.iloc[part], waits_s[part], wait_s[part])) for part in parts]
        )

    best = nearness(pool)
    for _ in range(_ROUNDS):
        tried = [(nearness(changed), changed) for changed in _changes(pool, read)]
        if not tried:
            break
        near, changed = max(tried, key=lambda pair: _gain(pair[0], best))
        if _gain(near, best) < GAIN:
            break
        best, pool = near, changed
    return pool if pool.closings else None


def _changes(pool: Closed, read: tuple[int, ...]) -> list[Closed]:
    """Return pools that differ in one part: other closings, none, or another scheduler between them."""
    changed = [replace(pool, closings=read), replace(pool, closings=())]
    changed += [replace(pool, algorithm=algorithm) for algorithm in _ALGORITHMS]
    return [other for other in changed if other != pool and (other.closings or other.algorithm == "EASY")]


def _gain(near: np.ndarray, other: np.ndarray) -> float:
    """Return by how much one is nearer than another, in the mean of the parts; -1 if not in each."""
    gains = (near - other) @ (1, -OFF)
    return float(gains.mean() if gains.min() > 0 else -1)


def closings(start: np.ndarray, requested: np.ndarray, least: int | None = None) -> tuple[int, ...]:
    """Return the half hours of the week at which hardly any job was planned to run.

    In seconds from the beginning of the week. None if fewer than ``least`` jobs, by default 120, run at the usual time.
    """
    steps = WEEK_S // _STEP_S
    first, last = start // _STEP_S + 1, -(-(start + requested) // _STEP_S)
    change = np.zeros(2 * steps + 1, np.int64)  # jobs planned to run over each step of two weeks
    np.add.at(change, first % steps, 1)
    np.add.at(change, first % steps + np.minimum(np.maximum(last - first, 0), steps), -1)
    over = np.cumsum(change[:-1]).reshape(2, steps).sum(axis=0)
    if np.median(over) < (_LEAST if least is None else least):
        return ()
    return tuple((np.flatnonzero(over < _RARE * np.median(over)) * _STEP_S).tolist())


def replayed(pool: Closed, jobs: pd.DataFrame) -> np.ndarray:
    """Return the wait of each job under ``pool``, float64 [jobs]."""
    table = simulate(jobs, machine=pool, scheduler=pool.algorithm).jobs
    return (table["start_s"] - table["submit_s"]).to_numpy(np.float64)


def off(jobs: pd.DataFrame, waits_s: np.ndarray, recorded_s: np.ndarray) -> float:
    """Return the error of mean waits by size, in powers of ten, as the mean over jobs.

    Sizes are processors in powers of four. A minute is added to both waits, so that minutes count and seconds do not.
    """
    size = 4 ** (np.log2(jobs["procs"].to_numpy(np.float64)) // 2).astype(np.int64)
    waits = pd.DataFrame({"jobs": 1, "replayed": waits_s, "recorded": recorded_s}).groupby(size)
    table = waits.agg({"jobs": "sum", "replayed": "mean", "recorded": "mean"})
    ratio = np.abs(np.log10((table["replayed"] + 60) / (table["recorded"] + 60)))
    return float(np.average(ratio, weights=table["jobs"]))


def correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Return Spearman's rank correlation, 0 if all values of either array are equal."""
    return 0.0 if np.ptp(one) == 0 or np.ptp(other) == 0 else float(spearmanr(one, other).statistic)
