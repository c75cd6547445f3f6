"""Replays of a site's accounting under Slurm's scheduler, on the one event loop."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from features.errors import InputError
from models.runtime.dispatch import TABLE
from models.runtime.memory import Memory
from sim.inputs.prepare import NO_DEPENDENCIES, NO_SWEEP
from sim.kernel.loop import LoopInputs
from sim.kernel.run import run
from sim.kernel.scratch import Scratch
from sim.kernel.state import Estimates, Jobs
from sim.policy import Policy, kernel_settings
from sim.schedule import Schedule, schedule_table
from sim.schedulers.names import SLURM
from sim.slurm import slots
from sim.slurm.begin import begin
from sim.slurm.phases import LAUNCH_MS, Phases, draw, origin_of
from sim.slurm.requests import COLUMNS, SlurmRequests
from sim.slurm.site import Site
from sim.slurm.state import Slurm

_STARTED_BY = ("", "main", "backfill")
"""Schedulers by the values of ``Now.by``."""


class Replay(NamedTuple):
    """One replay, in the order of the jobs.

    ``start_s`` float64 [jobs] are first starts in Unix seconds, NaN for a job that never started. ``started_by``
    (``main`` or ``backfill``) and ``nodes`` (of the last start) are object [jobs]. ``attempts`` int64 [jobs] counts a
    job's starts. ``passes`` and ``cycles`` count those of the main and the backfill scheduler.
    """

    start_s: np.ndarray
    started_by: np.ndarray
    nodes: np.ndarray
    attempts: np.ndarray
    passes: int
    cycles: int


def replay(site: Site, jobs: pd.DataFrame, phases: Phases | int = 0, shared: SlurmRequests | None = None) -> Replay:
    """Replay ``jobs`` on ``site`` as Slurm would start them.

    ``phases`` are given, or drawn by a seed. ``jobs`` has the columns of :data:`sim.slurm.requests.COLUMNS`, in order
    of submission; ``shared`` is what they ask for, if that is already read. Raises InputError for a table without these
    columns, and for jobs that the site does not admit.
    """
    if missing := [name for name in COLUMNS if name not in jobs]:
        raise InputError(f"the jobs have no column {missing[0]}")
    if len(jobs) == 0:
        raise InputError("there are no jobs to replay")
    drawn = phases if isinstance(phases, Phases) else draw(site, jobs, phases)
    submit_s = jobs["submit_s"].to_numpy(np.float64)
    # tasks of an array, and components, are submitted at once
    parts_s = pd.Series(drawn.parts_s).groupby([jobs["group"].to_numpy(), submit_s]).transform("first").to_numpy()
    submit_ms = np.round((submit_s - origin_of(jobs) + parts_s) * 1000).astype(np.int64)
    order = np.argsort(submit_ms, kind="stable")
    table = jobs.iloc[order].reset_index(drop=True)
    slurm = begin(site, table, drawn, None if shared is None else (shared, order))
    if drawn.direct is not None:
        slurm.now.killed[:] |= drawn.direct[order]
    if drawn.answers_s is not None:
        answers_ms, usual_ms = drawn.answers_s[order] * 1000, slurm.now.answer_ms
        usual_ms[:] = np.where(np.isnan(answers_ms), usual_ms, np.round(np.nan_to_num(answers_ms)))
    runtime_ms = table["runtime_s"].to_numpy(np.int64) * 1000 + LAUNCH_MS
    if drawn.run_parts_s is not None:
        runtime_ms = np.maximum(runtime_ms - LAUNCH_MS + np.round(drawn.run_parts_s[order] * 1000), LAUNCH_MS).astype(np.int64)
    if drawn.runtimes_s is not None:
        seen = drawn.runtimes_s[order]
        runtime_ms = np.where(np.isnan(seen), runtime_ms, np.round(np.nan_to_num(seen) * 1000)).astype(np.int64)
    site_loop(slurm, submit_ms[order], runtime_ms, site.procs, Scratch()).run(0)
    now, back, names = slurm.now, np.argsort(order), np.array([node.name for node in site.nodes], object)
    start_s = np.where(now.first_ms >= 0, now.first_ms / 1000 + origin_of(jobs), np.nan)
    nodes = np.array([",".join(names[now.node[a : a + held]]) for a, held in zip(now.nodes, now.held, strict=False)], object)
    by = np.array(_STARTED_BY, object)[now.by]
    counts = int(slurm.numbers[slots.PASSES]), int(slurm.numbers[slots.CYCLES])
    return Replay(start_s[back], by[back], nodes[back], now.attempts[back], *counts)


class SiteLoop(NamedTuple):
    """What the event loop takes to run a site's jobs, in milliseconds."""

    settings: Any
    inputs: LoopInputs
    work: Any

    def run(self, now_ms: int) -> int:
        """Go on until the last job has ended, or the events allowed are over; return when."""
        return run(self.settings, self.inputs, self.work, now_ms, NO_SWEEP)[1]


def site_loop(slurm: Slurm, submit_ms: np.ndarray, runtime_ms: np.ndarray, procs: int, scratch: Scratch) -> SiteLoop:
    """Return the event loop of jobs on a site with so many processors."""
    policy, count = Policy("Strict"), len(submit_ms)
    settings = kernel_settings(policy, policy.plan(), TABLE, max(count.bit_length(), 1))
    jobs = Jobs(submit_ms, runtime_ms, slurm.ask.cpus, runtime_ms, np.zeros(count, np.int64))
    work = scratch.work(count, max(procs, 1))
    work = work._replace(state=work.state._replace(slurm=slurm))
    inputs = LoopInputs(jobs, Estimates(runtime_ms, runtime_ms, runtime_ms), NO_DEPENDENCIES, Memory())
    return SiteLoop(settings, inputs, work)


def as_schedule(site: Site, jobs: pd.DataFrame, replayed: Replay, *, trace: str, seed: int, seconds: float) -> Schedule:
    """Return a replay of ``jobs`` as a schedule in whole seconds, as in accounting.

    Its jobs also have ``started_by`` and ``nodes``; those that never started are only listed.
    """
    started, origin = np.isfinite(replayed.start_s), int(jobs["submit_s"].min())
    start = np.floor(np.where(started, replayed.start_s, 0)).astype(np.int64) - origin
    submitted = pd.DataFrame(
        {
            "job_id": jobs["job_id"].to_numpy(object),
            "submit_s": jobs["submit_s"].to_numpy(np.int64) - origin,
            "procs": jobs["cpus"].to_numpy(np.int64),
            "runtime_s": np.maximum(jobs["runtime_s"].to_numpy(np.int64), 1),
            "requested_s": jobs["limit_s"].to_numpy(np.int64),
            "user": pd.Categorical(jobs["user"]),
        }
    )
    table = schedule_table(submitted, start, submitted["requested_s"].to_numpy(np.float64)).frame()
    table = table.assign(started_by=replayed.started_by, nodes=replayed.nodes)
    return Schedule(
        jobs=table[started].reset_index(drop=True),
        procs=site.procs,
        machine=site.name,
        trace=trace,
        scheduler=SLURM,
        seed=seed,
        simulate_s=seconds,
        never_started=tuple(jobs["job_id"][~started]),
    )
