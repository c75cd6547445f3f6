"""The simulator's front door: tables and names in, a :class:`~sim.schedule.Schedule` out. Checks once, then leaves it to the kernel."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple, Protocol

import numpy as np
import pandas as pd

from features.clock import Clock
from features.errors import InputError
from features.jobs.shaking import moves, shaken
from models.runtime.dispatch import OUTSIDE, TABLE, answers_apart
from models.runtime.memory import Memory
from models.runtime.protocol import CompiledPredictor, OnlinePredictor, Predictor
from sim.kernel.corrections import CORRECTIONS, RENEWED
from sim.kernel.loop import DECIDE, DONE, NEVER, RETRAIN, Settings
from sim.kernel.orders import FCFS, changes_while_waiting
from sim.kernel.run import run
from sim.kernel.scratch import Scratch, Work
from sim.kernel.start_decision import StartDecision, decide
from sim.kernel.state import CLAMPED, ENDED, MOST_SKIPS, UNUSABLE, Estimates, Jobs, State
from sim.names import ALGORITHMS, BACKFILLING, PLANNING, Scheduler
from sim.names import scheduler as named_scheduler
from sim.prepare import (
    NO_DEPENDENCIES,
    NO_SWEEP,
    Prepared,
    as_dependencies,
    as_estimates,
    as_predictor,
    check_answerable,
    clock_bits,
    prepare,
)
from sim.python_predictor import Conversation
from sim.schedule import Schedule, schedule_table
from sim.semantics import SEMANTICS as SEMANTICS
from sim.semantics import semantics as named_semantics
from sim.shaken import check_seed, in_order, restored, seeded

TRACE_SECONDS = Clock()
"""The wall clock where none is known: the trace's seconds, as if its second 0 were a midnight."""


def simulate(
    jobs: pd.DataFrame,
    *,
    procs: int,
    scheduler: str = "EASY",
    predictor: str | Predictor | Sequence[float] | np.ndarray | pd.Series = "requested",
    correction: str = "requested",
    semantics: str = "per-second",
    starvation_s: int | None = None,
    dependencies: bool = False,
    start_decision: StartDecision | None = None,
    clock: Clock = TRACE_SECONDS,
    seed: int = 0,
    shake_s: int = 0,
    trace: str = "",
    generated: bool = False,
    scratch: Scratch | None = None,
) -> Schedule:
    """Schedule ``jobs`` on a machine of ``procs`` processors.

    Parameters
    ----------
    jobs
        Canonical jobs table (:mod:`features.jobs.schema`), cleaned, in order of submission; times in seconds.
    scheduler
        ``[ORDER-]ALGORITHM[-BACKFILLORDER]``, such as ``EASY`` or ``EASY-SJBF``.
    predictor
        A name, a predictor object (:mod:`models.runtime.protocol`), or predicted runtimes in seconds, one a job. Predictions are rounded to whole seconds;
        those outside 1..request are clamped and counted, those that are not numbers an error.
    correction
        What replaces a prediction that a job outlives: ``requested``, ``tsafrir``, ``doubling`` or ``conditional`` (:mod:`sim.kernel.corrections`).
    semantics
        ``per-second``: all events of one second, then one scheduling pass. ``per-event``: a pass after every event. With options as in
        ``per-second(expiry=pass,every=30)``: also a pass when a prediction expires, and one every so many seconds (:mod:`sim.semantics`).
    starvation_s
        A job that has waited longer than this goes to the head of the primary queue, first come first served among such; None: never.
    dependencies
        Submit a job that names a preceding job when that has ended and the think time is over, not as recorded (:mod:`features.jobs.dependencies`).
    start_decision
        Who decides, with a scheduler ``...+RUSH(...)``, whether a job that could start is skipped (:mod:`sim.kernel.start_decision`).
    clock
        The Unix time of the trace's second 0 and its time zone: learners look at the time of day by it, and are retrained at its midnights. Without it
        both go by the trace's own seconds, whose second 0 counts as a midnight; so does the published ``cv-triple`` in any case.
    seed
        Draws the shake, and is the seed by which ``lightgbm`` and ``quantile`` learn where their name states none. Nothing else is random.
    shake_s
        Move every submission by up to so many seconds (:mod:`features.jobs.shaking`): one of many replays that a trace stands for. 0: as recorded.
    scratch
        Working arrays of earlier simulations to use again, one a thread; the schedule holds none of them.

    Raises
    ------
    InputError
        For an unknown name, a table that is not clean, predictions that cannot be used, or a seed that would change nothing.
    """
    check_seed([predictor], [seed], shake_s)
    source, table, rows = as_predictor(seeded(predictor, seed)), jobs, None  # type: ignore[arg-type]
    if shake_s:
        if start_decision is not None:
            raise InputError("start decisions are made of the jobs as recorded: a shaken replay takes no start_decision")
        table, rows = shaken(jobs, moves(len(jobs), shake_s, seed), dependencies)
        source = in_order(source, jobs, rows)
    made = outcome(
        prepare(table, procs),
        scheduler=scheduler,
        predictor=source,
        correction=correction,
        semantics=semantics,
        starvation_s=starvation_s,
        dependencies=dependencies,
        start_decision=start_decision,
        clock=clock,
        scratch=scratch,
    )
    if rows is not None:
        made = restored(made, rows)
    return Schedule(
        jobs=schedule_table(jobs, made.start, made.predicted, made.corrections, made.submit),
        procs=procs,
        trace=trace,
        scheduler=scheduler,
        predictor=made.predictor,
        correction=correction,
        semantics=semantics,
        starvation_s=starvation_s,
        dependencies=dependencies,
        seed=seed,
        shake_s=shake_s,
        generated=generated,
        clamped_predictions=made.clamped,
        simulate_s=made.seconds,
        retrain_s=made.retraining,
        quantiles=made.quantiles,
    )


