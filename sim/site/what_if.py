"""The effect of a change of a Slurm site, as replays show it.

Each replay of a changed site is paired with a replay of today's site under the same phases of Slurm's clocks and the
same shaken submissions, so that what both have in common cancels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple

import numpy as np
import pandas as pd

from features.clock import DAY_S, WEEK_S
from features.errors import InputError
from features.jobs.workload_changes import moves
from features.statistics import CONFIDENCE, FEWEST_BLOCKS, Interval, Ratio, interval_of_change, interval_of_replicates, surely
from sim.metrics.comparison import by_week, by_week_and_user, pooled, stacked
from sim.metrics.schedule_metrics import ratios
from sim.site.changes import Changed
from sim.site.replay import Replay, as_schedule, replay
from sim.slurm.requests import SlurmRequests, requests

USUAL_SHAKE_S = 60
NOT_SURE = "not sure"
HERE = " here"
"""Suffix of a verdict that is sure for these very jobs, but not for those of other weeks or days."""
FEWEST_PAIRS = 4
"""With fewer pairs of replays there is no interval."""
_WIDEST = 100
"""An interval whose ends, as ratios, lie farther apart than that says nothing, and is not shown."""
JUDGED_BY = ("mean_wait_s", "mean_bounded_slowdown", "awf_s", "p2sf_s")
"""The metrics that judge a change of a site: the first decides, and none of the others may rise.

Policies are weighed by their longest waits in place of the mean (:data:`sim.metrics.verdict.WEIGHED`)."""
_ONE_AT_A_TIME = Lock()
"""Threads wait for the first that reads what the jobs of a change ask for."""


def shaken(jobs: pd.DataFrame, shake_s: int, seed: int) -> pd.DataFrame:
    """Move submissions by up to ``shake_s`` seconds, tasks of an array together.

    The order of rows does not change.
    """
    _, group = np.unique(jobs["group"], return_inverse=True)
    by_s = moves(int(group.max()) + 1, shake_s, seed)[group]
    columns = {name: jobs[name].to_numpy(np.int64) for name in ("submit_s", "eligible_s", "cancel_s", "held_s")}
    moved = {name: np.where(values > 0, values + by_s, values) for name, values in columns.items()}
    return jobs.assign(**moved)


def usual_shake(jobs: pd.DataFrame) -> int:
    """Return by how many seconds submissions move at most, by default.

    :data:`USUAL_SHAKE_S`, but at most a tenth of the recorded mean wait and of the median runtime: moves that are as long as the
    jobs thin out the bursts in which they came, and the queue with them.
    """
    ran = jobs[jobs["start_s"] >= 0]
    if not len(ran):
        return USUAL_SHAKE_S
    wait_s, runtime_s = float((ran["start_s"] - ran["submit_s"]).mean()), float(ran["runtime_s"].median())
    return int(min(USUAL_SHAKE_S, max(min(wait_s, runtime_s) / 10, 1)))


@dataclass(frozen=True)
class Replays:
    """The replays of sites, as a function that a map over pieces of work calls.

    A piece is a row of ``changes`` and a seed; the answer is the piece and when each job started, float64 [jobs].
    """

    changes: Sequence[Changed]
    shake_s: int
    requests: dict[int, SlurmRequests] = field(default_factory=dict, repr=False, compare=False)
    """What the jobs of the last change ask for, shared by its replays, which come in their order."""

    def __call__(self, piece: list[int]) -> tuple[int, int, np.ndarray]:
        row, seed = piece
        changed = self.changes[row]
        with _ONE_AT_A_TIME:
            if row not in self.requests:
                self.requests.clear()
                self.requests[row] = requests(changed.site, changed.jobs)
            shared = self.requests[row]
        return row, seed, replay(changed.site, shaken(changed.jobs, self.shake_s, seed), seed, shared).start_s


def same(today: Changed, changed: Changed, before: np.ndarray, after: np.ndarray) -> bool:
    """Tell whether a change starts all jobs as today's replays do and kills the same jobs."""
    jobs = [side.jobs[["job_id", "killed"]] for side in (today, changed)]
    return jobs[0].equals(jobs[1]) and np.array_equal(before, after, equal_nan=True)


