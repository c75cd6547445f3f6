"""When jobs of a queue start: the registered model asked about a snapshot.

The queue's jobs are put behind the ended ones of accounting, from which runtimes are predicted and arrivals drawn. What would start sooner
is the same job with a shorter limit or fewer processors, in the same scenarios.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from features.clock import DAY_S, local_clock_s
from features.errors import InputError
from features.jobs.cleaning import CleanTrace
from features.jobs.schema import codes, conform, recorded_end_s
from models.packed.start_predictor import StartModel, answers
from models.starts.states import NEVER, Jobs, states
from sim.ahead import Ahead
from sim.questions import queued, told

SCENARIOS = 64
CHANGES = {"half the limit": (1.0, 0.5), "a quarter of the limit": (1.0, 0.25), "half the processors": (0.5, 1.0)}
"""Changes of a job that are tried: factors of its processors and of its limit."""
SURE = 0.9
"""Share of scenarios in which a change must start the job sooner, for the answer to call it sure."""
_WARM_JOBS, _ARRIVALS_S = 2_000, 70 * DAY_S
"""Ended jobs from which runtimes are predicted, and how far back arrivals are drawn of."""


@dataclass(frozen=True)
class Job:
    """A job that is not submitted yet."""

    procs: int
    requested_s: int
    user: str | None = None
    queue: str | None = None


@dataclass(frozen=True)
class Change:
    """What a job would gain with another limit or width.

    The difference of starts in seconds, negative is sooner: its mean over the scenarios, its 10 and 90 % quantiles, and whether it is ``sure`` to start sooner.
    """

    what: str
    procs: int
    requested_s: int
    mean_s: float
    low_s: float
    high_s: float
    sure: bool


@dataclass(frozen=True)
class Answer:
    """When a job starts: its wait from now on, chances, and what would start it sooner."""

    job_id: str
    procs: int
    requested_s: int
    user: str | None
    waited_s: int
    told: dict[str, float]
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Queue:
    """A snapshot behind a trace's accounting, with the rows that run and wait.

    ``now_s`` is in the trace's seconds; ``job_id`` are those of the snapshot, "" of ended jobs.
    """

    clean: CleanTrace
    jobs: Jobs
    running: np.ndarray
    waiting: np.ndarray
    job_id: np.ndarray
    now_s: int

    def answered(self, model: StartModel, asked: np.ndarray, scenarios: int = SCENARIOS, seed: int = 0) -> list[Answer]:
        """Return answers about the rows ``asked``, which wait.

        Where they are one or two, with what would start them sooner.
        """
        ahead, at = Ahead(self.clean.procs, scenarios=scenarios, seed=seed), np.full(len(asked), self.now_s)
        local = local_clock_s(at, self.clean.origin_unix_s, self.clean.timezone)
        described = states(self.jobs, asked, at, local, self.clean.procs)
        starts = ahead.starts(self.jobs, self.running, self.waiting, self.now_s)
        place = np.searchsorted(self.waiting, asked)
        chances = model.chances(described, np.stack([told(starts[:, each]) for each in place]))
        found, values = [], answers(chances)
        for number, row in enumerate(asked):
            changes = self._changes(ahead, row, starts[:, place[number]]) if len(asked) <= 2 else ()
            told_of = {name: float(each[number]) for name, each in values.items()}
            procs, requested = int(self.jobs.procs[row]), int(self.jobs.requested[row])
            user = self.clean.jobs["user"].iloc[row]
            waited = self.now_s - int(self.jobs.submit[row])
            found.append(
                Answer(str(self.job_id[row]), procs, requested, None if pd.isna(user) else str(user), waited, told_of, changes)
            )
        return found

    def _changes(self, ahead: Ahead, row: int, starts: np.ndarray) -> tuple[Change, ...]:
        found = []
        for what, (wide, long) in CHANGES.items():
            procs, requested = int(np.ceil(self.jobs.procs[row] * wide)), max(int(self.jobs.requested[row] * long), 60)
            if (procs, requested) == (self.jobs.procs[row], self.jobs.requested[row]):
                continue
            other = self.changed(row, procs, requested)
            place = np.searchsorted(self.waiting, row)
            gained = ahead.starts(other, self.running, self.waiting, self.now_s)[:, place] - starts
            low, high = np.quantile(gained, (0.1, 0.9))
            sure = surely_sooner(gained)
            found.append(Change(what, procs, requested, float(gained.mean()), float(low), float(high), sure))
        return tuple(found)

    def changed(self, row: int, procs: int, requested_s: int) -> Jobs:
        """Return the jobs with another width and limit of the job ``row``.

        Its predicted runtimes are cut at the limit.
        """
        jobs = self.jobs._replace(
            procs=self.jobs.procs.copy(), requested=self.jobs.requested.copy(), quantiles=self.jobs.quantiles.copy()
        )
        jobs.procs[row], jobs.requested[row] = procs, requested_s
        jobs.quantiles[row] = np.minimum(jobs.quantiles[row], requested_s)
        return jobs


def surely_sooner(gained_s: np.ndarray) -> bool:
    """Tell whether a change surely starts a job sooner, from differences in scenarios."""
    return bool((gained_s < 0).mean() >= SURE)


def queue_of(clean: CleanTrace, start_s: np.ndarray, snapshot: pd.DataFrame, now_s: int, asked: Sequence[Job] = ()) -> Queue:
    """Return a snapshot behind the accounting of its trace.

    ``snapshot`` is that of :class:`pipelines.ingest.queue_file.QueueFile`; ``asked`` are jobs that would be submitted now. Jobs of
    accounting that the snapshot names, or that end later, are left out. InputError for times after ``now_s`` and jobs wider than the
    machine.
    """
    origin = clean.origin_unix_s or 0
    end = recorded_end_s(clean.jobs, start_s)
    named = clean.jobs["job_id"].astype(str).isin(snapshot["job_id"]).to_numpy(bool)
    ended = np.flatnonzero((end <= now_s) & ~named & (end > now_s - _ARRIVALS_S))
    past, start_s, end = clean.jobs.iloc[ended], start_s[ended], end[ended]
    if (late := snapshot["submit_unix_s"] - origin > now_s).any():
        raise InputError(
            f"job {snapshot['job_id'][late].iloc[0]} of the queue is submitted after {_at(clean, now_s)}, which is now: give --now"
        )
    later = pd.DataFrame(
        {
            "submit_s": [*(snapshot["submit_unix_s"].astype(np.int64) - origin), *[now_s] * len(asked)],
            "procs": [*snapshot["procs"], *(each.procs for each in asked)],
            "requested_s": [*snapshot["requested_s"], *(each.requested_s for each in asked)],
            "user": [*snapshot["user"], *(each.user for each in asked)],
            "queue": [*snapshot["queue"], *(each.queue for each in asked)],
        }
    )
    if (wide := later["procs"] > clean.procs).any():
        raise InputError(
            f"a job of {int(later['procs'][wide].iloc[0]):,} processors, and the machine of {clean.name} has {clean.procs:,}"
        )
    runs = np.array([*snapshot["runs"], *[False] * len(asked)], bool)
    begun = np.array([*snapshot["start_unix_s"].fillna(0).astype(np.int64) - origin, *[NEVER] * len(asked)], np.int64)
    count = len(past) + len(later)
    texts = {name: pd.Categorical(pd.array([*past[name].astype(object), *later[name]], dtype="str")) for name in ("user", "queue")}
    numbers = {
        name: np.concatenate((past[name].to_numpy(np.int64), later[name].to_numpy(np.int64)))
        for name in ("submit_s", "procs", "requested_s")
    }
    runtime = np.concatenate((past["runtime_s"].to_numpy(np.int64), np.ones(len(later), np.int64)))
    table = conform({"job_id": np.arange(count), "runtime_s": runtime, **numbers, **texts}, count)
    table = table.astype(dict.fromkeys(("runtime_s", "procs", "requested_s"), "int64"))
    starts = np.concatenate((start_s, np.where(runs, np.minimum(begun, now_s - 1), NEVER)))
    ends = np.concatenate((end, np.full(len(later), NEVER)))
    job_id = np.concatenate(
        (np.full(len(past), ""), snapshot["job_id"].astype(str), [f"new-{number + 1}" for number in range(len(asked))])
    )
    order = np.argsort(numbers["submit_s"], kind="stable")
    first = max(len(order) - len(later) - _WARM_JOBS, 0)
    trace = replace(clean, jobs=table.iloc[order].reset_index(drop=True))
    warm = replace(trace, jobs=trace.jobs.iloc[first:].reset_index(drop=True))
    told_of = queued(warm, starts[order][first:], np.where(ends == NEVER, -1, ends)[order][first:])
    quantiles = np.repeat(trace.jobs["requested_s"].to_numpy(np.int64)[:, None], told_of.quantiles.shape[1], axis=1)
    quantiles[first:] = told_of.quantiles
    submit_s, procs, requested_s = (trace.jobs[name].to_numpy(np.int64) for name in ("submit_s", "procs", "requested_s"))
    user, queue = codes(trace.jobs, "user"), codes(trace.jobs, "queue")
    jobs = Jobs(submit_s, starts[order], ends[order], procs, requested_s, user, queue, quantiles)
    live = jobs.end == NEVER
    running, waiting = np.flatnonzero(live & (jobs.start < NEVER)), np.flatnonzero(live & (jobs.start == NEVER))
    return Queue(trace, jobs, running, waiting, job_id[order], now_s)


def like(rows: pd.DataFrame, fits: bool, until_s: int, days: int = 30) -> dict[str, float]:
    """Return how good answers of the last days were about jobs that fitted, or did not.

    ``rows`` is the table ``starts``. Empty where none came true.
    """
    if "waited_s" not in rows:
        return {}
    chosen = rows[rows["waited_s"].notna() & (rows["fits"] == fits) & (rows["at_s"] > until_s - days * DAY_S)]
    if not len(chosen):
        return {}
    off = (chosen["wait_50_s"] - chosen["waited_s"]).abs()
    held = (chosen["waited_s"] >= chosen["wait_10_s"]) & (chosen["waited_s"] <= chosen["wait_90_s"])
    return {"answers": len(chosen), "median_error_s": float(off.median()), "held_80": float(held.mean())}


def _at(clean: CleanTrace, now_s: int) -> str:
    return (
        f"{pd.Timestamp(int(local_clock_s(np.array([now_s]), clean.origin_unix_s, clean.timezone)[0]), unit='s'):%Y-%m-%d %H:%M:%S}"
    )