class Machine(Protocol):
    """What jobs run on, if not on processors that leave each other alone: it decides how long they take (:mod:`sim.cluster`)."""

    @property
    def decides(self) -> bool:
        """Does it answer start decisions?"""
        ...

    def go_on(self, settings: Settings, work: Work, now: int, *given: object) -> tuple[int, int]:
        """Like the loop from ``now`` on, which is given jobs, estimates, dependencies and memory: why it stopped, and when."""
        ...


class Outcome(NamedTuple):
    """What a simulation decided, int64 [jobs] in the order of the table, times in seconds from the trace's origin (``runtime`` as it came out, ``skips``
    by start decisions); the predictor's name, how many
    of its predictions were clamped, the wall time of the simulation alone and of the training in it, and what was said of distributions."""

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


def outcome(
    workload: Prepared,
    *,
    scheduler: str,
    predictor: str | Predictor | Sequence[float] | np.ndarray | pd.Series,
    correction: str,
    semantics: str,
    starvation_s: int | None,
    dependencies: bool,
    scratch: Scratch | None,
    start_decision: StartDecision | None = None,
    clock: Clock = TRACE_SECONDS,
    machine: Machine | None = None,
) -> Outcome:
    """:func:`simulate` without tables: what campaigns of thousands of short simulations need of it."""
    plan = named_scheduler(scheduler)
    check_policy(plan, correction, semantics, starvation_s)
    check_decision(plan, start_decision is not None or (machine is not None and machine.decides))
    jobs, arrays, origin, procs = workload
    source = as_predictor(predictor)
    total = len(jobs)
    if machine is not None:
        arrays = arrays._replace(runtime=arrays.runtime.copy())
    estimates, clamped, code, memory = as_estimates(source, jobs, arrays, clock)
    if correction.startswith("conditional") and code == TABLE:
        check_answerable(source.name, estimates.end, arrays.runtime)
    if CORRECTIONS[correction] == RENEWED and code == OUTSIDE:
        raise InputError(
            f"correction {correction} asks too often for a predictor in Python, and {source.name} is one: conditional is for those"
        )
    asking = NO_DEPENDENCIES
    bits = clock_bits(arrays, estimates)
    if dependencies:
        given, known = arrays, estimates
        asking, arrays, estimates = as_dependencies(jobs, given, known)
        bits = clock_bits(given, known, int(asking.think.sum()))
        memory = memory._replace(row=asking.row)
    retrained = isinstance(source, CompiledPredictor) and source.retrain is not None
    midnight = clock.next_midnight(origin) - origin if retrained else NEVER
    settings = settings_of(
        plan, code, correction, semantics, starvation_s, dependencies, bits, origin, midnight, machine is not None
    )
    plans = plan.algorithm in PLANNING
    work = (scratch or Scratch()).work(
        total,
        procs,
        plans=plans or plan.reservations > 1,
        gaps=not plans,
        two=not settings.one_queue,
        decides=plan.rush is not None,
    )
    if plan.rush is not None:
        work.state.counters[MOST_SKIPS] = plan.rush.skips

    if machine is None:
        load_kernel()
    began = time.perf_counter()

    def go_on(now: int) -> tuple[int, int]:
        if machine is not None:
            return machine.go_on(settings, work, now, arrays, estimates, asking, memory)
        return run(settings, arrays, estimates, asking, *work, memory, now, NO_SWEEP)

    conversation = None
    if isinstance(source, OnlinePredictor):
        rows = asking.row if dependencies else np.arange(total)
        conversation = Conversation(source, jobs, arrays, estimates, work.state, origin, rows)
    retraining = 0.0
    reason, now = go_on(0)
    while reason != DONE:
        if reason == RETRAIN and isinstance(source, CompiledPredictor) and source.retrain is not None:
            stopped = time.perf_counter()
            memory = source.retrain(memory, work.state.ended[: work.state.counters[ENDED]].copy(), arrays.runtime)
            settings = settings._replace(midnight=clock.next_midnight(now + origin) - origin)
            retraining += time.perf_counter() - stopped
        elif reason == DECIDE and start_decision is not None:
            decide(start_decision, work.state, now + origin, asking.row if dependencies else None)
        elif conversation is not None:
            conversation.answer(reason, now)
        reason, now = go_on(now)
    clamped += conversation.clamped if conversation is not None else 0
    seconds = time.perf_counter() - began
    clamped += int(work.state.counters[CLAMPED])
    check_usable(work.state, source.name, jobs, asking.row if dependencies else None)

    submit, start = arrays.submit + origin, work.state.start + origin
    told_of = [submit, start, arrays.runtime, estimates.order, work.state.corrections.copy(), work.state.skips]
    if dependencies:
        order = np.argsort(asking.row)
        told_of = [column[order] if len(column) else column for column in told_of]
    submit, start, runtime, predicted, corrections, skips = told_of
    told = source.distribution(memory) if isinstance(source, CompiledPredictor) and source.distribution is not None else None
    return Outcome(submit, start, runtime, predicted, corrections, skips, source.name, clamped, seconds, retraining, told)


