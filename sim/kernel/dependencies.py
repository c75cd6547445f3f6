"""Jobs submitted when another has ended: SWF's preceding job and think time.

These are the reacting users of Zakay & Feitelson. The kernel numbers jobs by the order of their submissions, which here is only
known during the simulation. So its tables are filled as jobs arrive: the next row is the job due first, by second and then by row
of the given table. One at a time (per-event semantics), a job released by an end of this very second comes after those submitted
in it before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from features.jit import kernel
from sim.kernel.state import DUE, STATED, Estimates, Jobs, heap_pop, heap_push

NO_JOB = -1


class Dependencies(NamedTuple):
    """The given dependencies and the jobs due; int64 [jobs] except where said.

    ``preceding`` is a job's preceding row, or -1; ``first`` a row's first follower and ``sibling`` the next follower of the same
    row, or -1; ``think`` in seconds; ``due`` a heap of ``second << bits | row`` of those whose preceding job has ended; ``row``
    the row of the table of each job submitted so far. Rows are in the order of the table.
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
    """Return the time of the next known submission; ``never`` if all others wait for ends."""
    total = len(dependencies.preceding)
    while counters[STATED] < total and dependencies.preceding[counters[STATED]] != NO_JOB:
        counters[STATED] += 1
    when = never
    if counters[STATED] < total:
        when = dependencies.given.submit[counters[STATED]]
    if counters[DUE] > 0:
        when = min(when, dependencies.due[0] >> bits)
    return when


@kernel
def take(dependencies, job, now, jobs, estimates, counters, bits):
    """Make the first job due ``now``, by row, ``job``, the next to be submitted."""
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
    """Handle the end of ``job``: its followers are due after their think times."""
    follower = dependencies.first[dependencies.row[job]]
    while follower != NO_JOB:
        heap_push(dependencies.due, counters[DUE], (now + dependencies.think[follower]) << bits | follower)
        counters[DUE] += 1
        follower = dependencies.sibling[follower]
