"""The kernels of ``quantile``: a forest's answers, and how its leaves and levels learn.

Simulator, training and registered models run this file: compiled here, and as plain Python where a registered model is
loaded without Queuecast.

Runtimes relative to the request have cells that are fine next to the request. Runtimes are cut at the request, and many
jobs run to it or are killed seconds before it. A cell is a range of ln(request / runtime): ``STEP`` wide far from the
request, down to 0.05 % next to it; the last cell is the request itself.
"""

from __future__ import annotations

import math

import numpy as np

from features.jit import COMPILED, apart, kernel
from features.jobs.like_jobs import ALIKE, COMMON, LOG_REQUEST
from models.runtime.levels import TILTING, UPPER, WORK, place_of, smaller, taken, weigh
from models.runtime.memory import width
from models.trees import leaf_of


@kernel
def add_weighted(total, weights, table, rows):
    """Add four ``rows`` of ``table``, times ``weights``, to ``total``, an array of float64.

    The sums are those of adding one row after the other.
    """
    (a, b, c, d), (e, f, g, h) = weights, rows
    if COMPILED:
        for i in range(len(total)):
            total[i] = total[i] + a * table[e, i] + b * table[f, i] + c * table[g, i] + d * table[h, i]
    else:
        for weight, row in zip(weights, rows):  # noqa: B905  both are four
            total += np.float64(weight) * table[row, : len(total)]


STEP = 0.0625
"""Cells far from the request are 6 % of the runtime wide, the max error of a quantile there. Not tuned."""
FINE = (0.032, 0.016, 0.008, 0.004, 0.002, 0.001, 0.0005)
"""Starts of the cells next to the request. Against one cell of ``STEP`` the loss at 0.8 falls by 2 to 6 % on the first
half of KTH-SP2, where half of the jobs with a long request end within 0.2 % of it."""
FAR = 192
"""Number of cells of ``STEP``: down to a runtime 160,000 times shorter than the request."""
ENDS = np.array([*(STEP * np.arange(FAR, 0, -1)), *FINE, 0.0])
"""Start of each cell, which is the end of the one before. Runtimes ascend: the first cell has the shortest."""
CELLS = len(ENDS)
AT_REQUEST = CELLS - 1
"""The last cell."""
CENTRES = np.exp(-np.append((ENDS[1:] + ENDS[:-1]) / 2.0, 0.0))
"""The middle of each cell, as a share of the request."""
SLACK = 1e-9
"""Max rounding error of a logarithm."""


@kernel
def cell_of(short):
    """Return the cell of a runtime given ``short``, which is ln(request / runtime).

    Runtimes from the request on are in the last cell, those shorter than the first cell in the first.
    """
    short -= SLACK
    if short > ENDS[FAR]:
        return max(FAR - np.int64(math.ceil(short / STEP)), 0)
    cell = AT_REQUEST
    while short > ENDS[cell]:
        cell -= 1
    return cell


TREES, LEAVES = 40, 128
"""Number of trees in the forest, and max leaves of each."""
BINS = 256
"""Number of bins of runtimes, each ``STEP`` wide in their logarithm: 6 %, up to 100 days."""
REACH = 96
"""Relative runtimes have bins up to ``REACH`` steps, a factor of 400, on either side. Not tuned."""
SHARES = (0.16, 0.16, 0.65, 0.03)
"""Weights of histograms in the distribution for quantiles: runtimes, relative to the last similar job, relative to
requests, and runtimes of all jobs. A quantile's loss counts seconds, so jobs with long requests dominate it, and those
use similar shares of their requests. Chosen among about ten on first halves: against (0.3, 0.2, 0.5, 0) the mean loss
is 1 % lower on KTH-SP2 and equal on SDSC-SP2 and ALCF-Theta. The runtimes of all jobs serve the lowest levels, 0.05 and
0.1. More of the third would be 1 % better on KTH-SP2 and 2 % worse on LANL-CM5."""
POINT_SHARES = (0.3, 0.2, 0.5, 0.0)
"""The same for the prediction with the highest accuracy, where short jobs count as much as long ones. On the first
halves of KTH-SP2, SDSC-SP2 and ALCF-Theta its accuracy is 0.1 to 0.4 points above that with (0.2, 0.2, 0.6, 0)."""
RELATIVE = BINS
RATIO = RELATIVE + 2 * REACH + 1
MEMBERS = RATIO + CELLS
LEAF = MEMBERS + 1
"""A leaf: ``BINS`` counts of runtimes, then of relative runtimes, ``CELLS`` of runtimes relative to requests, number of
jobs."""
(GROWN, NEXT_TREE, BINNED, EDGED, RATE, ORDER_AT, FIT_AT, END_AT, LEVELS, LEVEL) = range(10)
"""Slots of ``Memory.model``: number of trees, the next to replace, ended jobs when bins were last found and when edges
were chosen, step of calibration, each answer's index of its level, number of levels. Then levels, their calibrated
values, tilts, ``WORK``, the bins of all jobs of the first tree, thresholds of trees, scratch, edges of bins. Leaves are
in ``Memory.leaves``, a row for each leaf of each tree."""


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
def thresholds_at(levels):
    """Return where the thresholds of the first tree begin."""
    return common_at(levels) + BINS


@kernel
def mass_at(levels):
    """Return where the scratch begins: a distribution, then means over leaves of histograms."""
    return thresholds_at(levels) + TREES * LEAVES


