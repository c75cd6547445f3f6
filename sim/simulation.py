"""The simulator's entry: tables and names in, a :class:`~sim.schedule.Schedule` out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from features.clock import Clock
from features.deferred import pd
from features.errors import InputError
from features.jobs.columns import Table
from features.jobs.schema import start_s
from features.jobs.workload_changes import moves
from models.runtime.protocol import Predictor
from sim.inputs.estimates import as_predictor
from sim.kernel.outside import StartDecision
from sim.kernel.scratch import Scratch
from sim.machine.nodes import Description
from sim.outcome import TRACE_SECONDS, Decider, Progress, simulation
from sim.policy import Policy
from sim.replays import as_replay, check_scaled, check_seed, in_order, restored, seeded
from sim.schedule import Schedule, as_schedule


def simulate(
    jobs: pd.DataFrame,
    *,
    procs: int | None = None,
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
    users: str = "open",
    load: float = 1.0,
    squeeze: float = 1.0,
    trace: str = "",
    generated: bool = False,
    machine: Description | None = None,
    scratch: Scratch | None = None,
) -> Schedule:
    """Schedule ``jobs`` on one pool of ``procs`` processors, or on a ``machine`` of clusters.

    Parameters
    ----------
    jobs
        Canonical jobs table (:mod:`features.jobs.schema`), cleaned, in order of submission; times in seconds.
    scheduler
        ``[ORDER-]ALGORITHM[-BACKFILLORDER]``, such as ``EASY`` or ``EASY-SJBF``.
    predictor
        A name, a predictor object (:mod:`models.runtime.protocol`), or predicted runtimes in seconds, one a job. Predictions are
        rounded to whole seconds. Those outside 1..request are clamped and counted; one that is not a number is an error.
    correction
        Replaces outlived predictions: ``requested``, ``tsafrir``, ``doubling``, ``conditional`` (:mod:`sim.kernel.corrections`).
    semantics
        ``per-second``: all events of one second, then one scheduling pass. ``per-event``: a pass after every event. With
        ``per-second(expiry=pass,every=30)``: also a pass when a prediction expires, and one every 30 s (:mod:`sim.policy`).
    starvation_s
        A job that has waited longer than this goes to the head of the primary queue, in order of submission; None: never.
    dependencies
        If a job names a preceding job, submit it a think time after the end of that job (:mod:`features.jobs.dependencies`).
    start_decision
        The callback of a scheduler ``...+RUSH(...)`` that decides whether to skip a job (:mod:`sim.kernel.outside`).
    clock
        The Unix time of the trace's second 0 and its time zone: learners read the time of day from it and are retrained at its
        midnights. By default, and for the published ``cv-triple`` always, both go by the trace's seconds, and 0 is a midnight.
    seed
        Draws the shake, the scenarios of ``Harm`` and the moves of ``PlanRS``; is the seed of ``lightgbm`` and
        ``quantile`` if their name states none. Nothing else is random.
    shake_s
        Move submissions by up to this many seconds: one of many possible replays (:mod:`features.jobs.workload_changes`). 0: as recorded.
    machine
        A machine of clusters of nodes (:class:`sim.machine.description.Machine`), which has its number of processors; None: one
        pool of ``procs``.
    users
        How users react: ``open`` (submissions as recorded), or ``closed``, with an option as in ``closed(ends=EASY)``
        (:mod:`sim.users.closed`).
    load
        Divide times between submissions, and think times, by this (:mod:`features.jobs.workload_changes`). The trace's name then says so.
    squeeze
        Divide all times by this: those between submissions, think times, runtimes and requests.
    scratch
        Working arrays of earlier simulations to reuse, one a thread; the schedule holds none of them.

    Raises
    ------
    InputError
        For an unknown name, a table that is not clean, predictions that cannot be used, or a seed that would change nothing.
    """
    policy = Policy(scheduler, predictor, correction, semantics, starvation_s, dependencies, seed, shake_s, users, load, squeeze)
    return simulate_policy(
        jobs,
        policy,
        procs=procs,
        start_decision=start_decision,
        clock=clock,
        trace=trace,
        generated=generated,
        machine=machine,
        scratch=scratch,
    )


def simulate_policy(
    jobs: Table,
    policy: Policy,
    *,
    procs: int | None = None,
    start_decision: StartDecision | None = None,
    clock: Clock = TRACE_SECONDS,
    trace: str = "",
    generated: bool = False,
    machine: Description | None = None,
    scratch: Scratch | None = None,
    progress: Progress | None = None,
    decider: Decider | None = None,
) -> Schedule:
    """Schedule ``jobs`` by ``policy``; arguments and errors as :func:`simulate`.

    ``progress(ended, jobs)`` is called several times a second of a long simulation. ``decider`` decides in place of the
    policy's scheduler (:mod:`sim.own.decide`).
    """
    procs, policy = processors(procs, machine), policy.checked()
    check_seed([policy.predictor], [policy.seed], policy.shake_s, [policy.scheduler])
    if not isinstance(policy.predictor, str):
        check_scaled(as_predictor(policy.predictor), policy.squeeze)
    source = as_predictor(seeded(policy.predictor, policy.seed))
    if policy.shake_s and start_decision is not None:
        raise InputError("start decisions are made of the jobs as recorded: a shaken replay takes no start_decision")
    moves_s = moves(len(jobs), policy.shake_s, policy.seed) if policy.shake_s else None
    workload, table, rows = as_replay(jobs, policy, procs, moves_s, machine)
    if rows is not None:
        source = in_order(source, table, rows)
    prepared = policy._replace(predictor=source)
    outcome = simulation(
        workload,
        prepared,
        start_decision=start_decision,
        clock=clock,
        scratch=scratch,
        progress=progress,
        decider=decider,
    ).outcome()
    if rows is not None:
        outcome = restored(outcome, rows)
    name = "" if machine is None else machine.name
    return as_schedule(outcome, table, policy, procs=procs, machine=name, trace=trace, generated=generated)


def processors(procs: int | None, machine: Description | None) -> int:
    """Return the processors of a ``machine``, or of one pool.

    Raises InputError if both are given and differ, or if neither is given.
    """
    if machine is None:
        if procs is None:
            raise InputError("give procs, the number of processors, or a machine")
        return procs
    if procs not in (None, machine.procs):
        raise InputError(f"machine {machine.name} has {machine.procs:,} processors, not {procs:,}: give one of the two")
    return machine.procs


RECORDED = "recorded"
SIMULATED = "simulated: EASY with requested times"


def history_starts(jobs: pd.DataFrame, procs: int) -> tuple[np.ndarray, str]:
    """Return start times, int64 [jobs] in trace seconds, and where they come from.

    That is ``RECORDED``, ``SIMULATED``, or a sentence where only some waits are missing: these jobs start as under EASY.

    If a job were taken to start at its submission, predictors would learn of its end before it could have ended.
    """
    recorded = start_s(jobs)
    if recorded is not None:
        return recorded, RECORDED
    simulated = simulate(jobs, procs=procs, scheduler="EASY").jobs["start_s"].to_numpy(np.int64)
    missing = jobs["wait_s"].isna().to_numpy()
    if missing.all():
        return simulated, SIMULATED
    start = jobs["submit_s"].to_numpy(np.int64) + jobs["wait_s"].to_numpy(np.int64, na_value=0)
    return np.where(missing, simulated, start), f"{RECORDED}, {missing.sum():,} without a wait {SIMULATED}"
