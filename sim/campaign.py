"""A campaign: every scheduler with every predictor over one workload, in threads that share the trace (the kernel holds no lock)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pandas as pd

from models.protocol import Predictor
from sim.schedule import Schedule
from sim.simulate import simulate


def run_campaign(
    jobs: pd.DataFrame,
    *,
    procs: int,
    schedulers: Sequence[str],
    predictors: Sequence[str | Predictor],
    corrections: Sequence[str] = ("requested",),
    trace: str = "",
    generated: bool = False,
    seed: int = 0,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Schedule]:
    """Schedules in the order schedulers x predictors x corrections, whatever order they were finished in.

    A predictor object in plain Python must be given once only: it keeps the state of one simulation. ``workers`` defaults to the
    machine's cores; ``progress(done, total)`` is called from this thread. Errors are :func:`sim.simulate`'s.
    """
    points = list(product(schedulers, predictors, corrections))

    def one(point: tuple[str, str | Predictor, str]) -> Schedule:
        scheduler, predictor, correction = point
        return simulate(
            jobs,
            procs=procs,
            scheduler=scheduler,
            predictor=predictor,
            correction=correction,
            seed=seed,
            trace=trace,
            generated=generated,
        )

    results: list[Schedule] = []
    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        for schedule in pool.map(one, points):
            results.append(schedule)
            if progress is not None:
                progress(len(results), len(points))
    return results
