"""SP-x, "survival probability x percent": a runtime that at most x % of past jobs exceed.

Lamar et al. 2021 (CLUSTER). Jobs with equal executable, user, request and processors form a group, a list of points: a
runtime and its weight. The group starts with one point at the request, of weight ``seed`` times the request. A job's
end multiplies all weights by ``decay`` and adds a point at its runtime, with the runtime as weight. The prediction is
the smallest of these runtimes whose cumulative weight reaches 1 - x/100 of the total, without interpolation. The
authors' program wants the share exceeded, spares the seed the first decay and starts its running sum of weights at 1,
whatever the seed's weight: about one prediction in a hundred is longer there. A missing executable is a value of its
own, as in that program, because most traces name none; a job without a known user gets its request. The prediction for
a job that has run for some time uses only the longer points, or the request if none is left.
"""

from __future__ import annotations

import numpy as np

from features.deferred import pd
from features.jit import kernel
from features.jobs.schema import alike
from models.runtime.memory import Memory
from models.runtime.options import Option, read, shortest, spelled
from models.runtime.protocol import CompiledPredictor

SURVIVAL = 4
"""Code of this predictor inside the kernel."""
OPTIONS = {
    "x": Option(3.0, above=0.0, maximum=100.0),
    "decay": Option(0.9, above=0.0, maximum=1.0),
    "seed": Option(0.1, minimum=0.0),
}
PUBLISHED = ("2", "3", "4")
"""The published values of x."""
NEGLIGIBLE = 1e-20
"""A point is dropped when it weighs less than this share of the kept points that are at least as long. Both decay
alike, so its share never grows again: a million dropped points move no share of the points beyond any second by more
than 1e-14. With the usual decay a group keeps some 450 points if its runtimes vary without end, and about 7000, where a
double underflows, if they only ever fall."""
TIE = 1e-12
"""Shares with a smaller relative difference count as equal, so that neither rounding nor dropped points decide."""
SHARE, DECAY = range(2)
"""Slots of ``Memory.model``: x/100 and the decay."""
FIRST, END = range(2)
"""Columns of ``Memory.links``, whose rows here are groups: the begin of the group's points, and the place behind the
last."""
RUNTIME, WEIGHT = range(2)
"""Columns of ``Memory.jobs``, whose rows here are points: the lists of all groups in sequence, each from the longest
runtime to the shortest, with room for the group's seed and all its jobs."""


def sp(**options: str) -> CompiledPredictor:
    """Return the predictor.

    ``x`` in (0, 100] is a percentage, ``decay`` lies in (0, 1], ``seed``, a share of the request, is at least 0.
    """
    values = read(options, OPTIONS)
    x, usual = shortest(values["x"]), read({}, OPTIONS)
    preset = x in PUBLISHED and values == usual | {"x": values["x"]}
    name = f"sp{x}" if preset else spelled("sp", values, OPTIONS)
    return CompiledPredictor(name, SURVIVAL, lambda jobs: _memory(jobs, **values))


def groups(jobs: pd.DataFrame) -> np.ndarray:
    """Return each job's group, int64 [jobs], numbered from 0; -1 without a known user."""
    has_user, numbers = jobs["user"].notna().to_numpy(), np.full(len(jobs), -1, np.int64)
    numbers[has_user] = alike([pd.factorize(jobs[key])[0][has_user] for key in ("executable", "user", "requested_s", "procs")])
    return numbers


def _memory(jobs: pd.DataFrame, x: float, decay: float, seed: float) -> Memory:
    group = groups(jobs)
    _, member, size = np.unique(group[group >= 0], return_index=True, return_counts=True)
    limit = jobs["requested_s"].to_numpy(np.float64)[group >= 0][member]
    first = np.cumsum(size + 1) - (size + 1)
    points = np.zeros((int(size.sum()) + len(size), 2))
    points[first, RUNTIME] = limit
    points[first, WEIGHT] = seed * limit
    return Memory(jobs=points, links=np.column_stack([first, first + 1]), keys=group[:, None], model=np.array([x / 100, decay]))


@kernel
def estimate(memory, row, requested, longer):
    """Return the quantile of the runtimes beyond ``longer`` seconds."""
    group = memory.keys[row, 0]
    if group >= 0:
        points, first = memory.jobs, memory.links[group, FIRST]
        end, total = first, 0.0
        while end < memory.links[group, END] and points[end, RUNTIME] > longer:
            total += points[end, WEIGHT]
            end += 1
        may_survive, above = memory.model[SHARE] * total * (1.0 + TIE), 0.0
        for i in range(first, end):
            above += points[i, WEIGHT]
            if above > may_survive or i == end - 1:
                return points[i, RUNTIME]
    return 1.0 * requested


@kernel
def tell_quantiles(memory, row, requested, quantiles, to):
    """Write the group's weighted quantiles at evenly spaced levels to ``quantiles[to]``.

    They do not depend on ``x``.
    """
    group, levels = memory.keys[row, 0], quantiles.shape[1]
    if group < 0:
        for level in range(levels):
            quantiles[to, level] = requested
        return
    points, at, end = memory.jobs, memory.links[group, FIRST], memory.links[group, END]
    total = 0.0
    for i in range(at, end):
        total += points[i, WEIGHT]
    above = points[at, WEIGHT]
    for level in range(levels - 1, -1, -1):
        may_survive = (levels - level) / (levels + 1) * total * (1.0 + TIE)
        while above <= may_survive and at < end - 1:
            at += 1
            above += points[at, WEIGHT]
        quantiles[to, level] = np.int64(points[at, RUNTIME])


@kernel
def learn(memory, row, runtime):
    group = memory.keys[row, 0]
    if group >= 0:
        points, first = memory.jobs, memory.links[group, FIRST]
        end, at_least_as_long = first, 0.0
        for i in range(first, memory.links[group, END]):
            weight = memory.model[DECAY] * points[i, WEIGHT]
            if weight > NEGLIGIBLE * at_least_as_long:
                points[end, RUNTIME] = points[i, RUNTIME]
                points[end, WEIGHT] = weight
                at_least_as_long += weight
                end += 1
        i = end
        while i > first and points[i - 1, RUNTIME] <= runtime:  # goes before equal runtimes, which become negligible earlier
            points[i, RUNTIME] = points[i - 1, RUNTIME]
            points[i, WEIGHT] = points[i - 1, WEIGHT]
            i -= 1
        points[i, RUNTIME] = runtime
        points[i, WEIGHT] = runtime
        memory.links[group, END] = end + 1
