"""``quantile``: the distribution of a job's runtime at submission and while it runs.

An online quantile regression forest (Meinshausen 2006). Its trees are grown on the logarithm of runtime; a leaf holds three
histograms of its jobs: of runtimes, of runtimes relative to that of the last similar job, and of runtimes relative to requests,
fine next to the request (:mod:`models.runtime.ratios`). A job's distribution mixes the three, each the mean over the job's
leaves, with a little of the runtimes of all jobs. Leaves learn at once from every job that ends; at each midnight new trees
replace the oldest. Levels are calibrated online, the upper ones also in processor-seconds (:mod:`models.runtime.levels`).

Different questions get different answers: the quantile ``order`` for a job's place in the queue, ``fit`` for whether it ends
before a reservation, ``end`` for when it will end once it runs, and again ``end`` given how long it has run.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from features.jit import apart, kernel, njit
from models import regression_tree
from models.runtime import job_features
from models.runtime.job_features import ALIKE, COMMON, LOG_REQUEST, PER_LEVEL, describe, width
from models.runtime.levels import TILTING, UPPER, WORK, place_of, smaller, taken, weigh
from models.runtime.memory import Memory
from models.runtime.options import check_known, number, shortest, spelled, whole
from models.runtime.protocol import END, FIT, ORDER, CompiledPredictor
from models.runtime.ratios import AT_REQUEST, CELLS, CENTRES, ENDS, STEP, cell_of
from models.trees import leaf_of

QUANTILE = 9
"""Code of this predictor inside the kernel."""
USUAL = {"order": "0.5", "fit": "0.8", "end": "0.7", "rate": "0.002", "seed": "0"}
"""``rate``: on first halves of KTH-SP2, SDSC-SP2 and ALCF-Theta the mean quantile loss is 0.2 to 0.8 % lower than at 0.005.
``order``, ``fit``, ``end`` are by schedules of the first halves of KTH-SP2 and SDSC-SP2, with an earlier forest."""
ACCURATE = "accuracy"
"""Instead of a level: the prediction with the highest expected accuracy min(p/r, r/p)."""
TREES, NEW_TREES = 40, 2
"""Number of trees in the forest, and of those replaced each midnight."""
LEAVES, MIN_JOBS_IN_LEAF, FEATURE_SHARE, JOB_SHARE = 128, 8, 0.6, 0.6
"""Of each tree: max leaves, min jobs in a leaf, share of features per split, and share of jobs per tree. With LightGBM's
trees, on the first half of KTH-SP2, the mean quantile loss, 1,228 s, stays within 0.6 % with half as many trees or twice as
many new ones, with 0.3 or all of the features, with 0.9 of the jobs. It is 1.2 % higher with 0.3 of the jobs, 1.3 % with
leaves of 20, 0.7 % with 64 leaves. With 256 leaves a min of 4 or 8 jobs makes no difference."""
SHAPE = regression_tree.Shape(LEAVES, MIN_JOBS_IN_LEAF, FEATURE_SHARE, JOB_SHARE)
LEARNED_JOBS = 5000
"""Max most recent ended jobs for a new tree. On the first half of KTH-SP2 2,500 have 1.1 % more loss, 10,000 0.1 % less."""
NEW_EDGES = 0.04
"""Bin edges are chosen anew when more than this share of the learned jobs has ended since. On first halves the loss equals
that of nightly edges; with 0.125 it is 0.5 % higher on ALCF-Theta, 0.1 % on LANL-CM5, equal on KTH-SP2 and SDSC-SP2."""
ENOUGH = 100
"""Min ended jobs for growing trees; before that one leaf holds all jobs. Not tuned."""
BINS = 256
"""Number of bins of runtimes, each ``STEP`` wide in their logarithm: 6 %, up to 100 days."""
REACH = 96
"""Relative runtimes have bins up to ``REACH`` steps, a factor of 400, on either side. Not tuned."""
SHARES = (0.16, 0.16, 0.65, 0.03)
"""Weights of histograms in the distribution for quantiles: runtimes, relative to the last similar job, relative to requests,
and runtimes of all jobs. A quantile's loss counts seconds, so jobs with long requests dominate it, and those use similar
shares of their requests. Chosen among about ten on first halves: against (0.3, 0.2, 0.5, 0) the mean loss is 1 % lower on
KTH-SP2 and equal on SDSC-SP2 and ALCF-Theta. The runtimes of all jobs serve the lowest levels, 0.05 and 0.1. More of the
third would be 1 % better on KTH-SP2 and 2 % worse on LANL-CM5."""
POINT_SHARES = (0.3, 0.2, 0.5, 0.0)
"""The same for the prediction with the highest accuracy, where short jobs count as much as long ones. On the first halves of
KTH-SP2, SDSC-SP2 and ALCF-Theta its accuracy is 0.1 to 0.4 points above that with (0.2, 0.2, 0.6, 0)."""
RELATIVE = BINS
RATIO = RELATIVE + 2 * REACH + 1
MEMBERS = RATIO + CELLS
LEAF = MEMBERS + 1
"""A leaf: ``BINS`` counts of runtimes, then of relative runtimes, ``CELLS`` of runtimes relative to requests, number of jobs."""
REGULAR = np.arange(1, 40) / 40
"""Levels kept for each distribution, besides those of the options."""

(GROWN, NEXT_TREE, BINNED, EDGED, RATE, ORDER_AT, FIT_AT, END_AT, LEVELS, LEVEL) = range(10)
"""Slots of ``Memory.model``: number of trees, the next to replace, ended jobs when bins were last found and when edges were
chosen, step of calibration, each answer's index of its level, number of levels. Then levels, their calibrated values,
tilts, ``WORK``, the bins of all jobs of the first tree, scratch, thresholds of trees, leaves of trees, edges of bins."""


def quantile(**options: str) -> CompiledPredictor:
    """Return the predictor.

    ``order`` is a level in (0, 1) or ``accuracy``, ``fit`` and ``end`` are levels, ``rate`` in (0, 1) is the step of calibration.
    """
    for option in options:
        check_known(option, tuple(USUAL))
    given = USUAL | options
    asked = {question: given[question] for question in ("order", "fit", "end")}
    accurate = asked["order"] == ACCURATE
    levels = {
        question: number(f"{question}={text}", text, minimum=0.001, maximum=0.999)
        for question, text in asked.items()
        if text != ACCURATE or question != "order"
    }
    rate = number(f"rate={given['rate']}", given["rate"], minimum=0.0, maximum=1.0)
    seed = whole(f"seed={given['seed']}", given["seed"], minimum=0, maximum=2**31 - 1)
    given |= {question: shortest(level) for question, level in levels.items()} | {"rate": shortest(rate), "seed": str(seed)}
    table = np.unique(np.concatenate([REGULAR, list(levels.values())]))

    def memory(jobs: pd.DataFrame) -> Memory:
        features = job_features.features(len(job_features.levels_of(jobs)))
        model = np.zeros(edges_at(len(table)) + features * (regression_tree.BINS - 1))
        model[GROWN] = 1.0  # one leaf
        model[RATE], model[LEVELS] = rate, len(table)
        model[ORDER_AT] = -1.0 if accurate else np.searchsorted(table, levels["order"])
        model[FIT_AT], model[END_AT] = np.searchsorted(table, levels["fit"]), np.searchsorted(table, levels["end"])
        model[LEVEL : LEVEL + len(table)] = model[LEVEL + len(table) : LEVEL + 2 * len(table)] = table
        fresh = job_features.fresh_memory(jobs, len(table) + 1, model)
        links = np.zeros((TREES * LEAVES, 3), np.int64)
        links[:, 0] = -1
        return fresh._replace(links=links, bins=np.zeros((len(jobs), features), np.uint8))

    def retrain(memory: Memory, ended: np.ndarray, runtime: np.ndarray) -> Memory:
        if len(ended) >= ENOUGH:
            _grow(memory, ended, runtime, seed)
        return memory

    def distribution(memory: Memory) -> pd.DataFrame:
        first = memory.keys.shape[1] * PER_LEVEL + COMMON
        order = np.argsort(memory.row)
        return pd.DataFrame(memory.jobs[order, first : first + len(table)], columns=table)

    return CompiledPredictor(spelled("quantile", given, USUAL), QUANTILE, memory, retrain, distribution)


@kernel
def tilt_at(levels):
    """Return where in ``Memory.model`` the tilts of the levels begin."""
    return LEVEL + 2 * levels


@kernel
def work_at(levels):
    """Return where the record of work begins."""
    return LEVEL + 3 * levels


@kernel
def common_at(levels):
    """Return where the bins of all jobs of the first tree begin."""
    return work_at(levels) + WORK


@kernel
def mass_at(levels):
    """Return where the scratch begins: a distribution, then means over leaves of histograms."""
    return common_at(levels) + BINS


@kernel
def thresholds_at(levels):
    """Return where the thresholds of the first tree begin."""
    return mass_at(levels) + CELLS + MEMBERS


@kernel
def leaves_at(levels):
    """Return where the first leaf of the first tree begins."""
    return thresholds_at(levels) + TREES * LEAVES


@kernel
def edges_at(levels):
    """Return where the edges of the features' bins begin, the last of all."""
    return leaves_at(levels) + TREES * LEAVES * LEAF


