"""Free processors over time, for algorithms that plan.

The profile is a step function, kept in blocks of entries in order of time: a reservation moves entries of one block only, and a
search skips blocks in which too few processors are free. In deep queues a search also begins where those for jobs no wider and
no longer have ended in the same plan.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from features.jit import apart, kernel
from sim.kernel.state import BLOCKS, EVENTS, FREE, NEVER, PLANS, SEARCHED

BITS = 6
SIZE = 1 << BITS
"""Max entries of a block, as a power of two; a full one is split."""
FILLED = 32
"""Entries of a new block, so that it can take some more."""
DEEP = 128
"""Searches of a plan after which they are remembered."""
LENGTHS = 128
"""Classes of seconds, four for each doubling."""


class Profile(NamedTuple):
    """A step function: ``free[i]`` processors from ``time[i]`` on, int64 all.

    ``order`` is a permutation of the blocks, of which the first ``counters[BLOCKS]`` are used, in order of time; a block's entries
    begin at ``SIZE`` times its number and are ``count`` many. Beside ``free`` of its entries, ``shift`` processors are free in all of
    a block; ``least`` and ``most`` are the min and max of both together. A place in the profile is one integer: place in ``order`` <<
    BITS | place in the block; the first is 0. ``bound`` [classes of widths x LENGTHS]: the time before which no job of a class or
    beyond has a place. For plans that leave far places open (:mod:`sim.kernel.just_backfill`): ``ahead`` [3]; ``longest`` [2,
    classes of a queue]; ``open`` [entries of a queue].
    """

    time: np.ndarray
    free: np.ndarray
    order: np.ndarray
    count: np.ndarray  # type: ignore[assignment]
    shift: np.ndarray
    least: np.ndarray
    most: np.ndarray
    bound: np.ndarray
    ahead: np.ndarray
    longest: np.ndarray
    open: np.ndarray


def blocks_for(entries: int) -> int:
    """Return the blocks that hold any profile of so many entries: split blocks are half full."""
    return 2 + 2 * entries // SIZE


def widths_for(procs: int) -> int:
    """Return the number of classes of widths for a machine of ``procs`` processors."""
    return 4 * procs.bit_length() + 1


@kernel
def build_profile(now, profile, state, bits):
    """Build the profile from the running jobs' predicted ends."""
    counters = state.counters
    counters[BLOCKS] = 1
    counters[SEARCHED] = 0
    block = profile.order[0]
    at = block << BITS
    profile.time[at] = now
    profile.free[at] = counters[FREE]
    size = 1
    for i in range(counters[PLANS]):
        end = state.plan[i] >> bits
        if end == profile.time[at]:
            profile.free[at] += state.plan_procs[i]
            continue
        free = profile.free[at] + state.plan_procs[i]
        at += 1
        if size == FILLED:
            close(profile, block, size)
            block = profile.order[counters[BLOCKS]]
            counters[BLOCKS] += 1
            at = block << BITS
            size = 0
        profile.time[at] = end
        profile.free[at] = free
        size += 1
    close(profile, block, size)


@kernel
def close(profile, block, size):
    """Complete a new block of ``size`` entries, in which what is free grows with time."""
    at = block << BITS
    profile.count[block] = size
    profile.shift[block] = 0
    profile.least[block] = profile.free[at]
    profile.most[block] = profile.free[at + size - 1]


@kernel
def time_at(profile, place):
    """Return the time of a place."""
    return profile.time[profile.order[place >> BITS] << BITS | place & (SIZE - 1)]


@kernel
def set_now(profile, now):
    """Let the first entry begin ``now``; no other has begun."""
    profile.time[profile.order[0] << BITS] = now


@kernel
def pass_on(profile, counters, now):
    """Drop the entries that are over by ``now``."""
    while counters[BLOCKS] > 1 and profile.time[profile.order[1] << BITS] <= now:
        block = profile.order[0]
        counters[BLOCKS] -= 1
        for k in range(counters[BLOCKS]):
            profile.order[k] = profile.order[k + 1]
        profile.order[counters[BLOCKS]] = block
    block = profile.order[0]
    at, past = block << BITS, 0
    while past + 1 < profile.count[block] and profile.time[at + past + 1] <= now:
        past += 1
    if past > 0:
        profile.count[block] -= past
        for i in range(at, at + profile.count[block]):
            profile.time[i] = profile.time[i + past]
            profile.free[i] = profile.free[i + past]
    profile.time[at] = now


