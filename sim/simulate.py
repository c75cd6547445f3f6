"""The simulator's front door: tables and names in, a :class:`~sim.schedule.Schedule` out. Checks once, then leaves it to the kernel."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from functools import cache

import numpy as np
import pandas as pd

from features.errors import InputError
from features.schema import codes
from models.catalog import predictor as named_predictor
from models.compiled import OUTSIDE, TABLE
from models.protocol import END, FIT, ORDER, CompiledPredictor, OnlinePredictor, Predictor, TablePredictor
from sim.corrections import CORRECTIONS
from sim.loop import ASK, NEVER, Settings, advance
from sim.names import ALGORITHMS, BACKFILLING
from sim.names import scheduler as named_scheduler
from sim.orders import FCFS, ORDERS, changes_while_waiting
from sim.schedule import Schedule, schedule_table
from sim.state import ASKED, ENDED, NEXT, STARTED, Estimates, Jobs, Profile, Queue, State, new_profile, new_queue, new_state

SEMANTICS = ("per-second", "per-event")


def simulate(
    jobs: pd.DataFrame,
    *,
    procs: int,
    scheduler: str = "EASY",
    predictor: str | Predictor | Sequence[float] | np.ndarray | pd.Series = "requested",
    correction: str = "requested",
    semantics: str = "per-second",
    starvation_s: int | None = None,
    seed: int = 0,
    trace: str = "",
    generated: bool = False,
) -> Schedule:
    """Schedule ``jobs`` on a machine of ``procs`` processors.

    Parameters
    ----------
    jobs
        Canonical jobs table (:mod:`features.schema`), cleaned, in order of submission; times in seconds.
    scheduler
        ``[ORDER-]ALGORITHM[-BACKFILLORDER]``, such as ``EASY`` or ``EASY-SJBF``.
    predictor
        A name, a predictor object (:mod:`models.protocol`), or predicted runtimes in seconds, one a job. Predictions are rounded to whole seconds;
        those outside 1..request are clamped and counted, those that are not numbers an error.
    correction
        What replaces a prediction that a job outlives: ``requested``, ``tsafrir`` or ``doubling`` (:mod:`sim.corrections`).
    semantics
        ``per-second``: all events of one second, then one scheduling pass. ``per-event``: a pass after every event (:mod:`sim.loop`).
    starvation_s
        A job that has waited longer than this goes to the head of the primary queue, first come first served among such; None: never.
    seed
        Recorded with the schedule. Nothing in these algorithms is random.

    Raises
    ------
    InputError
        For an unknown name, a table that is not clean, or predictions that cannot be used.
    """
    plan = named_scheduler(scheduler)
    if correction not in CORRECTIONS:
        raise InputError(f"unknown correction {correction!r}: known are {', '.join(CORRECTIONS)}")
    if semantics not in SEMANTICS:
        raise InputError(f"unknown semantics {semantics!r}: known are {', '.join(SEMANTICS)}")
    if starvation_s is not None and starvation_s < 0:
        raise InputError(f"a starvation threshold of {starvation_s} s is negative")
    if starvation_s is not None and plan.algorithm == "Conservative":
        raise InputError("Conservative keeps every job's reservation: nobody starves, and a starvation threshold has no meaning")
    arrays, origin = _arrays(jobs, procs)
    source = _as_predictor(predictor)
    total = len(jobs)
    estimates, clamped, code, memory = _estimates(source, jobs, arrays)
    bits = max(total - 1, 1).bit_length()
    latest = int(arrays.submit[-1]) + int(arrays.requested.sum()) + 2 * int(estimates.end.max())
    if latest >= 1 << (62 - bits):
        raise InputError(f"{total} jobs over up to {latest} seconds do not fit the simulator's clock: are the times in seconds?")
    order, backfill = ORDERS[plan.order.name], ORDERS[plan.backfill.name]
    # a starving job goes to the head of the primary queue only; where that queue is FCFS anyway nothing changes
    one_queue = plan.algorithm not in BACKFILLING or (plan.order == plan.backfill and (starvation_s is None or order == FCFS))
    changing = changes_while_waiting(order, plan.order.weights) or changes_while_waiting(backfill, plan.backfill.weights)
    settings = Settings(
        algorithm=ALGORITHMS[plan.algorithm],
        reservations=plan.reservations,
        order=order,
        weights=np.array(plan.order.weights),
        backfill=backfill,
        backfill_weights=np.array(plan.backfill.weights),
        one_queue=one_queue,
        changing=changing,
        # where FIT and END have different answers, a job let in before the reservation can still move it
        steady=not changing and plan.reservations == 1 and code != OUTSIDE,
        correction=CORRECTIONS[correction],
        predictor=code,
        starvation=NEVER if starvation_s is None else starvation_s,
        per_event=semantics == "per-event",
        # the program of Gaussier et al. 2015 has this gate for FCFS-EASY alone
        gated=semantics == "per-event" and plan.algorithm == "EASY" and order == backfill == FCFS,
        bits=bits,
    )
    state = new_state(total, procs)
    front = new_queue(total)
    profile = new_profile(total if plan.algorithm in ("JustBF", "Conservative") or plan.reservations > 1 else 0)
    back = front if one_queue else new_queue(total)

    _load_kernel()
    began = time.perf_counter()
    reason, now = advance(settings, arrays, estimates, front, back, profile, state, memory, 0)
    if reason == ASK and isinstance(source, OnlinePredictor):
        clamped += _converse(source, jobs, settings, arrays, estimates, front, back, profile, state, memory, now, origin)
    seconds = time.perf_counter() - began

    return Schedule(
        jobs=schedule_table(jobs, state.start + origin, estimates.order, state.corrections),
        procs=procs,
        trace=trace,
        scheduler=scheduler,
        predictor=source.name,
        correction=correction,
        semantics=semantics,
        starvation_s=starvation_s,
        seed=seed,
        generated=generated,
        clamped_predictions=clamped,
        simulate_s=seconds,
    )


@cache
def _load_kernel() -> None:
    """Compile the kernel, or load it from its cache, by simulating no jobs: not a part of any simulation's time."""
    nothing, empty = np.zeros(0, np.int64), new_queue(0)
    settings = Settings(0, 1, 0, np.zeros(6), 0, np.zeros(6), True, False, True, 0, TABLE, NEVER, False, False, 1)
    estimates = Estimates(nothing, nothing, nothing)
    advance(settings, Jobs(*[nothing] * 5), estimates, empty, empty, new_profile(0), new_state(0, 1), np.zeros((0, 0)), 0)


