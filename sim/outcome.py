"""One simulation without tables: a policy on prepared jobs.

The kernel stops whenever it needs an answer from outside, and is then resumed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from features.clock import Clock
from features.deferred import pd
from features.errors import InputError
from features.jobs.columns import Table, column, framed
from models.runtime.dispatch import OUTSIDE, TABLE
from models.runtime.memory import Memory
from models.runtime.protocol import CompiledPredictor, OnlinePredictor, Predictor
from sim.inputs.estimates import Conversation, Foreknown, as_predictor, told_quantiles
from sim.inputs.planner import Planned, Searches, as_planner, no_planner, pool_as_cluster, queues
from sim.inputs.prepare import NO_DEPENDENCIES, NO_SWEEP, Inputs, OnClusters, Prepared, inputs, scoring_of
from sim.kernel.loop import DECIDE, DONE, PAUSE, POLICY, RETRAIN, SEARCH, LoopInputs, Settings
from sim.kernel.outside import StartDecision, decide
from sim.kernel.planning_seats import Planner
from sim.kernel.run import run
from sim.kernel.scenarios import NO_SCENARIOS
from sim.kernel.scratch import Scratch, WorkArrays
from sim.kernel.state import CLAMPED, ENDED, EVENTS, MOST_SKIPS, NEVER, UNUSABLE, Estimates, Jobs, State
from sim.machine.nodes import NO_LAYOUT, NO_REQUESTS, Nodes
from sim.policy import Policy, applied, kernel_settings
from sim.schedulers.harm import as_scenarios
from sim.schedulers.names import PLANNERS, PLANNING, PlanRS, Scheduler

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the jobs that have ended and all jobs, several times a second."""
FIRST_LEG, LEG_S, LONGEST_LEG = 100_000, 0.1, 10_000_000
"""Work until the first pause of the kernel, in events and planned jobs; about the seconds between pauses, in which
Python can report and be interrupted; and the max work between them."""
DECIDED = "List"
"""The scheduler whose place a policy of a user's own takes."""
TRACE_SECONDS = Clock()
"""The default wall clock: the trace's seconds, as if its second 0 were a midnight."""


class RuntimeMachine(Protocol):
    """A machine that decides how long jobs take, such as a simulated cluster.

    Without one, jobs run on processors without contention. :mod:`sim.cluster` has one.
    """

    @property
    def decides(self) -> bool:
        """Tell whether it answers start decisions."""

    def go_on(self, settings: Settings, inputs: LoopInputs, work: WorkArrays, now: int) -> tuple[int, int]:
        """Run the loop from ``now`` on; return the stop reason and the time."""


class Decider(Protocol):
    """A policy outside the kernel in one simulation (:mod:`sim.own.decide`)."""

    def begin(self, workload: Prepared, inputs: Inputs, work: WorkArrays) -> WorkArrays:
        """Return ``work`` with the arrays of decisions."""

    def answer(self, now: int) -> None:
        """Choose the jobs that start at ``now``."""

    def check(self) -> None:
        """Raise InputError if jobs were never started."""


class Outcome(NamedTuple):
    """The results of a simulation, int64 [jobs] in the order of the table.

    Times are in seconds from the trace's origin. ``runtime`` is the simulated one; ``skips`` counts skips by start
    decisions. ``predictor`` is the predictor's name, ``clamped`` the number of its clamped predictions, ``quantiles``
    its distributions. ``seconds`` is the wall time of the simulation alone, ``retraining`` that of the training in it.
    """

    submit: np.ndarray
    start: np.ndarray
    runtime: np.ndarray
    predicted: np.ndarray
    corrections: np.ndarray
    skips: np.ndarray
    predictor: str
    clamped: int
    seconds: float
    retraining: float
    quantiles: pd.DataFrame | None