@kernel
def earliest(profile, counters, procs, seconds, limit):
    """Return the place from which ``procs`` processors are free for ``seconds``.

    -1 if no such place begins before ``limit``.
    """
    counters[EVENTS] -= 1
    counters[SEARCHED] += 1
    deep = counters[SEARCHED] > DEEP
    k, bound = 0, 0
    if deep:
        bound = earlier_searches(profile.bound, counters, procs, seconds)
        k = block_at(profile, counters, bound)
    place, until = -1, NEVER
    while k < counters[BLOCKS]:
        block = profile.order[k]
        at = block << BITS
        if until == NEVER:
            if profile.most[block] < procs:
                k += 1
                continue
            if profile.time[at] >= limit:
                break
        elif profile.time[at] >= until:
            break
        elif profile.least[block] >= procs:
            k += 1
            continue
        i, end = at, at + profile.count[block]
        while i < end and profile.time[i] < bound:
            i += 1
        needed = procs - profile.shift[block]
        while i < end:
            if until == NEVER:
                if profile.free[i] >= needed:
                    if profile.time[i] >= limit:
                        break
                    place = k << BITS | (i - at)
                    until = profile.time[i] + seconds
            elif profile.time[i] >= until:
                break
            elif profile.free[i] < needed:
                until = NEVER
            i += 1
        if i < end:
            break
        if deep and until == NEVER:
            lower_most(profile, block)
        k += 1
    if until == NEVER:
        place = -1
    if deep:
        remember_search(profile.bound, procs, seconds, limit if place < 0 else until - seconds)
    return place


@kernel
def earliest_before(profile, counters, procs, seconds, limit, due):
    """Return the place from which ``procs`` are free for ``seconds``, or until ``due``.

    -1 if no such place begins before ``limit``; ``due`` is not earlier.
    """
    counters[EVENTS] -= 1
    place, until = -1, NEVER
    for k in range(counters[BLOCKS]):
        block = profile.order[k]
        at = block << BITS
        if until == NEVER:
            if profile.time[at] >= limit:
                return -1
            if profile.most[block] < procs:
                continue
        elif profile.time[at] >= until:
            return place
        elif profile.least[block] >= procs:
            continue
        needed = procs - profile.shift[block]
        for i in range(at, at + profile.count[block]):
            if until == NEVER:
                if profile.time[i] >= limit:
                    return -1
                if profile.free[i] >= needed:
                    place = k << BITS | (i - at)
                    until = min(profile.time[i] + seconds, due)
            elif profile.time[i] >= until:
                return place
            elif profile.free[i] < needed:
                until = NEVER
    return place


@kernel
def give_back(profile, counters, begin, until, procs):
    """Give back ``procs`` processors from ``begin`` to ``until``, both times of entries.

    What searches remember holds no longer.
    """
    counters[SEARCHED] = 0
    k = block_at(profile, counters, begin)
    while k < counters[BLOCKS] and profile.time[profile.order[k] << BITS] < until:
        block = profile.order[k]
        at = block << BITS
        k += 1
        if profile.time[at] >= begin and k < counters[BLOCKS] and profile.time[profile.order[k] << BITS] <= until:
            profile.shift[block] += procs
            profile.most[block] += procs
            profile.least[block] += procs
            continue
        most = profile.most[block] - profile.shift[block]
        for i in range(at, at + profile.count[block]):
            if begin <= profile.time[i] < until:
                profile.free[i] += procs
                most = max(most, profile.free[i])
        profile.most[block] = most + profile.shift[block]


@kernel
def most_free(profile, counters, limit):
    """Return a bound on the processors that are free at a time before ``limit``."""
    most, k = 0, 0
    while k < counters[BLOCKS] and profile.time[profile.order[k] << BITS] < limit:
        most = max(most, profile.most[profile.order[k]])
        k += 1
    return most


@kernel
def longest_run(profile, counters, procs, limit):
    """Return the longest time for which ``procs`` processors are free.

    It begins before ``limit``.
    """
    longest, begin, inside = 0, 0, False
    for k in range(counters[BLOCKS]):
        block = profile.order[k]
        at = block << BITS
        if not inside:
            if profile.time[at] >= limit:
                return longest
            if profile.most[block] < procs:
                continue
        elif profile.least[block] >= procs:
            continue
        needed = procs - profile.shift[block]
        for i in range(at, at + profile.count[block]):
            if inside:
                if profile.free[i] < needed:
                    longest = max(longest, profile.time[i] - begin)
                    inside = False
            elif profile.free[i] >= needed:
                if profile.time[i] >= limit:
                    return longest
                begin = profile.time[i]
                inside = True
    return NEVER if inside else longest


@apart
def earlier_searches(bounds, counters, procs, seconds):
    """Return a time before which no job so wide and long has a place.

    The profile only gets fuller while a plan is made: a job no narrower and no shorter than an earlier one has no place before
    the place of that one.
    """
    if counters[SEARCHED] == DEEP + 1:
        for i in range(len(bounds)):
            bounds[i] = 0
    wide, long = class_of(procs), class_of(seconds)
    here = wide * LENGTHS + long
    bound = bounds[here]
    for i in range(long, here, LENGTHS):
        bound = max(bound, bounds[i])
    for i in range(wide * LENGTHS, here):
        bound = max(bound, bounds[i])
    bounds[here] = bound
    return bound


