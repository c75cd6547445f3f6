"""``quantile``: the whole distribution of a job's runtime, given what is known at submission and, later, that it has run this long.

A quantile regression forest (Meinshausen 2006) that never stops learning. Its trees are grown on the logarithm of runtime; a leaf holds histograms
of the jobs that fell into it: of their runtimes, of their runtimes relative to that of the last job that was alike, and how many ran to their
request. A job's distribution is the mean over the leaves it falls into. Leaves learn from every job that ends, at once; each midnight the
oldest trees make room for new ones. Levels are calibrated online by adaptive conformal inference (Gibbs & Candes 2021): where more jobs outlive the
quantile of a level than should, a higher one is taken from now on, so in the long run the share is what was asked for, whatever the forest believes.

Different questions get different answers: the quantile ``order`` for a job's place in the queue, ``fit`` for whether it ends before a
reservation, ``end`` for when it will end once it runs, and that again given how long it has run.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from features.jit import apart, kernel, njit
from models import job_features
from models.job_features import ALIKE, COMMON, LOG_REQUEST, PER_LEVEL, describe, width
from models.memory import Memory
from models.options import check_known, number, shortest, spelled, whole
from models.protocol import END, FIT, ORDER, CompiledPredictor
from models.trees import leaf_of

QUANTILE = 9
"""Code of this predictor inside the kernel."""
USUAL = {"order": "0.5", "fit": "0.8", "end": "0.7", "rate": "0.005", "seed": "0"}
ACCURATE = "accuracy"
"""Instead of a level: the prediction of the highest expected accuracy min(p/r, r/p)."""
TREES, NEW_TREES = 40, 2
"""Trees in the forest, and how many of them are new each midnight."""
LEAVES, MIN_JOBS_IN_LEAF, FEATURE_SHARE, JOB_SHARE = 128, 20, 0.6, 0.6
LEARNED_JOBS = 12_000
"""Most recent ended jobs that a new tree is grown from."""
ENOUGH = 100
"""Ended jobs below which no tree is grown: one leaf then holds all jobs."""
STEP = 0.0625
BINS = 256
"""Runtimes are counted in bins of ``STEP`` of their logarithm: 6 % wide, up to 100 days."""
REACH = 96
"""Relative runtimes are counted in bins up to ``REACH`` steps, a factor of 400, on either side."""
RELATIVE_SHARE = 0.3
"""Weight of the relative histogram in the distribution."""
AT_REQUEST = BINS
RELATIVE = AT_REQUEST + 1
MEMBERS = RELATIVE + 2 * REACH + 1
LEAF = MEMBERS + 1
"""A leaf: ``BINS`` counts of runtimes, the count of those that ran to their request, counts of relative runtimes, and the sum of it all."""
REGULAR = np.arange(1, 40) / 40
"""The levels that are kept of each distribution, besides those asked for."""

(GROWN, NEXT_TREE, RATE, ORDER_AT, FIT_AT, END_AT, LEVELS, LEVEL) = range(8)
"""Slots of ``Memory.model``: how many trees there are, which is replaced next, the step of calibration, at which of the levels the answers are, the number
of levels; then the levels, what each is calibrated to, one distribution as scratch, thresholds of trees, leaves of trees."""
MASS = AT_REQUEST + 1
"""The size of the distribution: its bins, and what runs to the request."""


def quantile(**options: str) -> CompiledPredictor:
    """The predictor; ``order`` is a level in (0, 1) or ``accuracy``, ``fit`` and ``end`` are levels, ``rate`` in (0, 1) is the step of calibration."""
    for option in options:
        check_known(option, tuple(USUAL))
    given = USUAL | options
    asked = {question: given[question] for question in ("order", "fit", "end")}
    accurate = asked["order"] == ACCURATE
    levels = {
        question: number(f"{question}={text}", text, least=0.001, most=0.999)
        for question, text in asked.items()
        if text != ACCURATE or question != "order"
    }
    rate = number(f"rate={given['rate']}", given["rate"], least=0.0, most=1.0)
    seed = whole(f"seed={given['seed']}", given["seed"], least=0, most=2**31 - 1)
    given |= {question: shortest(level) for question, level in levels.items()} | {"rate": shortest(rate), "seed": str(seed)}
    table = np.unique(np.concatenate([REGULAR, list(levels.values())]))

    def memory(jobs: pd.DataFrame) -> Memory:
        model = np.zeros(leaves_at(len(table)) + TREES * LEAVES * LEAF)
        model[GROWN] = 1.0  # one leaf
        model[RATE], model[LEVELS] = rate, len(table)
        model[ORDER_AT] = -1.0 if accurate else np.searchsorted(table, levels["order"])
        model[FIT_AT], model[END_AT] = np.searchsorted(table, levels["fit"]), np.searchsorted(table, levels["end"])
        model[LEVEL : LEVEL + len(table)] = model[LEVEL + len(table) : LEVEL + 2 * len(table)] = table
        fresh = job_features.fresh_memory(jobs, len(table) + 1, model)
        links = np.zeros((TREES * LEAVES, 3), np.int64)
        links[:, 0] = -1
        return fresh._replace(links=links)

    def retrain(memory: Memory, ended: np.ndarray, runtime: np.ndarray) -> Memory:
        if len(ended) >= ENOUGH:
            _grow(memory, ended[-LEARNED_JOBS:], runtime, seed)
        return memory

    def distribution(memory: Memory) -> pd.DataFrame:
        first = memory.keys.shape[1] * PER_LEVEL + COMMON
        order = np.argsort(memory.row)
        return pd.DataFrame(memory.jobs[order, first : first + len(table)], columns=table)

    return CompiledPredictor(spelled("quantile", given, USUAL), QUANTILE, memory, retrain, distribution)


@kernel
def mass_at(levels):
    """Where in ``Memory.model`` the scratch begins: a distribution, and relative runtimes behind it."""
    return LEVEL + 2 * levels


@kernel
def thresholds_at(levels):
    """Where the thresholds of the first tree begin."""
    return mass_at(levels) + MASS + 2 * REACH + 1


@kernel
def leaves_at(levels):
    """Where the first leaf of the first tree begins."""
    return thresholds_at(levels) + TREES * LEAVES


def _grow(memory: Memory, rows: np.ndarray, runtime: np.ndarray, seed: int) -> None:
    """Replace the oldest trees by new ones grown from the jobs ``rows``, which have ended; the first time, plant them all."""
    import lightgbm

    from models.trees import plain_trees

    model = memory.model
    first_time = model[GROWN] == 1.0
    count = TREES if first_time else NEW_TREES
    inputs = memory.jobs[rows, : memory.keys.shape[1] * PER_LEVEL + COMMON]
    slot = 0 if first_time else int(model[NEXT_TREE])
    parameters = {
        "objective": "regression",
        "boosting": "rf",
        "num_leaves": LEAVES,
        "min_data_in_leaf": MIN_JOBS_IN_LEAF,
        "feature_fraction_bynode": FEATURE_SHARE,
        "bagging_fraction": JOB_SHARE,
        "bagging_freq": 1,
        "num_threads": 1,
        "seed": (seed * 1_000_003 + len(rows) + int(rows[-1])) % 2**31,
        "deterministic": True,
        "force_row_wise": True,
        "verbosity": -1,
    }
    settings = {"verbosity": -1, "feature_pre_filter": False, "num_threads": 1, "max_bin": 63, "bin_construct_sample_cnt": 2000}
    data = lightgbm.Dataset(inputs, np.log(runtime[rows]), params=settings)
    levels = int(model[LEVELS])
    for nodes, thresholds, _ in plain_trees(lightgbm.train(parameters, data, num_boost_round=count)):
        first = slot * LEAVES
        memory.links[first : first + LEAVES] = -1
        memory.links[first : first + len(nodes)] = nodes
        model[thresholds_at(levels) + first :][: len(thresholds)] = thresholds
        model[leaves_at(levels) + first * LEAF :][: LEAVES * LEAF] = 0.0
        _fill(memory, rows, runtime, slot)
        slot = (slot + 1) % TREES
    model[GROWN], model[NEXT_TREE] = TREES, slot


@njit
def _fill(memory, rows, runtime, tree):
    """Let ``tree`` learn the jobs ``rows``."""
    for i in range(len(rows)):
        count(memory, rows[i], runtime[rows[i]], tree)


@kernel
def leaf_at(memory, x, tree):
    """Where in ``memory.model`` the leaf of ``tree`` is into which ``x`` falls."""
    levels = np.int64(memory.model[LEVELS])
    leaf = leaf_of(memory.links, tree * LEAVES, memory.model, thresholds_at(levels) + tree * LEAVES, x)
    return leaves_at(levels) + (tree * LEAVES + leaf) * LEAF


@kernel
def count(memory, job, runtime, tree):
    """Add the job's runtime to its leaf of ``tree``."""
    x, features = memory.jobs[job], width(memory)
    leaf = leaf_at(memory, x, tree)
    seconds, request, alike = math.log(runtime), x[features - COMMON + LOG_REQUEST], x[features - COMMON + ALIKE]
    if seconds >= request - 1e-9:
        memory.model[leaf + AT_REQUEST] += 1.0
    else:
        memory.model[leaf + min(np.int64(seconds / STEP), BINS - 1)] += 1.0
    relative = np.int64(math.floor((seconds - alike) / STEP + 0.5))
    memory.model[leaf + RELATIVE + REACH + min(max(relative, -REACH), REACH)] += 1.0
    memory.model[leaf + MEMBERS] += 1.0


