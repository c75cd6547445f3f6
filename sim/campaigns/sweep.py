"""Sweeps: thousands of mixed policies or scores on one workload.

They take hardly more time than the simulations. Legrand, Trystram & Zrigui (JSSPP 2018) search the space of weights week by week;
that takes 10^5 to 10^6 simulations.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from features.clock import Clock
from features.errors import InputError
from models.runtime.dispatch import OUTSIDE
from models.runtime.memory import Memory
from models.runtime.protocol import CompiledPredictor
from sim.inputs.estimates import as_estimates, as_predictor, planned_by
from sim.inputs.prepare import NO_DEPENDENCIES, NO_SWEEP, inputs, prepare, scoring_of
from sim.kernel.loop import Settings
from sim.kernel.orders import NO_WEIGHTS
from sim.kernel.run import run
from sim.kernel.scratch import Scratch, WorkArrays
from sim.kernel.state import FREE, Estimates, Jobs
from sim.metrics.names import TAU_S
from sim.metrics.schedule_metrics import UserJobs, as_columns, ratios_of_times, slowdowns
from sim.outcome import TRACE_SECONDS, check_usable, load_kernel, room_for
from sim.policy import Policy, applied, kernel_settings

MIXED = Policy("MIXED(1,0,0)-EASY-SPF")
"""The default policies of a sweep, those of Legrand, Trystram & Zrigui."""
SWEPT = ("EASY", "JustBF", "List", "Strict")
"""Algorithms of a sweep."""
MEASURED = ("mean_wait_s", "mean_bounded_slowdown", "awf_s", "p2sf_s", "max_wait_s")
_TOGETHER = 1 << 16
"""Jobs of schedules that are measured together."""


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
    and any order behind; its own weights or parameters do not matter. The predictor must be a table or compiled, and not retrained
    each night. Several threads may measure at the same time. InputError as :func:`sim.simulate`.
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
        self.taus_s = taus_s
        if isinstance(self._source, CompiledPredictor) and self._source.retrain is not None:
            raise InputError(f"a sweep takes a predictor that is not retrained each night, and {self._source.name} is")
        self._mine = threading.local()
        load_kernel()

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

    def starts(self, full: np.ndarray) -> np.ndarray:
        """Return the starts under each row of :meth:`checked`, int64 [policies, jobs].

        They are simulated in one call of the kernel.
        """
        starts = np.empty((len(full), len(self.jobs)), np.int64)
        ready = self.ready(self.plan.order.score is None and bool(full[:, 4].any()))
        ready.work.state.counters[FREE] = self.procs  # also after an aborted simulation
        sweep = NO_SWEEP._replace(starts=starts, weights=full, memory=ready.untrained)
        run(ready.settings, ready.jobs, ready.estimates, NO_DEPENDENCIES, *ready.work, ready.memory, 0, sweep)
        check_usable(ready.work.state, self._source.name, self.jobs)
        return starts

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

    def measure(self, parameters: Sequence[Sequence[float]] | np.ndarray) -> pd.DataFrame:
        """Return the metrics of the policy with other weights or parameters, one row for each.

        Columns: ``mean_wait_s mean_bounded_slowdown awf_s p2sf_s max_wait_s``; with several ``taus_s`` one column of bounded
        slowdown each, ``mean_bounded_slowdown_10`` and so on. ``parameters`` are the weights of ``MIXED``, [policies, 3 or 6] on
        (n, r, wait[, r/n, expansion, r n]), or the parameters of ``SCORE``, [policies, parameters].
        """
        full, step = self.checked(parameters), max(_TOGETHER // max(len(self.jobs), 1), 1)
        parts = [self._measured(self.starts(full[first : first + step])) for first in range(0, len(full), step)]
        return pd.concat(parts, ignore_index=True)

    def _measured(self, starts: np.ndarray) -> pd.DataFrame:
        jobs, none = self._given.arrays, np.zeros(0)
        columns = as_columns(UserJobs(jobs.user, jobs.submit, starts, jobs.runtime, jobs.procs, jobs.requested), none, none)
        metrics = {name: ratio.by_row() for name, ratio in ratios_of_times(columns).items()}
        metrics["max_wait_s"] = columns.wait.max(axis=-1)
        names = ["mean_bounded_slowdown", *(f"mean_bounded_slowdown_{tau_s:g}" for tau_s in self.taus_s[1:])]
        metrics |= {
            name: slowdowns(columns, tau_s)["mean_bounded_slowdown"] for name, tau_s in zip(names, self.taus_s, strict=True)
        }
        table = pd.DataFrame({name: metrics[name] for name in (*MEASURED, *names[1:])})
        return table.rename(columns={names[0]: f"{names[0]}_{self.taus_s[0]:g}"}) if names[1:] else table
