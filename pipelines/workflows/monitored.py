"""Replays of a monitored system's jobs, with start decisions by its recorded counters.

Jobs come from a trace, counters from a system. The model is asked about those jobs that are control runs of the system, by number
and start. It reads the counters of all nodes up to the last full minute of the simulated moment, if they could be read by then,
and the jobs that run in the replay, on their recorded nodes: nothing from later. The counters do not depend on the decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from features.clock import DAY_S
from features.errors import InputError
from features.jobs.cleaning import CleanTrace
from features.monitoring.labels import BINARY, baselines, z_scores
from features.monitoring.samplers import NEWEST_FEATURES, SITUATION_FEATURES, TYPES, WINDOW_S
from features.monitoring.situation import Job, Machine, jobs_of, situation
from models.variability.reliability import share
from models.variability.unseen import Unseen, without_probes
from pipelines.sources.traces import simulated_on
from pipelines.workflows.variability_table import newest_before, windows_before
from sim.metrics.comparison import compare
from sim.monitored import Recorded, beside
from sim.names import Rush
from sim.names import scheduler as named_scheduler
from sim.simulate import simulate

if TYPE_CHECKING:
    from pipelines.storage.counters_store import CountersStore

MONITORED_TABLE = "monitored_schedules"
BASELINE, SCHEDULER = "EASY", "EASY+RUSH(model=registered)"
METRICS = ("mean_wait_s", "mean_bounded_slowdown", "awf_s", "p2sf_s")
VARYING = "varying_runs"
DAYS = 30
"""Number of the last days with counters that are replayed."""
STEP_S = 60


@dataclass(frozen=True)
class Moments:
    """The records of a system, as rows of a model's ``columns``.

    ``types`` are by application; samples younger than ``lag_s`` cannot be read. Without a ``machine``, jobs' places are unknown.
    """

    store: CountersStore
    columns: Sequence[str]
    types: Mapping[str, str]
    machine: Machine | None
    lag_s: float

    def row(self, job: Job, at_s: int, running: Sequence[Job]) -> np.ndarray:
        """Return the features of a start of ``job`` at ``at_s`` (Unix s), float64 [columns].

        All are NaN if no counter was sampled in the window before.
        """
        day, second = divmod(at_s, DAY_S)
        if day not in self._days:
            self._days[day] = self._day(day)
        counted = self._days[day][second // STEP_S]
        if np.isnan(counted).all():
            return counted
        kind = self.types.get(job.application)
        features = dict(zip(self.columns, counted, strict=True))
        features |= {f"type.{each}": np.nan if kind is None else float(each == kind) for each in TYPES}
        if self.machine is not None:
            others = [(each, self.machine.spread(each)) for each in running]
            features |= zip(SITUATION_FEATURES, situation(job, self.machine.spread(job), others, self.machine), strict=True)
        return np.array([features[name] for name in self.columns])

    def _day(self, day: int) -> np.ndarray:
        """Return the columns of counters at the minutes of a UTC day, float64 [minutes, columns]."""
        at = day * DAY_S + STEP_S * np.arange(DAY_S // STEP_S)
        runs = pd.DataFrame({"run_id": at.astype(str), "nodes": [[]] * len(at), "start_s": at})
        windows = windows_before(self.store, runs, ("all",), self.lag_s)
        assert windows.all is not None
        table = windows.all
        if set(self.columns) & set(NEWEST_FEATURES):
            table = table.join(newest_before(self.store, runs, windows.interval_s, self.lag_s, self.columns))
        return without_probes(table, self.columns)

    @cached_property
    def _days(self) -> dict[int, np.ndarray]:
        return {}


@dataclass(frozen=True)
class Monitored:
    """Replays with and without start decisions of ``scheduler``.

    ``runs`` has one row per job asked about: ``application``, ``varied`` (as recorded), and for each scheduler the start (Unix s)
    and the chance to vary then (NaN without records), as ``EASY start_s`` and ``EASY chance``. ``table`` has one row per metric:
    ``metric value baseline relative low high note``. ``jobs`` is the number of replayed jobs; ``counts`` has the numbers of
    questions, skips, and questions without counters.
    """

    scheduler: str
    trace: str
    runs: pd.DataFrame
    table: pd.DataFrame
    jobs: int
    counts: Mapping[str, int]


def replayed(clean: CleanTrace, runs: pd.DataFrame, moments: Moments, unseen: Unseen, scheduler: str = SCHEDULER) -> Monitored:
    """Replay the last DAYS days with counters of a trace, with and without start decisions.

    ``runs`` are the system's control runs. The machine is one pool of processors. Raises InputError if counters or control runs
    do not belong to the jobs, and for another scheduler than EASY that asks the registered model.
    """
    rush = named_scheduler(scheduler).rush
    allowed = rush and Rush("registered", rush.skips, patience=rush.patience, every=rush.every, cutoff=rush.cutoff)
    if rush is None or rush != allowed or not scheduler.startswith(f"{BASELINE}+"):
        raise InputError(f"scheduler {scheduler!r}: is not {SCHEDULER}, with skips, patience, every or cutoff")
    jobs, origin_s = _with_counters(clean, moments.store), int(clean.origin_unix_s or 0)
    asked = _asked(jobs, origin_s, runs)
    if not asked:
        raise InputError(f"{moments.store.system}: no control run with known nodes is a job of {clean.name} by number and start")

    def chance(row: int, now_s: int, running: Iterable[int]) -> float:
        features = moments.row(asked[row], origin_s + now_s, [asked[each] for each in running if each in asked])
        return np.nan if np.isnan(features).all() else float(unseen.variation(features[None, :], np.array([origin_s + now_s]))[0])

    z = z_scores(runs["application"], runs["runtime_s"], baselines(runs["application"], runs["runtime_s"]))
    varied = dict(zip(runs["run_id"], z > BINARY[0], strict=True))
    ran = pd.DataFrame([(job.application, varied[job.name]) for job in asked.values()], [*asked], ["application", "varied"])
    decision = Recorded(chance, asked, unseen.model.cutoff if rush.cutoff is None else rush.cutoff)
    on = simulated_on(clean) | {"machine": None}
    asking = simulate(jobs, scheduler=scheduler, predictor=decision, start_decision=decision, **on)
    schedules = {BASELINE: simulate(jobs, scheduler=BASELINE, **on), scheduler: asking}
    for name, schedule in schedules.items():
        start, end = (schedule.jobs[column].to_numpy(np.int64) for column in ("start_s", "end_s"))
        chances = np.array([chance(row, int(start[row]), beside(start, end, row)) for row in asked])
        ran[f"{name} start_s"] = origin_s + start[[*asked]]
        ran[f"{name} chance"] = np.where(np.isnan(chances), np.nan, unseen.frequency(np.nan_to_num(chances)))
    compared = compare([*schedules.values()], (BASELINE, "requested"), METRICS)
    varying = _varying(ran, scheduler)
    table = pd.concat([varying, compared.loc[compared["scheduler"] == scheduler, varying.columns]], ignore_index=True)
    chances = np.array([answer for _, _, answer in decision.answers])
    counts = {"questions": chances, "skips": chances[chances >= decision.cutoff], "without counters": chances[np.isnan(chances)]}
    return Monitored(scheduler, clean.name, ran, table, len(jobs), {name: len(each) for name, each in counts.items()})


def _with_counters(clean: CleanTrace, store: CountersStore) -> pd.DataFrame:
    """Return the jobs that were submitted in the last DAYS days with counters."""
    parts = [part for sampler in store.samplers for part in store.parts(sampler)]
    last_s = max((part.last_s for part in parts), default=0.0)
    first_s = max(min((part.first_s for part in parts), default=0.0) + WINDOW_S, last_s - DAYS * DAY_S)
    jobs = clean.jobs[(clean.jobs["submit_s"] + (clean.origin_unix_s or 0)).between(first_s, last_s)].reset_index(drop=True)
    if len(jobs) == 0:
        raise InputError(f"{clean.name}: no job was submitted while counters of {store.system} were sampled")
    return jobs


def _asked(jobs: pd.DataFrame, origin_s: int, runs: pd.DataFrame) -> dict[int, Job]:
    """Return the control runs among ``jobs`` by row: of the same number and recorded start."""
    by_name_and_start = {(job.name, int(job.start_s)): job for job in jobs_of(runs)}
    started = (origin_s + jobs["submit_s"] + jobs["wait_s"]).fillna(-1).astype(np.int64)
    by_row = {
        row: by_name_and_start.get((str(name), at)) for row, (name, at) in enumerate(zip(jobs["job_id"], started, strict=True))
    }
    return {row: job for row, job in by_row.items() if job is not None}


def _varying(ran: pd.DataFrame, scheduler: str) -> pd.DataFrame:
    """Return the predicted number of varying runs; the interval is over days.

    It counts runs with counters in both replays. Raises InputError without any.
    """
    both = ran.dropna()
    if len(both) == 0:
        raise InputError(f"no counters were sampled before the start of any of {len(ran):,} jobs")
    ours, base = (both[f"{name} chance"].to_numpy(np.float64) for name in (scheduler, BASELINE))
    change, low, high = share(ours - base, base, both[f"{BASELINE} start_s"].to_numpy(np.int64))
    note = "" if np.isfinite(low) else "no interval: fewer than 5 days"
    columns = ["metric", "value", "baseline", "relative", "low", "high", "note"]
    return pd.DataFrame([(VARYING, ours.sum(), base.sum(), change, low, high, note)], columns=columns)