@apart
def estimate(memory, job, jobs):
    """The answer to ``ORDER`` for ``job``, just submitted; writes its quantiles behind its features."""
    alike = describe(memory, job, jobs)
    model, x, requested = memory.model, memory.jobs[job], 1.0 * jobs.requested[job]
    request = math.log(requested)
    levels = np.int64(model[LEVELS])
    spread_mass(memory, x, alike, request)
    mass = mass_at(levels)
    quantiles = width(memory)
    # calibrated levels may cross, quantiles may not
    i, below, least = 0, 0.0, 1.0
    for level in range(levels):
        wanted = model[LEVEL + levels + level]
        while i < AT_REQUEST and below + model[mass + i] < wanted:
            below += model[mass + i]
            i += 1
        while i > 0 and below >= wanted:
            i -= 1
            below -= model[mass + i]
        if i == AT_REQUEST:
            seconds = requested
        else:
            share = min(max((wanted - below) / max(model[mass + i], 1e-300), 0.0), 1.0)
            seconds = math.exp(i * STEP + share * (min((i + 1) * STEP, request) - i * STEP))
        least = max(least, min(np.rint(seconds), requested))
        x[quantiles + level] = least
    x[quantiles + levels] = most_accurate(model, mass, alike, request)
    return answer_to(memory, ORDER, job)


