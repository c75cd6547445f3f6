"""What the records of a trace show in use at once, and why simulating it may be doubtful."""

from typing import NamedTuple

import numpy as np

from features.clock import DAY_S
from features.jobs.columns import Table, TableColumns, changed, columns, filled, held
from features.jobs.damage import copies, plausible
from features.jobs.schema import Trace

HIGH = 0.999
"""Share of the time for which usage stays within :attr:`InUse.high`. A peak may be false: accounting clocks differ by
seconds."""
WAITED_S = 60
"""A job waited if it started more than this many seconds after its submission."""
APART = 0.05
"""Share by which allocated work may differ from requested work without a warning."""


WIDE = "wider-than-machine"
"""The rule that drops jobs that ask for more processors than the machine has."""


class InUse(NamedTuple):
    """The most in use at once: at any time (``peak``), and for 99.9 % of the time (``high``)."""

    peak: int
    high: int

    def exceeds(self, procs: int) -> bool:
        """Tell whether ``high`` is more than 1 % above ``procs``."""
        return self.high > 1.01 * procs


class Usage(NamedTuple):
    """Usage by jobs with known waits and runtimes; None if no job states it.

    ``waited`` is the share of these ``jobs`` that waited over a minute.
    """

    jobs: int
    procs: InUse | None
    nodes: InUse | None
    waited: float | None


def usage(jobs: Table) -> Usage:
    """Return what ``jobs``, a canonical table, used according to their recorded starts.

    Copies of rows, and jobs outside the file's own clock, do not count, as cleaning drops them.
    """
    wait_s, runtime_s = filled(jobs, "wait_s", -1), filled(jobs, "runtime_s")
    rows = np.flatnonzero((wait_s >= 0) & (runtime_s > 0) & ~copies(jobs))
    rows = rows[plausible(filled(jobs, "submit_s")[rows].astype(np.float64), (wait_s + runtime_s)[rows].astype(np.float64))]
    if len(rows) == 0:
        return Usage(0, None, None, None)
    start_s = (filled(jobs, "submit_s") + wait_s)[rows]
    end_s = start_s + runtime_s[rows]
    allocated = filled(jobs, "allocated_procs")
    procs = np.where(allocated > 0, allocated, filled(jobs, "procs"))
    procs_in_use, nodes_in_use = (_in_use(start_s, end_s, amount[rows]) for amount in (procs, filled(jobs, "nodes")))
    return Usage(len(rows), procs_in_use, nodes_in_use, float((wait_s[rows] > WAITED_S).mean()))


class Advice(NamedTuple):
    """The number to give as ``--procs``, None if nothing tells one, and the ``reason`` for it."""

    procs: int | None
    reason: str


def advised(jobs: Table, size: int | None, used: InUse | None) -> Advice:
    """Return how many processors the machine of ``jobs``, a canonical table, has.

    A stated ``size`` counts unless it is impossible: a job asks for more, or all jobs together for more than it can do.
    Records that overlap do not refute it, since accounting clocks differ and processors may be shared. Otherwise the
    number is what suffices for 99.9 % of the time, and for the widest job.
    """
    widest = int(filled(jobs, "procs").max())
    enough = max(widest, 0 if used is None else used.high) or None
    fits = "fits the widest job" if used is None or widest >= used.high else "was enough for 99.9 % of the time"
    if size is None:
        return (
            Advice(None, "not stated, and no record tells it") if used is None else Advice(enough, f"not stated; {enough:,} {fits}")
        )
    load = offered_load(jobs, size)
    if widest > size:
        return Advice(enough, f"{size:,} stated, but a job asks for {widest:,}; {enough:,} {fits}")
    if load is not None and load > 1 and enough is not None and enough > size:
        return Advice(enough, f"{size:,} stated, but jobs ask for {load:.2f} times what that can do; {enough:,} {fits}")
    overlap = used is not None and used.exceeds(size) and occupied_apart(occupied(jobs)) is None
    return Advice(size, f"stated; records that overlap have up to {used.high:,} in use" if used and overlap else "stated")


