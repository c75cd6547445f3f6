"""Free processors over time, for algorithms that plan.

The profile is a step function, kept in blocks of entries in order of time: a reservation moves entries of one block
only, and a search skips blocks in which too few processors are free. A search begins where the last search for jobs of
the same kind in the same plan ended.

A plan only gets fuller, so a job has no place before the place of an earlier job of its kind. What searches have ruled
out is int64 [KINDS + 1, 4]. A row of a kind has the number of the plan last searched, the kind's request and seconds,
and the time before which it has no place. Kinds that share a row overwrite each other. The last row has the number of
the current plan.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from features.jit import apart, kernel
from sim.kernel.state import BLOCKS, EVENTS, FREE, NEVER, PLANS

KINDS = 4096
"""Number of rows for kinds."""


def nothing_searched() -> np.ndarray:
    """Return the array before any search, int64 [KINDS + 1, 4]."""
    searched = np.zeros((KINDS + 1, 4), np.int64)
    searched[KINDS, 0] = 1
    return searched


@kernel
def forget_searches(searched):
    """Forget what earlier searches ruled out, as more may be free now."""
    searched[KINDS, 0] += 1


@kernel
def ruled_out(searched, request, seconds):
    """Return the time before which no job of a kind has a place, 0 if unknown."""
    kind = (request * 7919 + seconds * 31) % KINDS
    noted = searched[kind, 0] == searched[KINDS, 0] and searched[kind, 1] == request and searched[kind, 2] == seconds
    return searched[kind, 3] if noted else 0


@kernel
def rule_out(searched, request, seconds, before):
    """Note that no job of a kind has a place earlier than ``before``."""
    kind = (request * 7919 + seconds * 31) % KINDS
    searched[kind, 0] = searched[KINDS, 0]
    searched[kind, 1] = request
    searched[kind, 2] = seconds
    searched[kind, 3] = before


BITS = 5
SIZE = 1 << BITS
"""Max entries of a block, ``1 << BITS``; a full block is split."""
FILLED = 16
"""Entries of a new block, which leaves room for more."""


class Profile(NamedTuple):
    """A step function: ``free[i]`` processors from ``time[i]`` on; all int64.

    ``counters[BLOCKS]`` blocks stand in order of time. For each, ``order`` is its number, and its entries begin at
    ``SIZE`` times that; ``first`` is the time of its first entry, ``count`` the number of its entries. ``shift``
    processors are free in the whole block in addition to ``free`` of an entry; ``least`` and ``most`` bound the sum. A
    place in the profile is one integer, index in ``order`` << BITS | index in the block; the first place is 0.
    ``searched``: see :mod:`sim.kernel.profile`; the kind of a job is its number of processors. For plans that leave far
    places open (:mod:`sim.kernel.pool_plans`): ``ahead`` [3], ``longest`` [2, classes of a queue], ``planned`` [entries
    of a queue].
    """

    time: np.ndarray
    free: np.ndarray
    order: np.ndarray
    first: np.ndarray
    count: np.ndarray  # type: ignore[assignment]
    shift: np.ndarray
    least: np.ndarray
    most: np.ndarray
    searched: np.ndarray
    ahead: np.ndarray
    longest: np.ndarray
    planned: np.ndarray


def blocks_for(entries: int) -> int:
    """Return how many blocks can hold ``entries``, as blocks may be half full after a split."""
    return 2 + 2 * entries // SIZE


@kernel
def build_profile(now, profile, state, bits):
    """Build the profile from the running jobs' predicted ends."""
    counters = state.counters
    forget_searches(profile.searched)
    k, size = 0, 1
    at = profile.order[0] << BITS
    profile.time[at] = profile.first[0] = now
    profile.free[at] = counters[FREE]
    for i in range(counters[PLANS]):
        end = state.plan[i] >> bits
        if end == profile.time[at]:
            profile.free[at] += state.plan_procs[i]
            continue
        free = profile.free[at] + state.plan_procs[i]
        at += 1
        if size == FILLED:
            close(profile, k, size)
            k, size = k + 1, 0
            at = profile.order[k] << BITS
            profile.first[k] = end
        profile.time[at] = end
        profile.free[at] = free
        size += 1
    close(profile, k, size)
    counters[BLOCKS] = k + 1


@kernel
def close(profile, k, size):
    """Complete a new block of ``size`` entries, in which free processors grow with time."""
    at = profile.order[k] << BITS
    profile.count[k] = size
    profile.shift[k] = 0
    profile.least[k] = profile.free[at]
    profile.most[k] = profile.free[at + size - 1]


