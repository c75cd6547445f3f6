"""The processors that each job of a schedule holds; a pool only counts them.

Files of other programs name processors, and pictures draw them.
"""

from __future__ import annotations

import heapq
from bisect import bisect

from features.errors import InputError
from sim.schedule import Schedule

Span = tuple[int, int]
"""The first and the last processor of a range."""


def seats(schedule: Schedule) -> list[list[Span]]:
    """Return the processors of each job: the lowest free ones, in the order of starts.

    Raises InputError if jobs hold more processors at a time than exist, as recorded jobs may.
    """
    jobs = schedule.jobs.reset_index(drop=True)
    free: list[Span] = [(0, schedule.procs - 1)]
    held: list[list[Span]] = [[] for _ in range(len(jobs))]
    ends: list[tuple[int, int]] = []
    order = jobs.sort_values(["start_s", "submit_s"], kind="stable")[["start_s", "end_s", "procs"]]
    for job, start, end, procs in order.itertuples(name=None):
        while ends and ends[0][0] <= start:
            for span in held[heapq.heappop(ends)[1]]:
                _give_back(free, span)
        while procs > 0:
            if not free:
                number = jobs["job_id"].iloc[job]
                wanting = f"needs more than is free of {schedule.procs:,} processors"
                raise InputError(f"{schedule.label}: job {number} starts at second {start} and {wanting}")
            first, last = free.pop(0)
            if last - first >= procs:
                free.insert(0, (first + procs, last))
                last = first + procs - 1
            held[job].append((first, last))
            procs -= last - first + 1
        heapq.heappush(ends, (end, job))
    return held


def _give_back(free: list[Span], span: Span) -> None:
    """Add a range to the free ones, which stay sorted and merged."""
    first, last = span
    at = bisect(free, span)
    if at < len(free) and free[at][0] == last + 1:
        last = free.pop(at)[1]
    if at > 0 and free[at - 1][1] == first - 1:
        at -= 1
        first = free.pop(at)[0]
    free.insert(at, (first, last))
