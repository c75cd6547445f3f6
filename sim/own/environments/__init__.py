"""Register Gymnasium's environments ``queuecast/Backfill-v0`` and ``queuecast/Order-v0``.

In Backfill-v0 the agent chooses the job to backfill before the head, or none, as in Kolker-Hicks, Zhang & Dai, "A reinforcement
learning based backfilling strategy for HPC batch jobs" (PMBS 2023); in Order-v0 it chooses the waiting job that goes next, as in
Zhang et al., "RLScheduler" (SC 2020). Needs the extra ``agents``; ``gymnasium.make_vec`` plays many windows in one call.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from features.clock import WEEK_S
from features.errors import InputError, unknown
from features.jobs.cleaning import CleanTrace
from sim.inputs.prepare import prepare
from sim.kernel.state import NEXT, STARTED
from sim.metrics.names import TAU_S
from sim.outcome import simulation
from sim.own.environments.decisions import KINDS, OF_JOB, OF_MACHINE, Agent, decisions_of
from sim.policy import Policy

__all__ = ["Agent", "Environment"]

SPLITS = ("train", "validation", "test")


class Environment(gymnasium.Env):
    """Windows of a trace's weeks, simulated by the one event loop from decision to decision.

    Whole weeks of ``trace`` are cut in this order into ``shares`` for ``train``, ``validation`` and ``test``; windows stay within
    their ``split``. The last ``length`` jobs of a window count. They follow ``warm_up`` others; until the first counted job is
    submitted, the first candidate is taken without the agent. The agent sees ``slots`` candidates, in order of submission.
    ``algorithm`` is that of :class:`~sim.own.environments.decisions.Ordering`; ``predictor`` is that of :func:`sim.simulate`, fresh
    in each window. Observed are ``jobs`` [slots, OF_JOB] and ``machine`` [OF_MACHINE], in 0..1
    (:mod:`sim.own.environments.decisions`), and ``mask``, 1 for allowed actions: take a candidate or, in Backfill-v0, the last
    action: no more in this pass. Any other action is that, or the first candidate. The reward is minus the increase, since the
    last decision, of the sum of bounded slowdowns of counted jobs, waiting ones as if they started now, over the sum under EASY.
    An episode adds up to minus its mean relative to EASY's; the last ``info`` has that mean as ``relative``.
    """

    relative = _rewarded = 0.0

    def __init__(
        self,
        trace: CleanTrace,
        kind: str = "Backfill",
        *,
        split: str = "train",
        shares: tuple[float, float, float] = (0.4, 0.1, 0.5),
        warm_up: int = 64,
        length: int = 256,
        slots: int = 64,
        algorithm: str = "EASY",
        predictor: Any = "requested",
    ) -> None:
        if not isinstance(trace, CleanTrace):
            raise InputError(f"trace: a {type(trace).__name__} is not what qc.read returns")
        if split not in SPLITS:
            raise unknown("split", split, SPLITS)
        if len(shares) != 3 or min(shares) < 0 or not np.isclose(sum(shares), 1.0) or warm_up < 0 or min(length, slots) < 1:
            raise InputError(f"shares {shares} must be three with sum 1; {warm_up=} at least 0, {length=} and {slots=} 1")
        week = (trace.jobs["submit_s"] - trace.jobs["submit_s"].iloc[0]) // WEEK_S
        ends = np.round(np.cumsum((0.0, *shares)) * (week.iloc[-1] + 1)).astype(int)[SPLITS.index(split) :]
        self._jobs, self._procs, self._clock = trace.jobs[(week >= ends[0]) & (week < ends[1])], trace.procs, trace.clock
        self._policy, self._warm_up, self._length = Policy("EASY", predictor), warm_up, warm_up + length
        self.windows = len(self._jobs) - self._length + 1
        if self.windows < 1:
            raise InputError(f"split {split}: {len(self._jobs):,} jobs are fewer than the {self._length:,} of a window")
        self._decisions = decisions_of(kind, None, slots, algorithm)
        actions = slots + self._decisions.may_pass
        self.action_space = spaces.Discrete(actions)
        of_jobs, of_machine = (spaces.Box(0.0, 1.0, shape, np.float32) for shape in ((slots, len(OF_JOB)), (len(OF_MACHINE),)))
        self.observation_space = spaces.Dict(jobs=of_jobs, machine=of_machine, mask=spaces.MultiBinary(actions))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict, dict]:
        """Begin a random window at a decision, or window ``options["first"]`` of ``windows``."""
        super().reset(seed=seed)
        first_window = (options or {}).get("first")
        for _ in range(1_000):
            first = int(self.np_random.integers(self.windows)) if first_window is None else first_window
            if not 0 <= first < self.windows:
                raise InputError(f"window {first}: the windows are numbered from 0 to {self.windows - 1:,}")
            if self._begin(first):
                return self._decisions.observed(), {}
        raise InputError(f"nothing to decide in {'1,000 drawn windows' if first_window is None else f'window {first_window}'}")

    def step(self, action: int) -> tuple[dict, float, bool, bool, dict]:
        """Take a candidate, or none."""
        self._decisions.follow(int(action))
        over = not self._goes_on()
        reward, self._rewarded = self._rewarded - self.relative, self.relative
        return self._decisions.observed(), reward, over, False, {"relative": self.relative} if over else {}

    def _begin(self, first: int) -> bool:
        workload = prepare(self._jobs.iloc[first : first + self._length].reset_index(drop=True), self._procs)
        easy = simulation(workload, self._policy, clock=self._clock).outcome()
        self._arrays, self._started, self._sum, self.relative, self._rewarded = workload.arrays, 0, 0.0, 0.0, 0.0
        self._easy = self._slowdowns(np.arange(self._length), easy.start - workload.origin)
        self._moments = self._asked(simulation(workload, self._policy, clock=self._clock, decider=self._decisions).stops())
        return self._goes_on()

    def _asked(self, stops: Iterator[int]) -> Iterator[bool]:
        decisions = self._decisions
        for now in stops:
            decisions.open(now)
            while count := len(decisions.candidates):
                if decisions.work.state.counters[NEXT] > self._warm_up and (count > 1 or decisions.may_pass):
                    yield True
                else:
                    decisions.take(0)
            decisions.close()

    def _goes_on(self) -> bool:
        """Go to the next decision, and add up the slowdowns so far; tell whether there is one."""
        more, decisions, state = next(self._moments, False), self._decisions, self._decisions.work.state
        jobs = state.running[self._started : state.counters[STARTED]]
        self._started += len(jobs)
        self._sum += self._slowdowns(jobs, state.start[jobs])
        decisions.look()
        self.relative = (
            self._sum + self._slowdowns(decisions.waiting, np.full(len(decisions.waiting), decisions.now))
        ) / self._easy
        return more

    def _slowdowns(self, jobs: np.ndarray, start: np.ndarray) -> float:
        start, jobs = start[jobs >= self._warm_up], jobs[jobs >= self._warm_up]
        runtime = self._arrays.runtime[jobs]
        return float(np.maximum(1.0, (start - self._arrays.submit[jobs] + runtime) / np.maximum(runtime, TAU_S)).sum())


for _kind in KINDS:
    gymnasium.register(f"queuecast/{_kind}-v0", entry_point="sim.own.environments:Environment", kwargs={"kind": _kind})