@kernel
def spread_mass(memory, x, alike, request):
    """The distribution of a job, as scratch: over bins of the logarithm of runtime below its request, and at its request."""
    model = memory.model
    mass = mass_at(np.int64(model[LEVELS]))
    relative = mass + MASS
    for i in range(MASS + 2 * REACH + 1):
        model[mass + i] = 0.0
    for tree in range(np.int64(model[GROWN])):
        leaf = leaf_at(memory, x, tree)
        members = model[leaf + MEMBERS]
        if members == 0.0:
            continue
        weight = (1.0 - RELATIVE_SHARE) / members
        for i in range(MASS):
            model[mass + i] += weight * model[leaf + i]
        weight = RELATIVE_SHARE / members
        for i in range(2 * REACH + 1):
            model[relative + i] += weight * model[leaf + RELATIVE + i]
    centre = math.floor(alike / STEP) - REACH
    for i in range(2 * REACH + 1):
        model[mass + min(max(centre + i, 0), BINS - 1)] += model[relative + i]
    last = np.int64(min(request / STEP, BINS - 1.0))
    total = 0.0
    for i in range(last + 1, BINS):
        model[mass + AT_REQUEST] += model[mass + i]
        model[mass + i] = 0.0
    for i in range(MASS):
        total += model[mass + i]
    if total == 0.0:
        model[mass + AT_REQUEST] = 1.0
        return
    for i in range(MASS):
        model[mass + i] /= total


@kernel
def most_accurate(model, mass, alike, request):
    """Seconds r of the highest mean of min(p/r, r/p) over the distribution; within a step of the last runtime that was alike it is that."""
    at_request = model[mass + AT_REQUEST]
    above, all_below = 0.0, 0.0
    for i in range(BINS):
        above += model[mass + i] * math.exp(-i * STEP)
        all_below += model[mass + i] * math.exp(min((i + 0.5) * STEP, request) - request)
    best, chosen, below = at_request + all_below, request, 0.0
    for i in range(BINS):
        centre = (i + 0.5) * STEP
        if centre > request:
            break
        below = below * math.exp(-STEP) + model[mass + i]
        above -= model[mass + i] * math.exp(-i * STEP)
        value = below + above * math.exp(i * STEP) + at_request * math.exp(centre - request)
        if value > best:
            best, chosen = value, centre
    if chosen < request and abs(chosen - alike) <= STEP:
        chosen = alike
    return np.rint(math.exp(chosen))


@kernel
def answer_to(memory, question, job):
    """The answer to one of the questions, of a job whose quantiles are known."""
    model, quantiles = memory.model, width(memory)
    at = model[FIT_AT] if question == FIT else model[END_AT] if question == END else model[ORDER_AT]
    if at < 0.0:
        return memory.jobs[job, quantiles + np.int64(model[LEVELS])]
    return memory.jobs[job, quantiles + np.int64(at)]


@apart
def estimate_again(memory, job, requested, elapsed):
    """The quantile ``end`` of those runtimes that are longer than ``elapsed`` seconds, by the distribution of the job's submission.

    Between the levels that are kept, the logarithm of runtime is taken to be uniform; level 0 is a second and level 1 the request.
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
    """``job`` has ended: levels are calibrated, leaves and groups learn its runtime."""
    model, x, quantiles, runtime = memory.model, memory.jobs[job], width(memory), jobs.runtime[job]
    levels = np.int64(model[LEVELS])
    for level in range(levels):
        outlived = 1.0 if runtime > x[quantiles + level] else 0.0
        model[LEVEL + levels + level] += model[RATE] * (outlived - (1.0 - model[LEVEL + level]))
    for tree in range(np.int64(model[GROWN])):
        count(memory, job, runtime, tree)
    job_features.remember(memory, job, runtime, now)