def simulation(
    workload: Prepared,
    policy: Policy,
    *,
    start_decision: StartDecision | None = None,
    clock: Clock = TRACE_SECONDS,
    machine: RuntimeMachine | None = None,
    scratch: Scratch | None = None,
    progress: Progress | None = None,
    foreknown: Foreknown | None = None,
    decider: Decider | None = None,
) -> Simulation:
    """Return a simulation without tables, before its first event.

    As :func:`sim.simulate`, on the jobs as recorded, without shaking. ``foreknown`` is the predictor as
    :func:`sim.inputs.estimates.as_estimates` returns it, if that was called before. ``decider`` decides in place of the scheduler.
    """
    plan = policy.plan()
    policy = applied(policy, plan)
    check_decision(plan, start_decision is not None or (machine is not None and machine.decides))
    source = as_predictor(policy.predictor)
    if machine is not None:  # it decides how long jobs take
        workload = workload._replace(arrays=workload.arrays._replace(runtime=workload.arrays.runtime.copy()))
    job_inputs = inputs(workload, source, policy, clock, plan, foreknown)
    retrained = isinstance(source, CompiledPredictor) and source.retrain is not None
    midnight = clock.next_midnight(workload.origin) - workload.origin if retrained else NEVER
    settings = kernel_settings(
        policy,
        plan,
        job_inputs.code,
        job_inputs.bits,
        workload.origin,
        midnight,
        machine is not None,
        workload.waits is not None,
        scoring_of(plan, workload, clock),
    )
    scratch = scratch or Scratch()
    scenarios = clusters = None
    if workload.machine is None and plan.algorithm in PLANNERS:
        workload = workload._replace(machine=pool_as_cluster(workload.procs, workload.arrays))
    if workload.machine is not None:
        closes = len(workload.machine.layout.hours.time) > 0
        check_clusters(plan, machine is not None, closes)
        nodes, planner = planned_nodes(workload, workload.machine, plan, job_inputs, scratch=scratch)
        clusters = scratch.clusters(
            nodes, planner, two=not settings.one_queue, origin=workload.origin, layout=workload.machine.layout
        )
    if plan.harm is not None:
        on = None if clusters is None else clusters.nodes
        scenarios = as_scenarios(
            plan.harm, source, framed(workload.jobs), workload.arrays, workload.procs, policy.seed, scratch, on
        )
    work = scratch.work(
        len(workload.jobs),
        workload.procs,
        **room_for(plan, settings),
        decides=plan.rush is not None,
        scenarios=scenarios,
        clusters=clusters,
    )
    if plan.rush is not None:
        work.state.counters[MOST_SKIPS] = plan.rush.skips
        if start_decision is not None and (plan.rush.patience or plan.rush.every):
            raise InputError(f"scheduler {plan.name!r}: patience and every are for models; a start decision of yours keeps its own")
    if decider is not None:
        settings = settings._replace(steady=False)
        work = decider.begin(workload, job_inputs, work)
    searches = None
    if plan.plan_rs is not None and clusters is not None:
        searches = Searches(plan.plan_rs, work.state, clusters.planner, job_inputs.bits, policy.seed)
    return Simulation(workload, source, job_inputs, settings, work, clock, start_decision, machine, progress, searches, decider)


def room_for(plan: Scheduler, settings: Settings) -> dict[str, Any]:
    """Return the room that a scheduler needs in :meth:`sim.kernel.scratch.Scratch.work`."""
    return {
        "plans": plan.algorithm in PLANNING or plan.reservations > 1,
        "gaps": plan.algorithm != "Conservative",
        "two": not settings.one_queue,
    }


def planned_nodes(
    workload: Prepared, machine: OnClusters, plan: Scheduler, job_inputs: Inputs, *, scratch: Scratch
) -> tuple[Nodes, Planner]:
    """Return fresh arrays of the nodes that jobs run on, and of the planner on them."""
    jobs, arrays = workload.jobs, workload.arrays
    nodes = scratch.nodes(*machine, job_inputs.dependencies.row if workload.waits is not None else np.arange(len(jobs)))
    planned = Planned(
        plan.plan_rs or plan.orig_bf,
        users=int(arrays.user.max(initial=-1)) + 1,
        running=min(len(jobs), 2 * workload.procs),
        queue=queues(arrays.requested) if plan.orig_bf else np.zeros(0, np.int64),
    )
    planner = as_planner(planned, nodes, job_inputs.arrays, job_inputs.estimates, scratch)
    return nodes, planner