@apart
def remember_search(bounds, procs, seconds, began):
    """Keep the time found for a job as a lower bound for wider and longer ones."""
    wide, long = class_of(procs), class_of(seconds)
    wide += first_of(wide) < procs
    long += first_of(long) < seconds
    if long < LENGTHS:
        here = wide * LENGTHS + long
        bounds[here] = max(bounds[here], began)


@kernel
def block_at(profile, counters, time):
    """Return the place in ``order`` of the block that holds ``time``, else 0."""
    low, high = 0, counters[BLOCKS] - 1
    while low < high:
        middle = (low + high + 1) >> 1
        if profile.time[profile.order[middle] << BITS] <= time:
            low = middle
        else:
            high = middle - 1
    return low


@kernel
def class_of(number):
    """Return the class of a number: 1 to 8, 10, 12, 14, 16, 20, 24, ... begin one each."""
    place = 0
    while number >> place > 7:
        place += 1
    return min(4 * place + (number >> place), LENGTHS) - 1


@kernel
def first_of(class_):
    """Return the smallest number of a class."""
    return class_ + 1 if class_ < 3 else (4 + (class_ - 3) % 4) << ((class_ - 3) >> 2)


@apart
def reserve_from(profile, counters, place, procs, seconds):
    """Take ``procs`` processors for ``seconds`` from ``place`` on."""
    k = place >> BITS
    block = profile.order[k]
    at = block << BITS
    i = at | place & (SIZE - 1)
    until = profile.time[i] + seconds
    while k + 1 < counters[BLOCKS] and profile.time[profile.order[k + 1] << BITS] <= until:
        if i == at:
            profile.shift[block] -= procs
            profile.most[block] -= procs
            profile.least[block] -= procs
        else:
            take(profile, block, i, NEVER, procs)
        k += 1
        block = profile.order[k]
        i = at = block << BITS
    if profile.time[i] == until:
        return
    end = at + profile.count[block]
    i = take(profile, block, i, until, procs)
    if i < end and profile.time[i] == until:
        return
    for other in range(end, i, -1):
        profile.time[other] = profile.time[other - 1]
        profile.free[other] = profile.free[other - 1]
    profile.time[i] = until
    profile.free[i] = profile.free[i - 1] + procs  # as before it: a reservation begins at an entry of this block
    profile.count[block] += 1
    if profile.count[block] == SIZE:
        split(profile, counters, k)


@kernel
def take(profile, block, i, until, procs):
    """Take ``procs`` processors from a block's entries from ``i`` to ``until``.

    Returns the first entry behind them.
    """
    end = (block << BITS) + profile.count[block]
    least = profile.least[block] - profile.shift[block]
    while i < end and profile.time[i] < until:
        profile.free[i] -= procs
        least = min(least, profile.free[i])
        i += 1
    profile.least[block] = least + profile.shift[block]
    return i


@kernel
def lower_most(profile, block):
    """Bring the max free processors of a block down to those of its entries."""
    at = block << BITS
    most = profile.free[at]
    for i in range(at + 1, at + profile.count[block]):
        most = max(most, profile.free[i])
    profile.most[block] = most + profile.shift[block]


@apart
def split(profile, counters, k):
    """Move half of the entries of the block at ``k`` into a new block behind it."""
    block, other = profile.order[k], profile.order[counters[BLOCKS]]
    for place in range(counters[BLOCKS], k + 1, -1):
        profile.order[place] = profile.order[place - 1]
    profile.order[k + 1] = other
    counters[BLOCKS] += 1
    half = SIZE // 2
    for i in range(half):
        profile.time[(other << BITS) + i] = profile.time[(block << BITS) + half + i]
        profile.free[(other << BITS) + i] = profile.free[(block << BITS) + half + i]
    profile.count[block] = profile.count[other] = half
    profile.shift[other] = profile.shift[block]
    profile.least[other] = profile.least[block]
    profile.most[other] = profile.most[block]


@kernel
def fits_now(profile, counters, procs, seconds):
    """Tell whether ``procs`` processors are free for ``seconds`` from now on."""
    return free_for(profile, counters, procs, seconds) >= seconds


@kernel
def free_for(profile, counters, procs, most):
    """Return for how many seconds from now on ``procs`` processors are free, at ``most``."""
    now = profile.time[profile.order[0] << BITS]
    for k in range(counters[BLOCKS]):
        block = profile.order[k]
        at = block << BITS
        if profile.time[at] - now >= most:
            return most
        if profile.least[block] >= procs:
            continue
        needed = procs - profile.shift[block]
        for i in range(at, at + profile.count[block]):
            if profile.time[i] - now >= most:
                return most
            if profile.free[i] < needed:
                return profile.time[i] - now
    return most
