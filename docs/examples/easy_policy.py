"""EASY backfilling as a policy of one's own.

It starts the jobs that the built-in `EASY` starts. `sim/own/decide.py` says what a policy sees.
"""

from sim import View
from sim.own.decide import Job


def easy(view: View) -> list[Job]:
    """Start jobs in order of submission; let others pass that do not delay the first that waits."""
    queue, free, starts = list(view.queue), view.free, []
    while queue and queue[0].procs <= free:
        starts.append(queue.pop(0))
        free -= starts[-1].procs
    if len(queue) < 2 or free == 0:
        return starts
    head, candidates = queue[0], queue[1:]

    ends = [(running.until_s, running.job.procs) for running in view.running]
    ends += [(view.now_s + job.end_s, job.procs) for job in starts]
    extra, shadow = free, view.now_s  # when the first job can start, and what it leaves free then
    for end, procs in sorted(ends):
        if extra >= head.procs and end > shadow:
            break
        extra, shadow = extra + procs, end
    extra -= head.procs

    for job in candidates:
        in_time = view.now_s + job.fit_s <= shadow
        if job.procs <= free and (in_time or job.procs <= extra):
            starts.append(job)
            free -= job.procs
            extra -= 0 if in_time else job.procs
    return starts
