"""Free processors over time, for algorithms that plan.

The profile is a step function, kept in blocks of entries in order of time: a reservation moves entries of one block only, and a
search skips blocks in which too few processors are free. In deep queues a search also begins where those for jobs no wider and
no longer have ended in the same plan.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from features.jit import apart, kernel
from sim.kernel.state import BLOCKS, EVENTS, FREE, NEVER, PLANS, RESERVED, SEARCHED

BITS = 6
SIZE = 1 << BITS
"""Max entries of a block, as a power of two; a full one is split."""
FILLED = 32
"""Entries of a new block, so that it can take some more."""
DEEP = 128
"""Planned jobs from which on earlier searches are remembered."""
LENGTHS = 128
"""Classes of seconds, four for each doubling."""


class Profile(NamedTuple):
    """A step function: ``free[i]`` processors from ``time[i]`` on, int64 all.

    ``order`` is a permutation of the blocks, of which the first ``counters[BLOCKS]`` are used, in order of time; a block's entries
    begin at ``SIZE`` times its number and are ``count`` many; no entry of it has more than ``most`` free. A place in the profile
    is one integer: place in ``order`` << BITS | place in the block; the first is 0. ``bound`` [classes of widths x LENGTHS]: the
    time before which no job of a class or beyond has a place.
    """

    time: np.ndarray
    free: np.ndarray
    order: np.ndarray
    count: np.ndarray  # type: ignore[assignment]
    most: np.ndarray
    bound: np.ndarray


def blocks_for(entries: int) -> int:
    """Return the blocks that hold any profile of so many entries: split blocks are half full."""
    return 2 + 2 * entries // SIZE


def bounds_for(procs: int) -> int:
    """Return the length of ``Profile.bound`` for a machine of ``procs`` processors."""
    return LENGTHS * (4 * procs.bit_length() + 1)


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
            profile.count[block] = size
            profile.most[block] = free  # grows with time
            block = profile.order[counters[BLOCKS]]
            counters[BLOCKS] += 1
            at = block << BITS
            size = 0
        profile.time[at] = end
        profile.free[at] = free
        size += 1
    profile.count[block] = size
    profile.most[block] = profile.free[at]


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
def earliest(profile, counters, procs, seconds):
    """Return the place from which ``procs`` processors are free for ``seconds``."""
    counters[EVENTS] -= 1
    deep = counters[RESERVED] >= DEEP
    k, bound = 0, 0
    if deep:
        bound = earlier_searches(profile.bound, counters, procs, seconds)
        k = block_at(profile, counters, bound)
    place, until = 0, NEVER
    while k < counters[BLOCKS]:
        block = profile.order[k]
        if until == NEVER and profile.most[block] < procs:
            k += 1
            continue
        at = block << BITS
        i, end = at, at + profile.count[block]
        while i < end and profile.time[i] < bound:
            i += 1
        while i < end:
            if until == NEVER:
                if profile.free[i] >= procs:
                    place = k << BITS | (i - at)
                    until = profile.time[i] + seconds
            elif profile.time[i] >= until:
                break
            elif profile.free[i] < procs:
                until = NEVER
            i += 1
        if i < end:
            break
        if deep and until == NEVER:
            most = 0
            for i in range(at, end):
                most = max(most, profile.free[i])
            profile.most[block] = most
        k += 1
    if deep:
        remember_search(profile.bound, procs, seconds, until - seconds)
    return place


@apart
def earlier_searches(bounds, counters, procs, seconds):
    """Return a time before which no job so wide and long has a place.

    The profile only gets fuller while a plan is made: a job no narrower and no shorter than an earlier one has no place before
    the place of that one.
    """
    if counters[SEARCHED] == 0:
        counters[SEARCHED] = 1
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


@kernel
def reserve_from(profile, counters, place, procs, seconds):
    """Take ``procs`` processors for ``seconds`` from ``place`` on."""
    k = place >> BITS
    block = profile.order[k]
    at = block << BITS
    i = at | place & (SIZE - 1)
    until = profile.time[i] + seconds
    while True:
        end = at + profile.count[block]
        while i < end and profile.time[i] < until:
            profile.free[i] -= procs
            i += 1
        if i < end or k + 1 == counters[BLOCKS] or profile.time[profile.order[k + 1] << BITS] >= until:
            break
        k += 1
        block = profile.order[k]
        i = at = block << BITS
    if i < end:
        if profile.time[i] == until:
            return
    elif k + 1 < counters[BLOCKS] and profile.time[profile.order[k + 1] << BITS] == until:
        return
    for other in range(end, i, -1):
        profile.time[other] = profile.time[other - 1]
        profile.free[other] = profile.free[other - 1]
    profile.time[i] = until
    profile.free[i] = profile.free[i - 1] + procs  # as before it: a reservation begins at an entry of this block
    profile.count[block] += 1
    if profile.count[block] == SIZE:
        split(profile, counters, k)


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
    profile.most[other] = profile.most[block]


@kernel
def fits_now(profile, counters, procs, seconds):
    """Tell whether ``procs`` processors are free for ``seconds`` from now on."""
    until = profile.time[profile.order[0] << BITS] + seconds
    for k in range(counters[BLOCKS]):
        block = profile.order[k]
        at = block << BITS
        for i in range(at, at + profile.count[block]):
            if profile.time[i] >= until:
                return True
            if profile.free[i] < procs:
                return False
    return True
