"""Draw how long jobs take in rollouts, which are run by :func:`sim.kernel.run.run`."""

from __future__ import annotations

from features.jit import apart
from models.runtime.dispatch import tell_quantiles
from sim.kernel.scenarios import place_of


@apart
def tell(code, memory, first, last, jobs, row, quantiles):
    """Write the quantiles of jobs to their rows of ``quantiles``, int64 [rows, levels].

    Of the jobs from ``first`` to before ``last``. ``row`` maps the kernel's jobs to rows of the table, and is empty where they are the same.
    """
    for job in range(first, last):
        tell_quantiles(code, memory, job, jobs, quantiles, row[job] if len(row) > 0 else job)


@apart
def draw_runtimes(rows, elapsed, requested, uniforms, quantiles, runtimes):
    """Draw the runtime of jobs in each scenario, of what they have not outlived.

    As :mod:`sim.kernel.scenarios` does. ``rows`` of the table, and ``elapsed`` seconds and ``requested`` of each, int64 [jobs].
    Writes ``runtimes`` [scenarios, jobs or more]: longer than ``elapsed`` in any case.
    """
    levels = quantiles.shape[1]
    for job in range(len(rows)):
        row, outlived = rows[job], 0
        while outlived < levels and quantiles[row, outlived] <= elapsed[job]:
            outlived += 1
        for k in range(uniforms.shape[1]):
            seconds = requested[job]
            if outlived < levels:
                seconds = quantiles[row, place_of(uniforms[row, k], outlived, levels)]
            runtimes[k, job] = max(seconds, elapsed[job] + 1)
