"""Jobs that are submitted when another has ended: SWF's preceding job and think time (Zakay & Feitelson's users who react).

The kernel knows jobs by the order of their submissions, which here is only known as the simulation goes. So the tables it works on are
filled as jobs arrive: the next row is whoever is due first, by second and then by row of the given table. One at a time (per-event
semantics), a job that an end of this very second lets in comes after those submitted in it before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from features.jit import kernel
from sim.kernel.state import DUE, STATED, Estimates, Jobs, heap_pop, heap_push

NOBODY = -1


class Dependencies(NamedTuple):
    """What is given, rows in the order of the table, and who is due. int64 [jobs] except where said.

    ``preceding`` is a job's preceding row, or -1; ``first`` a row's first follower and ``sibling`` the next follower of the same row, or -1; ``think``
    in seconds; ``due`` a heap of ``second << bits | row`` of those whose preceding job has ended; ``row`` the row of the table of each job submitted so far.
    """

    given: Jobs
    estimates: Estimates
    preceding: np.ndarray
    first: np.ndarray
    sibling: np.ndarray
    think: np.ndarray
    due: np.ndarray
    row: np.ndarray


@kernel
def next_submission(dependencies, counters, bits, never):
    """When the next job is submitted, as far as is known now; ``never`` if those to come all wait for others to end."""
    total = len(dependencies.preceding)
    while counters[STATED] < total and dependencies.preceding[counters[STATED]] != NOBODY:
        counters[STATED] += 1
    when = never
    if counters[STATED] < total:
        when = dependencies.given.submit[counters[STATED]]
    if counters[DUE] > 0:
        when = min(when, dependencies.due[0] >> bits)
    return when


@kernel
def take(dependencies, job, now, jobs, estimates, counters, bits):
    """Let whoever is due ``now``, the first of them by row, be ``job``, the next to be submitted."""
    stated = counters[STATED]
    row = stated
    if counters[DUE] > 0 and dependencies.due[0] >> bits == now:
        row = dependencies.due[0] & ((1 << bits) - 1)
    if stated < len(dependencies.preceding) and dependencies.given.submit[stated] == now and stated <= row:
        row = stated
        counters[STATED] += 1
    else:
        heap_pop(dependencies.due, counters[DUE])
        counters[DUE] -= 1
    given, known = dependencies.given, dependencies.estimates
    dependencies.row[job] = row
    jobs.submit[job] = now
    jobs.runtime[job] = given.runtime[row]
    jobs.procs[job] = given.procs[row]
    jobs.requested[job] = given.requested[row]
    jobs.user[job] = given.user[row]
    estimates.order[job] = known.order[row]
    estimates.fit[job] = known.fit[row]
    estimates.end[job] = known.end[row]


@kernel
def release(dependencies, job, now, counters, bits):
    """``job`` has ended: those that wait for it are due once their users have thought."""
    follower = dependencies.first[dependencies.row[job]]
    while follower != NOBODY:
        heap_push(dependencies.due, counters[DUE], (now + dependencies.think[follower]) << bits | follower)
        counters[DUE] += 1
        follower = dependencies.sibling[follower]
