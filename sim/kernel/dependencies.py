"""Jobs submitted when others have ended: a graph of batches, with think times.

In the model of Zakay & Feitelson users react: the jobs of a batch are submitted when all jobs of the batches that it
waits for have ended, each after its own think time. A job with a preceding job in SWF is a batch of one job that waits
for another such batch. The kernel numbers jobs in order of submission, and here this order is only known during the
simulation. So the kernel's tables are filled as jobs arrive: the next row is the job due first, by second and then by
row of the given table. In per-event semantics, a job released by an end of this very second follows the jobs already
submitted in it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from features.jit import kernel
from sim.kernel.state import DUE, STATED, Estimates, Jobs, heap_pop, heap_push


class Dependencies(NamedTuple):
    """The graph of batches, and the jobs due; int64 [jobs] unless another shape is given.

    Each job has its ``batch`` and its think time ``after`` (seconds from the last end that its batch waits for, -1 if
    it waits for none). Batch b has the jobs ``member[first_member[b] : first_member[b + 1]]``; the batches
    ``child[first_child[b] : last_child[b]]`` wait for it. ``running`` [batches] counts its jobs that have not ended,
    ``parents`` [batches] the batches it still waits for. ``due`` is a heap of ``second << bits | row`` of jobs with a
    known submission; ``row`` is the row in the recorded table of each job submitted so far. Rows are in the order of
    the recorded table.
    """

    recorded: Jobs
    estimates: Estimates
    batch: np.ndarray
    after: np.ndarray
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
    """Return the time of the next known submission, ``never`` if all jobs left wait for ends."""
    total = len(dependencies.after)
    while counters[STATED] < total and dependencies.after[counters[STATED]] >= 0:
        counters[STATED] += 1
    when = never
    if counters[STATED] < total:
        when = dependencies.recorded.submit[counters[STATED]]
    if counters[DUE] > 0:
        when = min(when, dependencies.due[0] >> bits)
    return when


@kernel
def take(dependencies, job, now, jobs, estimates, counters, bits):
    """Copy the job due ``now`` with the lowest row to the kernel's row ``job``."""
    next_row = counters[STATED]
    row = next_row
    if counters[DUE] > 0 and dependencies.due[0] >> bits == now:
        row = dependencies.due[0] & ((1 << bits) - 1)
    if next_row < len(dependencies.after) and dependencies.recorded.submit[next_row] == now and next_row <= row:
        row = next_row
        counters[STATED] += 1
    else:
        heap_pop(dependencies.due, counters[DUE])
        counters[DUE] -= 1
    recorded, given_estimates = dependencies.recorded, dependencies.estimates
    dependencies.row[job] = row
    jobs.submit[job] = now
    jobs.runtime[job] = recorded.runtime[row]
    jobs.procs[job] = recorded.procs[row]
    jobs.requested[job] = recorded.requested[row]
    jobs.user[job] = recorded.user[row]
    estimates.order[job] = given_estimates.order[row]
    estimates.fit[job] = given_estimates.fit[row]
    estimates.end[job] = given_estimates.end[row]


@kernel
def release(dependencies, job, now, counters, bits):
    """Handle the end of ``job``: if its batch has ended, enter the jobs of batches now due."""
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
                heap_push(dependencies.due, counters[DUE], (now + dependencies.after[row]) << bits | row)
                counters[DUE] += 1