def _grow(memory: Memory, ended: np.ndarray, runtime: np.ndarray, seed: int) -> None:
    """Replace the oldest trees, at first all, by ones grown from the last jobs that ``ended``."""
    model, rows, levels = memory.model, ended[-LEARNED_JOBS:], int(memory.model[LEVELS])
    features, target = memory.bins.shape[1], np.log(runtime[rows])
    edges = model[edges_at(levels) :].reshape(features, -1)
    fresh = ended[int(model[BINNED]) :]
    if len(ended) - model[EDGED] > NEW_EDGES * len(rows):
        edges[:], fresh, model[EDGED] = regression_tree.edges_of(memory.jobs[rows, :features]), rows, len(ended)
    regression_tree.find_bins(memory.jobs, fresh, edges, memory.bins)
    bins, model[BINNED] = memory.bins[rows], len(ended)
    random = np.array([seed * 1_000_003 + len(rows) + int(rows[-1])], np.uint64)
    first_time = model[GROWN] == 1.0
    slot = 0 if first_time else int(model[NEXT_TREE])
    for _ in range(TREES if first_time else NEW_TREES):
        first = slot * LEAVES
        thresholds = model[thresholds_at(levels) + first :][:LEAVES]
        leaf = regression_tree.grow(bins, edges, target, SHAPE, random, memory.links[first : first + LEAVES], thresholds)
        model[leaves_at(levels) + first * LEAF :][: LEAVES * LEAF] = 0.0
        if slot == 0:
            model[common_at(levels) :][:BINS] = 0.0
        _fill(memory, rows, runtime, slot, leaves_at(levels) + (first + leaf) * LEAF)
        slot = (slot + 1) % TREES
    model[GROWN], model[NEXT_TREE] = TREES, slot


