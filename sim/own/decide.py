"""Policies from outside the simulator that choose the waiting jobs to start.

A policy is asked when a built-in scheduler would decide. It sees what a scheduler may see: waiting and running jobs,
predictions, what is free, and the clock; never how long a job will run. It is a Python callable, ``policy(view)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
import pandas as pd

from features.clock import Clock
from features.errors import InputError, shown
from sim.inputs.prepare import Inputs, Prepared
from sim.kernel.outside import CHOSEN_JOBS, REFUSED, place_for
from sim.kernel.scratch import Scratch, WorkArrays
from sim.kernel.state import CHOSEN, FREE, NEXT, PLANS, STARTED, WAITING
from sim.machine.nodes import NOWHERE, Description
from sim.outcome import DECIDED, TRACE_SECONDS, Decider, Progress
from sim.policy import Policy
from sim.schedule import Schedule
from sim.simulation import simulate_policy


class Job(NamedTuple):
    """A submitted job; times are seconds of the trace, durations seconds.

    ``number`` is its place in the order of submission. ``order_s``, ``fit_s`` and ``end_s`` are the predicted runtime:
    the answers to the three questions of :mod:`models.runtime.protocol`, which are equal for most predictors.
    """

    number: int
    job_id: int
    user: str | None
    submit_s: int
    procs: int
    requested_s: int
    order_s: int
    fit_s: int
    end_s: int


class Running(NamedTuple):
    """A running job, and its predicted end as corrected so far."""

    job: Job
    start_s: int
    until_s: int


class View:
    """What a policy sees at ``now_s``; the ``queue`` is in order of submission.

    ``free`` of the ``procs`` processors are free. The view is valid at this moment only; do not keep it.
    """

    def __init__(self, source: _Asked, now: int) -> None:
        self._asked = source
        self.now_s = int(now) + source.origin
        self.procs = source.procs
        self.free = int(source.work.state.counters[FREE])
        self.queue = tuple(source.queue.values())

    @property
    def running(self) -> list[Running]:
        """Return the running jobs, in the order of their predicted ends."""
        source, state = self._asked, self._asked.work.state
        plan = state.plan[: state.counters[PLANS]]
        jobs = state.running[plan & ((1 << source.bits) - 1)]
        ends, starts = (plan >> source.bits) + source.origin, state.start[jobs] + source.origin
        return [Running(source.jobs[job], *when) for job, *when in zip(jobs.tolist(), starts.tolist(), ends.tolist(), strict=True)]

    def fits(self, job: Job, cluster: int = NOWHERE) -> bool:
        """Tell whether ``job`` fits now, in ``cluster`` or by default in any."""
        inputs, work = self._asked.inputs, self._asked.work
        now = self.now_s - self._asked.origin
        return bool(place_for(job.number, cluster, now, inputs.arrays, inputs.estimates, work.state, work.clusters) != NOWHERE)


@runtime_checkable
class OfItsOwn(Protocol):
    """A policy that makes its own :class:`Decider`, as an environment's agent."""

    @property
    def name(self) -> str: ...

    def decider(self) -> Decider: ...


Asked: TypeAlias = Callable[[View], Iterable[Job | tuple[Job, int]]]
Decides: TypeAlias = Asked | OfItsOwn


