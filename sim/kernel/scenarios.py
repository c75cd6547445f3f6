"""Scenarios: K possible futures of all jobs, and when the head could start in each.

In scenario k each job draws its runtime from its distribution (:mod:`models.runtime.distribution`) at its own fixed
number ``uniforms[row, k]``. A job's K numbers are stratified, one in each K-th of [0, 1), in an order of its own, so
that K scenarios tell as much as many independent ones. A running job draws again, at the same numbers, each time that
it outlives one more of its quantiles; nothing else changes its draws. Each scenario has a list of the running jobs in
order of their ends; these lists are brought up to date only when a decision needs them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from features.jit import apart, kernel
from sim.kernel.state import DOUBTED, FREE

WIDTHS = 256
"""Rows of ``Scenarios.until``. A number of processors uses the row of its low bits, and may share it with others."""

GONE = -1
"""Value in ``Scenarios.outlived``: the job no longer runs."""

OUT_OF_REACH = 1 << 61

RETOLD = -2
"""Value in ``Scenarios.outlived``: the job has new quantiles and has outlived none of them."""

TAKEN, SEEN_ENDS, STARVED, QUEUED, RUNNING, LISTED, HEAD_JOB, STARTS, STAMP, NUMBERS = range(10)
"""Slots of ``Scenarios.numbers``. So far: jobs TAKEN into the queue, ended jobs noted (SEEN_ENDS), STARVED jobs moved
up. QUEUED: jobs in ``queue``; RUNNING: jobs in ``running``; LISTED: the first of these, which are in the lists.
HEAD_JOB: the job whose starts ``head`` holds, plus one; STARTS: the sum of these starts; STAMP: the stamp of valid rows
in ``until``."""

START, AVAILABLE, POSITION = range(3)
"""Rows of ``Scenarios.head``. On nodes AVAILABLE is the number of chunks with room beyond the head's, POSITION the
cluster."""

FOUND_AT, FOUND_FOR, FOUND = range(3)
"""Columns of ``Scenarios.until``: the stamp and the key (processors or kind) of a result, and its first value."""


class Room(NamedTuple):
    """The number of chunks of one job that have room, int64.

    Per node ``node`` [nodes] and per cluster ``total`` [clusters] after the ends applied so far, ``first`` and
    ``first_total`` before any end. ``gain`` [jobs]: how many more have room once a running job has ended; UNKNOWN: to
    be computed on its nodes.
    """

    node: np.ndarray
    total: np.ndarray
    first: np.ndarray
    first_total: np.ndarray
    gain: np.ndarray


class Tables(NamedTuple):
    """Tables for scenarios on nodes, int64; empty on the single pool.

    Room for chunks of the ``head``, and of an ``other`` job that may run beside it. ``delayed`` [a power of two, FOUND
    + K]: when the head could start if a job of a kind stayed in a cluster for ever. ``sole`` [nodes]: the only running
    job on a node.
    """

    head: Room
    other: Room
    delayed: np.ndarray
    sole: np.ndarray


class Scenarios(NamedTuple):
    """Arrays of an algorithm that weighs scenarios.

    By rows of the given table: ``uniforms`` float64 [rows, K] and ``quantiles`` int64 [rows, levels]. ``seconds`` int64
    [jobs, K]: drawn runtimes. ``outlived`` int64 [jobs]: how many of its quantiles a running job has outlived.
    ``running`` int64 [most]: running jobs in order of start. ``ends`` and ``owner`` int64 [K, most]: the ascending ends
    of each scenario, and their jobs. ``head`` int64 [3, K]: when the head can start, the processors free then, and how
    many ends that takes. ``until`` int64 [WIDTHS, FOUND + K]: when the head could start beside a job of a width that
    never ends; on nodes, when a job of a kind could start beside the head. ``queue`` int64 [jobs]: waiting jobs in
    order. ``facts`` float64 [jobs, FACTS]: values computed at submission. ``scales`` float64: constants and running
    sums of :mod:`sim.kernel.harm`. ``tables``: see :class:`Tables`.
    """

    numbers: np.ndarray
    scales: np.ndarray
    uniforms: np.ndarray
    quantiles: np.ndarray
    seconds: np.ndarray
    outlived: np.ndarray
    running: np.ndarray
    ends: np.ndarray
    owner: np.ndarray
    head: np.ndarray
    until: np.ndarray
    queue: np.ndarray
    facts: np.ndarray
    tables: Tables


def _nothing(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.int64)


_ROWS, _TABLE = _nothing(0), _nothing(0, 0)
NO_TABLES = Tables(Room(*[_ROWS] * 5), Room(*[_ROWS] * 5), _TABLE, _ROWS)
NO_SCENARIOS = Scenarios(
    numbers=_nothing(NUMBERS),
    scales=np.zeros(0),
    uniforms=np.zeros((0, 0)),
    quantiles=_TABLE,
    seconds=_TABLE,
    outlived=_ROWS,
    running=_ROWS,
    ends=_TABLE,
    owner=_TABLE,
    head=_TABLE,
    until=_TABLE,
    queue=_ROWS,
    facts=np.zeros((0, 0)),
    tables=NO_TABLES,
)
"""The arrays for no jobs."""


@kernel
def row_of(job, dependencies):
    """Return the row in the given table of a job of the kernel."""
    return dependencies.row[job] if len(dependencies.row) > 0 else job


@kernel
def place_of(uniform, outlived, levels):
    """Return which of ``levels`` quantiles a number in [0, 1) draws.

    The first ``outlived`` ones are left out; at least one must remain.
    """
    begin = (outlived + 0.5) / (levels + 1) if outlived > 0 else 0.0
    place = np.int64((begin + uniform * (1.0 - begin)) * (levels + 1) - 0.5)
    return min(max(place, outlived), levels - 1)


@kernel
def draw(job, row, requested, scenarios):
    """Draw the runtime of ``job`` in each scenario from the quantiles it has not outlived."""
    levels, outlived = scenarios.quantiles.shape[1], scenarios.outlived[job]
    for k in range(scenarios.uniforms.shape[1]):
        seconds = requested
        if outlived < levels:
            seconds = scenarios.quantiles[row, place_of(scenarios.uniforms[row, k], outlived, levels)]
        scenarios.seconds[job, k] = seconds


@apart
def draw_runtimes(rows, elapsed, requested, uniforms, quantiles, runtimes):
    """Draw the runtime of jobs in each scenario from the quantiles they have not outlived.

    Each job has its row of the table in ``rows``, and ``elapsed`` and ``requested`` seconds, int64 [jobs]. Writes
    ``runtimes`` [scenarios, jobs or more], which are always longer than ``elapsed``.
    """
    levels = quantiles.shape[1]
    for job in range(len(rows)):
        row, outlived = rows[job], 0
        while outlived < levels and quantiles[row, outlived] <= elapsed[job]:
            outlived += 1
        for k in range(uniforms.shape[1]):
            seconds = requested[job]
            if outlived < levels:
                seconds = quantiles[row, place_of(uniforms[row, k], outlived, levels)]
            runtimes[k, job] = max(seconds, elapsed[job] + 1)


@kernel
def runs(job, now, jobs, state, scenarios):
    """Note that ``job`` runs from now on; :func:`bring_up` adds it to the lists of ends."""
    numbers = scenarios.numbers
    if numbers[RUNNING] == len(scenarios.running):
        drop_gone(now, jobs, state, scenarios)
    scenarios.running[numbers[RUNNING]] = job
    numbers[RUNNING] += 1


@kernel
def drop_gone(now, jobs, state, scenarios):
    """Remove ended jobs from ``running`` and the lists.

    A job that ends this second at its request leaves the plan before its end is handled, and is removed here as well.
    """
    numbers = scenarios.numbers
    kept, listed = 0, 0
    for i in range(numbers[RUNNING]):
        job = scenarios.running[i]
        if state.start[job] + jobs.requested[job] <= now:
            scenarios.outlived[job] = GONE
        if scenarios.outlived[job] != GONE:
            scenarios.running[kept] = job
            kept += 1
            listed += i < numbers[LISTED]
    for k in range(scenarios.ends.shape[0]):
        size = 0
        for i in range(numbers[LISTED]):
            job = scenarios.owner[k, i]
            if scenarios.outlived[job] != GONE:
                scenarios.owner[k, size] = job
                scenarios.ends[k, size] = scenarios.ends[k, i]
                size += 1
    numbers[RUNNING] = kept
    numbers[LISTED] = listed


@kernel
def bring_up(now, jobs, dependencies, state, scenarios):
    """Bring the lists up to ``now``; return whether they have changed."""
    numbers, levels = scenarios.numbers, scenarios.quantiles.shape[1]
    gone, moved = False, False
    for i in range(numbers[RUNNING]):
        job = scenarios.running[i]
        elapsed = now - state.start[job]
        if scenarios.outlived[job] == GONE or elapsed >= jobs.requested[job]:
            gone = True
            continue
        row, outlived = row_of(job, dependencies), max(scenarios.outlived[job], 0)
        while outlived < levels and scenarios.quantiles[row, outlived] <= elapsed:
            outlived += 1
        if outlived != scenarios.outlived[job]:
            scenarios.outlived[job] = outlived
            draw(job, row, jobs.requested[job], scenarios)
            moved = True
    if gone:
        drop_gone(now, jobs, state, scenarios)
    if moved:
        for k in range(scenarios.ends.shape[0]):
            for i in range(numbers[LISTED]):
                put(k, i, scenarios.owner[k, i], state, scenarios)
    new = numbers[LISTED] < numbers[RUNNING]
    for i in range(numbers[LISTED], numbers[RUNNING]):
        for k in range(scenarios.ends.shape[0]):
            put(k, i, scenarios.running[i], state, scenarios)
    numbers[LISTED] = numbers[RUNNING]
    return gone or moved or new


@kernel
def put(k, size, job, state, scenarios):
    """Put ``job`` into the sorted first ``size`` of list ``k``."""
    ends, owner = scenarios.ends, scenarios.owner
    end = state.start[job] + scenarios.seconds[job, k]
    i = size
    while i > 0 and ends[k, i - 1] > end:
        ends[k, i] = ends[k, i - 1]
        owner[k, i] = owner[k, i - 1]
        i -= 1
    ends[k, i] = end
    owner[k, i] = job


@apart
def told_too_little(now, jobs, dependencies, state, scenarios):
    """Tell whether a running job has outlived all its quantiles; note it in DOUBTED.

    The predictor outside the kernel can give new ones. A job that ends now needs none.
    """
    levels = scenarios.quantiles.shape[1]
    for i in range(scenarios.numbers[RUNNING] if levels > 1 else 0):
        job = scenarios.running[i]
        elapsed = now - state.start[job]
        if (
            scenarios.outlived[job] != GONE
            and scenarios.quantiles[row_of(job, dependencies), levels - 1] <= elapsed < jobs.runtime[job]
        ):
            state.counters[DOUBTED] = job
            return True
    return False


@kernel
def find_head_starts(needed, now, jobs, state, scenarios):
    """Find when ``needed`` processors are free in each scenario."""
    numbers, head = scenarios.numbers, scenarios.head
    numbers[STAMP] += 1
    numbers[STARTS] = 0
    for k in range(head.shape[1]):
        available, start, i = state.counters[FREE], now, 0
        while available < needed and i < numbers[LISTED]:
            start = scenarios.ends[k, i]
            available += jobs.procs[scenarios.owner[k, i]]
            i += 1
        head[START, k] = start
        head[AVAILABLE, k] = available
        head[POSITION, k] = i
        numbers[STARTS] += start


@kernel
def look_beside(needed, procs, jobs, scenarios):
    """Find when the head could start if ``procs`` processors were taken for ever.

    Fills a row of ``until``, valid until the head's own starts are found again. ``needed`` are the head's processors.
    """
    numbers, head, until, at = scenarios.numbers, scenarios.head, scenarios.until, procs & (WIDTHS - 1)
    if until[at, FOUND_AT] == numbers[STAMP] and until[at, FOUND_FOR] == procs:
        return
    until[at, FOUND_AT] = numbers[STAMP]
    until[at, FOUND_FOR] = procs
    for k in range(head.shape[1]):
        available, start, i = head[AVAILABLE, k], head[START, k], head[POSITION, k]
        while available < needed + procs and i < numbers[LISTED]:
            start = scenarios.ends[k, i]
            available += jobs.procs[scenarios.owner[k, i]]
            i += 1
        until[at, FOUND + k] = start if available >= needed + procs else OUT_OF_REACH


@kernel
def mean_delay(job, procs, now, scenarios):
    """Return the head's mean delay in seconds if ``job`` starts now.

    Call :func:`look_beside` for its ``procs`` first.
    """
    head, at, delays = scenarios.head, procs & (WIDTHS - 1), 0
    for k in range(head.shape[1]):
        start = min(scenarios.until[at, FOUND + k], now + scenarios.seconds[job, k])
        delays += max(start - head[START, k], 0)
    return delays / head.shape[1]


@kernel
def mean_wait_else(head, procs, now, scenarios):
    """Return the mean time until ``procs`` processors are free beside or after the head.

    Call :func:`look_beside` for ``procs`` first.
    """
    starts, at, waits = scenarios.head, procs & (WIDTHS - 1), 0
    for k in range(starts.shape[1]):
        waits += min(scenarios.until[at, FOUND + k], starts[START, k] + scenarios.seconds[head, k]) - now
    return waits / starts.shape[1]
