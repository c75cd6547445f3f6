"""Training of ``quantile`` for the registry: the simulator's kernel replays accounting.

The kernel's memory then is the model. A night's model has every tree from its last nights: as in the simulator they are grown
that many nights before and replaced a few each night, while leaves and levels learn from each job that ends. Afterwards trees
stay, and each night the model is carried on: leaves, calibrated levels and groups of jobs learn what ended since it was trained,
always from that training on, so that served answers can be reproduced at any time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from features.clock import DAY_S
from features.jit import njit
from models.packed.forest import KEYS, Forest, Plan
from models.packed.methods import LEVELS
from models.registry.accounting import REMEMBERED_JOBS, Accounting
from models.runtime import job_features, levels, quantile, ratios

NIGHTS = -(-quantile.TREES // quantile.NEW_TREES)
"""Nights after which every tree has been replaced."""


class _Jobs(NamedTuple):
    """The kernel's columns, int64 [jobs]."""

    submit: np.ndarray
    runtime: np.ndarray
    requested: np.ndarray
    procs: np.ndarray


def grow(known: Accounting, at_s: int, seed: int) -> Forest:
    """Train the forest as of a night at ``at_s``, on the most recent jobs ended by then."""
    nights = [at_s - DAY_S * number for number in range(NIGHTS, -1, -1)]
    order = _by_end(known)
    last = int(np.searchsorted(known.end_s[order], at_s, side="right"))
    walk = _Walk(known, order[max(last - REMEMBERED_JOBS, 0) : last], seed)
    for night in nights:
        walk.go(night, since_s=nights[0])
        walk.retrain(night)
    return walk.forest(at_s)


def carry_on(forest: Forest, known: Accounting, nights: Sequence[int]) -> Iterator[Forest]:
    """Yield the same trees for each of ``nights``, ascending, with all ended by then.

    One walk serves all nights. ValueError where this code no longer grows such forests.
    """
    last, walk = max(nights, default=forest.at_s), None
    for at_s in nights:
        if at_s <= forest.at_s:
            yield forest
            continue
        if walk is None:
            walk = _Walk(known, _since(forest, known, last, last), 0, forest)
        walk.go(at_s, since_s=forest.at_s)
        yield replace(walk.forest(at_s), nodes=forest.nodes, thresholds=forest.thresholds)


def up_to_the_second(forest: Forest, known: Accounting, rows: np.ndarray) -> np.ndarray:
    """Return the most accurate points of the jobs ``rows`` if all ends were known at once.

    Seconds, float64 [rows]. They were submitted after ``forest.at_s``.
    """
    last = int(known.jobs["submit_s"].to_numpy(np.int64)[rows].max(initial=forest.at_s))
    taken = _since(forest, known, int(known.end_s.max()), last)
    walk = _Walk(known, taken, 0, forest)
    walk.go(last, since_s=forest.at_s)
    place = np.empty(len(known.jobs), np.int64)
    place[taken] = np.arange(len(taken))
    return walk.points()[place[rows]]


def parameters() -> dict[str, object]:
    """Return the settings of growing a forest, for the record."""
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


def _by_end(known: Accounting) -> np.ndarray:
    return np.lexsort((known.start_s, known.end_s))


def _since(forest: Forest, known: Accounting, at_s: int, submitted_s: int) -> np.ndarray:
    """Return rows, by end, of the training jobs and of those ended since by ``at_s``.

    The latter were submitted by ``submitted_s``.
    """
    order = _by_end(known)
    ends = known.end_s[order]
    trained, last = np.searchsorted(ends, [forest.at_s, at_s], side="right")
    order = order[max(int(trained) - REMEMBERED_JOBS, 0) : int(last)]
    return order[known.jobs["submit_s"].to_numpy(np.int64)[order] <= submitted_s]


def _plan(alike: tuple[tuple[str, ...], ...]) -> Plan:
    kept = tuple(np.unique(np.concatenate([quantile.REGULAR, list(LEVELS.values())])).tolist())
    ends, shares = tuple(ratios.ENDS.tolist()), (quantile.SHARES, quantile.POINT_SHARES)
    return Plan(quantile.STEP, quantile.BINS, quantile.REACH, ends, *shares, levels.UPPER, alike, kept, dict(LEVELS))


