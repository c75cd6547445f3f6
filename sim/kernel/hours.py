"""Hours at which jobs may start, in the event loop."""

from __future__ import annotations

from features.jit import apart, kernel
from sim.kernel.clusters import GAINS, HOUR, MOST_GAINS
from sim.kernel.state import AS_PLANNED, CHANGED, ENDS, LATER, NEVER, NEXT, WAITING


@kernel
def next_hour(state, jobs, clusters):
    """Return when hours next begin; NEVER if no job is left that this could affect."""
    counters, hours, i = state.counters, clusters.hours, clusters.numbers[HOUR]
    jobs_left = counters[ENDS] > 0 or counters[WAITING] > 0 or counters[NEXT] < len(jobs.submit)
    return hours.time[i] if jobs_left and i < len(hours.time) else NEVER


@apart
def change_hours(now, state, clusters):
    """Apply the begins of hours up to ``now``."""
    numbers, hours = clusters.numbers, clusters.hours
    while numbers[HOUR] < len(hours.time) and hours.time[numbers[HOUR]] <= now:
        hours.latest[hours.kind[numbers[HOUR]]] = hours.until[numbers[HOUR]]
        numbers[HOUR] += 1
    numbers[GAINS] += MOST_GAINS + 1  # more than are looked through one by one: all jobs may fit now
    state.counters[CHANGED] = 1
    state.counters[AS_PLANNED] = LATER