def _in_use(start_s: np.ndarray, end_s: np.ndarray, held: np.ndarray) -> InUse | None:
    if not (held > 0).any():
        return None
    times = np.concatenate((start_s, end_s))
    order = np.argsort(times, kind="stable")
    moments, first = np.unique(times[order], return_index=True)
    values = np.add.reduceat(np.concatenate((held, -held))[order], first).cumsum()[:-1]
    by_value = np.argsort(values, kind="stable")
    passed = np.diff(moments)[by_value].cumsum()
    return InUse(int(values.max()), int(values[by_value][np.searchsorted(passed, HIGH * passed[-1])]))


def occupied(jobs: Table) -> float | None:
    """Return allocated over requested work of the jobs that state both.

    Work is processors times runtime. None if no job states both. The share is not 1 where whole nodes or all threads of
    a core are given.
    """
    amounts = np.array([filled(jobs, name) for name in ("allocated_procs", "procs", "runtime_s")], np.float64)
    both = (amounts > 0).all(axis=0)
    if not both.any():
        return None
    allocated, requested, runtime_s = np.ascontiguousarray(amounts[:, both])
    return float(allocated @ runtime_s / (requested @ runtime_s))


def occupied_apart(share: float | None) -> str | None:
    """Return the warning about a share of :func:`occupied` that is not about 1, or None."""
    if share is None or abs(share - 1) < APART:
        return None
    return (
        f"jobs were allocated {share:.2f} times the processors that they ask for: --procs-from allocated simulates what they occupy"
    )


def with_allocated(trace: Trace) -> Trace:
    """Return the trace with allocated processors in place of requested ones, where stated."""
    jobs = columns(held(trace))
    allocated = filled(jobs, "allocated_procs")
    procs = np.ma.where(allocated > 0, allocated, jobs["procs"])
    changed_jobs = int(((allocated > 0) & (allocated != filled(jobs, "procs"))).sum())
    note = f"Processors are those allocated, not those requested: {changed_jobs:,} jobs differ."
    return changed(trace, jobs=TableColumns({**jobs.arrays, "procs": procs}, jobs.labels), notes=(*trace.notes, note))


def offered_load(jobs: Table, procs: int) -> float | None:
    """Return the work of ``jobs`` over the capacity of ``procs`` processors meanwhile.

    ``jobs`` is a cleaned table; the time is that from its first to its last submission. None if all are submitted at
    once.
    """
    span_s = float(np.ptp(filled(jobs, "submit_s")))
    work = float(filled(jobs, "procs").astype(np.float64) @ filled(jobs, "runtime_s").astype(np.float64))
    return work / (procs * span_s) if span_s else None


def doubts(jobs: Table, procs: int, rejected_jobs: Table) -> list[str]:
    """Return why a simulation may mean little: load, wide jobs, requests, peak.

    One line for each reason; ``rejected_jobs`` as in :class:`features.jobs.cleaning.CleanTrace`.
    """
    machine, lines = f"{procs:,} processors", []
    load = offered_load(jobs, procs)
    # a shorter span says nothing of the load: its jobs end after it
    span_s, longest_s = float(np.ptp(filled(jobs, "submit_s"))), float(filled(jobs, "runtime_s").max())
    if load is not None and load > 1 and span_s >= max(DAY_S, longest_s):
        lines.append(f"jobs ask for {load:.2f} times what {machine} can do, so the queue would grow without end: check --procs")
    wide = filled(rejected_jobs, "before")[[rule == WIDE for rule in rejected_jobs["rule"].tolist()]]
    if len(wide):
        lines.append(
            f"{len(wide):,} job{'s ask' if len(wide) > 1 else ' asks'} for more than {machine}, up to {wide.max():,.0f}: left out; check --procs"
        )
    apart = occupied_apart(occupied(jobs))
    peak = usage(jobs).procs
    if apart is not None:
        lines.append(apart)
    elif peak is not None and peak.exceeds(procs):
        lines.append(
            f"its records overlap: at times they have more than {machine} in use; queuecast inspect says which --procs to give"
        )
    return lines
