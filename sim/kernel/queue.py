"""Waiting jobs, sorted by (key, job), in one of two forms over the same arrays.

Packed queues have no holes. Conservative uses them, as it sorts jobs by their reserved starts. All other algorithms use
queues with gaps: a started job leaves a hole until a new job needs the place or half of the entries are holes, so that
removing one of thousands of jobs moves no entry. In long queues, blocks of entries and groups of blocks store their min
width and, for each class of widths, their min estimate: a scan for a job that fits skips blocks and groups without one.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from features.jit import apart, kernel

BEGIN, END, MOVED, CLASSES = range(4)
"""Slots of ``Queue.bounds``: the first entry, the entry after the last (with gaps), by how many places entries have
been moved to make room since gaps were last spread evenly, and the number of values stored for each block."""

HOLE = 1 << 62
"""Processors of a hole, so that it never fits; also the min estimate of a block without jobs."""

BLOCK_BITS = 5
GROUP_BITS = 9
LONG = 256
"""Entries in a block and in a group of blocks, as powers of two; queues with more than ``LONG`` entries use blocks."""

FEW = 16
"""Holes are closed when they outnumber the waiting jobs by more than this."""

UNKNOWN = -1
"""Min processors of a block whose entries have changed since its last scan."""


class Queue(NamedTuple):
    """Arrays of a queue.

    ``bounds`` is int64 [4]. Each entry has a sort key (float64), and int64 row (-1: a hole), processors and estimate
    for the question FIT. ``least`` is [blocks, classes], flattened: at 0 the min processors of a block, at c the min
    estimate among its jobs of width classes up to c; ``group_least`` the same for groups. ``width_class``: the class of
    each width up to ``NARROW``.
    """

    bounds: np.ndarray
    key: np.ndarray
    job: np.ndarray
    procs: np.ndarray
    fit: np.ndarray
    least: np.ndarray
    group_least: np.ndarray
    width_class: np.ndarray


NARROW_BITS = 12
NARROW = (1 << NARROW_BITS) - 1
"""Max processors in the table of classes. Wider jobs get the class of their leading bits plus 2 for each bit shifted
out."""


@lru_cache(maxsize=8)
def width_classes(procs: int) -> np.ndarray:
    """Return the class of each number of processors up to ``procs`` or ``NARROW``, int64.

    A new class begins at 1, 2, 3, 4, 6, 8, 12, 16, 24, ...
    """
    procs = min(procs, NARROW)
    begins = sorted({1, *(1 << i for i in range(procs.bit_length())), *(3 << i for i in range(procs.bit_length() - 1))})
    return np.searchsorted(begins, np.arange(procs + 1), side="right").astype(np.int64)


@kernel
def class_of(queue, procs):
    """Return the class of a number of processors; it never falls as the number grows."""
    above = 0
    while procs > NARROW:
        procs >>= NARROW_BITS
        above += 2 * NARROW_BITS
    return queue.width_class[procs] + above


@kernel
def narrowest(class_):
    """Return the smallest number of processors of a class."""
    above = 0
    while class_ > 2 * NARROW_BITS:
        class_ -= 2 * NARROW_BITS
        above += NARROW_BITS
    half = class_ >> 1
    return (1 if class_ < 2 else 1 << half if class_ & 1 == 0 else 3 << (half - 1)) << above


def queue_capacity(jobs: int) -> int:
    """Return the number of entries that a queue with gaps needs for ``jobs`` jobs."""
    return jobs + jobs // 8 + 1


# Packed


@kernel
def packed_remove(queue, size, at):
    """Remove the entry at ``at``; the side with fewer entries moves to close the gap."""
    begin = queue.bounds[BEGIN]
    if at - begin < begin + size - 1 - at:
        for i in range(at, begin, -1):
            _copy(queue, i - 1, i)
        queue.bounds[BEGIN] = begin + 1
        return
    for i in range(at, begin + size - 1):
        _copy(queue, i + 1, i)


@kernel
def insertion_sort(queue, size):
    """Sort a packed, nearly sorted queue of ``size`` jobs by (key, job)."""
    for first in range(2, size + 1):
        insert_last(queue, first)


@kernel
def insert_last(queue, size):
    """Move the last of ``size`` jobs of a packed queue to its place; the others are sorted."""
    begin = queue.bounds[BEGIN]
    i = begin + size - 1
    key = queue.key[i]
    job = queue.job[i]
    if size < 2 or queue.key[i - 1] < key or (queue.key[i - 1] == key and queue.job[i - 1] < job):
        return
    procs = queue.procs[i]
    fit = queue.fit[i]
    j = i - 1
    while j >= begin and (queue.key[j] > key or (queue.key[j] == key and queue.job[j] > job)):
        _copy(queue, j, j + 1)
        j -= 1
    _write(queue, j + 1, key, job, procs, fit)


@kernel
def append(queue, size, gaps, key, job, procs, fit):
    """Append ``job`` behind the ``size`` jobs of a queue, whatever its key.

    The queue is packed, or it is one with ``gaps`` that has no hole at the moment.
    """
    begin = queue.bounds[BEGIN]
    if begin + size == len(queue.key):
        for i in range(size):
            _copy(queue, begin + i, i)
        queue.bounds[BEGIN] = begin = 0
    at = begin + size
    _write(queue, at, key, job, procs, fit)
    if gaps:
        queue.bounds[END] = at + 1
        forget(queue, at >> BLOCK_BITS)


@kernel
def find(queue, job):
    """Return the index of ``job``, which is in the queue."""
    at = queue.bounds[BEGIN]
    while queue.job[at] != job:
        at += 1
    return at


# With gaps


@apart
def gapped_insert(queue, waiting, key, job, procs, fit, start):
    """Insert ``job`` by (key, job) into a queue with gaps that holds ``waiting`` jobs.

    ``job`` must be greater than all jobs with the same key. Return the first entry that has changed, -1 if all may
    have.
    """
    bounds, stay = queue.bounds, waiting > 0
    if waiting == 0:
        bounds[BEGIN] = 0
        bounds[END] = 0
    if bounds[END] == len(queue.key):
        pack(queue, start)
        stay = False
    if bounds[MOVED] > 4 * (bounds[END] - bounds[BEGIN]) + 1024:
        _spread(queue, start)
        stay = False
    begin, end = bounds[BEGIN], bounds[END]
    if end == begin or queue.key[end - 1] <= key:
        _write(queue, end, key, job, procs, fit)
        _append_to_block(queue, end, procs, fit)
        bounds[END] = end + 1
        return end if stay else -1
    at = _first_after(queue, key)
    reach = 0
    while True:
        right, left = at + reach, at - 1 - reach
        if right == end or is_hole(queue, right, start):
            for i in range(right, at, -1):
                _copy(queue, i - 1, i)
            bounds[END] = max(end, right + 1)
            left = at
            break
        if left >= 0 and (left < begin or is_hole(queue, left, start)):
            at -= 1
            for i in range(left, at):
                _copy(queue, i + 1, i)
            bounds[BEGIN] = min(begin, left)
            right = at
            break
        reach += 1
    _write(queue, at, key, job, procs, fit)
    bounds[MOVED] += reach
    for block in range(left >> BLOCK_BITS, (right >> BLOCK_BITS) + 1):
        forget(queue, block)
    return left if stay else -1


@kernel
def make_hole(queue, at):
    """Make the entry a hole."""
    queue.job[at] = -1
    queue.procs[at] = HOLE


@kernel
def is_hole(queue, at, start):
    job = queue.job[at]
    return job < 0 or start[job] >= 0


@kernel
def settle(queue, start):
    """Skip holes at the front: afterwards the queue begins at a waiting job or is empty."""
    bounds = queue.bounds
    while bounds[BEGIN] < bounds[END] and is_hole(queue, bounds[BEGIN], start):
        bounds[BEGIN] += 1


@kernel
def tidy(queue, waiting, start):
    """Close all holes if they outnumber the waiting jobs by more than ``FEW``."""
    if queue.bounds[END] - queue.bounds[BEGIN] > 2 * waiting + FEW:
        pack(queue, start)


@kernel
def pack(queue, start):
    """Close all holes."""
    bounds = queue.bounds
    size = 0
    for i in range(bounds[BEGIN], bounds[END]):
        if not is_hole(queue, i, start):
            _copy(queue, i, size)
            size += 1
    bounds[BEGIN] = 0
    bounds[END] = size
    for block in range((size >> BLOCK_BITS) + 1):
        forget(queue, block)


@kernel
def _spread(queue, start):
    """Close all holes, then leave one after every eight jobs."""
    pack(queue, start)
    bounds = queue.bounds
    for i in range(bounds[END] - 1, 7, -1):
        to = i + (i >> 3)
        _copy(queue, i, to)
        if i & 7 == 0:
            queue.key[to - 1] = queue.key[i - 1]
            make_hole(queue, to - 1)
    bounds[END] += max(bounds[END] - 1, 0) >> 3
    bounds[MOVED] = 0
    for block in range((bounds[END] >> BLOCK_BITS) + 1):
        forget(queue, block)


@kernel
def _first_after(queue, key):
    """Return the index of the first entry with a greater key."""
    low, left = queue.bounds[BEGIN], queue.bounds[END] - queue.bounds[BEGIN]
    while left > 0:
        half = (left + 1) >> 1
        low += half * (queue.key[low + half - 1] <= key)  # a product instead of a branch that would often be mispredicted
        left -= half
    return low


# Blocks


@kernel
def forget(queue, block):
    """Mark the block as unknown."""
    queue.least[block * queue.bounds[CLASSES]] = UNKNOWN
    queue.group_least[(block >> (GROUP_BITS - BLOCK_BITS)) * queue.bounds[CLASSES]] = UNKNOWN


@kernel
def may_hold(queue, least, which, free, longest, extra):
    """Tell whether a block or group may hold a job that fits.

    A job fits with at most ``free`` processors if it also has an estimate of at most ``longest`` or at most ``extra``
    processors.
    """
    at = which * queue.bounds[CLASSES]
    return least[at] <= min(free, extra) or least[at + class_of(queue, free)] <= longest


@apart
def next_held(queue, i, end, free, longest):
    """Return the first entry from ``i`` on whose block may hold a job that fits, or ``end``.

    A job fits with at most ``free`` processors and an estimate of at most ``longest`` [classes] at its class.
    """
    most = class_of(queue, free)
    while i < end:
        group, block = i >> GROUP_BITS, i >> BLOCK_BITS
        if queue.group_least[group * queue.bounds[CLASSES]] == UNKNOWN:
            know_group(queue, group)
        if not _any_fits(queue, queue.group_least, group, most, longest):
            i = (group + 1) << GROUP_BITS
        elif _any_fits(queue, queue.least, block, most, longest):
            return i
        else:
            i = (block + 1) << BLOCK_BITS
    return end


@apart
def know_group(queue, group):
    """Scan the unknown blocks of a group; store their minima and those of the group."""
    bits = GROUP_BITS - BLOCK_BITS
    first = max(group << bits, queue.bounds[BEGIN] >> BLOCK_BITS)
    for block in range(first, min(((group + 1) << bits) - 1, (queue.bounds[END] - 1) >> BLOCK_BITS) + 1):
        if queue.least[block * queue.bounds[CLASSES]] == UNKNOWN:
            look_through(queue, block)
    look_through_group(queue, group)


@kernel
def _any_fits(queue, least, which, most, longest):
    at, class_ = which * queue.bounds[CLASSES], 1
    while class_ <= most and least[at + class_] > longest[class_]:
        class_ += 1
    return class_ <= most


@kernel
def look_through(queue, block):
    """Scan the entries of the block and store its minima."""
    least, at = queue.least, block * queue.bounds[CLASSES]
    for i in range(at, at + queue.bounds[CLASSES]):
        least[i] = HOLE
    for i in range(max(block << BLOCK_BITS, queue.bounds[BEGIN]), min((block + 1) << BLOCK_BITS, queue.bounds[END])):
        procs = queue.procs[i]
        if procs != HOLE:
            least[at] = min(least[at], procs)
            of_class = at + class_of(queue, procs)
            least[of_class] = min(least[of_class], queue.fit[i])
    for i in range(at + 2, at + queue.bounds[CLASSES]):
        least[i] = min(least[i], least[i - 1])


@kernel
def look_through_group(queue, group):
    """Combine the minima of a group's blocks; the group stays unknown while one of them is."""
    bits = GROUP_BITS - BLOCK_BITS
    size, at = queue.bounds[CLASSES], group * queue.bounds[CLASSES]
    for i in range(at, at + size):
        queue.group_least[i] = HOLE
    first = max(group << bits, queue.bounds[BEGIN] >> BLOCK_BITS)
    for block in range(first, min(((group + 1) << bits) - 1, (queue.bounds[END] - 1) >> BLOCK_BITS) + 1):
        for i in range(size):
            queue.group_least[at + i] = min(queue.group_least[at + i], queue.least[block * size + i])


