"""Sweeps: thousands of mixed policies on one workload, in about the time of simulating.

Legrand, Trystram & Zrigui (JSSPP 2018) search the space of weights week by week; that takes 10^5 to 10^6 simulations.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace

import numpy as np
import pandas as pd

from features.clock import Clock
from features.errors import InputError
from models.runtime.dispatch import OUTSIDE
from models.runtime.protocol import CompiledPredictor
from sim.kernel.orders import NO_WEIGHTS
from sim.kernel.run import MEASURED, SUMS, measured, run
from sim.kernel.scratch import Scratch
from sim.metrics.schedule_metrics import TAU_S
from sim.outcome import TRACE_SECONDS, check_usable, load_kernel
from sim.policy import Policy, kernel_settings
from sim.prepare import NO_DEPENDENCIES, NO_SWEEP, as_estimates, as_predictor, inputs, prepare

MIXED = Policy("MIXED(1,0,0)-EASY-SPF")
"""The default policies of a sweep, those of Legrand, Trystram & Zrigui."""
_CHUNK = 256
"""Number of policies that a thread computes at a time."""


def random_weights(count: int, features: int = 3, seed: int = 0) -> np.ndarray:
    """Draw weights [count, features] uniformly from the unit sphere of the L1 norm.

    Absolute values are uniform on the simplex, signs random.
    """
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(features), count) * rng.choice([-1.0, 1.0], (count, features))


def sweep(
    jobs: pd.DataFrame,
    weights: Sequence[Sequence[float]] | np.ndarray,
    *,
    procs: int,
    policy: Policy = MIXED,
    clock: Clock = TRACE_SECONDS,
    tau_s: float = TAU_S,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Return the metrics of ``policy`` on ``jobs`` with other weights, a row for each.

    Columns: ``mean_wait_s mean_bounded_slowdown awf_s p2sf_s``. ``policy`` is one of ``MIXED(...)-EASY-<backfill>``, whose own
    weights do not matter; ``weights`` [policies, 3 or 6] are on (n, r, wait[, r/n, expansion, r n]). The predictor must be a
    table or compiled. ``workers`` threads, by default one a core, share the workload; ``progress(done, policies)`` is called from
    this thread. ``attrs["simulate_s"]`` of the result is the wall time of simulating and measuring alone, summed over threads.
    Results and errors are otherwise those of :func:`sim.simulate`.
    """
    plan = policy.plan()
    if plan.order.name != "MIXED" or plan.algorithm != "EASY" or not policy.as_recorded:
        raise InputError(f"a sweep takes MIXED(...)-EASY-<order> on the jobs as recorded, not {policy.scheduler}")
    table = np.asarray(weights, np.float64)
    if table.ndim != 2 or table.shape[1] not in (3, 6) or not np.isfinite(table).all() or not table.any(axis=1).all():
        raise InputError("a sweep takes weights [policies, 3 or 6], finite and in no row all zero")
    full = np.zeros((len(table), len(NO_WEIGHTS)))
    full[:, : table.shape[1]] = table
    source = as_predictor(policy.predictor)
    workload = prepare(jobs, procs)
    given = inputs(workload, source, policy, clock)
    if given.code == OUTSIDE:
        raise InputError(f"a sweep takes a predictor that is a table or compiled, and {source.name} is in Python")
    if isinstance(source, CompiledPredictor) and source.retrain is not None:
        raise InputError(f"a sweep cannot stop to retrain a predictor, and {source.name} is retrained each night")
    # one scheduler represents all: only the weights differ, and whether any of them lets the order change
    order = replace(plan.order, weights=(*NO_WEIGHTS[:4], float(full[:, 4].any()), NO_WEIGHTS[5]))
    plan = replace(plan, order=order)
    results = np.empty((len(full), SUMS))
    mine = threading.local()
    load_kernel()

    def chunk(first: int) -> tuple[int, float]:
        if not hasattr(mine, "scratch"):
            mine.scratch = Scratch()
            mine.estimates = as_estimates(source, jobs, given.arrays, clock)[0]
            mine.memory = given.memory.copied()
        part = slice(first, first + _CHUNK)
        settings = kernel_settings(policy, plan, given.code, given.bits, workload.origin)
        work = mine.scratch.work(len(jobs), procs, two=not settings.one_queue)
        asked = NO_SWEEP._replace(results=results[part], weights=full[part], tau_s=float(tau_s), memory=given.memory)
        began = time.perf_counter()
        run(settings, given.arrays, mine.estimates, NO_DEPENDENCIES, *work, mine.memory, 0, asked)
        took = time.perf_counter() - began
        check_usable(work.state, source.name, jobs)
        return len(full[part]), took

    seconds = _in_threads(chunk, range(0, len(full), _CHUNK), workers, len(full), progress)
    metrics = pd.DataFrame(measured(results, len(jobs)), columns=list(MEASURED))
    metrics.attrs["simulate_s"] = seconds
    return metrics


def _in_threads(
    chunk: Callable[[int], tuple[int, float]],
    begins: Sequence[int],
    workers: int | None,
    total: int,
    progress: Callable[[int, int], None] | None,
) -> float:
    """Run all chunks; return the sum of their seconds."""
    done, seconds = 0, 0.0
    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        for each in as_completed([pool.submit(chunk, first) for first in begins]):
            policies, took = each.result()
            done, seconds = done + policies, seconds + took
            if progress is not None:
                progress(done, total)
    return seconds
