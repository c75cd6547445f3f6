"""The simulator's entry: tables and names in, a :class:`~sim.schedule.Schedule` out.

A trace is first prepared for its policy: at another load, shaken, with reacting users. What a job waits for comes
from the trace as recorded; times are scaled and submissions moved afterwards. Moving them
(:mod:`features.jobs.workload_changes`) changes the order of submissions, in which the kernel takes jobs: predictions
known beforehand are those of the trace as recorded, and a schedule is returned in the order of the trace, so that
replays can be compared job by job.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from features.clock import Clock
from features.deferred import pd
from features.errors import InputError
from features.jobs.columns import Table, framed
from features.jobs.dependencies import OPEN, Graph, preceding_rows
from features.jobs.schema import codes, start_s
from features.jobs.workload_changes import divided, moves, scaled, shaken
from models.runtime.names import predictor as named_predictor
from models.runtime.names import takes_seed
from models.runtime.protocol import Predictor, TablePredictor
from sim.inputs.estimates import as_predictor
from sim.inputs.prepare import Prepared, as_arrays, check_limit, prepare
from sim.kernel.outside import StartDecision
from sim.kernel.scratch import Scratch
from sim.machine.nodes import Description
from sim.outcome import TRACE_SECONDS, Decider, Outcome, Progress, simulation
from sim.policy import Policy
from sim.schedule import Schedule, as_schedule
from sim.schedulers.names import scheduler
from sim.users.closed import OPEN_LOOP, RECORDED, Batches, Facts, Users, facts_of, users
from sim.users.closed import graph as reacting


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
        A name, a predictor object (:mod:`models.runtime.protocol`), or predicted runtimes in seconds, one a job.
        Predictions are rounded to whole seconds. Those outside 1..request are clamped and counted; one that is not a
        number is an error.
    correction
        Replaces outlived predictions: ``requested``, ``tsafrir``, ``doubling``, ``conditional``
        (:mod:`sim.kernel.corrections`).
    semantics
        ``per-second``: all events of one second, then one scheduling pass. ``per-event``: a pass after every event.
        With ``per-second(expiry=pass,every=30)``: also a pass when a prediction expires, and one every 30 s
        (:mod:`sim.policy`).
    starvation_s
        A job that has waited longer than this goes to the head of the primary queue, in order of submission; None:
        never.
    dependencies
        If a job names a preceding job, submit it a think time after the end of that job
        (:mod:`features.jobs.dependencies`).
    start_decision
        The callback of a scheduler ``...+RUSH(...)`` that decides whether to skip a job (:mod:`sim.kernel.outside`).
    clock
        The Unix time of the trace's second 0 and its time zone: learners read the time of day from it and are retrained
        at its midnights. By default, and for the published ``cv-triple`` always, both go by the trace's seconds, and 0
        is a midnight.
    seed
        Draws the shake, the scenarios of ``Harm`` and the moves of ``PlanRS``; is the seed of ``lightgbm`` and
        ``quantile`` if their name states none. Nothing else is random.
    shake_s
        Move submissions by up to this many seconds: one of many possible replays
        (:mod:`features.jobs.workload_changes`). 0: as recorded.
    machine
        A machine of clusters of nodes (:class:`sim.machine.description.Machine`); None: one pool of ``procs``.
    users
        How users react (:mod:`sim.users.closed`): ``open`` (submissions as recorded), ``closed``, or
        ``closed(ends=EASY)``.
    load
        Divide times between submissions, and think times, by this (:mod:`features.jobs.workload_changes`). The trace's
        name then says so.
    squeeze
        Divide all times by this: those between submissions, think times, runtimes and requests.
    scratch
        Working arrays of earlier simulations to reuse, one a thread; the schedule holds none of them.

    Raises
    ------
    InputError
        For an unknown name, a table that is not clean, predictions that cannot be used, or a seed that would change
        nothing.
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


class ReplayInput(NamedTuple):
    """Jobs to be simulated: ``workload``, and ``jobs`` in the order of the trace.

    ``jobs`` have scaled times. If shaken, ``workload`` has the ``rows`` of ``jobs``, else ``rows`` is None.
    """

    workload: Prepared
    jobs: Table
    rows: np.ndarray | None


def check_scaled(predictor: object, squeeze: float) -> None:
    """Raise InputError if runtimes are squeezed and predictions are a given table."""
    if squeeze != 1 and isinstance(predictor, TablePredictor):
        raise InputError(
            "squeeze divides runtimes, and given predictions are of the runtimes as recorded: name a predictor instead"
        )


def as_replay(
    jobs: Table, policy: Policy, procs: int, moves_s: np.ndarray | None = None, machine: Description | None = None
) -> ReplayInput:
    """Return ``jobs`` as ``policy`` submits them, moved by ``moves_s`` [jobs] if given.

    For a job that waits for others a move changes the think time, unless the job names another (``dependencies``).
    Errors are those of :func:`sim.simulate`.
    """
    if policy.as_recorded and moves_s is None:
        return ReplayInput(prepare(jobs, procs, machine), jobs, None)
    recorded = framed(jobs)
    if policy.changes:
        as_arrays(recorded, procs)  # checked before anything is made of it
    table, waits = scaled(recorded, policy.load, policy.squeeze), graph_of(recorded, policy, procs)
    if waits is not None:
        waiting = waits.after_s != OPEN
        after_s = divided(waits.after_s, policy.load * policy.squeeze)
        if moves_s is not None and not policy.dependencies:
            after_s = np.maximum(after_s + moves_s, 0)
        waits = waits._replace(after_s=np.where(waiting, after_s, OPEN))
    if moves_s is None:
        return ReplayInput(prepare(table, procs, machine)._replace(waits=waits), table, None)
    moved, rows = shaken(table, moves_s, policy.dependencies)
    return ReplayInput(prepare(moved, procs, machine)._replace(waits=waits and waits.of_rows(rows)), table, rows)


def graph_of(jobs: pd.DataFrame, policy: Policy, procs: int) -> Graph | None:
    """Return what ``jobs`` wait for under ``policy``; None if all are submitted as recorded."""
    rule = users(policy.users)
    if rule.loop != OPEN_LOOP:
        return user_graph(jobs, rule, procs)[0]
    if not policy.dependencies:
        return None
    preceding = preceding_rows(jobs)
    check_limit(jobs, "think_s", preceding.think_s)
    return preceding.graph()


def user_facts(jobs: pd.DataFrame, rule: Users, procs: int | None = None) -> Facts:
    """Return facts of the users of a cleaned table.

    Arguments and errors are those of :func:`user_graph`.
    """
    return facts_of(*user_graph(jobs, rule, procs), unnamed=int(jobs["user"].isna().sum()))


def user_graph(jobs: pd.DataFrame, rule: Users, procs: int | None = None) -> tuple[Graph, Batches]:
    """Return what users wait for in a cleaned table, and their batches.

    Raises InputError if no job has a user, or if a recorded wait is needed and missing. Ends of a scheduler need
    ``procs``.
    """
    user = codes(jobs, "user")
    if len(user) and (user < 0).all():
        raise InputError("no job names its user: without users there are no batches")
    submit = jobs["submit_s"].to_numpy(np.int64)
    if rule.ends == RECORDED:
        start = start_s(jobs)
        if start is None:
            missing = int(jobs["wait_s"].isna().sum())
            raise InputError(
                f"{missing:,} of {len(jobs):,} jobs record no wait, so it is unknown when they ended and what users waited for: "
                f"take a scheduler's ends, as in users closed(ends=EASY)"
            )
        return reacting(user, submit, start + jobs["runtime_s"].to_numpy(np.int64))
    assert procs is not None
    outcome = simulation(prepare(jobs, procs), Policy(rule.ends)).outcome()
    return reacting(user, submit, outcome.start + outcome.runtime)


def check_seed(predictors: Iterable[object], seeds: Iterable[int], shake_s: int, schedulers: Iterable[str]) -> None:
    """Raise InputError for a negative seed, and for a seed other than 0 that changes nothing."""
    sources, ruling = list(predictors), list(schedulers)
    for seed in seeds:
        if seed < 0:
            raise InputError(f"seed {seed}: must be 0 or more")
        if seed and not any(moved_by_seed(source, shake_s, ruling) for source in sources):
            names = ", ".join(source if isinstance(source, str) else str(getattr(source, "name", "given")) for source in sources)
            raise InputError(
                f"seed {seed} changes nothing: nothing is random in a schedule with predictions by {names}; move the submissions "
                "(shake), take a predictor that learns at random (lightgbm, quantile) or a scheduler that draws scenarios (Harm), "
                "or leave the seed out"
            )


def moved_by_seed(predictor: object, shake_s: int, schedulers: Iterable[str]) -> bool:
    """Tell whether a schedule with ``predictor`` by any of ``schedulers`` depends on the seed."""
    learns = isinstance(predictor, str) and takes_seed(predictor)
    return shake_s > 0 or learns or any(map(_draws, schedulers))


def _draws(name: str) -> bool:
    """Tell whether a scheduler draws; a name that is none is a policy of the caller's own, which may."""
    try:
        return scheduler(name).draws
    except InputError:
        return True