def check_policy(plan: Scheduler, correction: str, semantics: str, starvation_s: int | None) -> None:
    """InputError for an unknown name, and for a starvation threshold that cannot be."""
    if correction not in CORRECTIONS:
        raise InputError(f"unknown correction {correction!r}: known are {', '.join(CORRECTIONS)}")
    named_semantics(semantics)
    if starvation_s is not None and starvation_s < 0:
        raise InputError(f"a starvation threshold of {starvation_s} s is negative")
    if starvation_s is not None and plan.algorithm == "Conservative":
        raise InputError("Conservative keeps every job's reservation: nobody starves, and a starvation threshold has no meaning")


def check_decision(plan: Scheduler, decided: bool) -> None:
    """InputError if starts are to be decided on and nobody does, or somebody would and is never asked."""
    if plan.rush is not None and not decided:
        raise InputError(
            f"scheduler {plan.name!r}: RUSH asks a model that sees monitoring counters, and a trace has none: run it on a monitored cluster"
        )
    if plan.rush is None and decided:
        raise InputError(f"scheduler {plan.name!r} asks nobody whether a job may start: add +RUSH, or give no start_decision")


def settings_of(
    plan: Scheduler,
    predictor: int,
    correction: str,
    semantics: str,
    starvation_s: int | None,
    dependencies: bool,
    bits: int,
    origin: int = 0,
    midnight: int = NEVER,
    monitored: bool = False,
) -> Settings:
    """A scheduler and the other choices as the kernel's codes; ``origin`` is the trace's second from which the kernel counts."""
    rules = named_semantics(semantics)
    order, backfill = plan.order.code, plan.backfill.code
    # a starving job goes to the head of the primary queue only; where that queue is FCFS anyway nothing changes
    one_queue = plan.algorithm not in BACKFILLING or (plan.order == plan.backfill and (starvation_s is None or order == FCFS))
    backfill_changing = changes_while_waiting(backfill, plan.backfill.weights)
    changing = backfill_changing or changes_while_waiting(order, plan.order.weights)
    return Settings(
        algorithm=ALGORITHMS[plan.algorithm],
        reservations=plan.reservations,
        order=order,
        given_weights=np.array(plan.order.weights),
        weights=np.array(plan.order.weights),
        backfill=backfill,
        given_backfill_weights=np.array(plan.backfill.weights),
        backfill_weights=np.array(plan.backfill.weights),
        one_queue=one_queue,
        changing=changing,
        backfill_changing=backfill_changing,
        # where FIT and END have different answers, a job let in before the reservation can still move it; who was skipped is asked again at any pass
        steady=plan.reservations == 1 and predictor != OUTSIDE and not answers_apart(predictor) and plan.rush is None,
        correction=CORRECTIONS[correction],
        predictor=predictor,
        starvation=NEVER if starvation_s is None else starvation_s,
        per_event=rules.per_event,
        # the program of Gaussier et al. 2015 has this gate for FCFS-EASY alone
        gated=rules.per_event and plan.algorithm == "EASY" and order == backfill == FCFS and plan.reservations == 1,
        timed=rules.timed,
        expiry=rules.expiry_pass,
        every=rules.every_s,
        phase=origin % rules.every_s if rules.every_s else 0,
        dependent=dependencies,
        midnight=midnight,
        monitored=monitored,
        bits=bits,
    )


def check_usable(state: State, name: str, jobs: pd.DataFrame, row: np.ndarray | None = None) -> None:
    """InputError if a compiled predictor, called ``name``, said something that is no number; ``row`` maps the kernel's jobs to rows of the table."""
    job = int(state.counters[UNUSABLE]) - 1
    if job >= 0:
        number = jobs["job_id"].iloc[job if row is None else int(row[job])]
        raise InputError(f"predictor {name}: predicts something that is no finite number for job {number}")


@cache
def load_kernel() -> None:
    """Compile the kernel, or load it from its cache, by simulating no jobs: not a part of any simulation's time."""
    nothing = np.zeros(0, np.int64)
    settings = settings_of(named_scheduler("EASY"), TABLE, "requested", "per-second", None, False, 1)
    jobs, estimates = Jobs(*[nothing] * 5), Estimates(*[nothing] * 3)
    run(settings, jobs, estimates, NO_DEPENDENCIES, *Scratch().work(0, 1), Memory(), 0, NO_SWEEP)