@njit
def _fill(memory, rows, runtime, tree, leaf):
    """Add the jobs ``rows`` to the leaves of ``tree`` that begin at ``leaf``."""
    for i in range(len(rows)):
        _add(memory, rows[i], runtime[rows[i]], tree, leaf[i])


@kernel
def leaf_at(memory, x, tree):
    """Return the index in ``memory.model`` of the leaf of ``tree`` for ``x``."""
    levels = np.int64(memory.model[LEVELS])
    leaf = leaf_of(memory.links, tree * LEAVES, memory.model, thresholds_at(levels) + tree * LEAVES, x)
    return leaves_at(levels) + (tree * LEAVES + leaf) * LEAF


@kernel
def count(memory, job, runtime, tree):
    """Add the job's runtime to its leaf of ``tree``."""
    _add(memory, job, runtime, tree, leaf_at(memory, memory.jobs[job], tree))


@kernel
def _add(memory, job, runtime, tree, leaf):
    """Add the job's runtime to the leaf of ``tree`` that begins at ``leaf``."""
    model, x, features = memory.model, memory.jobs[job], width(memory)
    seconds, request, alike = math.log(runtime), x[features - COMMON + LOG_REQUEST], x[features - COMMON + ALIKE]
    bin_ = min(np.int64(seconds / STEP), BINS - 1)
    relative = np.int64(math.floor((seconds - alike) / STEP + 0.5))
    model[leaf + bin_] += 1.0
    model[leaf + RELATIVE + REACH + min(max(relative, -REACH), REACH)] += 1.0
    model[leaf + RATIO + cell_of(request - seconds)] += 1.0
    model[leaf + MEMBERS] += 1.0
    if tree == 0:
        model[common_at(np.int64(model[LEVELS])) + bin_] += 1.0


