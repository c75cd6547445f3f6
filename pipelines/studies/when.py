"""Predict when jobs of a queue start: run a snapshot ahead.

The queue's jobs are appended to the ended jobs of accounting, from which runtimes are predicted and arrivals drawn. A
registered model predicts their starts or, for a Slurm site with files, scenarios of its own scheduler do
(:mod:`sim.site.queue_ahead`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from features.clock import DAY_S, local_clock_s
from features.errors import InputError
from features.jobs import damage
from features.jobs.cleaning import CleanTrace
from features.jobs.schema import codes, conform, recorded_end_s
from models.packed.queue_state import NOT_YET, QueueJobs, by_priority
from models.packed.start_predictor import EASY
from models.packed.submitted import stand_aside
from models.starts.evaluation import quality
from pipelines.readers.queue_file import asked_of, limited
from pipelines.readers.slurm.jobs import SlurmJobs
from sim.inputs.predicted_limits import as_table
from sim.site.ahead import SiteAhead
from sim.site.queue_ahead import TraceQueue
from sim.slurm.site import UNLIMITED, Site
from sim.starts.ahead import Ahead
from sim.starts.closings import closed
from sim.starts.questions import queued

SCENARIOS, FEWEST, WITHIN_S = 64, 16, DAY_S
"""Number of scenarios; at a Slurm site, their min (fewer if over 100 jobs wait), and the max number of seconds run
ahead."""
_PAST_S = 3_600
"""Seconds past a limit at which a job surely runs no more: slurmctld looks every 30 s, and kills after KillWait."""
_WARM_JOBS, _ARRIVALS_S = 2_000, 70 * DAY_S
"""Number of ended jobs from which runtimes are predicted, and seconds before now from which arrivals are drawn."""


@dataclass(frozen=True)
class Record:
    """The accounting: jobs and starts; for a Slurm site also the jobs' requests to it.

    Without a site, ``ahead`` runs the queue ahead: ``EASY``, or the text of a pool with closings.
    """

    clean: CleanTrace
    start_s: np.ndarray
    site: Site | None = None
    requests: pd.DataFrame | None = None
    ahead: str = EASY

    @property
    def numbered(self) -> pd.DataFrame:
        """Return the jobs with the numbers that the queue has for them."""
        return self.clean.jobs if self.requests is None else self.clean.jobs.assign(job_id=self.requests["job_id"].to_numpy())


def record_of(site: Site, jobs: SlurmJobs, timezone: str, name: str = "") -> Record:
    """Return the record ``name`` of a Slurm site, in Unix seconds: its jobs that ran."""
    ran = jobs.table[jobs.table["start_s"] >= 0].reset_index(drop=True)
    table = as_table(ran).assign(queue=ran["partition"].astype("category"))
    clean = CleanTrace(name or jobs.name, table, table[:0], site.procs, 0, timezone, False, "", len(table))
    return Record(clean, ran["start_s"].to_numpy(np.int64), site, ran)


def queue_of(record: Record, snapshot: pd.DataFrame, now_s: int, scenarios: int | None = None, seed: int = 0) -> TraceQueue:
    """Append a snapshot to the accounting of its trace, to run it ahead.

    ``snapshot`` is that of :class:`pipelines.readers.queue_file.QueueFile`, with jobs that would be submitted now, too.
    QueueJobs of accounting that it names, or that end later, are left out. Raises InputError for times after ``now_s``
    and jobs wider than the machine.
    """
    clean, origin, snapshot = record.clean, record.clean.origin_unix_s or 0, limited(snapshot, record.site)
    end = recorded_end_s(clean.jobs, record.start_s)
    named = pd.Series(damage.numbers(clean.jobs)).isin(snapshot["job_id"]).to_numpy(bool) & (record.site is None)
    ended = np.flatnonzero((end <= now_s) & ~named & (end > now_s - _ARRIVALS_S))
    past, start_s, end = clean.jobs.iloc[ended], record.start_s[ended], end[ended]
    if (late := snapshot["submit_unix_s"] - origin > now_s).any():
        raise InputError(
            f"job {snapshot['job_id'][late].iloc[0]} of the queue was submitted after the present time, {clock_of(clean, now_s)}: give --now"
        )
    if (wide := snapshot["procs"] > clean.procs).any():
        raise InputError(
            f"a job asks for {int(snapshot['procs'][wide].iloc[0]):,} processors, and the machine of {clean.name} has {clean.procs:,}"
        )
    later = snapshot.assign(submit_s=snapshot["submit_unix_s"].astype(np.int64) - origin, runtime_s=1)
    later = later.assign(group=later.reindex(columns=["account"])["account"].replace("", None))
    texts = {
        name: pd.Categorical(pd.array([*past[name].astype(object), *later[name]], dtype="str"))
        for name in ("user", "queue", "group")
    }
    numbers = {
        name: np.concatenate((past[name].to_numpy(np.int64), later[name].to_numpy(np.int64)))
        for name in ("submit_s", "procs", "requested_s", "runtime_s")
    }
    count = len(past) + len(later)
    table = conform({"job_id": np.arange(count), **numbers, **texts}, count)
    table = table.astype(dict.fromkeys(("runtime_s", "procs", "requested_s"), "int64"))
    begun = np.minimum(snapshot["start_unix_s"].fillna(0).astype(np.int64) - origin, now_s - 1)
    starts = np.concatenate((start_s, np.where(snapshot["runs"].astype(bool), begun, NOT_YET)))
    ends = np.concatenate((end, np.full(len(later), NOT_YET)))
    order = np.argsort(numbers["submit_s"], kind="stable")
    first = max(len(order) - len(later) - _WARM_JOBS, 0)
    trace = replace(clean, jobs=table.iloc[order].reset_index(drop=True))
    warm = replace(trace, jobs=trace.jobs.iloc[first:].reset_index(drop=True))
    told_of = queued(warm, starts[order][first:], np.where(ends == NOT_YET, -1, ends)[order][first:])
    quantiles = np.repeat(numbers["requested_s"][order][:, None], told_of.quantiles.shape[1], axis=1)
    quantiles[first:] = told_of.quantiles
    submit_s, procs, requested_s = (numbers[name][order] for name in ("submit_s", "procs", "requested_s"))
    user, queue, account = (codes(trace.jobs, name) for name in texts)
    jobs = QueueJobs(submit_s, starts[order], ends[order], procs, requested_s, user, queue, account, quantiles)
    live = jobs.end == NOT_YET
    running, waiting = np.flatnonzero(live & (jobs.start < NOT_YET)), np.flatnonzero(live & (jobs.start == NOT_YET))
    job_id = np.concatenate((np.full(len(past), ""), snapshot["job_id"].astype(str)))[order]
    priority = snapshot.reindex(columns=["priority"])["priority"].to_numpy(np.float64)
    aside = stand_aside([*[""] * len(past), *snapshot["reason"].fillna("")])
    rank = by_priority(np.concatenate((np.full(len(past), np.nan), priority))[order], submit_s, aside[order])
    if record.site is None or record.requests is None:
        pool = Ahead(clean.procs, scenarios=scenarios or SCENARIOS, seed=seed, pool=closed(record.ahead, clean.procs))
        return TraceQueue(trace, jobs, running, waiting, job_id, now_s, pool, snapshot, rank)
    scenarios = scenarios or min(max(SCENARIOS * 100 // max(len(waiting), 1), FEWEST), SCENARIOS)
    requests = pd.concat([record.requests.iloc[ended], asked_of(snapshot, record.site)], ignore_index=True).iloc[order]
    ahead = SiteAhead(record.site, requests, origin, first, within_s=WITHIN_S, scenarios=scenarios, seed=seed)
    return TraceQueue(trace, jobs, running, waiting, job_id, now_s, ahead, snapshot, rank)


def past_limits(snapshot: pd.DataFrame, now_unix_s: int, site: Site | None) -> int:
    """Return how many jobs run an hour past their limits, if that is impossible; else 0.

    Slurm ends a job at its limit and OverTimeLimit. Without a site others may let jobs run on: more than half must be
    past.
    """
    overtime = "0" if site is None else site.settings.get("overtimelimit", "0")
    if not overtime.isdecimal():
        return 0
    runs = snapshot[snapshot["runs"].astype(bool) & (snapshot["requested_s"] != UNLIMITED)]
    latest_s = runs["start_unix_s"].astype(np.float64) + runs["requested_s"].astype(np.float64) + 60 * int(overtime) + _PAST_S
    count = int((latest_s < now_unix_s).sum())
    return count if site is not None or 2 * count > len(runs) else 0


def like(rows: pd.DataFrame, fits: bool, until_s: int) -> dict[str, float]:
    """Return the quality of the last 30 days' answers about jobs that fitted, or did not."""
    return quality(rows[(rows["fits"] == fits) & (rows["at_s"] > until_s - 30 * DAY_S)] if len(rows) else rows)


def clock_of(clean: CleanTrace, at_s: float) -> str:
    """Return a second of a trace as the site's clock shows it."""
    return f"{pd.Timestamp(int(local_clock_s(np.array([int(at_s)]), *clean.clock)[0]), unit='s'):%Y-%m-%d %H:%M:%S}"