@kernel
def time_at(profile, place):
    """Return the time of a place."""
    return profile.time[profile.order[place >> BITS] << BITS | place & (SIZE - 1)]


@kernel
def free_now(profile):
    """Return the free processors of the first entry."""
    return profile.free[profile.order[0] << BITS] + profile.shift[0]


@kernel
def set_now(profile, now):
    """Set the time of the first entry to ``now``; leave later entries as they are."""
    profile.time[profile.order[0] << BITS] = profile.first[0] = now


@kernel
def pass_on(profile, counters, now):
    """Drop entries that end by ``now``, and set the first time to ``now``."""
    while counters[BLOCKS] > 1 and profile.first[1] <= now:
        block = profile.order[0]
        counters[BLOCKS] -= 1
        for k in range(counters[BLOCKS]):
            copy_block(profile, k + 1, k)
        profile.order[counters[BLOCKS]] = block
    at, past = profile.order[0] << BITS, 0
    while past + 1 < profile.count[0] and profile.time[at + past + 1] <= now:
        past += 1
    if past > 0:
        profile.count[0] -= past
        for i in range(at, at + profile.count[0]):
            profile.time[i] = profile.time[i + past]
            profile.free[i] = profile.free[i + past]
    set_now(profile, now)


@kernel
def copy_block(profile, k, to):
    """Copy the data of the block at ``k`` to index ``to``; its entries do not move."""
    profile.order[to] = profile.order[k]
    profile.first[to] = profile.first[k]
    profile.count[to] = profile.count[k]
    profile.shift[to] = profile.shift[k]
    profile.least[to] = profile.least[k]
    profile.most[to] = profile.most[k]


@kernel
def next_free(profile, place, last, procs):
    """Return the first place, from ``place`` on, with ``procs`` processors free.

    Return -1 if no block up to index ``last`` has such a place.
    """
    free, most = profile.free, profile.most
    k, skip = place >> BITS, place & (SIZE - 1)
    while k <= last:
        if most[k] >= procs:
            at, needed = profile.order[k] << BITS, procs - profile.shift[k]
            i, end = at + skip, at + profile.count[k]
            while i < end and free[i] < needed:
                i += 1
            if i < end:
                return k << BITS | (i - at)
            if skip == 0:
                most[k] = procs - 1
        k, skip = k + 1, 0
    return -1


@kernel
def next_busy(profile, counters, place, procs, until):
    """Return the first place, from ``place`` on, with fewer than ``procs`` free.

    Return -1 if no such place begins before ``until``.
    """
    time, free, least = profile.time, profile.free, profile.least
    k, skip = place >> BITS, place & (SIZE - 1)
    while k < counters[BLOCKS] and profile.first[k] < until:
        if least[k] < procs:
            at, needed = profile.order[k] << BITS, procs - profile.shift[k]
            i, end = at + skip, at + profile.count[k]
            while i < end and free[i] >= needed and time[i] < until:
                i += 1
            if i < end:
                return k << BITS | (i - at) if time[i] < until else -1
            if skip == 0:
                least[k] = procs
        k, skip = k + 1, 0
    return -1


@kernel
def earliest(profile, counters, procs, seconds, limit, due):
    """Return the first place from which ``procs`` processors are free long enough.

    That is for ``seconds``, or until ``due``. Return -1 if no such place begins before ``limit``, which is at most
    ``due``. The search begins where the last one for such jobs ended.
    """
    counters[EVENTS] -= 1
    begin, place = ruled_out(profile.searched, procs, seconds), 0
    if begin >= limit:
        return -1
    if begin > profile.first[0]:
        place = place_at(profile, counters, begin)
    ends = block_at(profile, counters, limit - 1)
    while True:
        place = next_free(profile, place, ends, procs)
        begin = limit if place < 0 else time_at(profile, place)
        if begin >= limit:
            place = -1
            break
        over = next_busy(profile, counters, place, procs, min(begin + seconds, due))
        if over < 0:
            break
        place = over
    rule_out(profile.searched, procs, seconds, min(begin, limit))
    return place


@kernel
def give_back(profile, counters, begin, until, procs):
    """Give back ``procs`` processors from ``begin`` to ``until``, both times of entries."""
    k = block_at(profile, counters, begin)
    while k < counters[BLOCKS] and profile.first[k] < until:
        if profile.first[k] >= begin and k + 1 < counters[BLOCKS] and profile.first[k + 1] <= until:
            profile.shift[k] += procs
            profile.most[k] += procs
            profile.least[k] += procs
        else:
            at, most = profile.order[k] << BITS, profile.most[k] - profile.shift[k]
            for i in range(at, at + profile.count[k]):
                if begin <= profile.time[i] < until:
                    profile.free[i] += procs
                    most = max(most, profile.free[i])
            profile.most[k] = most + profile.shift[k]
        k += 1