@kernel
def _append_to_block(queue, at, procs, fit):
    """Update the minima of the block and group of entry ``at``, just appended to the queue."""
    block = at >> BLOCK_BITS
    if at & ((1 << BLOCK_BITS) - 1) == 0:
        forget(queue, block)
    elif queue.least[block * queue.bounds[CLASSES]] != UNKNOWN:
        _lower(queue, queue.least, block, procs, fit)
        group = at >> GROUP_BITS
        if queue.group_least[group * queue.bounds[CLASSES]] != UNKNOWN:
            _lower(queue, queue.group_least, group, procs, fit)


@kernel
def _lower(queue, least, which, procs, fit):
    at = which * queue.bounds[CLASSES]
    least[at] = min(least[at], procs)
    for i in range(at + class_of(queue, procs), at + queue.bounds[CLASSES]):
        least[i] = min(least[i], fit)


@kernel
def _write(queue, at, key, job, procs, fit):
    queue.key[at] = key
    queue.job[at] = job
    queue.procs[at] = procs
    queue.fit[at] = fit


@kernel
def _copy(queue, source, target):
    queue.key[target] = queue.key[source]
    queue.job[target] = queue.job[source]
    queue.procs[target] = queue.procs[source]
    queue.fit[target] = queue.fit[source]
