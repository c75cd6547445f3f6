"""Training of ``quantile`` for the registry: the simulator's kernel replays accounting.

The kernel's memory then is the model. All trees of a night's model were grown in its last nights: as in the simulator, all are
grown that many nights before and a few are replaced each night, while leaves and levels learn from each job that ends. After
training the trees stay fixed. Each night the model is carried on: leaves, calibrated levels and groups of jobs learn what ended
since training. They always start from the training, so that served answers can be reproduced at any time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from features.clock import DAY_S
from features.jit import njit
from models.packed.forest import Forest, Plan
from models.registry.accounting import Accounting
from models.registry.walk import Walk, ended_by, ended_since
from models.runtime import job_features, levels, quantile, ratios

NIGHTS = -(-quantile.TREES // quantile.NEW_TREES)
"""Nights after which every tree has been replaced."""


def grow(accounting: Accounting, at_s: int, seed: int) -> Forest:
    """Train the forest as of a night at ``at_s``, on the most recent jobs ended by then."""
    nights = [at_s - DAY_S * number for number in range(NIGHTS, -1, -1)]
    walk = _Walk(accounting, ended_by(accounting, at_s), seed)
    for night in nights:
        walk.learn(night, since_s=nights[0])
        walk.retrain(night)
    return walk.forest(at_s)


def carry_on(forest: Forest, accounting: Accounting, nights: Sequence[int]) -> Iterator[Forest]:
    """Yield the same trees for each of ``nights``, ascending, with all jobs ended by then.

    One walk serves all nights. Raises ValueError if this code no longer grows such forests.
    """
    last, walk = max(nights, default=forest.at_s), None
    for at_s in nights:
        if at_s <= forest.at_s:
            yield forest
            continue
        if walk is None:
            walk = _Walk(accounting, ended_since(accounting, forest.at_s, last, last), 0, forest)
        walk.learn(at_s, since_s=forest.at_s)
        yield replace(walk.forest(at_s), nodes=forest.nodes, thresholds=forest.thresholds)


def up_to_the_second(forest: Forest, accounting: Accounting, rows: np.ndarray) -> np.ndarray:
    """Return the most accurate points of the jobs ``rows`` as if all ends were known at once.

    Seconds, float64 [rows]. The jobs were submitted after ``forest.at_s``.
    """
    last = int(accounting.jobs["submit_s"].to_numpy(np.int64)[rows].max(initial=forest.at_s))
    taken = ended_since(accounting, forest.at_s, int(accounting.end_s.max()), last)
    walk = _Walk(accounting, taken, 0, forest)
    walk.learn(last, since_s=forest.at_s)
    place = np.empty(len(accounting.jobs), np.int64)
    place[taken] = np.arange(len(taken))
    return walk.points()[place[rows]]


def parameters() -> dict[str, object]:
    """Return the parameters by which a forest is grown, to be logged."""
    names = (
        "TREES",
        "NEW_TREES",
        "LEAVES",
        "MIN_JOBS_IN_LEAF",
        "FEATURE_SHARE",
        "JOB_SHARE",
        "LEARNED_JOBS",
        "SHARES",
        "POINT_SHARES",
    )
    return {name.lower(): getattr(quantile, name) for name in names}


def fits(forest: Forest) -> bool:
    """Tell whether the current kernel can carry ``forest`` on."""
    plan, here = forest.plan, _plan(forest.plan.alike)
    nodes = (len(forest.nodes), forest.nodes.shape[1])
    return plan == here and nodes in ((1, quantile.LEAVES), (quantile.TREES, quantile.LEAVES))


def _plan(alike: tuple[tuple[str, ...], ...]) -> Plan:
    ends, kept = tuple(ratios.ENDS.tolist()), tuple(quantile.REGULAR.tolist())
    return Plan(
        quantile.STEP, quantile.BINS, quantile.REACH, ends, quantile.SHARES, quantile.POINT_SHARES, levels.UPPER, alike, kept
    )


class _Walk(Walk):
    """A walk with ``quantile``, from scratch or from a trained forest."""

    def __init__(self, accounting: Accounting, rows: np.ndarray, seed: int, forest: Forest | None = None) -> None:
        super().__init__(accounting, rows, quantile.quantile(seed=str(seed)), forest.plan.alike if forest else None)
        self.plan = _plan(self.alike)
        if forest is not None:
            self._take(forest)

    def learn(self, until_s: int, *, since_s: int) -> None:
        """Process all events up to ``until_s``.

        Leaves and levels learn from jobs that end after ``since_s``, groups from all jobs.
        """
        _events(self.memory, self.columns, self.end, self.events(until_s), since_s)

    def points(self) -> np.ndarray:
        """Return the most accurate points of the estimated jobs, seconds, float64 [jobs]."""
        quantiles = self.memory.keys.shape[1] * job_features.PER_LEVEL + job_features.COMMON
        points_s = self.memory.jobs[:, quantiles + len(self.plan.levels)]
        return np.clip(points_s, 1.0, self.columns.requested)

    def _arrays(self) -> tuple[np.ndarray, ...]:
        """Return views of the memory.

        In order: calibrated levels, their tilt, work by size; nodes, thresholds and leaves of the current trees.
        """
        model, kept, trees = self.memory.model, len(self.plan.levels), int(self.memory.model[quantile.GROWN])
        leaves = quantile.TREES * quantile.LEAVES
        at_thresholds, at_leaves = quantile.thresholds_at(kept), quantile.leaves_at(kept)
        shape = (quantile.TREES, quantile.LEAVES)
        return (
            model[quantile.LEVEL + kept :][:kept],
            model[quantile.tilt_at(kept) :][:kept],
            model[quantile.work_at(kept) :][: levels.WORK],
            self.memory.links.reshape(*shape, 3)[:trees],
            model[at_thresholds : at_thresholds + leaves].reshape(shape)[:trees],
            model[at_leaves : quantile.edges_at(kept)].reshape(*shape, quantile.LEAF)[:trees],
        )

    def _take(self, forest: Forest) -> None:
        if self.plan != forest.plan or not fits(forest):
            raise ValueError("this accounting, or this Queuecast, has no such forest: it can only be trained anew")
        self.memory.model[quantile.GROWN] = len(forest.nodes)
        calibrated, tilt, work, nodes, thresholds, leaves = self._arrays()
        calibrated[:], tilt[:], nodes[:], thresholds[:] = forest.calibrated, forest.tilt, forest.nodes, forest.thresholds
        if len(forest.nodes) == 1:  # no trees yet: the single leaf learns from the replay
            return
        work[:] = forest.work
        leaves[:, :, : quantile.MEMBERS] = forest.counts
        leaves[:, :, quantile.MEMBERS] = forest.counts[:, :, : quantile.BINS].sum(axis=2)
        of_all = self.memory.model[quantile.common_at(len(self.plan.levels)) :][: quantile.BINS]
        of_all[:] = forest.counts[0, :, : quantile.BINS].sum(axis=0)

    def forest(self, at_s: int) -> Forest:
        """Return the current memory as a forest."""
        calibrated, tilt, work, nodes, thresholds, leaves = self._arrays()
        counts = leaves[:, :, : quantile.MEMBERS]
        counts = counts.astype(np.min_scalar_type(int(counts.max(initial=0))))
        dated = (calibrated.copy(), tilt.copy(), work.copy())
        return Forest(self.plan, nodes.copy(), thresholds.copy(), counts, *dated, self.groups(at_s))


@njit
def _events(memory, jobs, end, events, since):
    """Process ``events`` in order."""
    model, quantiles = memory.model, job_features.width(memory)
    for event in events:
        job = event // 2
        grown = model[quantile.GROWN] > 1.0
        if event % 2 == 1:
            # levels will learn from jobs that still run after ``since``, so these are estimated
            if jobs.submit[job] > since or (grown and end[job] > since):
                quantile.estimate(memory, job, jobs)
            else:
                job_features.describe(memory, job, jobs)
        elif end[job] > since and memory.jobs[job, quantiles] > 0.0:
            quantile.learn(memory, job, jobs, end[job])
        else:
            if end[job] > since or not grown:  # the forest, or the single leaf before there is a forest
                work = quantile.work_at(np.int64(model[quantile.LEVELS]))
                levels.weigh(model, work, jobs.procs[job], jobs.requested[job], jobs.runtime[job])
                for tree in range(np.int64(model[quantile.GROWN])):
                    quantile.count(memory, job, jobs.runtime[job], tree)
            job_features.remember(memory, job, jobs.runtime[job], end[job])
