"""``quantile``: the distribution of a job's runtime at submission and while it runs.

An online quantile regression forest (Meinshausen 2006). Its trees are grown on the logarithm of runtime; a leaf holds
three histograms of its jobs: of runtimes, of runtimes relative to that of the last similar job, and of runtimes
relative to requests, fine next to the request (:mod:`models.runtime.quantile_forest`). A job's distribution mixes the
three, each the mean over the job's leaves, with a little of the runtimes of all jobs. Leaves learn at once from every
job that ends; at each midnight new trees replace the oldest. Levels are calibrated online, the upper ones also in
processor-seconds (:mod:`models.runtime.levels`).

Different questions get different answers: the quantile ``order`` for a job's place in the queue, ``fit`` for whether it
ends before a reservation, ``end`` for when it will end once it runs, and again ``end`` given how long it has run.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from features.deferred import pd
from features.jit import apart, kernel, njit
from features.jobs.like_jobs import features
from models import regression_tree
from models.runtime import quantile_forest as forest
from models.runtime.job_features import describe, fresh_memory, remember
from models.runtime.memory import Memory, width
from models.runtime.options import EVERY, SEED, Option, read, spelled
from models.runtime.protocol import END, FIT, ORDER, CompiledPredictor
from models.runtime.quantile_forest import add, beyond, common_at, distribute, edges_at, learn_from, places_of, thresholds_at

QUANTILE = 9
"""Code of this predictor inside the kernel."""
ACCURATE = "accuracy"
"""Instead of a level: the prediction with the highest expected accuracy min(p/r, r/p)."""
OPTIONS = {
    "order": Option(0.5, minimum=0.001, maximum=0.999, words=(ACCURATE,)),
    "fit": Option(0.8, minimum=0.001, maximum=0.999),
    "end": Option(0.7, minimum=0.001, maximum=0.999),
    "rate": Option(0.002, minimum=0.0, maximum=1.0),
    "seed": SEED,
    "every": EVERY,
}
"""``rate``: on first halves of KTH-SP2, SDSC-SP2 and ALCF-Theta the mean quantile loss is 0.2 to 0.8 % lower than at
0.005. ``order``, ``fit``, ``end`` are by schedules of the first halves of KTH-SP2 and SDSC-SP2, with an earlier
forest."""
NEW_TREES = 2
"""Number of trees replaced each midnight."""
MIN_JOBS_IN_LEAF, FEATURE_SHARE, JOB_SHARE = 8, 0.6, 0.6
"""Of each tree: min jobs in a leaf, share of features per split, and share of jobs per tree. With LightGBM's trees, on
the first half of KTH-SP2, the mean quantile loss, 1,228 s, stays within 0.6 % with half as many trees or twice as many
new ones, with 0.3 or all of the features, with 0.9 of the jobs. It is 1.2 % higher with 0.3 of the jobs, 1.3 % with
leaves of 20, 0.7 % with 64 leaves. With 256 leaves a min of 4 or 8 jobs makes no difference."""
SHAPE = regression_tree.Shape(forest.LEAVES, MIN_JOBS_IN_LEAF, FEATURE_SHARE, JOB_SHARE)
LEARNED_JOBS = 5000
"""Max most recent ended jobs for a new tree. On the first half of KTH-SP2 2,500 have 1.1 % more loss, 10,000 0.1 %
less."""
NEW_EDGES = 0.04
"""Bin edges are chosen anew when more than this share of the learned jobs has ended since. On first halves the loss
equals that of nightly edges; with 0.125 it is 0.5 % higher on ALCF-Theta, 0.1 % on LANL-CM5, equal on KTH-SP2 and
SDSC-SP2."""
ENOUGH = 100
"""Min ended jobs for growing trees; before that one leaf holds all jobs. Not tuned."""
REGULAR = np.arange(1, 40) / 40
"""Levels kept for each distribution, besides those of the options."""


def quantile(**options: str) -> CompiledPredictor:
    """Return the predictor.

    ``order`` is a level in (0, 1) or ``accuracy``, ``fit`` and ``end`` are levels, ``rate`` in (0, 1) is the step of
    calibration. Trees are grown at each midnight, or at each ``every``-th.
    """
    values = read(options, OPTIONS)
    levels = [-1.0 if values[question] == ACCURATE else values[question] for question in ("order", "fit", "end")]
    table = np.unique(np.concatenate([REGULAR, [level for level in levels if level > 0.0]]))

    def memory(jobs: pd.DataFrame) -> Memory:
        fresh = fresh_memory(jobs, len(table) + 1, np.zeros(0))
        return begun(fresh, table, values["rate"], levels)

    def retrain(memory: Memory, ended: np.ndarray, runtime: np.ndarray) -> Memory:
        if len(ended) >= ENOUGH:
            grow(memory, ended, runtime, values["seed"])
        return memory

    def distribution(memory: Memory) -> pd.DataFrame:
        first = features(memory.keys.shape[1])
        order = np.argsort(memory.row)
        return pd.DataFrame(memory.jobs[order, first : first + len(table)], columns=table)

    return CompiledPredictor(spelled("quantile", values, OPTIONS), QUANTILE, memory, retrain, distribution, values["every"])


def begun(fresh: Memory, table: np.ndarray, rate: float, answers: Sequence[float]) -> Memory:
    """Return a ``fresh`` memory with a forest of one leaf.

    ``table`` are the kept levels, ``rate`` is the step of calibration, ``answers`` the levels of ``ORDER``, ``FIT`` and
    ``END``, -1 for the most accurate point.
    """
    wide = features(fresh.keys.shape[1])
    model = np.zeros(edges_at(len(table)) + wide * (regression_tree.BINS - 1))
    model[forest.GROWN], model[forest.RATE], model[forest.LEVELS] = 1.0, rate, len(table)
    model[forest.ORDER_AT], model[forest.FIT_AT], model[forest.END_AT] = (
        -1.0 if at < 0 else np.searchsorted(table, at) for at in answers
    )
    model[forest.LEVEL : forest.LEVEL + len(table)] = model[forest.LEVEL + len(table) : forest.LEVEL + 2 * len(table)] = table
    links, leaves = (
        np.full((forest.TREES * forest.LEAVES, 3), 0, np.int64),
        np.zeros((forest.TREES * forest.LEAVES, forest.LEAF), np.float32),
    )
    links[:, 0] = -1
    return fresh._replace(model=model, links=links, leaves=leaves, bins=np.zeros((len(fresh.jobs), wide), np.uint8))


def usual(fresh: Memory) -> Memory:
    """Return a ``fresh`` memory with a forest of the usual options, as in the registry.

    It answers with the most accurate point.
    """
    return begun(fresh, REGULAR, OPTIONS["rate"].usual, (-1.0, OPTIONS["fit"].usual, OPTIONS["end"].usual))


def grow(memory: Memory, ended: np.ndarray, runtime: np.ndarray, seed: int) -> None:
    """Replace the oldest trees, at first all, by ones grown from the last jobs that ``ended``."""
    model, rows, levels = memory.model, ended[-LEARNED_JOBS:], int(memory.model[forest.LEVELS])
    wide, target = memory.bins.shape[1], np.log(runtime[rows])
    edges = model[edges_at(levels) :].reshape(wide, -1)
    fresh = ended[int(model[forest.BINNED]) :]
    if len(ended) - model[forest.EDGED] > NEW_EDGES * len(rows):
        edges[:] = regression_tree.edges_of(memory.jobs[regression_tree.sampled(rows), :wide])
        fresh, model[forest.EDGED] = rows, len(ended)
    regression_tree.find_bins(memory.jobs, fresh, edges, memory.bins)
    bins, model[forest.BINNED] = memory.bins[rows], len(ended)
    places, random = _places(memory, rows, runtime), np.array([seed * 1_000_003 + len(rows) + int(rows[-1])], np.uint64)
    first_time = model[forest.GROWN] == 1.0
    slot = 0 if first_time else int(model[forest.NEXT_TREE])
    for _ in range(forest.TREES if first_time else NEW_TREES):
        first = slot * forest.LEAVES
        thresholds = model[thresholds_at(levels) + first :][: forest.LEAVES]
        leaf = regression_tree.grow(bins, edges, target, SHAPE, random, memory.links[first : first + forest.LEAVES], thresholds)
        memory.leaves[first : first + forest.LEAVES] = 0.0
        if slot == 0:
            model[common_at(levels) :][: forest.BINS] = 0.0
        _fill(memory, places, slot, first + leaf)
        slot = (slot + 1) % forest.TREES
    model[forest.GROWN], model[forest.NEXT_TREE] = forest.TREES, slot


@njit
def _places(memory, rows, runtime):
    """Return the places of the jobs ``rows`` in leaves, int64 [rows, 3]."""
    places = np.empty((len(rows), 3), np.int64)
    for i in range(len(rows)):
        places[i, 0], places[i, 1], places[i, 2] = places_of(memory, rows[i], runtime[rows[i]])
    return places


@njit
def _fill(memory, places, tree, leaf):
    """Add jobs at their ``places`` to the leaves of ``tree`` in the rows ``leaf``."""
    for i in range(len(leaf)):
        add(memory, (places[i, 0], places[i, 1], places[i, 2]), tree, leaf[i])


@apart
def estimate(memory, job, jobs):
    """Answer ``ORDER`` for ``job``, just submitted; write its quantiles behind its features."""
    describe(memory, job, jobs)
    distribute(memory, job, jobs)
    return answer_to(memory, ORDER, job)


@kernel
def answer_to(memory, question, job):
    """Answer one of the questions for a job that was estimated."""
    model, quantiles = memory.model, width(memory)
    at = model[forest.FIT_AT] if question == FIT else model[forest.END_AT] if question == END else model[forest.ORDER_AT]
    if at < 0.0:
        return memory.jobs[job, quantiles + int(model[forest.LEVELS])]
    return memory.jobs[job, quantiles + np.int64(at)]


@kernel
def tell_quantiles(memory, job, quantiles, row):
    """Write the quantiles of a job just estimated at evenly spaced levels of ``REGULAR``."""
    model, first, levels, kept = memory.model, width(memory), quantiles.shape[1], 0
    for level in range(levels):
        while model[forest.LEVEL + kept] < (level + 1) / (levels + 1) - 1e-9:
            kept += 1
        quantiles[row, level] = np.int64(memory.jobs[job, first + kept])


@apart
def estimate_again(memory, job, requested, elapsed):
    """Return the quantile ``end`` of the runtimes longer than ``elapsed`` seconds.

    The distribution is that of the job's submission.
    """
    model, x, quantiles = memory.model, memory.jobs[job], width(memory)
    levels, wanted = model[forest.LEVEL : forest.LEVEL + int(model[forest.LEVELS])], model[forest.LEVEL + int(model[forest.END_AT])]
    exact = beyond(levels, x[quantiles : quantiles + len(levels)], requested, elapsed, wanted)
    return max(np.rint(exact), elapsed + 1.0)


@apart
def learn(memory, job, jobs, now):
    """Learn from ``job``, which has ended: calibrate levels, update leaves and groups."""
    learn_from(memory, job, jobs)
    remember(memory, job, jobs.runtime[job], now)