class Measured(NamedTuple):
    """A metric under a change and today, and the relative change.

    With its interval at 95 % and p-value, None if there is none. ``p_here`` is that of these very jobs, over the
    replicates alone; from few days there is no other, and the interval is that of the replicates, too.
    """

    value: float
    baseline: float
    relative: float
    low: float | None
    high: float | None
    p: float | None
    p_here: float | None = None


class Group(NamedTuple):
    """Mean waits, today and under a change, of the ``jobs`` whose ``by`` has this ``value``."""

    by: str
    value: str
    jobs: int
    before_s: float
    after_s: float

    @property
    def by_s(self) -> float:
        """Return by how much the mean wait grows."""
        return self.after_s - self.before_s


class Effect(NamedTuple):
    """What a change does to the jobs of both replays, by metric and by group.

    ``never`` counts jobs that start today but not under the change.
    """

    metrics: dict[str, Measured]
    groups: list[Group]
    never: int


def effect(
    today: Changed,
    changed: Changed,
    before: np.ndarray,
    after: np.ndarray,
    shake_s: int,
    seeds: Sequence[int],
    from_s: int = 0,
) -> Effect:
    """Compare the replays of a change with those of today, pair by pair.

    ``before`` and ``after`` are starts, float64 [replicates, jobs]. Jobs count that are submitted from ``from_s`` on,
    start in all replays and are not killed. Intervals are over weeks or days, or over the replicates alone if there are
    fewer than five; none from fewer than :data:`FEWEST_PAIRS`.
    """
    index = pd.Index(today.jobs["job_id"].astype(str))
    place = pd.Index(changed.jobs["job_id"].astype(str)).get_indexer(index)
    counted = (place >= 0) & (today.jobs["submit_s"].to_numpy() >= from_s)
    starts = np.isfinite(before).all(axis=0) & counted
    never = int((starts & ~np.isfinite(after[:, place]).all(axis=0)).sum())
    kept = starts & np.isfinite(after[:, place]).all(axis=0) & ~index.isin(changed.kills)
    if not kept.any():
        raise InputError("no job starts in all replays, with and without the change")
    jobs = today.jobs[kept]
    block, users = blocks(jobs["submit_s"].to_numpy(np.int64)), pd.factorize(jobs["user"])[0]
    sums: list[tuple[list[dict[str, Ratio]], dict[str, Ratio]]] = []
    waits = []
    for side, starts_s, rows in ((today, before, np.flatnonzero(kept)), (changed, after, place[kept])):
        by_block, by_user, total = list[dict[str, Ratio]](), dict[str, Ratio](), np.zeros(len(rows))
        for seed, start in zip(seeds, starts_s, strict=True):
            table = shaken(side.jobs, shake_s, seed).iloc[rows].assign(runtime_s=jobs["runtime_s"].to_numpy())
            held = Replay(start[rows], *(np.full(len(rows), "", object),) * 2, np.ones(len(rows), np.int64), 0, 0)
            schedule = as_schedule(side.site, table, held, trace="", seed=seed, seconds=0.0)
            by_metric = ratios(schedule)
            by_block.append({name: by_week(by_metric[name], block) for name in JUDGED_BY})
            for name in JUDGED_BY:
                own = by_week_and_user(by_metric[name], block, users)
                by_user[name] = pooled([by_user[name], own]) if name in by_user else own
            total += by_metric["mean_wait_s"].numerator
        sums.append((by_block, by_user))
        waits.append(total / len(seeds))
    (ours, our_users), (theirs, their_users) = sums[1], sums[0]
    metrics = {
        name: _compared(
            stacked([ratios[name] for ratios in ours]),
            stacked([ratios[name] for ratios in theirs]),
            (our_users[name], their_users[name]),
        )
        for name in JUDGED_BY
    }
    return Effect(metrics, _groups(jobs, *waits), never)


