"""EASY with k reservations: the first k waiting jobs that cannot start hold one each.

Backfilling may delay none of them. Lies between EASY (k = 1) and a reservation for every job (Chiang, Arpaci-Dusseau & Vernon
2002 compare k). Jobs are visited in the primary order until k reservations are given, the others then in backfill order.
"""

from __future__ import annotations

from features.jit import apart
from sim.kernel.profile import build_profile, earliest, reserve_from
from sim.kernel.queue import BEGIN, END, is_hole
from sim.kernel.state import NEVER


@apart
def reserve_heads(reservations, now, jobs, estimates, front, profile, state, bits):
    """Walk the primary queue until ``reservations`` jobs hold one; return the next to start.

    The result is the index of the next job that may start now, not yet started, and -1 once there is none; call again after each
    start.
    """
    counters = state.counters
    build_profile(now, profile, state, bits)
    given = 0
    at = front.bounds[BEGIN]
    while at < front.bounds[END] and given < reservations:
        if is_hole(front, at, state.start):
            at += 1
            continue
        start = earliest(profile, counters, front.procs[at], front.fit[at], NEVER, NEVER)
        if start == 0:
            return at
        reserve_from(profile, counters, start, front.procs[at], front.fit[at])
        given += 1
        at += 1
    return -1
