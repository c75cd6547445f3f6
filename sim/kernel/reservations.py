"""EASY with k reservations: the first k waiting jobs that cannot start hold one each.

Backfilling may delay none of these jobs. The algorithm lies between EASY (k = 1) and a reservation for every job (Chiang,
Arpaci-Dusseau & Vernon 2002 compare k). Jobs are tried in primary order until k hold a reservation, the rest in backfill order.
"""

from __future__ import annotations

from features.jit import apart
from sim.kernel.profile import build_profile, earliest, reserve_from
from sim.kernel.queue import BEGIN, END, is_hole
from sim.kernel.state import NEVER


@apart
def reserve_heads(reservations, now, jobs, estimates, front, profile, state, bits):
    """Walk the primary queue until ``reservations`` jobs hold one; return the next to start.

    The result is the index of the next job that may start now, or -1 if there is none. It is not started here; call this again
    after each start.
    """
    counters = state.counters
    build_profile(now, profile, state, bits)
    reserved = 0
    at = front.bounds[BEGIN]
    while at < front.bounds[END] and reserved < reservations:
        if is_hole(front, at, state.start):
            at += 1
            continue
        start = earliest(profile, counters, front.procs[at], front.fit[at], NEVER, NEVER)
        if start == 0:
            return at
        reserve_from(profile, counters, start, front.procs[at], front.fit[at])
        reserved += 1
        at += 1
    return -1
