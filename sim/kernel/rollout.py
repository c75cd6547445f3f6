"""Draw runtimes of jobs for rollouts, which :func:`sim.kernel.run.run` runs."""

from __future__ import annotations

from features.jit import apart
from models.runtime.dispatch import tell_quantiles
from sim.kernel.scenarios import place_of


@apart
def tell(code, memory, first, last, jobs, row, quantiles):
    """Write the quantiles of jobs to their rows of ``quantiles``, int64 [rows, levels].

    The jobs are those from ``first`` to before ``last``. ``row`` maps them to rows of the table; empty if they are the same.
    """
    for job in range(first, last):
        tell_quantiles(code, memory, job, jobs, quantiles, row[job] if len(row) > 0 else job)


@apart
def draw_runtimes(rows, elapsed, requested, uniforms, quantiles, runtimes):
    """Draw the runtime of jobs in each scenario from the quantiles they have not outlived.

    As in :mod:`sim.kernel.scenarios`. Each job has its row of the table in ``rows``, and ``elapsed`` and ``requested`` seconds,
    int64 [jobs]. Writes ``runtimes`` [scenarios, jobs or more], which are always longer than ``elapsed``.
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
