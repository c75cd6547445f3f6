"""Simulate halves of traces for :mod:`benchmarks.studies.expected_harm`, keeping each job's wait.

Of the first half only its own jobs are simulated. For the second all jobs are, so that learners are warm and the machine is full,
and its own are judged. Every replicate moves submissions (:mod:`features.jobs.shaking`); its seed also draws the scenarios of ``Harm`` and the
forest of ``quantile``.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import lru_cache, partial
from itertools import product, repeat
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.common.logs import load
from benchmarks.common.pages import kept
from features.clock import Clock
from features.jit import njit
from features.jobs.choices import SHAKE_S
from features.jobs.cleaning import CleanTrace
from features.jobs.schema import fingerprint
from models.runtime import quantile
from models.runtime.names import predictor as named_predictor
from models.runtime.protocol import CompiledPredictor, TablePredictor
from sim.inputs.estimates import as_estimates
from sim.inputs.prepare import as_arrays
from sim.simulation import simulate

HALVES = ("first", "second")
TRACES = ("KTH-SP2", "SDSC-SP2", "LANL-CM5", "ALCF-Theta", "CERIT")
WIDENED = {"W-Theta": "ALCF-Theta", "W-LANL": "LANL-CM5"}
"""Logs with a wide class, made by hand (:func:`widened`) of a trace."""
PICKED, WIDTHS = 0.6, {6: 0.8, 4: 0.08, 3: 0.06, 2: 0.03, 1: 0.03}
"""The share of jobs that :func:`widened` picks, and the probabilities of widths: a sixth of the machine to the whole."""
TOLD = "told"
"""The predictor that is the table of the quantiles that ``quantile`` tells along EASY with requested times, at the same load."""


class Run(NamedTuple):
    """A policy and the load: all that decides a simulation but its seed."""

    scheduler: str = "EASY"
    predictor: str = "requested"
    correction: str = "requested"
    load: float = 1.0
    starvation_s: int | None = None


class Place(NamedTuple):
    """Where traces are, which half is judged, where finished simulations are kept, and who simulates."""

    shared: Path
    half: str
    keep: Path
    pool: Executor | None = None


class Half(NamedTuple):
    """A trace to simulate; its jobs from row ``first`` on are judged."""

    trace: CleanTrace
    first: int
    key: str

    @property
    def judged(self) -> pd.DataFrame:
        return self.trace.jobs.iloc[self.first :].reset_index(drop=True)


@lru_cache(4)
def half_of(title: str, shared: Path, half: str) -> Half:
    """Return a half of the trace ``title``, with all jobs that its simulation needs."""
    log = load(WIDENED.get(title, title), shared)
    return halved(widened(log) if title in WIDENED else log, half)


def widened(trace: CleanTrace, seed: int = 62) -> CleanTrace:
    """Return ``trace`` with half of its area in jobs of a sixth of the machine, and the same area.

    Jobs picked at random pay their area into a bank. When the bank holds a picked job's area at its drawn width, the job gets that
    width; otherwise it vanishes.
    """
    random, jobs = np.random.default_rng(seed), trace.jobs
    procs, runtime = jobs["procs"].to_numpy(np.int64), jobs["runtime_s"].to_numpy(np.int64)
    picked = random.random(len(jobs)) < PICKED
    width = trace.procs // random.choice(list(WIDTHS), len(jobs), p=list(WIDTHS.values()))
    wide, stays, bank = procs.copy(), np.ones(len(jobs), bool), 0
    for job in np.flatnonzero(picked):
        bank += procs[job] * runtime[job]
        stays[job] = bank >= width[job] * runtime[job]
        if stays[job]:
            bank -= width[job] * runtime[job]
            wide[job] = width[job]
    return replace(trace, jobs=jobs.assign(procs=wide)[stays].reset_index(drop=True))


def halved(trace: CleanTrace, half: str) -> Half:
    """Return a half of ``trace``: an odd job is in the second."""
    middle = len(trace.jobs) // 2
    if half == HALVES[0]:
        trace, middle = replace(trace, jobs=trace.jobs.iloc[:middle].reset_index(drop=True)), 0
    return Half(trace, middle, fingerprint(trace.jobs))


def waits(place: Place, title: str, asked: Sequence[Run], replicates: int) -> dict[Run, np.ndarray]:
    """Return each judged job's wait in seconds, int64 [replicates, jobs], by run."""
    asked, alone = list(dict.fromkeys(asked)), place._replace(pool=None)
    go = map if place.pool is None else place.pool.map
    loads = sorted({run.load for run in asked if run.predictor == TOLD})
    for _ in go(kept_quantiles, repeat(alone), repeat(title), loads):  # once, before many simulations want them
        pass
    runs, seeds = zip(*product(asked, range(replicates)), strict=True)
    waits_s = list(go(_waited, repeat(alone), repeat(title), runs, seeds))
    return {run: np.stack(waits_s[i * replicates : (i + 1) * replicates]) for i, run in enumerate(asked)}


