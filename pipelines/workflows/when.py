"""Predict when jobs of a queue start: run a snapshot ahead.

The queue's jobs are appended to the ended jobs of accounting, from which runtimes are predicted and arrivals drawn. A registered
model predicts their starts or, for a Slurm site with files, scenarios of its own scheduler do. Changes for an earlier start are a
shorter limit or fewer processors of the same job, in the same scenarios.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from features.clock import DAY_S, local_clock_s
from features.errors import InputError
from features.jobs import identity
from features.jobs.cleaning import CleanTrace
from features.jobs.schema import codes, conform, recorded_end_s
from models.packed.queue_state import NOT_YET, QueueJobs, by_priority, states
from models.packed.start_distribution import CHANCES_S, LEVELS
from models.packed.start_predictor import CHANCES, EASY, QUANTILES, StartModel, answers
from models.starts.evaluation import quality
from models.starts.model import Questions
from pipelines.ingest.queue_file import asked_of, limited
from pipelines.ingest.slurm_jobs import SlurmJobs
from sim.inputs.predicted_limits import as_table
from sim.site.ahead import SiteAhead
from sim.site.reasons import SiteStanding, standings, used_limits
from sim.slurm.begin import LEAD_S
from sim.slurm.site import Site
from sim.starts.ahead import Ahead
from sim.starts.closings import closed
from sim.starts.questions import queued, start_quantiles
from sim.starts.reasons import Reason, class_of, reasons

CHANGES = {"half the limit": (1.0, 0.5), "a quarter of the limit": (1.0, 0.25), "half the processors": (0.5, 1.0)}
"""Changes of a job that are tried: factors of its processors and of its limit."""
SURE = 0.9
"""Share of scenarios in which a change, or a partition, must start the job sooner, for the answer to call it sure."""
SCENARIOS, FEWEST, WITHIN_S = 64, 16, DAY_S
"""Number of scenarios; at a Slurm site, their min (fewer if over 100 jobs wait), and the max number of seconds run ahead."""
_WARM_JOBS, _ARRIVALS_S = 2_000, 70 * DAY_S
"""Number of ended jobs from which runtimes are predicted, and seconds before now from which arrivals are drawn."""


@dataclass(frozen=True)
class Gain:
    """The gain of a job with another limit or width.

    Differences of starts are in seconds, negative if sooner: mean, 10 and 90 % quantiles. ``sure``: it surely starts sooner.
    """

    what: str
    procs: int
    requested_s: int
    mean_s: float
    low_s: float
    high_s: float
    sure: bool


@dataclass(frozen=True)
class PredictedStart:
    """The predicted start of a job: wait from now on, chances, and changes to start sooner.

    ``fits`` tells whether enough processors are free now; ``reason`` why it waits, ``moved`` what moved the estimate since an
    earlier answer, ``places`` where it would start soonest, if that was asked.
    """

    job_id: str
    procs: int
    requested_s: int
    user: str | None
    waited_s: int
    fits: bool
    forecast: dict[str, float]
    changes: tuple[Gain, ...]
    reason: Reason
    moved: tuple[Cause, ...] = ()
    places: tuple[Place, ...] = ()


@dataclass(frozen=True)
class Cause:
    """Jobs that moved an estimate, what they did since, and what that cost.

    The ``seconds`` are the difference of mean starts in the same scenarios with these jobs and without them.
    """

    what: str
    jobs: int
    seconds: float


@dataclass(frozen=True)
class Place:
    """A partition that would take a job, and when it would start there.

    ``sooner`` is the share of scenarios in which it starts there sooner than in the next partition of the list; equal starts
    count half.
    """

    queue: str
    wait_10_s: float
    wait_50_s: float
    wait_90_s: float
    sooner: float | None


@dataclass(frozen=True)
class Record:
    """The accounting: jobs and starts; for a Slurm site also the jobs' requests to it.

    Without a site, ``ahead`` runs the queue ahead: ``EASY``, or the text of a pool with closings.
    """

    clean: CleanTrace
    start_s: np.ndarray
    site: Site | None = None
    asked: pd.DataFrame | None = None
    ahead: str = EASY

    @property
    def numbered(self) -> pd.DataFrame:
        """Return the jobs with the numbers that the queue has for them."""
        return self.clean.jobs if self.asked is None else self.clean.jobs.assign(job_id=self.asked["job_id"].to_numpy())


def record_of(site: Site, jobs: SlurmJobs, timezone: str, name: str = "") -> Record:
    """Return the record ``name`` of a Slurm site, in Unix seconds: its jobs that ran."""
    asked = jobs.table[jobs.table["start_s"] >= 0].reset_index(drop=True)
    table = as_table(asked).assign(queue=asked["partition"].astype("category"))
    clean = CleanTrace(name or jobs.name, table, table[:0], site.procs, 0, timezone, False, "", len(table))
    return Record(clean, asked["start_s"].to_numpy(np.int64), site, asked)


@dataclass(frozen=True)
class TraceQueue:
    """A snapshot behind a trace's accounting, with the rows that run and wait.

    ``now_s`` is in the trace's seconds; ``job_id`` has the ids of the snapshot, "" for ended jobs. ``ahead`` runs it ahead.
    ``rank`` int64 [jobs] orders the jobs: by the site's priority where the snapshot tells it, else by submission.
    """

    clean: CleanTrace
    jobs: QueueJobs
    running: np.ndarray
    waiting: np.ndarray
    job_id: np.ndarray
    now_s: int
    ahead: Ahead
    snapshot: pd.DataFrame
    rank: np.ndarray

    def answered(self, model: StartModel | None, asked: np.ndarray) -> list[PredictedStart]:
        """Return answers about the rows ``asked``, which wait and ascend.

        They come from the model or, without one, from the scenarios. One or two answers also have changes to start sooner.
        """
        starts = self._starts(self.jobs, asked)
        if model is None:
            values = dict(zip(QUANTILES, np.quantile(starts, LEVELS, axis=0, method="nearest"), strict=True))
            values |= {name: (starts <= by).mean(axis=0) for name, by in zip(CHANCES, CHANCES_S.values(), strict=True)}
        else:
            read = self._questions(asked, starts)
            values = answers(model.chances(read.states, read.scenarios if model.ahead == self.ahead.by else None))
        jobs, row_answers, why = self.jobs, [], self.reasons(asked)
        free = self.clean.procs - int(jobs.procs[self.running].sum())
        for number, row in enumerate(asked):
            user, procs = self.clean.jobs["user"].iloc[row], int(jobs.procs[row])
            row_answers.append(
                PredictedStart(
                    str(self.job_id[row]),
                    procs,
                    int(jobs.requested[row]),
                    None if pd.isna(user) else str(user),
                    self.now_s - int(jobs.submit[row]),
                    procs <= free,
                    {name: float(each[number]) for name, each in values.items()},
                    self._changes(row, starts[:, number]) if len(asked) <= 2 else (),
                    why[number],
                )
            )
        return row_answers

    def reasons(self, asked: np.ndarray) -> list[Reason]:
        """Return why each of the rows ``asked`` waits.

        The snapshot says it, and at a Slurm site its rules.
        """
        names, now_s = [str(each) for each in self.job_id[asked]], self.now_s + (self.clean.origin_unix_s or 0)
        ahead = self.ahead
        why = reasons(self.snapshot, names, self.clean.procs, now_s)
        if not isinstance(ahead, SiteAhead):
            return why
        live = np.concatenate((self.running, self.waiting))
        there, table = ahead.present(self.jobs, np.sort(live), self.now_s)
        table = table.assign(job_id=self.job_id[there])
        before = {name: each.why for name, each in zip(names, why, strict=True) if each.by_slurm}
        stands = standings(ahead.site, table, float(now_s), names, before=before, usage_s=float(table["submit_s"].min()) - LEAD_S)
        why = [by_rules(each, stands[name]) if name in stands else each for name, each in zip(names, why, strict=True)]
        over = [number for number, each in enumerate(why) if each.why == "limit"]
        if over:
            place = {int(row): number for number, row in enumerate(live)}
            requests, runs = ahead.table.iloc[live], np.arange(len(live)) < len(self.running)
            used = used_limits(ahead.site, requests, runs, [place[int(asked[number])] for number in over])
            for number, limit in zip(over, used, strict=True):
                why[number] = replace(why[number], limit=limit)
        return why

    def moved(self, row: int, since_s: int) -> tuple[Cause, ...]:
        """Return what moved the estimate of the row since an answer at ``since_s``.

        The causes are at most three, the largest first. Jobs that came or started meanwhile, or outlive their predicted median,
        are taken out of the same scenarios. Causes under a minute are left out.
        """
        jobs, asked = self.jobs, np.array([row])
        starts_s = float(self._starts(jobs, asked).mean())
        submitted, longer = jobs.submit > since_s, jobs.start + np.median(jobs.quantiles, axis=1) < self.now_s
        runs, waits = np.zeros(len(jobs.submit), bool), np.zeros(len(jobs.submit), bool)
        runs[self.running], waits[self.waiting] = True, True
        waits[row] = False
        causes = {
            "jobs that came since and wait": waits & submitted,
            "jobs that came since and run": runs & submitted,
            "running jobs that outlive their predicted median": runs & longer & (jobs.start <= since_s),
        }
        effects = []
        for what, gone in causes.items():
            if gone.any():
                starts = self.ahead.starts(jobs, self.running, self.waiting, self.now_s, asked, without=gone)
                without_s = float(starts.mean())
                effects.append(Cause(what, int(gone.sum()), starts_s - without_s))
        effects = [each for each in effects if abs(each.seconds) >= 60]
        return tuple(sorted(effects, key=lambda each: -abs(each.seconds))[:3])

    def places(self, row: int) -> tuple[Place, ...]:
        """Return the partitions that would take a waiting job, the soonest first.

        The job of the row is submitted to each in turn, in the same scenarios. Raises InputError without a Slurm site, and if
        none takes it.
        """
        if not isinstance(self.ahead, SiteAhead):
            raise InputError("queue=*: only the files of a Slurm site say which partitions there are: give its folder as --machine")
        site, ahead, asked = self.ahead.site, self.ahead, np.array([row])
        nodes = {each.name: each.cpus for each in site.nodes}
        takes = [
            name
            for name, each in site.partitions.items()
            if each.max_s >= self.jobs.requested[row] and sum(nodes[node] for node in each.nodes) >= self.jobs.procs[row]
        ]
        if not takes:
            raise InputError(f"queue=*: no partition of {site.name} has room and time for the job")
        starts = {}
        for name in takes:
            partitions = ahead.table["partition"].astype(object).copy()
            partitions.iloc[row] = name
            elsewhere = copy(ahead)
            elsewhere.table = ahead.table.assign(partition=partitions)
            starts[name] = elsewhere.starts(self.jobs, self.running, self.waiting, self.now_s, asked)[:, 0]
        order = sorted(takes, key=lambda name: (float(starts[name].mean()), name))
        places = []
        for name, after in zip(order, [*order[1:], None], strict=True):
            low, median, high = (float(each) for each in np.quantile(starts[name], (0.1, 0.5, 0.9), method="nearest"))
            sooner = None
            if after is not None:
                sooner = float((starts[name] < starts[after]).mean() + (starts[name] == starts[after]).mean() / 2)
            places.append(Place(name, low, median, high, sooner))
        return tuple(places)

    def questions(self, asked: np.ndarray) -> Questions:
        """Return questions about the rows ``asked``, which wait and ascend, at this moment."""
        return self._questions(asked, self._starts(self.jobs, asked))

    def _questions(self, asked: np.ndarray, starts: np.ndarray) -> Questions:
        at = np.full(len(asked), self.now_s)
        described = states(self.jobs, asked, at, local_clock_s(at, *self.clean.clock), self.clean.procs, self.rank)
        plan = self.ahead.plan(self.jobs, self.running, self.waiting, self.now_s, self.jobs.requested, asked=asked)
        return Questions(asked, at, described, np.stack([start_quantiles(each) for each in starts.T]), plan)

    def _starts(self, jobs: QueueJobs, asked: np.ndarray) -> np.ndarray:
        return self.ahead.starts(jobs, self.running, self.waiting, self.now_s, asked)

    def _changes(self, row: int, starts: np.ndarray) -> tuple[Gain, ...]:
        changes = []
        for what, (wide, long) in CHANGES.items():
            procs, requested = int(np.ceil(self.jobs.procs[row] * wide)), max(int(self.jobs.requested[row] * long), 60)
            if (procs, requested) == (self.jobs.procs[row], self.jobs.requested[row]):
                continue
            gained = self._starts(changed(self.jobs, row, procs, requested), np.array([row]))[:, 0] - starts
            low, high = np.quantile(gained, (0.1, 0.9))
            changes.append(Gain(what, procs, requested, float(gained.mean()), float(low), float(high), surely_sooner(gained)))
        return tuple(changes)


def changed(jobs: QueueJobs, row: int, procs: int, requested_s: int) -> QueueJobs:
    """Return the jobs with another width and limit of one; the limit cuts its predictions."""
    jobs = jobs._replace(procs=jobs.procs.copy(), requested=jobs.requested.copy(), quantiles=jobs.quantiles.copy())
    jobs.procs[row], jobs.requested[row] = procs, requested_s
    jobs.quantiles[row] = np.minimum(jobs.quantiles[row], requested_s)
    return jobs


def surely_sooner(gained_s: np.ndarray) -> bool:
    """Tell whether a change surely starts a job sooner, from differences in scenarios."""
    return bool((gained_s < 0).mean() >= SURE)


def by_rules(reason: Reason, stands: SiteStanding) -> Reason:
    """Return a reason with what the rules of its Slurm site say.

    Slurm's own word for the class stays.
    """
    return replace(
        reason,
        why=reason.why if class_of(reason.by_slurm) else stands.why,
        ahead=stands.ahead,
        ahead_hours=stands.ahead_hours,
        ahead_in_queue=stands.ahead,
        free=stands.free,
        first=stands.first,
        first_s=stands.first_s,
        parts=stands.parts,
    )


def queue_of(record: Record, snapshot: pd.DataFrame, now_s: int, scenarios: int | None = None, seed: int = 0) -> TraceQueue:
    """Append a snapshot to the accounting of its trace, to run it ahead.

    ``snapshot`` is that of :class:`pipelines.ingest.queue_file.QueueFile`, with jobs that would be submitted now, too. Jobs of
    accounting that it names, or that end later, are left out. Raises InputError for times after ``now_s`` and jobs wider than
    the machine.
    """
    clean, origin, snapshot = record.clean, record.clean.origin_unix_s or 0, limited(snapshot, record.site)
    end = recorded_end_s(clean.jobs, record.start_s)
    named = pd.Series(identity.numbers(clean.jobs)).isin(snapshot["job_id"]).to_numpy(bool) & (record.site is None)
    ended = np.flatnonzero((end <= now_s) & ~named & (end > now_s - _ARRIVALS_S))
    past, start_s, end = clean.jobs.iloc[ended], record.start_s[ended], end[ended]
    if (late := snapshot["submit_unix_s"] - origin > now_s).any():
        raise InputError(
            f"job {snapshot['job_id'][late].iloc[0]} of the queue is submitted after {clock_of(clean, now_s)}, which is now: give --now"
        )
    if (wide := snapshot["procs"] > clean.procs).any():
        raise InputError(
            f"a job of {int(snapshot['procs'][wide].iloc[0]):,} processors, and the machine of {clean.name} has {clean.procs:,}"
        )
    later = snapshot.assign(submit_s=snapshot["submit_unix_s"].astype(np.int64) - origin, runtime_s=1)
    texts = {name: pd.Categorical(pd.array([*past[name].astype(object), *later[name]], dtype="str")) for name in ("user", "queue")}
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
    user, queue = codes(trace.jobs, "user"), codes(trace.jobs, "queue")
    jobs = QueueJobs(submit_s, starts[order], ends[order], procs, requested_s, user, queue, quantiles)
    live = jobs.end == NOT_YET
    running, waiting = np.flatnonzero(live & (jobs.start < NOT_YET)), np.flatnonzero(live & (jobs.start == NOT_YET))
    job_id = np.concatenate((np.full(len(past), ""), snapshot["job_id"].astype(str)))[order]
    priority = snapshot.reindex(columns=["priority"])["priority"].to_numpy(np.float64)
    rank = by_priority(np.concatenate((np.full(len(past), np.nan), priority))[order])
    if record.site is None or record.asked is None:
        pool = Ahead(clean.procs, scenarios=scenarios or SCENARIOS, seed=seed, pool=closed(record.ahead, clean.procs))
        return TraceQueue(trace, jobs, running, waiting, job_id, now_s, pool, snapshot, rank)
    scenarios = scenarios or min(max(SCENARIOS * 100 // max(len(waiting), 1), FEWEST), SCENARIOS)
    asked = pd.concat([record.asked.iloc[ended], asked_of(snapshot, record.site)], ignore_index=True).iloc[order]
    ahead = SiteAhead(record.site, asked, origin, first, within_s=WITHIN_S, scenarios=scenarios, seed=seed)
    return TraceQueue(trace, jobs, running, waiting, job_id, now_s, ahead, snapshot, rank)


def like(rows: pd.DataFrame, fits: bool, until_s: int) -> dict[str, float]:
    """Return the quality of the last 30 days' answers about jobs that fitted, or did not."""
    return quality(rows[(rows["fits"] == fits) & (rows["at_s"] > until_s - 30 * DAY_S)] if len(rows) else rows)


def clock_of(clean: CleanTrace, at_s: float) -> str:
    """Return a second of a trace as the site's clock shows it."""
    return f"{pd.Timestamp(int(local_clock_s(np.array([int(at_s)]), *clean.clock)[0]), unit='s'):%Y-%m-%d %H:%M:%S}"
