"""Predictions one after the other; each job is learned before the next is submitted."""

from __future__ import annotations

from features.jit import njit
from models.runtime.dispatch import estimate, learn, started, wants_starts


@njit
def walk(code, memory, jobs, start, first, last, answers):
    """Estimate the jobs ``first`` to ``last`` in order; each is learned before the next."""
    for job in range(first, last):
        answers[job] = estimate(code, memory, job, jobs, start)
        start[job] = jobs.submit[job]
        if wants_starts(code):
            started(code, memory, job, jobs)
        learn(code, memory, job, jobs, jobs.submit[job])
