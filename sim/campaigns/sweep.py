"""Thousands of mixed policies on one workload: what each would have made of it, in little more than the time of the simulations.

Legrand, Trystram & Zrigui (paper 000) search the space of weights week by week; that takes 10^5 to 10^6 simulations.
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
from models.runtime.dispatch import OUTSIDE, TABLE
from models.runtime.protocol import CompiledPredictor, Predictor
from sim.kernel.orders import NO_WEIGHTS
from sim.kernel.run import METRICS, Sweep, run
from sim.kernel.scratch import Scratch
from sim.metrics.schedule_metrics import TAU_S
from sim.names import Order
from sim.names import scheduler as named_scheduler
from sim.prepare import NO_DEPENDENCIES, as_arrays, as_estimates, as_predictor, check_answerable, clock_bits
from sim.simulate import TRACE_SECONDS, check_policy, check_usable, load_kernel, settings_of

_CHUNK = 256
"""Policies that a thread takes at a time."""


def random_weights(count: int, features: int = 3, seed: int = 0) -> np.ndarray:
    """Weights [count, features] spread evenly over the unit sphere of the L1 norm: absolute values uniform on the simplex, signs at random."""
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(features), count) * rng.choice([-1.0, 1.0], (count, features))


def sweep(
    jobs: pd.DataFrame,
    weights: Sequence[Sequence[float]] | np.ndarray,
    *,
    procs: int,
    backfill: str = "SPF",
    standardised: bool = False,
    predictor: str | Predictor | np.ndarray = "requested",
    correction: str = "requested",
    semantics: str = "per-second",
    starvation_s: int | None = None,
    clock: Clock = TRACE_SECONDS,
    tau_s: float = TAU_S,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """``mean_wait_s mean_bounded_slowdown awf_s p2sf_s`` of ``MIXED(weights)-EASY-<backfill>`` on ``jobs``, one row a policy.

    ``weights`` [policies, 3 or 6] on (n, r, wait[, r/n, expansion, r n]); the other arguments are :func:`sim.simulate`'s, whose results
    these are. The predictor must be a table or compiled. ``workers`` threads, by default one a core, share the workload;
    ``progress(done, policies)`` is called from this thread. ``attrs["simulate_s"]`` of the result is the wall time of simulating and measuring
    alone, summed over threads. Raises InputError as :func:`sim.simulate`, and for weights it could not take.
    """
    table = np.asarray(weights, np.float64)
    if table.ndim != 2 or table.shape[1] not in (3, 6) or not np.isfinite(table).all() or not table.any(axis=1).all():
        raise InputError("a sweep takes weights [policies, 3 or 6], finite and in no row all zero")
    full = np.zeros((len(table), len(NO_WEIGHTS)))
    full[:, : table.shape[1]] = table
    source = as_predictor(predictor)
    arrays, origin = as_arrays(jobs, procs)
    total = len(jobs)
    estimates, _, code, fresh = as_estimates(source, jobs, arrays, clock)
    if code == OUTSIDE:
        raise InputError(f"a sweep takes a predictor that is a table or compiled, and {source.name} is in Python")
    if isinstance(source, CompiledPredictor) and source.retrain is not None:
        raise InputError(f"a sweep cannot stop to retrain a predictor, and {source.name} is retrained each night")
    if correction.startswith("conditional") and code == TABLE:
        check_answerable(source.name, estimates.end, arrays.runtime)
    # one scheduler stands for all: only the weights differ, and whether any of them lets the order change
    order = Order("MIXED", (*NO_WEIGHTS[:4], float(full[:, 4].any()), NO_WEIGHTS[5]), standardised)
    plan = replace(named_scheduler(f"FCFS-EASY-{backfill}"), order=order)
    check_policy(plan, correction, semantics, starvation_s)
    bits = clock_bits(arrays, estimates)
    results = np.empty((len(full), len(METRICS)))
    mine = threading.local()
    load_kernel()

    def chunk(first: int) -> tuple[int, float]:
        if not hasattr(mine, "scratch"):
            mine.scratch = Scratch()
            mine.estimates = as_estimates(source, jobs, arrays, clock)[0]
            mine.memory = fresh.copied()
        part = slice(first, first + _CHUNK)
        settings = settings_of(plan, code, correction, semantics, starvation_s, False, bits, origin)
        work = mine.scratch.work(total, procs, two=not settings.one_queue)
        began = time.perf_counter()
        run(
            settings,
            arrays,
            mine.estimates,
            NO_DEPENDENCIES,
            *work,
            mine.memory,
            0,
            Sweep(full[part], results[part], float(tau_s), fresh),
        )
        took = time.perf_counter() - began
        check_usable(work.state, source.name, jobs)
        return len(full[part]), took

    done, seconds = 0, 0.0
    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        for each in as_completed([pool.submit(chunk, first) for first in range(0, len(full), _CHUNK)]):
            policies, took = each.result()
            done, seconds = done + policies, seconds + took
            if progress is not None:
                progress(done, len(full))
    measured = pd.DataFrame(results, columns=list(METRICS))
    measured.attrs["simulate_s"] = seconds
    return measured
