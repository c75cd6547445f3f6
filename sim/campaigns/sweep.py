"""Sweeps: thousands of mixed policies or scores on one workload.

They take hardly more time than the simulations. Legrand, Trystram & Zrigui (JSSPP 2018) search the space of weights week by week;
that takes 10^5 to 10^6 simulations.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from features.clock import Clock
from features.errors import InputError
from models.runtime.dispatch import OUTSIDE
from models.runtime.memory import Memory
from models.runtime.protocol import CompiledPredictor
from sim.campaigns.maps import Map, threads
from sim.inputs.estimates import as_estimates, as_predictor, planned_by
from sim.inputs.prepare import NO_DEPENDENCIES, NO_SWEEP, inputs, prepare, scoring_of
from sim.kernel.loop import Settings
from sim.kernel.orders import NO_WEIGHTS
from sim.kernel.run import MEASURED, SUMS, measured, run, sums_of
from sim.kernel.scratch import Scratch, WorkArrays
from sim.kernel.state import FREE, Estimates, Jobs
from sim.metrics.names import TAU_S
from sim.outcome import TRACE_SECONDS, check_usable, load_kernel, room_for, simulation
from sim.policy import Policy, applied, kernel_settings
from sim.schedulers.names import with_numbers

MIXED = Policy("MIXED(1,0,0)-EASY-SPF")
"""The default policies of a sweep, those of Legrand, Trystram & Zrigui."""
SWEPT = ("EASY", "JustBF", "List", "Strict")
"""Algorithms of a sweep."""
_CHUNK = 256
"""Policies that a thread computes at a time."""


class _Chunk(NamedTuple):
    """Parameters [policies, numbers] from row ``first`` on, or their results."""

    first: int
    rows: np.ndarray
    seconds: float = 0.0


def random_weights(count: int, features: int = 3, seed: int = 0) -> np.ndarray:
    """Draw weights [count, features] uniformly from the unit sphere of the L1 norm.

    Absolute values are uniform on the simplex, signs random.
    """
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(features), count) * rng.choice([-1.0, 1.0], (count, features))


class Ready(NamedTuple):
    """The kernel's arguments for simulations in one thread.

    ``untrained`` is the initial memory of the predictor.
    """

    settings: Settings
    jobs: Jobs
    estimates: Estimates
    work: WorkArrays
    memory: Memory
    untrained: Memory


class PreparedSweep:
    """One workload under a policy with many weights or parameters.

    Prepared once, measured many times. ``policy`` is one of ``MIXED(...)`` or ``SCORE(...)`` with EASY, JustBF, List or Strict
    and any order behind; its own weights or parameters do not matter. The predictor must be a table or compiled. One that is
    retrained each night is retrained within each simulation, which takes as long as the training does. Several threads may
    measure at the same time; a copy sent to another process lacks what threads hold. InputError as :func:`sim.simulate`.
    """

    def __init__(
        self,
        jobs: pd.DataFrame,
        *,
        procs: int,
        policy: Policy = MIXED,
        clock: Clock = TRACE_SECONDS,
        taus_s: Sequence[float] = (TAU_S,),
    ) -> None:
        self.plan = plan = policy.plan()
        if (
            plan.order.name not in ("MIXED", "SCORE")
            or plan.algorithm not in SWEPT
            or plan.rush is not None
            or not policy.as_recorded
        ):
            raise InputError(
                f"a sweep takes MIXED(...) or SCORE(...) with {', '.join(SWEPT)} on the jobs as recorded, not {policy.scheduler}"
            )
        self.policy, self._clock, self.jobs = applied(policy, plan), clock, jobs
        self.procs, self._source = procs, as_predictor(policy.predictor)
        self._workload = prepare(jobs, procs)
        self._given = inputs(self._workload, self._source, self.policy, clock, plan)
        if self._given.code == OUTSIDE:
            raise InputError(f"a sweep takes a predictor that is a table or compiled, and {self._source.name} is written in Python")
        self.taus_s = np.array(taus_s, np.float64)
        self.sums_of_each = SUMS + len(self.taus_s) - 1
        self.retrained = isinstance(self._source, CompiledPredictor) and self._source.retrain is not None
        self._mine = threading.local()
        load_kernel()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_mine"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _mine=threading.local())

    def checked(self, parameters: Sequence[Sequence[float]] | np.ndarray) -> np.ndarray:
        """Return weights or parameters in the kernel's form, float64 [policies, numbers]."""
        table = np.asarray(parameters, np.float64)
        if self.plan.order.score is not None:
            wanted = len(self.plan.order.score.parameters)
            if table.ndim != 2 or table.shape[1] != wanted or not np.isfinite(table).all():
                raise InputError(f"a sweep of {self.plan.order.score.formula} takes finite parameters [policies, {wanted}]")
            return np.ascontiguousarray(table)
        if table.ndim != 2 or table.shape[1] not in (3, 6) or not np.isfinite(table).all() or not table.any(axis=1).all():
            raise InputError("a sweep takes finite weights of shape [policies, 3 or 6], with no row of zeros alone")
        full = np.zeros((len(table), len(NO_WEIGHTS)))
        full[:, : table.shape[1]] = table
        return full

    def sums(self, full: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the sums of each row of :meth:`checked`, and the seconds it took.

        Their columns are those of :mod:`sim.kernel.run`.
        """
        results = np.empty((len(full), self.sums_of_each))
        began = time.perf_counter()
        if self.retrained:
            for row, result in zip(full, results, strict=True):
                self._simulate(row, result)
        else:
            self._run(full, results)
        return results, time.perf_counter() - began

    def ready(self, changing: bool) -> Ready:
        """Return the kernel's arguments for this thread.

        ``changing``: the order of waiting jobs can change. Made once; a simulation leaves them ready for the next one.
        """
        held: dict[bool, Ready] = self._mine.__dict__.setdefault("ready", {})
        if changing not in held:
            held[changing] = self._made_ready(changing)
        return held[changing]

    def _made_ready(self, changing: bool) -> Ready:
        inputs, workload, order = self._given, self._workload, self.plan.order
        estimates = planned_by(as_estimates(self._source, self.jobs, inputs.arrays, self._clock)[0], inputs.arrays, self.plan)
        if order.score is None:
            # one scheduler represents all: only the weights differ, and whether any of them lets the order change
            order = replace(order, weights=(*NO_WEIGHTS[:4], float(changing), NO_WEIGHTS[5]))
        plan = replace(self.plan, order=order)
        scoring = scoring_of(plan, workload, self._clock)
        settings = kernel_settings(self.policy, plan, inputs.code, inputs.bits, workload.origin, scoring=scoring)
        work = Scratch().work(len(self.jobs), workload.procs, **room_for(plan, settings))
        return Ready(settings, inputs.arrays, estimates, work, inputs.memory.copied(), inputs.memory)

    def _run(self, full: np.ndarray, results: np.ndarray) -> None:
        """Simulate all rows in one call of the kernel."""
        ready = self.ready(self.plan.order.score is None and bool(full[:, 4].any()))
        ready.work.state.counters[FREE] = self.procs  # also after an aborted simulation
        sweep = NO_SWEEP._replace(results=results, weights=full, taus_s=self.taus_s, memory=ready.untrained)
        run(ready.settings, ready.jobs, ready.estimates, NO_DEPENDENCIES, *ready.work, ready.memory, 0, sweep)
        self.check(ready)

    def check(self, ready: Ready) -> None:
        """Raise InputError if a prediction was not a number."""
        check_usable(ready.work.state, self._source.name, self.jobs)

    def _simulate(self, row: np.ndarray, result: np.ndarray) -> None:
        """Simulate one row, with a predictor for whose retraining the simulation stops."""
        policy = self.policy._replace(scheduler=with_numbers(self.plan, row.tolist()))
        outcome = simulation(self._workload, policy, clock=self._clock).outcome()
        sums_of(outcome.start - self._workload.origin, self._workload.arrays, self.taus_s, result)

    def table(self, sums: np.ndarray) -> pd.DataFrame:
        """Return the metrics of :func:`sweep` from sums, one row each."""
        names = [f"mean_bounded_slowdown_{tau_s:g}" for tau_s in self.taus_s[1:]]
        metrics = pd.DataFrame(measured(sums, len(self.jobs)), columns=[*MEASURED, "max_wait_s", *names])
        if names:
            metrics = metrics.rename(columns={"mean_bounded_slowdown": f"mean_bounded_slowdown_{self.taus_s[0]:g}"})
        return metrics

    def measure(self, parameters: Sequence[Sequence[float]] | np.ndarray) -> pd.DataFrame:
        """Return the metrics of :func:`sweep`, one row for each of ``parameters``.

        This thread computes them.
        """
        return self.table(self.sums(self.checked(parameters))[0])


def sweep(
    jobs: pd.DataFrame,
    weights: Sequence[Sequence[float]] | np.ndarray,
    *,
    procs: int,
    policy: Policy = MIXED,
    clock: Clock = TRACE_SECONDS,
    tau_s: float | Sequence[float] = TAU_S,
    map_pieces: Map | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Return the metrics of ``policy`` with other weights or parameters, one row for each.

    Columns: ``mean_wait_s mean_bounded_slowdown awf_s p2sf_s max_wait_s``; with several ``tau_s`` one column of bounded slowdown
    each, ``mean_bounded_slowdown_10`` and so on. ``policy`` and predictor as for :class:`PreparedSweep`; ``weights`` are those of
    ``MIXED``, [policies, 3 or 6] on (n, r, wait[, r/n, expansion, r n]), or the parameters of ``SCORE``, [policies, parameters].
    ``map_pieces`` distributes them, by default over one thread per core; ``progress(done, policies)`` is called from this thread.
    ``attrs["simulate_s"]`` of the result is the wall time of simulating and measuring alone, summed over all. Results and errors
    are otherwise those of :func:`sim.simulate`.
    """
    taus_s = np.atleast_1d(np.asarray(tau_s, np.float64)).tolist()
    prepared = PreparedSweep(jobs, procs=procs, policy=policy, clock=clock, taus_s=taus_s)
    full = prepared.checked(weights)
    sums = np.empty((len(full), prepared.sums_of_each))
    done, seconds = 0, 0.0
    chunks = [_Chunk(first, full[first : first + _CHUNK]) for first in range(0, len(full), _CHUNK)]
    for summed in (map_pieces or threads())(partial(_summed, prepared), chunks):
        sums[summed.first : summed.first + len(summed.rows)] = summed.rows
        done, seconds = done + len(summed.rows), seconds + summed.seconds
        if progress is not None:
            progress(done, len(full))
    metrics = prepared.table(sums)
    metrics.attrs["simulate_s"] = seconds
    return metrics


def _summed(prepared: PreparedSweep, chunk: _Chunk) -> _Chunk:
    return _Chunk(chunk.first, *prepared.sums(chunk.rows))