@kernel
def most_free(profile, counters, limit):
    """Return an upper bound on the processors free at any time before ``limit``."""
    most, k = 0, 0
    while k < counters[BLOCKS] and profile.first[k] < limit:
        most = max(most, profile.most[k])
        k += 1
    return most


@kernel
def longest_run(profile, counters, procs, limit):
    """Return the longest time, begun before ``limit``, with ``procs`` processors free."""
    longest, last = 0, block_at(profile, counters, limit - 1)
    place = next_free(profile, 0, last, procs)
    while place >= 0 and time_at(profile, place) < limit:
        over = next_busy(profile, counters, place, procs, NEVER)
        if over < 0:
            return NEVER
        longest = max(longest, time_at(profile, over) - time_at(profile, place))
        place = next_free(profile, over, last, procs)
    return longest


@kernel
def block_at(profile, counters, time):
    """Return the index in ``order`` of the block that holds ``time``, 0 if it is before all."""
    low, high = 0, counters[BLOCKS] - 1
    while low < high:
        middle = (low + high + 1) >> 1
        if profile.first[middle] <= time:
            low = middle
        else:
            high = middle - 1
    return low


@kernel
def place_at(profile, counters, time):
    """Return the place of the first entry at or after ``time``, which is later than now."""
    k = block_at(profile, counters, time)
    at = i = profile.order[k] << BITS
    while i < at + profile.count[k] and profile.time[i] < time:
        i += 1
    return k << BITS | (i - at)


@apart
def reserve_from(profile, counters, place, procs, seconds):
    """Take ``procs`` processors for ``seconds`` from ``place`` on."""
    k = place >> BITS
    at = profile.order[k] << BITS
    i = at | place & (SIZE - 1)
    until = profile.time[i] + seconds
    while k + 1 < counters[BLOCKS] and profile.first[k + 1] <= until:
        if i == at:
            profile.shift[k] -= procs
            profile.most[k] -= procs
            profile.least[k] -= procs
        else:
            take(profile, k, i, NEVER, procs)
        k += 1
        i = at = profile.order[k] << BITS
    if profile.time[i] == until:
        return
    end = at + profile.count[k]
    i = take(profile, k, i, until, procs)
    if i < end and profile.time[i] == until:
        return
    for other in range(end, i, -1):
        profile.time[other] = profile.time[other - 1]
        profile.free[other] = profile.free[other - 1]
    profile.time[i] = until
    profile.free[i] = profile.free[i - 1] + procs  # as before the reservation, which begins at an entry of this block
    profile.count[k] += 1
    if profile.count[k] == SIZE:
        split(profile, counters, k)


@kernel
def take(profile, k, i, until, procs):
    """Take ``procs`` processors from a block's entries from ``i`` to ``until``.

    Return the index of the first entry after them.
    """
    end = (profile.order[k] << BITS) + profile.count[k]
    least = profile.least[k] - profile.shift[k]
    while i < end and profile.time[i] < until:
        profile.free[i] -= procs
        least = min(least, profile.free[i])
        i += 1
    profile.least[k] = least + profile.shift[k]
    return i


@apart
def split(profile, counters, k):
    """Move half of the entries of the block at ``k`` into a new block behind it."""
    block, other, half = profile.order[k], profile.order[counters[BLOCKS]], SIZE // 2
    for place in range(counters[BLOCKS], k, -1):
        copy_block(profile, place - 1, place)
    counters[BLOCKS] += 1
    for i in range(half):
        profile.time[(other << BITS) + i] = profile.time[(block << BITS) + half + i]
        profile.free[(other << BITS) + i] = profile.free[(block << BITS) + half + i]
    profile.order[k + 1] = other
    profile.first[k + 1] = profile.time[other << BITS]
    profile.count[k] = profile.count[k + 1] = half


@kernel
def fits_now(profile, counters, procs, seconds):
    """Tell whether ``procs`` processors are free for ``seconds`` from now on."""
    return free_for(profile, counters, procs, seconds) >= seconds


@kernel
def free_for(profile, counters, procs, most):
    """Return for how many seconds from now on ``procs`` processors are free, at ``most``."""
    now = profile.first[0]
    over = next_busy(profile, counters, 0, procs, now + most)
    return most if over < 0 else time_at(profile, over) - now