@apart
def estimate(memory, job, jobs):
    """Answer ``ORDER`` for ``job``, just submitted; write its quantiles behind its features."""
    alike = describe(memory, job, jobs)
    model, x, requested = memory.model, memory.jobs[job], 1.0 * jobs.requested[job]
    request = math.log(requested)
    levels, quantiles = np.int64(model[LEVELS]), width(memory)
    mass, point = mass_at(levels), requested
    has_past = gather(memory, x)
    if has_past:
        mix(memory, alike, request, POINT_SHARES)
        point = most_accurate(model, mass, alike, request)
        mix(memory, alike, request, SHARES)
    size = smaller(model, work_at(levels), jobs.procs[job], jobs.requested[job])
    place = place_of(x[:quantiles])
    # calibrated levels may cross, quantiles may not
    cell, below, least = 0, 0.0, 1.0
    for level in range(levels):
        wanted = taken(model[LEVEL + level], model[LEVEL + levels + level], model[tilt_at(levels) + level], size)
        while cell < AT_REQUEST and below + model[mass + cell] < wanted:
            below += model[mass + cell]
            cell += 1
        while cell > 0 and below >= wanted:
            cell -= 1
            below -= model[mass + cell]
        seconds = 1.0
        if not has_past or wanted >= 1.0:
            seconds = requested
        elif cell == AT_REQUEST:
            seconds = requested if wanted - below > place * model[mass + cell] else requested - 1.0
        elif wanted > 0.0:
            share = min(max((wanted - below) / max(model[mass + cell], 1e-300), 0.0), 1.0)
            short = ENDS[cell] + share * (ENDS[cell + 1] - ENDS[cell])
            seconds = min(np.rint(math.exp(request - short)), requested - 1.0)
        least = max(least, seconds)
        x[quantiles + level] = least
    x[quantiles + levels] = point
    return answer_to(memory, ORDER, job)


@kernel
def gather(memory, x):
    """Write mean histograms of a job's leaves to the scratch; tell whether any holds a job."""
    model = memory.model
    first = mass_at(np.int64(model[LEVELS])) + CELLS
    seen = model[first : first + MEMBERS]  # adding views is twice as fast as indexing the whole
    seen[:] = 0.0
    trees = 0
    for tree in range(np.int64(model[GROWN])):
        leaf = leaf_at(memory, x, tree)
        if model[leaf + MEMBERS] > 0.0:
            trees += 1
            weight, counts = 1.0 / model[leaf + MEMBERS], model[leaf : leaf + MEMBERS]
            for i in range(MEMBERS):
                seen[i] += weight * counts[i]
    for i in range(MEMBERS):
        seen[i] /= max(trees, 1)
    return trees > 0


@kernel
def mix(memory, alike, request, shares):
    """Mix a job's gathered histograms into a distribution over the cells, in the scratch.

    Cells are those of :mod:`models.runtime.ratios`.
    """
    model = memory.model
    levels = np.int64(model[LEVELS])
    mass, common = mass_at(levels), common_at(levels)
    seen = mass + CELLS
    total = 0.0
    for i in range(BINS):
        total += model[common + i]
    for i in range(CELLS):
        model[mass + i] = shares[2] * model[seen + RATIO + i]
    for i in range(BINS):
        weight = shares[0] * model[seen + i] + shares[3] * model[common + i] / max(total, 1.0)
        if weight > 0.0:
            model[mass + cell_of(request - (i + 0.5) * STEP)] += weight
    for i in range(2 * REACH + 1):
        weight = shares[1] * model[seen + RELATIVE + i]
        if weight > 0.0:
            model[mass + cell_of(request - alike - (i - REACH) * STEP)] += weight


