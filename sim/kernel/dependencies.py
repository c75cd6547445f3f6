"""Jobs submitted when others have ended: a graph of batches, with think times.

The users of Zakay & Feitelson react: a batch of jobs is submitted when all jobs of the batches it waits for have ended, each of
its jobs so many seconds after that. A job with SWF's preceding job is a batch of one that waits for a batch of one. The kernel
numbers jobs by the order of their submissions, which here is only known during the simulation. So its tables are filled as jobs
arrive: the next row is the job due first, by second and then by row of the given table. One at a time (per-event semantics), a
job released by an end of this very second comes after those submitted in it before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from features.jit import kernel
from sim.kernel.state import DUE, STATED, Estimates, Jobs, heap_pop, heap_push


class Dependencies(NamedTuple):
    """The graph of batches, and the jobs due; int64 [jobs] except where said.

    ``batch`` is each job's batch, ``after`` the seconds from the last end waited for to its submission, -1 if it waits for none,
    ``earliest`` the second before which it is not submitted. The jobs of batch b are ``member[first_member[b] : first_member[b + 1]]``,
    the batches that wait for it ``child[first_child[b] : last_child[b]]``. ``running`` [batches] counts jobs that have not ended, ``parents``
    [batches] batches waited for that have not. ``due`` is a heap of ``second << bits | row`` of jobs whose submission is known;
    ``row`` the row of the table of each job submitted so far. Rows are in the order of the table.
    """

    given: Jobs
    estimates: Estimates
    batch: np.ndarray
    after: np.ndarray
    earliest: np.ndarray
    member: np.ndarray
    first_member: np.ndarray
    child: np.ndarray
    first_child: np.ndarray
    last_child: np.ndarray
    running: np.ndarray
    parents: np.ndarray
    due: np.ndarray
    row: np.ndarray


@kernel
def next_submission(dependencies, counters, bits, never):
    """Return the time of the next known submission; ``never`` if all others wait for ends."""
    total = len(dependencies.after)
    while counters[STATED] < total and dependencies.after[counters[STATED]] >= 0:
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
    next_row = counters[STATED]
    row = next_row
    if counters[DUE] > 0 and dependencies.due[0] >> bits == now:
        row = dependencies.due[0] & ((1 << bits) - 1)
    if next_row < len(dependencies.after) and dependencies.given.submit[next_row] == now and next_row <= row:
        row = next_row
        counters[STATED] += 1
    else:
        heap_pop(dependencies.due, counters[DUE])
        counters[DUE] -= 1
    given, given_estimates = dependencies.given, dependencies.estimates
    dependencies.row[job] = row
    jobs.submit[job] = now
    jobs.runtime[job] = given.runtime[row]
    jobs.procs[job] = given.procs[row]
    jobs.requested[job] = given.requested[row]
    jobs.user[job] = given.user[row]
    estimates.order[job] = given_estimates.order[row]
    estimates.fit[job] = given_estimates.fit[row]
    estimates.end[job] = given_estimates.end[row]


@kernel
def release(dependencies, job, now, counters, bits):
    """Handle the end of ``job``: after its batch's last, batches may be due.

    A job that will never start counts as ended when this is called for it.
    """
    batch = dependencies.batch[dependencies.row[job]]
    dependencies.running[batch] -= 1
    if dependencies.running[batch] > 0:
        return
    for i in range(dependencies.first_child[batch], dependencies.last_child[batch]):
        child = dependencies.child[i]
        dependencies.parents[child] -= 1
        if dependencies.parents[child] == 0:
            for k in range(dependencies.first_member[child], dependencies.first_member[child + 1]):
                row = dependencies.member[k]
                when = max(now + dependencies.after[row], dependencies.earliest[row])
                heap_push(dependencies.due, counters[DUE], when << bits | row)
                counters[DUE] += 1