class _Walk:
    """Jobs, in order of their ends, and a memory that learns from them event by event."""

    def __init__(self, known: Accounting, rows: np.ndarray, seed: int, forest: Forest | None = None) -> None:
        jobs = known.jobs.iloc[rows]
        if forest is not None:  # keys missing at training are not read
            looked_at = {key for level in forest.plan.alike for key in level}
            jobs = jobs.assign(
                **{key: jobs[key].cat.set_categories([]) for key in ("user", "group", "executable") if key not in looked_at}
            )
        self.jobs, self.end = jobs, known.end_s[rows]
        self.submit = jobs["submit_s"].to_numpy(np.int64)
        columns = (jobs[name].to_numpy(np.int64) for name in ("submit_s", "runtime_s", "requested_s", "procs"))
        self.columns = _Jobs(*columns)
        asked = {question: repr(level) for question, level in zip(("order", "fit", "end"), LEVELS.values(), strict=True)}
        self.predictor = quantile.quantile(seed=str(seed), **asked)
        self.plan = _plan(tuple(job_features.levels_of(jobs)))
        self.memory = self.predictor.memory(jobs)._replace(row=np.arange(len(jobs)))
        if forest is not None:
            self._take(forest)
        time, number = np.concatenate((self.end, self.submit)), np.tile(np.arange(len(jobs)), 2)
        submitted = np.repeat([0, 1], len(jobs))  # within a second, ends come first
        order = np.lexsort((number, submitted, time))
        self.time, self.event = time[order], (2 * number + submitted)[order]
        self.gone = 0

    def go(self, until_s: int, *, since_s: int) -> None:
        """Process all events up to ``until_s``.

        Leaves and levels learn from what ends after ``since_s``, groups from everything.
        """
        stop = int(np.searchsorted(self.time, until_s, side="right"))
        _events(self.memory, self.columns, self.end, self.event[self.gone : stop], since_s)
        self.gone = stop

    def retrain(self, at_s: int) -> None:
        """Retrain as each night."""
        ended = np.arange(np.searchsorted(self.end, at_s, side="right"))
        assert self.predictor.retrain is not None
        self.memory = self.predictor.retrain(self.memory, ended, self.columns.runtime)

    def points(self) -> np.ndarray:
        """Return the most accurate points of the jobs asked about, seconds, float64 [jobs]."""
        quantiles = self.memory.keys.shape[1] * job_features.PER_LEVEL + job_features.COMMON
        told = self.memory.jobs[:, quantiles + len(self.plan.levels)]
        return np.clip(told, 1.0, self.columns.requested)

    def _arrays(self) -> tuple[np.ndarray, ...]:
        """Return views of the memory.

        Calibrated levels, their tilt, work by size; nodes, thresholds and leaves of the current trees.
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
            model[at_leaves:].reshape(*shape, quantile.LEAF)[:trees],
        )

    def _take(self, forest: Forest) -> None:
        if self.plan != forest.plan or not fits(forest):
            raise ValueError("this accounting, or this Queuecast, has no such forest: it can only be trained anew")
        self.memory.model[quantile.GROWN] = len(forest.nodes)
        calibrated, tilt, work, nodes, thresholds, leaves = self._arrays()
        calibrated[:], tilt[:], nodes[:], thresholds[:] = forest.calibrated, forest.tilt, forest.nodes, forest.thresholds
        if len(forest.nodes) == 1:  # no trees yet: the one leaf learns from the replay
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
        return Forest(self.plan, nodes.copy(), thresholds.copy(), counts, *dated, self._groups(), at_s)

    def _groups(self) -> pd.DataFrame:
        memory, tables = self.memory, []
        for number, level in enumerate(self.plan.alike):
            group, row = np.unique(memory.keys[:, number], return_index=True)
            row = row[(group >= 0) & (memory.users[group, job_features.COUNT] > 0)]
            table = self.jobs.iloc[row][list(level)].reset_index(drop=True).reindex(columns=list(KEYS))
            tables.append(table.assign(level=np.int64(number), group_number=memory.keys[row, number]))
        if not tables:
            raise ValueError("no job has ended")
        table = pd.concat(tables, ignore_index=True)
        text = {name: table[name].astype("str") for name in KEYS[:3]}
        whole = {name: table[name].astype("Int64") for name in KEYS[3:]}
        known = memory.users[table["group_number"].to_numpy(np.int64)]
        return pd.DataFrame({"level": table["level"], **text, **whole, **_remembered(known)})


def _remembered(known: np.ndarray) -> dict[str, np.ndarray]:
    """Return the groups' state for ``job_features.describe``, from rows of ``Memory.users``."""
    ring, recent = job_features.RING, job_features.RECENT
    ended = known[:, job_features.COUNT].astype(np.int64)
    each, some = np.arange(len(known)), np.minimum(ended, recent)
    second_last = np.where(ended > 1, known[each, ring + (ended - 2) % recent], job_features.UNKNOWN)
    return {
        "ended": ended,
        "last_end_s": known[:, job_features.LAST_END].astype(np.int64),
        "last": known[each, ring + (ended - 1) % recent],
        "second_last": second_last,
        "median": known[each, job_features.SORTED + some // 2],
        "quartile": known[each, job_features.SORTED + some // 4],
        "third_quartile": known[each, job_features.SORTED + 3 * some // 4],
    }


@njit
def _events(memory, jobs, end, events, since):
    """Process ``events`` in order: twice a job's number, plus one for a submission."""
    model, quantiles = memory.model, job_features.width(memory)
    for event in events:
        job = event // 2
        grown = model[quantile.GROWN] > 1.0
        if event % 2 == 1:
            # levels will learn from jobs that run on after ``since``, so these are asked about
            if jobs.submit[job] > since or (grown and end[job] > since):
                quantile.estimate(memory, job, jobs)
            else:
                job_features.describe(memory, job, jobs)
        elif end[job] > since and memory.jobs[job, quantiles] > 0.0:
            quantile.learn(memory, job, jobs, end[job])
        else:
            if end[job] > since or not grown:  # the forest, or the one leaf there is before there is a forest
                work = quantile.work_at(np.int64(model[quantile.LEVELS]))
                levels.weigh(model, work, jobs.procs[job], jobs.requested[job], jobs.runtime[job])
                for tree in range(np.int64(model[quantile.GROWN])):
                    quantile.count(memory, job, jobs.runtime[job], tree)
            job_features.remember(memory, job, jobs.runtime[job], end[job])