def seeded(predictor: Any, seed: int) -> Any:
    """Return a predictor given by name with the ``seed``, if it takes one; others unchanged."""
    return named_predictor(predictor, seed) if isinstance(predictor, str) else predictor


def in_order(source: Predictor, recorded: Table, rows: np.ndarray) -> Predictor:
    """Return ``source`` for jobs that are the ``rows`` of ``recorded``.

    Predictions known beforehand are reordered with their jobs.
    """
    if not isinstance(source, TablePredictor):
        return source
    predicted_by, quantiles, table = source.estimate, source.quantiles, framed(recorded)

    def estimate(_: pd.DataFrame) -> np.ndarray:
        predicted = np.asarray(predicted_by(table), np.float64)
        return predicted[rows] if predicted.shape == (len(table),) else predicted

    return replace(
        source, estimate=estimate, quantiles=quantiles and (lambda _: quantiles(table).iloc[rows].reset_index(drop=True))
    )


def restored(outcome: Outcome, rows: np.ndarray) -> Outcome:
    """Return the outcome of jobs that are the ``rows`` of a trace, in the order of the trace."""
    back = np.empty_like(rows)
    back[rows] = np.arange(len(rows))
    columns = ("submit", "start", "runtime", "predicted", "corrections", "skips")
    reordered = {name: getattr(outcome, name)[back] for name in columns if len(getattr(outcome, name))}
    if outcome.quantiles is not None:
        reordered["quantiles"] = outcome.quantiles.iloc[back].reset_index(drop=True)
    return outcome._replace(**reordered)


FROM_RECORD, SIMULATED = "recorded", "simulated: EASY with requested times"
"""Where starts come from; tables and tags keep these words."""


def history_starts(jobs: pd.DataFrame, procs: int) -> tuple[np.ndarray, str]:
    """Return start times, int64 [jobs] in trace seconds, and where they come from.

    That is ``FROM_RECORD``, ``SIMULATED``, or a sentence where only some waits are missing: these jobs start as under
    EASY.

    If a job were taken to start at its submission, predictors would learn of its end before it could have ended.
    """
    recorded = start_s(jobs)
    if recorded is not None:
        return recorded, FROM_RECORD
    simulated = simulate(jobs, procs=procs, scheduler="EASY").jobs["start_s"].to_numpy(np.int64)
    missing = jobs["wait_s"].isna().to_numpy()
    if missing.all():
        return simulated, SIMULATED
    start = jobs["submit_s"].to_numpy(np.int64) + jobs["wait_s"].to_numpy(np.int64, na_value=0)
    return np.where(missing, simulated, start), f"{FROM_RECORD}, {missing.sum():,} without a wait {SIMULATED}"