@kernel
def edges_at(levels):
    """Return where the edges of the features' bins begin, the last of all."""
    return mass_at(levels) + CELLS + MEMBERS


@kernel
def leaf_at(memory, x, tree):
    """Return the row of ``memory.leaves`` of the leaf of ``tree`` for ``x``."""
    first, thresholds = tree * LEAVES, thresholds_at(int(memory.model[LEVELS]))
    return first + leaf_of(memory.links, first, memory.model, thresholds + first, x)


@kernel
def count(memory, job, runtime):
    """Add the job's runtime to its leaf of every tree."""
    places = places_of(memory, job, runtime)
    for tree in range(int(memory.model[GROWN])):
        add(memory, places, tree, leaf_at(memory, memory.jobs[job], tree))


@kernel
def places_of(memory, job, runtime):
    """Return the three places of the job's runtime in any leaf."""
    x, common = memory.jobs[job], width(memory) - COMMON
    seconds, request, alike = math.log(runtime), x[common + LOG_REQUEST], x[common + ALIKE]
    relative = math.floor((seconds - alike) / STEP + 0.5)
    return (
        min(int(seconds / STEP), BINS - 1),
        RELATIVE + REACH + min(max(relative, -REACH), REACH),
        RATIO + cell_of(request - seconds),
    )


@kernel
def add(memory, places, tree, row):
    """Add a job at its ``places`` to the leaf of ``tree`` in a ``row`` of ``memory.leaves``."""
    leaf = memory.leaves[row]
    for place in places:
        leaf[place] += 1.0
    leaf[MEMBERS] += 1.0
    if tree == 0:
        memory.model[common_at(int(memory.model[LEVELS])) + places[0]] += 1.0


@apart
def distribute(memory, job, jobs):
    """Write a job's quantiles, and its most accurate point, behind its features."""
    model, x, requested = memory.model, memory.jobs[job], 1.0 * jobs.requested[job]
    levels, quantiles = int(model[LEVELS]), width(memory)
    request, alike = math.log(requested), x[quantiles - COMMON + ALIKE]
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


@kernel
def gather(memory, x):
    """Write mean histograms of a job's leaves to the scratch; tell whether any holds a job."""
    first = mass_at(int(memory.model[LEVELS])) + CELLS
    seen = memory.model[first : first + MEMBERS]
    seen[:] = 0.0
    trees = 0
    for tree in range(0, TREES, 4):
        rows = leaf_at(memory, x, tree), leaf_at(memory, x, tree + 1), leaf_at(memory, x, tree + 2), leaf_at(memory, x, tree + 3)
        weights = share_in(memory, rows[0]), share_in(memory, rows[1]), share_in(memory, rows[2]), share_in(memory, rows[3])
        for weight in weights:
            trees += weight > 0.0
        add_weighted(seen, weights, memory.leaves, rows)
    seen /= max(trees, 1)
    return trees > 0


@kernel
def share_in(memory, row):
    """Return the share of one job in a leaf, 0 if it holds none."""
    members = np.float64(memory.leaves[row, MEMBERS])
    return 1.0 / members if members > 0.0 else 0.0


@kernel
def mix(memory, alike, request, shares):
    """Mix a job's gathered histograms into a distribution over the cells, in the scratch.

    Cells are those of :mod:`models.runtime.quantile_forest`.
    """
    model = memory.model
    levels = int(model[LEVELS])
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


@apart
def learn_from(memory, job, jobs):
    """Learn from ``job``, which has ended: calibrate levels, update leaves."""
    model, x, quantiles, runtime = memory.model, memory.jobs[job], width(memory), jobs.runtime[job]
    levels = int(model[LEVELS])
    weight = weigh(model, work_at(levels), jobs.procs[job], jobs.requested[job], runtime)
    for level in range(levels):
        outlived = 1.0 if runtime > x[quantiles + level] else 0.0
        error = outlived - (1.0 - model[LEVEL + level])
        model[LEVEL + levels + level] += model[RATE] * error
        if model[LEVEL + level] >= UPPER:
            model[tilt_at(levels) + level] += TILTING * model[RATE] * weight * error
    count(memory, job, runtime)


@kernel
def beyond(levels, quantiles, requested, elapsed, wanted):
    """Return the quantile ``wanted`` of a runtime beyond ``elapsed`` seconds, not rounded.

    ``quantiles`` are those of the whole runtime at ``levels``, both ascending. Between them the logarithm of runtime is
    assumed uniform; level 0 is a second and level 1 the request.
    """
    passed = 0.0
    low, high, seconds, longer = 0.0, 0.0, 1.0, 1.0
    for level in range(len(levels) + 1):
        low, seconds = high, longer
        high = levels[level] if level < len(levels) else 1.0
        longer = quantiles[level] if level < len(levels) else 1.0 * requested
        if longer > elapsed:
            passed = low
            if elapsed > seconds:
                passed += (high - low) * math.log(elapsed / seconds) / math.log(longer / seconds)
            break
    wanted = passed + wanted * (1.0 - passed)
    low, high, seconds, longer = 0.0, 0.0, 1.0, 1.0
    for level in range(len(levels) + 1):
        low, seconds = high, longer
        high = levels[level] if level < len(levels) else 1.0
        longer = quantiles[level] if level < len(levels) else 1.0 * requested
        if high >= wanted:
            break
    return seconds * math.exp((wanted - low) / (high - low) * math.log(longer / seconds))
