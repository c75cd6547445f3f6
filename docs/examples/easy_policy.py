"""EASY backfilling as a policy of one's own, in Python and compiled.

Both start the jobs that the built-in `EASY` starts. `sim/own/decide.py` and `sim/own/compiled_policy.py` say what a policy sees.
"""

import numpy as np

from sim import CompiledView, View, compiled
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


@compiled(memory=2)
def fast_easy(view: CompiledView, chosen: np.ndarray) -> int:
    """Do the same; while no job ends look at new jobs alone, as predictors of one answer leave the others refused."""
    waiting, procs, free, count = view.waiting, view.procs, view.free, 0
    first = len(waiting) - view.new
    if view.changed or first == 0:
        first = 0
        while first < len(waiting) and procs[waiting[first]] <= free:
            chosen[count] = waiting[first]
            free -= procs[waiting[first]]
            count += 1
            first += 1
        if first == len(waiting):
            return count
        extra, shadow, i = free - procs[waiting[first]], view.now, 0
        first += 1
        while extra < 0:  # until the next end, of a running job or one started above
            before, shadow = shadow, 1 << 62
            if i < len(view.planned):
                shadow = view.planned[i] >> view.bits
            for k in range(count):
                if before < view.now + view.end[chosen[k]] < shadow:
                    shadow = view.now + view.end[chosen[k]]
            while i < len(view.planned) and view.planned[i] >> view.bits == shadow:
                extra += view.planned_procs[i]
                i += 1
            for k in range(count):
                if view.now + view.end[chosen[k]] == shadow:
                    extra += procs[chosen[k]]
        view.memory[0], view.memory[1] = shadow, extra

    while first < len(waiting) and free > 0:
        job = waiting[first]
        if procs[job] <= free:
            in_time = view.now + view.fit[job] <= view.memory[0]
            if in_time or procs[job] <= view.memory[1]:
                chosen[count] = job
                free -= procs[job]
                count += 1
                view.memory[1] -= 0 if in_time else procs[job]
        first += 1
    return count