def _waited(place: Place, title: str, run: Run, seed: int) -> np.ndarray:
    half = half_of(title, place.shared, place.half)
    settings = (half.key, half.trace.procs, half.first, *run, seed)
    make = partial(simulated, place, title, run, seed)
    return kept(place.keep, "studies.expected_harm_runs", settings, make)["wait_s"].to_numpy(np.int64)


def simulated(place: Place, title: str, run: Run, seed: int) -> pd.DataFrame:
    """Simulate one replicate; return the judged jobs' ``wait_s``."""
    trace, first, _ = half_of(title, place.shared, place.half)
    source = as_table(kept_quantiles(place._replace(pool=None), title, run.load)) if run.predictor == TOLD else run.predictor
    schedule = simulate(
        compressed(trace.jobs, run.load),
        procs=trace.procs,
        scheduler=run.scheduler,
        predictor=source,
        correction=run.correction,
        starvation_s=run.starvation_s,
        clock=trace.clock,
        seed=seed,
        shake_s=SHAKE_S,
    ).jobs
    return (schedule["start_s"] - schedule["submit_s"]).iloc[first:].to_frame("wait_s").reset_index(drop=True)


def compressed(jobs: pd.DataFrame, load: float) -> pd.DataFrame:
    """Return ``jobs`` submitted ``load`` times as fast from the first one on."""
    submit = jobs["submit_s"].to_numpy(np.int64)
    return jobs if load == 1.0 else jobs.assign(submit_s=submit[0] + np.rint((submit - submit[0]) / load).astype(np.int64))


@lru_cache(4)
def kept_quantiles(place: Place, title: str, load: float) -> pd.DataFrame:
    """Return the table of :func:`told_under_easy` for a half at a load, kept."""
    half = half_of(title, place.shared, place.half)
    trace = replace(half.trace, jobs=compressed(half.trace.jobs, load))
    settings = ("quantiles", half.key, half.trace.procs, load)
    return kept(place.keep, "studies.expected_harm_runs", settings, lambda: told_under_easy(trace))


def as_table(quantiles_s: pd.DataFrame) -> TablePredictor:
    """Return the table of quantiles as a predictor."""
    table = quantiles_s.set_axis(quantiles_s.columns.astype(float), axis=1)
    return TablePredictor(TOLD, lambda _: table[0.5].to_numpy(), quantiles=lambda _: table)


def told_under_easy(trace: CleanTrace) -> pd.DataFrame:
    """Return what ``quantile`` tells at submissions along EASY with requested times.

    Not shaken; a column a level, whose names are texts.
    """
    start = simulate(trace.jobs, procs=trace.procs).jobs["start_s"].to_numpy(np.int64)
    quantiles_s = told_along(trace.jobs, start, trace.procs, trace.clock)
    return quantiles_s.set_axis([f"{level:g}" for level in quantiles_s.columns], axis=1)


def told_along(jobs: pd.DataFrame, start_s: np.ndarray, procs: int, clock: Clock) -> pd.DataFrame:
    """Return the quantiles that ``quantile`` tells along a schedule, ``start_s`` int64 [jobs], by level."""
    source = named_predictor("quantile")
    assert isinstance(source, CompiledPredictor)
    assert source.retrain is not None
    assert source.distribution is not None
    arrays, origin = as_arrays(jobs, procs)
    memory = as_estimates(source, jobs, arrays, clock)[3]
    heard = start_s - origin + arrays.runtime
    number = np.arange(len(jobs))
    when, job = np.concatenate([heard, arrays.submit]), np.concatenate([-1 - number, number])
    turn = np.lexsort((np.concatenate([start_s, start_s]), job >= 0, when))  # ends come before submissions
    when, job = when[turn], job[turn]
    done, last = 0, int(np.flatnonzero(job >= 0)[-1]) + 1
    midnight = clock.next_midnight(origin) - origin
    while True:
        night = min(int(np.searchsorted(when, midnight)), last)
        _learn(memory, arrays, job, when, done, night)
        if night == last:
            return source.distribution(memory)
        ended = -1 - job[:night]
        memory = source.retrain(memory, ended[ended >= 0], arrays.runtime)
        done, midnight = night, clock.next_midnight(int(when[night]) + origin) - origin


@njit
def _learn(memory, jobs, job, when, first, last):
    for i in range(first, last):
        if job[i] >= 0:
            quantile.estimate(memory, job[i], jobs)
        else:
            quantile.learn(memory, -1 - job[i], jobs, when[i])
