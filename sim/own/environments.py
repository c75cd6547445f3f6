"""Register Gymnasium's environments ``queuecast/Backfill-v0`` and ``queuecast/Order-v0``.

In Backfill-v0 the agent chooses the job to backfill before the head, or none, as in Kolker-Hicks, Zhang & Dai, "A
reinforcement learning based backfilling strategy for HPC batch jobs" (PMBS 2023); in Order-v0 it chooses the waiting
job that goes next, as in Zhang et al., "RLScheduler" (SC 2020). Needs the extra ``agents``; ``gymnasium.make_vec``
plays many windows in one call.

An agent decides one job after the other, where the event loop stops. Nothing is simulated here: the functions of the
kernel (:mod:`sim.kernel.outside`) start jobs and reserve processors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from numbers import Integral
from typing import Any, NamedTuple, TypeAlias

import gymnasium
import numpy as np
from gymnasium import spaces

from features.clock import WEEK_S
from features.errors import InputError, shown, unknown
from features.jobs.cleaning import CleanTrace
from sim.inputs.prepare import Inputs, Prepared, prepare
from sim.kernel.outside import CHOSEN_JOBS, FIRST_WAITING, start_chosen
from sim.kernel.passes import reserve
from sim.kernel.scratch import Scratch, WorkArrays
from sim.kernel.state import CHOSEN, EXTRA, FREE, NEXT, SHADOW, STARTED
from sim.metrics.names import TAU_S
from sim.outcome import simulation
from sim.policy import Policy

OF_JOB = ("wait", "requested", "predicted", "procs", "slowdown", "fits", "beyond")
"""Features of a candidate. ``wait requested predicted``: ln(1 + seconds) over that of 30 days. ``procs``: share of the
machine. ``slowdown``: ln of its bounded slowdown if it started now and ran as predicted, over ln 10,000. ``fits``: 1 if
it fits into the free processors. ``beyond``: 1 if it is predicted to run beyond the reservation. All are at most 1."""
OF_MACHINE = ("free", "waiting", "head_wait", "head_requested", "head_procs", "shadow", "extra")
"""Features of the machine. ``free head_procs extra``: shares of it; ``extra`` is left when the head starts.
``waiting``: ln(1 + waiting jobs) over ln 10,000. ``head_wait head_requested shadow``: as above, ``shadow`` until the
reservation; 0 without."""
KINDS, ALGORITHMS = ("Backfill", "Order"), ("Strict", "List", "EASY")
_MOST, _MONTH = np.log(10_000.0), np.log1p(30 * 86_400.0)


Act: TypeAlias = Callable[[dict[str, np.ndarray]], int]
"""Takes an observation; returns an action."""


class Backfilling:
    """Start jobs in order of submission, and candidates before the first that does not fit.

    That one gets a reservation as under EASY, and no candidate delays it by the predictions. ``candidates`` are in
    order of submission. This is a decider of :func:`sim.outcome.simulation`: ``act`` returns an action for its
    observation of the first ``slots`` candidates. Without ``act`` the first candidates are taken, which is EASY.
    """

    may_pass = True

    def __init__(self, act: Act | None = None, slots: int = 64) -> None:
        self._act, self._slots = act, slots
        self.candidates = np.zeros(0, np.int64)

    def begin(self, workload: Prepared, inputs: Inputs, work: WorkArrays) -> WorkArrays:
        """Return ``work`` with the arrays of decisions; InputError on clusters."""
        if work.clusters is not None:
            raise InputError("agents decide on one pool of processors, and this is a machine of clusters")
        self.inputs, self.procs, self.outside = inputs, workload.procs, Scratch.outside(len(workload.jobs))
        self.work = work._replace(outside=self.outside)
        return self.work

    def check(self) -> None:
        """Do nothing: each job starts at the latest when it is the first and fits."""

    def answer(self, now: int) -> None:
        """Decide at a stop of the loop; ``act`` chooses if there is a choice."""
        self.open(now)
        while count := len(self.candidates):
            self.follow(0 if self._act is None or (count == 1 and not self.may_pass) else self._asked(self._act))
        self.close()

    def _asked(self, act: Act) -> int:
        answer = act(self.observed())
        if not isinstance(answer, Integral):
            raise InputError(f"the agent answers {shown(answer)}, which is not the number of an action")
        return int(answer)

    def follow(self, action: int) -> None:
        """Take the candidate of an action; for another action take no more, or the first."""
        if 0 <= action < min(len(self.candidates), self._slots):
            self.take(action)
        elif self.may_pass:
            self.candidates = self.candidates[:0]
        else:
            self.take(0)

    def open(self, now: int) -> None:
        """Begin the decisions of the stop at ``now``."""
        self.now, self.head = now, -1
        self.look()
        self._offer()

    def close(self) -> None:
        """Let the event loop continue."""
        self.outside.table[CHOSEN_JOBS], self.work.state.counters[CHOSEN] = 0, 1

    def take(self, place: int) -> None:
        """Start the candidate at ``place`` before the head."""
        job = self.candidates[place : place + 1]
        self.extra -= int(self.inputs.arrays.procs[job[0]]) if self._beyond(job)[0] else 0
        self._start(job)
        self._backfill(self.candidates[self.candidates != job])

    def observed(self) -> dict[str, np.ndarray]:
        """Return an agent's observation.

        ``jobs`` [slots, OF_JOB], ``machine`` [OF_MACHINE], and ``mask``, 1 for allowed actions.
        """
        arrays, estimates, procs, head = self.inputs.arrays, self.inputs.estimates, self.procs, self.head
        seen = self.candidates[: self._slots]
        jobs, machine = np.zeros((self._slots, len(OF_JOB)), np.float32), np.zeros(len(OF_MACHINE), np.float32)
        of_seen, wait, predicted = jobs[: len(seen)], self.now - arrays.submit[seen], estimates.order[seen]
        of_seen[:, :3] = np.log1p(np.stack((wait, arrays.requested[seen], predicted), axis=1)) / _MONTH
        of_seen[:, 3] = arrays.procs[seen] / procs
        of_seen[:, 4] = np.log(np.maximum(1.0, (wait + predicted) / np.maximum(predicted, TAU_S))) / _MOST
        of_seen[:, 5] = arrays.procs[seen] <= self.free
        machine[:2] = self.free / procs, np.log1p(len(self.waiting)) / _MOST
        if head >= 0:
            of_seen[:, 6] = self._beyond(seen)
            machine[4::2] = arrays.procs[head] / procs, self.extra / procs
            machine[[2, 3, 5]] = np.log1p((self.now - arrays.submit[head], arrays.requested[head], self.shadow - self.now)) / _MONTH
        mask = np.zeros(self._slots + self.may_pass, np.int8)
        mask[: len(seen)] = mask[self._slots :] = 1
        return {"jobs": np.minimum(jobs, 1.0), "machine": np.minimum(machine, 1.0), "mask": mask}

    def _offer(self) -> None:
        heads = int(np.searchsorted(np.cumsum(self.inputs.arrays.procs[self.waiting]), self.free, side="right"))
        if heads:
            self._start(self.waiting[:heads])
        self.candidates = self.waiting[:0]
        if len(self.waiting) > 1 and self.free > 0:
            self._reserve(self.waiting[0])

    def look(self) -> None:
        """Read which jobs wait, and how many processors are free."""
        counters, outside = self.work.state.counters, self.outside
        self.waiting, self.free = outside.waiting[outside.table[FIRST_WAITING] : counters[NEXT]], int(counters[FREE])

    def _start(self, jobs: np.ndarray) -> None:
        self.outside.chosen[: len(jobs)] = jobs
        refused = start_chosen(len(jobs), self.now, *self.inputs[:2], self.work.state, self.outside, None, self.inputs.bits)
        assert not refused
        self.look()

    def _reserve(self, head: int) -> None:
        counters = self.work.state.counters
        reserve(self.inputs.arrays.procs[head], self.work.state, self.inputs.bits)
        self.head, self.shadow, self.extra = head, int(counters[SHADOW]), int(counters[EXTRA])
        self._backfill(self.waiting[self.waiting != head])

    def _beyond(self, jobs: np.ndarray) -> np.ndarray:
        return self.now + self.inputs.estimates.fit[jobs] > self.shadow

    def _backfill(self, jobs: np.ndarray) -> None:
        jobs = jobs[self.inputs.arrays.procs[jobs] <= self.free]
        self.candidates = jobs[~self._beyond(jobs) | (self.inputs.arrays.procs[jobs] <= self.extra)]


class Ordering(Backfilling):
    """The agent chooses the waiting job that goes next, until one does not fit.

    Then under ``Strict`` no more start; under ``EASY`` those start that do not delay that one, in order of submission.
    Under ``List`` it chooses among jobs that fit, until none does. At the next stop it starts anew.
    """

    may_pass = False

    def __init__(self, act: Act | None = None, slots: int = 64, algorithm: str = "EASY") -> None:
        super().__init__(act, slots)
        self._algorithm = algorithm

    def _offer(self) -> None:
        fits = self.inputs.arrays.procs[self.waiting] <= self.free
        self.candidates = self.waiting if fits.any() and self._algorithm != "List" else self.waiting[fits]

    def take(self, place: int) -> None:
        """Let the candidate at ``place`` go next."""
        job = self.candidates[place : place + 1]
        if self.inputs.arrays.procs[job[0]] <= self.free:
            self._start(job)
            self._offer()
        elif self._algorithm == "EASY":
            self._reserve(job[0])
            while len(self.candidates):
                super().take(0)
        else:
            self.candidates = self.waiting[:0]


def decisions_of(kind: str, act: Act | None, slots: int, algorithm: str) -> Backfilling:
    """Return the decisions of an environment; InputError for an unknown kind or algorithm."""
    for what, name, names in (("kind", kind, KINDS), ("algorithm", algorithm, ALGORITHMS)):
        if name not in names:
            raise unknown(what, name, names)
    return Backfilling(act, slots) if kind == "Backfill" else Ordering(act, slots, algorithm)


class Agent(NamedTuple):
    """An agent of one of the environments as a scheduler.

    :func:`sim.own.decide.decide` and campaigns take it. ``act`` gets the same observations as in the environment. ``kind`` is
    ``Backfill`` or ``Order``; ``slots`` and ``algorithm`` are the environment's.
    """

    act: Act
    kind: str = "Backfill"
    slots: int = 64
    algorithm: str = "EASY"
    name: str = "agent"

    def decider(self) -> Backfilling:
        """Return the decider for one simulation; errors of :func:`decisions_of`."""
        return decisions_of(self.kind, self.act, self.slots, self.algorithm)


__all__ = ["Agent", "Environment"]

SPLITS = ("train", "validation", "test")


class Environment(gymnasium.Env):
    """Windows of a trace's weeks, simulated by the one event loop from decision to decision.

    Whole weeks of ``trace`` are cut in this order into ``shares`` for ``train``, ``validation`` and ``test``; windows
    stay within their ``split``. The last ``length`` jobs of a window count. They follow ``warm_up`` others; until the
    first counted job is submitted, the first candidate is taken without the agent. The agent sees ``slots`` candidates,
    in order of submission. ``algorithm`` is that of :class:`~sim.own.environments.Ordering`; ``predictor`` is that of
    :func:`sim.simulate`, fresh in each window. Observed are ``jobs`` [slots, OF_JOB] and ``machine`` [OF_MACHINE], in
    0..1 (:mod:`sim.own.environments`), and ``mask``, 1 for allowed actions: take a candidate or, in Backfill-v0, the
    last action: no more in this pass. Any other action is that, or the first candidate. The reward is minus the
    increase, since the last decision, of the sum of bounded slowdowns of counted jobs, waiting ones as if they started
    now, over the sum under EASY. An episode adds up to minus its mean relative to EASY's; the last ``info`` has that
    mean as ``relative``.
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