class _Asked:
    """The policy's side of one simulation: answers the loop and reports wrong answers."""

    def __init__(self, policy: Asked, name: str) -> None:
        self.policy, self.name = policy, name
        self.queue: dict[int, Job] = {}
        self.jobs: list[Job] = []
        self._started = 0

    def begin(self, workload: Prepared, inputs: Inputs, work: WorkArrays) -> WorkArrays:
        """Return ``work`` with the arrays of decisions."""
        total = len(workload.jobs)
        self.inputs, self.origin, self.procs, self.bits = inputs, workload.origin, workload.procs, inputs.bits
        self.row = inputs.dependencies.row if workload.waits is not None else np.arange(total)
        self.job_ids, users = workload.jobs["job_id"].tolist(), workload.jobs["user"].astype(object)
        self.users = users.where(users.notna(), None).tolist()
        self.outside = Scratch.outside(total)
        self.work = work._replace(outside=self.outside)
        return self.work

    def answer(self, now: int) -> None:
        """Answer the loop, which stopped at ``now``; InputError if the last answer was wrong."""
        table, counters, outside = self.outside.table, self.work.state.counters, self.outside
        if table[REFUSED] != 0:
            raise InputError(f"policy {self.name}, at second {now + self.origin}: {self._wrong()}")
        self._catch_up()
        answer = self.policy(View(self, now))
        if not isinstance(answer, Iterable):
            raise InputError(f"policy {self.name}: returns {shown(answer)} instead of a list of jobs to start now (it may be [])")
        count = 0
        for choice in answer:
            outside.chosen[count], outside.where[count] = self._choice(choice)
            count += 1
            if count > counters[WAITING]:
                break  # more than wait: one of them is wrong
        table[CHOSEN_JOBS], counters[CHOSEN] = count, 1

    def _catch_up(self) -> None:
        """Record the jobs submitted and started since the last answer."""
        counters, arrays = self.work.state.counters, self.inputs.arrays
        first, new = len(self.jobs), slice(len(self.jobs), int(counters[NEXT]))
        submit, columns = arrays.submit[new] + self.origin, (arrays.procs, arrays.requested, *self.inputs.estimates)
        new_columns: Any = (self.row[new], submit, *(column[new] for column in columns))
        for row, *facts in zip(*(column.tolist() for column in new_columns), strict=True):
            self.jobs.append(Job(len(self.jobs), self.job_ids[row], self.users[row], *facts))
        self.queue |= {job.number: job for job in self.jobs[first:]}
        started = int(counters[STARTED])
        for job in self.work.state.running[self._started : started].tolist():
            del self.queue[job]
        self._started = started

    def _choice(self, choice: object) -> tuple[int, int]:
        """Return the number of a chosen job and its cluster."""
        if isinstance(choice, Job):
            return choice.number, NOWHERE
        match choice:
            case (Job(number=number), int() | np.integer() as cluster):
                return number, int(cluster) if cluster >= 0 else len(self.job_ids)
        raise InputError(f"policy {self.name}: returns {shown(choice)}, which is neither a job of view.queue nor a (job, cluster)")

    def _wrong(self) -> str:
        """Return what is wrong with the choice that the kernel has refused."""
        outside, state = self.outside, self.work.state
        at = int(outside.table[REFUSED]) - 1
        job, chosen = int(outside.chosen[at]), outside.chosen[:at].tolist()
        if not 0 <= job < state.counters[NEXT]:
            return f"starts job number {job}, which is none of the {int(state.counters[NEXT]):,} submitted so far"
        name = f"job {self.job_ids[int(self.row[job])]}"
        if job in chosen:
            return f"starts {name} twice"
        if state.start[job] >= 0:
            return f"starts {name}, which does not wait: it has started at second {int(state.start[job]) + self.origin}"
        procs, free, where = int(self.inputs.arrays.procs[job]), int(state.counters[FREE]), int(outside.where[at])
        if self.work.clusters is None and procs > free:
            return f"starts {name}, which needs {procs:,} processors, and {free:,} are free"
        return f"starts {name}, which does not fit in {'any cluster' if where == NOWHERE else f'cluster {where}'} now"

    def check(self) -> None:
        """Raise InputError if some jobs never start."""
        left = np.flatnonzero(self.work.state.start < 0)
        if len(left):
            first = self.job_ids[int(self.row[left[0]])]
            raise InputError(
                f"policy {self.name}: starts no job while none runs and none is still to be submitted, so {len(left):,} jobs never start, "
                f"the first of them is job {first}"
            )


def decider(policy: Decides, name: str = "", once: bool = False) -> tuple[str, Callable[[], Decider]]:
    """Return a policy's name and a function that makes its decider for a simulation.

    The name is ``name``, by default the policy's own. A class makes a policy for each simulation; an object is copied
    for each, so that they share nothing, unless it decides ``once``. Raises InputError for what is no policy or cannot
    be copied.
    """
    if not callable(policy) and not isinstance(policy, OfItsOwn):
        raise InputError(f"a {type(policy).__name__} is not a policy: give a function of a view")
    own = policy.name if isinstance(policy, OfItsOwn) and not isinstance(policy, type) else ""
    name = name or own or getattr(policy, "__name__", type(policy).__name__)

    def new_decider() -> Decider:
        fresh = policy() if isinstance(policy, type) else policy if once else _copied(policy)
        return fresh.decider() if isinstance(fresh, OfItsOwn) else _Asked(fresh, name)

    return name, new_decider


def _copied(policy: Decides) -> Decides:
    try:
        return deepcopy(policy)
    except Exception as error:  # a copy may raise anything
        raise InputError(f"policy {policy}: cannot be copied for each simulation ({error}): give a class that makes it") from error


def decide(
    jobs: pd.DataFrame,
    machine: int | Description,
    policy: Decides,
    *,
    name: str = "",
    clock: Clock = TRACE_SECONDS,
    trace: str = "",
    generated: bool = False,
    progress: Progress | None = None,
    **settings: Any,
) -> Schedule:
    """Schedule ``jobs`` as ``policy`` decides.

    ``machine`` is a number of processors, or a machine of clusters. ``policy(view)`` returns the jobs of ``view.queue``
    to start now, in this order; on clusters as jobs or (job, cluster). It is asked at each pass in which a job waits
    and, on a pool, a processor is free; on clusters again until it starts nothing. The schedule's scheduler is
    ``name``, by default the policy's own. ``settings`` are ``predictor``, ``correction``, ``semantics``,
    ``dependencies``, ``seed``, ``shake_s``, ``users``, ``load`` and ``squeeze`` of :func:`sim.simulate`.
    ``progress(ended, jobs)`` is called several times a second.

    Raises
    ------
    InputError
        As :func:`sim.simulate`; if a chosen job does not wait, does not fit, or is chosen twice; if jobs are never
        started.
    """
    if wrong := sorted(set(settings) - (set(Policy._fields) - {"scheduler", "starvation_s"})):
        raise InputError(f"decide takes no {wrong[0]}: the policy decides which jobs start")
    name, decides = decider(policy, name, once=True)
    on: dict[str, Any] = {"machine": machine} if hasattr(machine, "arrays_for") else {"procs": machine}
    schedule = simulate_policy(
        jobs,
        Policy(DECIDED, **settings),
        decider=decides(),
        clock=clock,
        trace=trace,
        generated=generated,
        progress=progress,
        **on,
    )
    return replace(schedule, scheduler=name)