@kernel
def most_accurate(model, mass, alike, request):
    """Return the seconds p with the highest mean of min(p/r, r/p) over the distribution.

    Within a step of the last similar runtime, p is that runtime.
    """
    above = 0.0
    for cell in range(CELLS):
        above += model[mass + cell] / CENTRES[cell]
    best, chosen, below = -1.0, AT_REQUEST, 0.0
    for cell in range(CELLS):
        below += model[mass + cell] * CENTRES[cell]
        above -= model[mass + cell] / CENTRES[cell]
        value = below / CENTRES[cell] + above * CENTRES[cell]
        if value > best:
            best, chosen = value, cell
    seconds = request + math.log(CENTRES[chosen])
    if chosen < AT_REQUEST and abs(seconds - alike) <= STEP:
        seconds = alike
    return max(np.rint(math.exp(seconds)), 1.0)


@kernel
def answer_to(memory, question, job):
    """Answer one of the questions for a job that was estimated."""
    model, quantiles = memory.model, width(memory)
    at = model[FIT_AT] if question == FIT else model[END_AT] if question == END else model[ORDER_AT]
    if at < 0.0:
        return memory.jobs[job, quantiles + np.int64(model[LEVELS])]
    return memory.jobs[job, quantiles + np.int64(at)]


@kernel
def tell_quantiles(memory, job, quantiles, row):
    """Write the quantiles of a job just estimated at evenly spaced levels of ``REGULAR``."""
    model, first, levels, kept = memory.model, width(memory), quantiles.shape[1], 0
    for level in range(levels):
        while model[LEVEL + kept] < (level + 1) / (levels + 1) - 1e-9:
            kept += 1
        quantiles[row, level] = np.int64(memory.jobs[job, first + kept])


@apart
def estimate_again(memory, job, requested, elapsed):
    """Return the quantile ``end`` of the runtimes longer than ``elapsed`` seconds.

    The distribution is that of the job's submission. Between the kept levels the logarithm of runtime is assumed uniform; level 0
    is a second and level 1 the request.
    """
    model, levels, quantiles = memory.model, np.int64(memory.model[LEVELS]), width(memory)
    x = memory.jobs[job]
    passed = 0.0
    low, high, seconds, longer = 0.0, 0.0, 1.0, 1.0
    for level in range(levels + 1):
        low, seconds = high, longer
        high = model[LEVEL + level] if level < levels else 1.0
        longer = x[quantiles + level] if level < levels else 1.0 * requested
        if longer > elapsed:
            passed = low
            if elapsed > seconds:
                passed += (high - low) * math.log(elapsed / seconds) / math.log(longer / seconds)
            break
    wanted = passed + model[LEVEL + np.int64(model[END_AT])] * (1.0 - passed)
    low, high, seconds, longer = 0.0, 0.0, 1.0, 1.0
    for level in range(levels + 1):
        low, seconds = high, longer
        high = model[LEVEL + level] if level < levels else 1.0
        longer = x[quantiles + level] if level < levels else 1.0 * requested
        if high >= wanted:
            break
    share = (wanted - low) / (high - low)
    return max(np.rint(seconds * math.exp(share * math.log(longer / seconds))), elapsed + 1.0)


@apart
def learn(memory, job, jobs, now):
    """Learn from ``job``, which has ended: calibrate levels, update leaves and groups."""
    model, x, quantiles, runtime = memory.model, memory.jobs[job], width(memory), jobs.runtime[job]
    levels = np.int64(model[LEVELS])
    weight = weigh(model, work_at(levels), jobs.procs[job], jobs.requested[job], runtime)
    for level in range(levels):
        outlived = 1.0 if runtime > x[quantiles + level] else 0.0
        error = outlived - (1.0 - model[LEVEL + level])
        model[LEVEL + levels + level] += model[RATE] * error
        if model[LEVEL + level] >= UPPER:
            model[tilt_at(levels) + level] += TILTING * model[RATE] * weight * error
    for tree in range(np.int64(model[GROWN])):
        count(memory, job, runtime, tree)
    job_features.remember(memory, job, runtime, now)