@dataclass
class Simulation:
    """A simulation: advances the kernel, and answers its requests."""

    workload: Prepared
    source: Predictor
    inputs: Inputs
    settings: Settings
    work: WorkArrays
    clock: Clock
    start_decision: StartDecision | None
    machine: RuntimeMachine | None
    progress: Progress | None
    searches: Searches | None
    decider: Decider | None
    conversation: Conversation | None = None
    retraining: float = 0.0
    seconds: float = 0.0

    def outcome(self) -> Outcome:
        """Simulate from the first submission to the last end."""
        for now in self.stops():
            assert self.decider is not None
            self.decider.answer(now)
        if self.decider is not None:
            self.decider.check()
        return self._decided(self.seconds)

    def stops(self) -> Iterator[int]:
        """Simulate to the last end; yield the time whenever the policy outside must choose."""
        if self.machine is None:
            state = self.work.state
            load_kernel(
                weighs=state.scenarios is not None, clustered=self.work.clusters is not None, decides=self.decider is not None
            )
        if self.searches is not None:
            load_search()
        began = time.perf_counter()
        if self.inputs.code == OUTSIDE:
            assert isinstance(self.source, OnlinePredictor)
            job_inputs, rows, scenarios = self.inputs, self._rows(), self.work.state.scenarios
            estimates = job_inputs.estimates
            if self.settings.by_request:
                estimates = Estimates(estimates.order, np.empty_like(estimates.fit), np.empty_like(estimates.end))
            self.conversation = Conversation(
                self.source,
                framed(self.workload.jobs),
                job_inputs.arrays,
                estimates,
                self.work.state,
                self.workload.origin,
                np.arange(len(self.workload.jobs)) if rows is None else rows,
                scenarios.quantiles if scenarios is not None else None,
            )
        leg, counters = FIRST_LEG, self.work.state.counters
        counters[EVENTS], left = leg, began
        reason, now = self._advance(0)
        while reason != DONE:
            if reason == PAUSE:
                arrived = time.perf_counter()
                leg = min(max(int(leg * min(LEG_S / (arrived - left), 8.0)), 1), LONGEST_LEG)
                counters[EVENTS], left = leg, arrived
                if self.progress is not None:
                    self.progress(int(counters[ENDED]), len(self.workload.jobs))
            elif reason == POLICY:
                yield now
            else:
                self._answer(reason, now)
            reason, now = self._advance(now)
        self.seconds = time.perf_counter() - began

    def _advance(self, now: int) -> tuple[int, int]:
        """Continue from ``now`` until the kernel needs something; return the reason and the time."""
        loop_inputs = LoopInputs(*self.inputs[:4])
        if self.machine is not None:
            return self.machine.go_on(self.settings, loop_inputs, self.work, now)
        return run(self.settings, loop_inputs, self.work, now, NO_SWEEP)

    def _answer(self, reason: int, now: int) -> None:
        """Answer the kernel's request for training, a decision, search or prediction."""
        state, origin = self.work.state, self.workload.origin
        if reason == RETRAIN and isinstance(self.source, CompiledPredictor) and self.source.retrain is not None:
            stopped = time.perf_counter()
            memory = self.source.retrain(
                self.inputs.memory, state.ended[: state.counters[ENDED]].copy(), self.inputs.arrays.runtime
            )
            self.inputs = self.inputs._replace(memory=memory)
            midnight = now + origin
            for _ in range(self.source.every):
                midnight = self.clock.next_midnight(midnight)
            self.settings = self.settings._replace(midnight=midnight - origin)
            self.retraining += time.perf_counter() - stopped
        elif reason == DECIDE and self.start_decision is not None:
            if self.conversation is not None:
                self.conversation.tell_more((), now)
            decide(self.start_decision, state, now + origin, self._rows())
        elif reason == SEARCH and self.searches is not None:
            self.searches.search(now)
        elif self.conversation is not None:
            self.conversation.answer(reason, now)

    def _rows(self) -> np.ndarray | None:
        """Return the table's row of each job of the kernel, or None if they are the same.

        They differ if jobs depend on each other.
        """
        return self.inputs.dependencies.row if self.settings.dependent else None

    def _decided(self, seconds: float) -> Outcome:
        state, source, origin = self.work.state, self.source, self.workload.origin
        clamped = self.inputs.clamped + int(state.counters[CLAMPED])
        clamped += self.conversation.clamped if self.conversation is not None else 0
        rows = self._rows()
        check_usable(state, source.name, self.workload.jobs, rows)
        arrays, estimates = self.inputs.arrays, self.inputs.estimates
        submit, start, runtime, predicted = arrays.submit + origin, state.start + origin, arrays.runtime, estimates.order
        corrections, skips = state.corrections.copy(), state.skips
        if rows is not None:
            order = np.argsort(rows)
            submit, start, runtime, predicted, corrections = (
                column[order] for column in (submit, start, runtime, predicted, corrections)
            )
            skips = skips[order] if len(skips) else skips
        quantiles = told_quantiles(source, self.inputs.memory, self.workload.jobs)
        return Outcome(
            submit=submit,
            start=start,
            runtime=runtime,
            predicted=predicted,
            corrections=corrections,
            skips=skips,
            predictor=source.name,
            clamped=clamped,
            seconds=seconds,
            retraining=self.retraining,
            quantiles=quantiles,
        )