def _arrays(jobs: pd.DataFrame, procs: int) -> tuple[Jobs, int]:
    """The table's columns as the kernel wants them, times counted from the first submission; checks what the kernel takes for granted."""
    if len(jobs) == 0:
        raise InputError("there are no jobs to simulate")
    columns = ("submit_s", "runtime_s", "procs", "requested_s")
    for name in columns:
        if jobs[name].isna().any():
            raise InputError(f"{name} is missing for {int(jobs[name].isna().sum())} jobs: clean the trace first")
    submit, runtime, wide, requested = (_plain(jobs[name].to_numpy(np.int64)) for name in columns)
    for bad, what in (
        (np.diff(submit, prepend=submit[0]) < 0, "submitted before the job above it"),
        (runtime < 1, "with a runtime below one second"),
        (wide < 1, "without processors"),
        (wide > procs, f"wider than the machine's {procs} processors"),
        (runtime > requested, "running longer than its request"),
    ):
        if bad.any():
            first = jobs["job_id"].iloc[int(np.argmax(bad))]
            raise InputError(f"{int(bad.sum())} jobs {what}, the first is job {first}: clean the trace first")
    origin = int(submit[0])
    return Jobs(submit - origin, runtime, wide, requested, _plain(codes(jobs, "user"))), origin


def _plain(values: np.ndarray) -> np.ndarray:
    """A contiguous, writable array: one type of argument, so that the kernel is compiled once."""
    return np.require(values, np.int64, ["C", "W"])


def _as_predictor(predictor: str | Predictor | Sequence[float] | np.ndarray | pd.Series) -> Predictor:
    if isinstance(predictor, str):
        return named_predictor(predictor)
    if isinstance(predictor, (TablePredictor, CompiledPredictor, OnlinePredictor)):
        return predictor
    table = np.asarray(predictor, dtype=np.float64)
    return TablePredictor("given", lambda jobs: table)