def blocks(submit: np.ndarray) -> np.ndarray:
    """Return the week of each submission, or the day if weeks are too few, or else 0."""
    for length in (WEEK_S, DAY_S):
        block = np.unique((submit - submit.min()) // length, return_inverse=True)[1]
        if block.max() + 1 >= FEWEST_BLOCKS:
            return np.asarray(block)
    return np.zeros(len(submit), np.int64)


def _compared(terms: Ratio, base: Ratio, users: tuple[Ratio, Ratio]) -> Measured:
    few = terms.numerator.shape[1] < FEWEST_BLOCKS
    value, baseline = terms.value(), base.value()
    if not baseline or len(terms.numerator) < FEWEST_PAIRS:
        return Measured(value, baseline, value / baseline - 1 if baseline else float("nan"), None, None, None)
    here = interval_of_replicates(terms, base)
    interval: Interval = here if few else interval_of_change(terms, base, users=users)
    low, high = interval.low, interval.high
    if low is None or high is None or 1 + high > _WIDEST * (1 + low):
        return Measured(value, baseline, value / baseline - 1, None, None, None)
    return Measured(value, baseline, value / baseline - 1, low, high, None if few else interval.p, here.p)


def _in_classes(values: pd.Series, least: np.ndarray, names: list[str]) -> pd.Categorical[str]:
    return pd.Categorical(np.array(names, object)[np.searchsorted(least, values, "right") - 1], categories=names)


def _groups(jobs: pd.DataFrame, before: np.ndarray, after: np.ndarray) -> list[Group]:
    """Return mean waits by partition, account, size and length, if there are several of each.

    Sizes and lengths ascend.
    """
    sizes, lengths = np.array([1, 2, 5, 17, 65, 257, 1025]), np.array([0, 600, 3600, 4 * 3600, DAY_S])
    words = ["under 10 min", "10 min to 1 h", "1 to 4 h", "4 to 24 h", "over 24 h"]
    columns = {
        "partition": pd.Categorical(jobs["partition"]),
        "account": pd.Categorical(jobs["account"]),
        "size": _in_classes(jobs["cpus"], sizes, [f"{size:,} processors or more" for size in sizes]),
        "length": _in_classes(jobs["runtime_s"], lengths, words),
    }
    groups = []
    for by, values in columns.items():
        rows = [(value, values.codes == code) for code, value in enumerate(values.categories)]
        occurring = [(value, chosen) for value, chosen in rows if chosen.any()]
        for value, chosen in occurring if len(occurring) > 1 else ():
            groups.append(Group(by, str(value), int(chosen.sum()), float(before[chosen].mean()), float(after[chosen].mean())))
    return groups


def judged(effects: Mapping[str, Effect]) -> dict[str, str]:
    """Return a verdict on each candidate, by the metrics :data:`JUDGED_BY`.

    ``better`` surely lowers mean waits and raises none of :data:`JUDGED_BY`; ``mixed`` lowers them and raises another.
    ``worse`` surely makes some worse and lowers no waits. Otherwise it is ``not sure``. What is sure survives Holm's
    correction over all candidates, in its metric; for ``worse`` also over all metrics, as one of four is worse by
    chance more often. A rise counts as a cost by its own interval, as the correction would hide it (:func:`raised`).
    What is not sure may be so for these very jobs alone, :data:`HERE`; more cannot be said of a record of few days.
    """
    if not effects:
        return {}
    sure, here = _words(effects, "p"), _words(effects, "p_here")
    return {name: here[name] + HERE if word == NOT_SURE != here[name] else word for name, word in sure.items()}


def _words(effects: Mapping[str, Effect], kind: str) -> dict[str, str]:
    measured = [[effect.metrics[name] for effect in effects.values()] for name in JUDGED_BY]
    p = np.array([[getattr(metric, kind) for metric in row] for row in measured], np.float64)  # None becomes NaN
    up = np.array([[metric.relative > 0 for metric in row] for row in measured])
    sure, of_all = surely(p[0]), surely(p.ravel()).reshape(p.shape)
    lower, worse = sure & ~up[0], (of_all & up).any(axis=0)
    costly = np.array([bool(raised(effect, kind)) for effect in effects.values()], bool)
    words = np.where(lower, np.where(costly, "mixed", "better"), np.where(worse, "worse", NOT_SURE))
    return dict(zip(effects, words.tolist(), strict=True))


def raised(effect: Effect, kind: str = "p") -> list[str]:
    """Return the metrics whose own interval at 95 % lies above 0.

    With ``kind`` "p_here" it is that of these very jobs.
    """
    p = {name: getattr(metric, kind) for name, metric in effect.metrics.items() if metric.relative > 0}
    return [name for name, value in p.items() if value is not None and value <= 1 - CONFIDENCE]