def check_decision(plan: Scheduler, decided: bool) -> None:
    """Raise InputError for start decisions without a model, or a model that is never asked."""
    if plan.rush is not None and not decided:
        raise InputError(
            f"scheduler {plan.name!r}: RUSH asks a model that sees monitoring counters, and a trace has none: run it on a monitored cluster"
        )
    if plan.rush is None and decided:
        raise InputError(f"scheduler {plan.name!r} asks no model whether a job may start: add +RUSH, or give no start_decision")


ON_CLUSTERS = ("Strict", "List", "EASY", "JustBF", "Conservative", "Harm", *PLANNERS)
"""Algorithms that run on a machine of clusters."""
WITH_HOURS = ("EASY", "List", "Strict")
"""Algorithms that support hours at which jobs may start."""


def check_clusters(plan: Scheduler, monitored: bool, closes: bool = False) -> None:
    """Raise InputError if ``plan`` cannot run on a machine of clusters as asked."""
    if (plan.rush is not None and plan.harm is None) or plan.algorithm not in ON_CLUSTERS:
        raise InputError(
            f"scheduler {plan.name!r}: does not run on a machine of clusters; {', '.join(ON_CLUSTERS)} do (of those with +RUSH only Harm)"
        )
    if closes and (plan.algorithm not in WITH_HOURS or plan.reservations > 1):
        raise InputError(f"scheduler {plan.name!r}: does not support opening hours; EASY, List and Strict do")
    if monitored:
        raise InputError("a monitored cluster is one pool of processors, and takes no machine of clusters")


def check_usable(state: State, name: str, jobs: Table, row: np.ndarray | None = None) -> None:
    """Raise InputError if the compiled predictor ``name`` gave an answer that is no number.

    ``row`` maps the kernel's jobs to rows of the table.
    """
    job = int(state.counters[UNUSABLE]) - 1
    if job >= 0:
        number = column(jobs, "job_id")[job if row is None else int(row[job])]
        raise InputError(f"predictor {name}: predicts something that is not a finite number for job {number}")


@cache
def load_kernel(weighs: bool = False, clustered: bool = False, decides: bool = False) -> None:
    """Compile the kernel or load it from its cache, by simulating no jobs.

    Call it before measuring a simulation's time. There are kernels of their own for an algorithm that ``weighs``
    scenarios, for a ``clustered`` machine, and for a policy outside that ``decides``.
    """
    nothing = np.zeros(0, np.int64)
    policy = Policy("Harm" if weighs else "EASY")
    settings = kernel_settings(policy, policy.plan(), TABLE, 1)
    jobs, estimates = Jobs(*[nothing] * 5), Estimates(*[nothing] * 3)
    scratch = Scratch()
    clusters = None
    if clustered:
        nodes = scratch.nodes(NO_LAYOUT, NO_REQUESTS, nothing)
        clusters = scratch.clusters(nodes, no_planner(nodes), two=False)
    work = scratch.work(0, 1, scenarios=NO_SCENARIOS if weighs else None, clusters=clusters)
    work = work._replace(outside=scratch.outside(0) if decides else None)
    run(settings, LoopInputs(jobs, estimates, NO_DEPENDENCIES, Memory()), work, 0, NO_SWEEP)


@cache
def load_search() -> None:
    """Compile PlanRS's search or load it from its cache, by searching a plan of no jobs."""
    scratch = Scratch()
    planner = no_planner(scratch.nodes(NO_LAYOUT, NO_REQUESTS, np.zeros(0, np.int64)))
    Searches(PlanRS(iterations=0), scratch.work(0, 1).state, planner, 1, 0).search(0)