def _estimates(source: Predictor, jobs: pd.DataFrame, arrays: Jobs) -> tuple[Estimates, int, int, np.ndarray]:
    """Estimates (filled if they are known beforehand), how many were clamped, the predictor's code, and its memory."""
    total = len(jobs)
    nothing = np.zeros((0, 0))
    if isinstance(source, TablePredictor):
        predicted = np.asarray(source.estimate(jobs), np.float64)
        if predicted.shape != (total,):
            raise InputError(f"predictor {source.name}: {predicted.shape} predictions for {total} jobs")
        whole, clamped = whole_seconds(
            predicted, arrays.requested if source.capped else None, source.name, jobs["job_id"].to_numpy()
        )
        return Estimates(whole, whole, whole), clamped, TABLE, nothing
    if isinstance(source, CompiledPredictor):
        point = np.zeros(total, np.int64)
        return Estimates(point, point, point), 0, source.code, source.memory(int(arrays.user.max()) + 1)
    return Estimates(np.zeros(total, np.int64), np.zeros(total, np.int64), np.zeros(total, np.int64)), 0, OUTSIDE, nothing


def whole_seconds(predicted: np.ndarray, requested: np.ndarray | None, name: str, job_ids: np.ndarray) -> tuple[np.ndarray, int]:
    """Predictions as whole seconds in 1..request (1.. where ``requested`` is None), int64, and how many had to be clamped."""
    if not np.isfinite(predicted).all():
        first = int(np.argmin(np.isfinite(predicted)))
        raise InputError(f"predictor {name}: predicts {predicted[first]} for job {job_ids[first]}")
    rounded = np.rint(predicted)
    limited = np.maximum(rounded, 1.0) if requested is None else np.clip(rounded, 1.0, requested)
    if len(limited) and limited.max() > 2.0**53:
        raise InputError(f"predictor {name}: predicts {limited.max():g} s, more than the simulator's clock holds")
    return limited.astype(np.int64), int((limited != rounded).sum())


def _answer(predicted: float, requested: int, name: str, job_id: int) -> tuple[int, bool]:
    """:func:`whole_seconds` for one answer of a Python predictor."""
    if not math.isfinite(predicted):
        raise InputError(f"predictor {name}: predicts {predicted} for job {job_id}")
    rounded = round(predicted)
    limited = min(max(rounded, 1), int(requested))
    return limited, limited != rounded


def _converse(
    source: OnlinePredictor,
    jobs: pd.DataFrame,
    settings: Settings,
    arrays: Jobs,
    estimates: Estimates,
    front: Queue,
    back: Queue,
    profile: Profile,
    state: State,
    memory: np.ndarray,
    now: int,
    origin: int,
) -> int:
    """Drive a Python predictor through the simulation; returns how many of its answers were clamped."""
    source.begin(jobs)
    counters = state.counters
    job_ids = jobs["job_id"].to_numpy()
    told_starts = told_ends = clamped = 0
    reason = ASK
    while reason == ASK:
        while told_starts < counters[STARTED] or told_ends < counters[ENDED]:
            starter = state.running[told_starts] if told_starts < counters[STARTED] else -1
            ender = state.ended[told_ends] if told_ends < counters[ENDED] else -1
            if ender >= 0 and (starter < 0 or state.start[ender] + arrays.runtime[ender] <= state.start[starter]):
                source.ended(int(ender), int(state.start[ender] + arrays.runtime[ender]) + origin)
                told_ends += 1
            else:
                source.started(int(starter), int(state.start[starter]) + origin)
                told_starts += 1
        first = int(counters[NEXT])
        for job in range(first, first + int(counters[ASKED])):
            source.submitted(job, now + origin)
            answers = [
                _answer(source.estimate(question, job, now + origin, 0), arrays.requested[job], source.name, job_ids[job])
                for question in (ORDER, FIT, END)
            ]
            estimates.order[job], estimates.fit[job], estimates.end[job] = (seconds for seconds, _ in answers)
            clamped += any(changed for _, changed in answers)
        reason, now = advance(settings, arrays, estimates, front, back, profile, state, memory, now)
    return clamped
