"""When the jobs of a queue start, why they wait, and what moved the answer.

All answers about changes, causes and places come from the same scenarios: the drawn runtimes and arrivals are equal,
and the difference of starts is the effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from features.clock import local_clock_s
from features.errors import InputError
from features.jobs.cleaning import CleanTrace
from models.packed.queue_state import QueueJobs, states
from models.packed.start_distribution import CHANCES_S, LEVELS
from models.packed.start_predictor import CHANCES, QUANTILES, StartModel, answers
from models.starts.model import Questions
from sim.site.ahead import SiteAhead, starts_ahead
from sim.site.explained import decisions
from sim.site.reasons import UsedUp, standings, used_limits, without_limit
from sim.site.replay import replay
from sim.slurm.files import read_site
from sim.slurm.lines import CONF
from sim.slurm.nodesets import Suits, suitable
from sim.slurm.phases import LEAD_S
from sim.slurm.requests import COLUMNS
from sim.slurm.site import Site
from sim.starts.ahead import Ahead, PresentQueue
from sim.starts.questions import blurred, start_quantiles
from sim.starts.reasons import SURE, Reason, class_of, reasons

CHANGES = {"half the limit": (1.0, 0.5), "a quarter of the limit": (1.0, 0.25), "half the processors": (0.5, 1.0)}
"""Changes of a job that are tried: factors of its processors and of its limit."""


@dataclass(frozen=True)
class Gain:
    """The gain of a job with another limit or width.

    Differences of starts are in seconds, negative if sooner: mean, 10 and 90 % quantiles. ``sure``: it surely starts
    sooner.
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

    ``fits`` tells whether enough processors are free now; ``reason`` why it waits, ``moved`` what moved the estimate
    since an earlier answer, ``places`` where it would start soonest, if that was asked.
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
    """What moved an estimate: jobs, nodes or a limit, and what they did since.

    The ``seconds`` are the difference of mean starts in the same scenarios with the cause and without it.
    """

    what: str
    count: int
    seconds: float


@dataclass(frozen=True)
class Place:
    """A partition, and a QOS, that would take a job, and when it would start there.

    ``qos`` is "" where the job has no choice. ``sooner`` is the chance that it starts there sooner than in the next
    place of the list (:func:`chance_sooner`).
    """

    queue: str
    qos: str
    wait_10_s: float
    wait_50_s: float
    wait_90_s: float
    sooner: float | None


@dataclass(frozen=True)
class TraceQueue:
    """A snapshot behind a trace's accounting, with the rows that run and wait.

    ``now_s`` is in the trace's seconds; ``job_id`` has the ids of the snapshot, "" for ended jobs. ``ahead`` runs it
    ahead. ``rank`` int64 [jobs] orders the jobs: by the site's priority where the snapshot tells it, else by
    submission.
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

    def answered(self, model: StartModel | None, rows: np.ndarray) -> list[PredictedStart]:
        """Return answers about ``rows``, which wait and ascend.

        They come from the model or, without one, from the scenarios. One or two answers also have changes to start
        sooner.
        """
        starts = self._starts(self.jobs, rows)
        if model is None:
            sample = blurred(starts, self.ahead.within_s)
            values = dict(zip(QUANTILES, np.quantile(sample, LEVELS, axis=0, method="nearest"), strict=True))
            values |= {name: (sample <= by).mean(axis=0) for name, by in zip(CHANCES, CHANCES_S.values(), strict=True)}
        else:
            read = self._questions(rows, starts)
            values = answers(model.chances(read.states, read.scenarios if model.ahead == self.ahead.by else None))
        jobs, row_answers, why = self.jobs, [], self.reasons(rows)
        free = self.clean.procs - int(jobs.procs[self.running].sum())
        for number, row in enumerate(rows):
            user, procs = self.clean.jobs["user"].iloc[row], int(jobs.procs[row])
            row_answers.append(
                PredictedStart(
                    str(self.job_id[row]),
                    procs,
                    int(jobs.requested[row]),
                    None if pd.isna(user) else str(user),
                    self.now_s - int(jobs.submit[row]),
                    procs <= free,
                    {name: float(values_s[number]) for name, values_s in values.items()},
                    self._changes(row, starts[:, number]) if len(rows) <= 2 else (),
                    why[number],
                )
            )
        return row_answers

    def present(self, jobs: QueueJobs) -> PresentQueue:
        """Return the queue with these requests of its jobs."""
        return PresentQueue(jobs, self.running, self.waiting, self.now_s)

    def reasons(self, rows: np.ndarray) -> list[Reason]:
        """Return why each of ``rows`` waits.

        The snapshot says it, and at a Slurm site its rules.
        """
        names, now_s = [str(job) for job in self.job_id[rows]], self.now_s + (self.clean.origin_unix_s or 0)
        ahead = self.ahead
        why = reasons(self.snapshot, names, self.clean.procs, now_s)
        if not isinstance(ahead, SiteAhead):
            return why
        live = np.concatenate((self.running, self.waiting))
        kept_rows, table = ahead.present(self.jobs, np.sort(live), self.now_s)
        table = table.assign(job_id=self.job_id[kept_rows])
        before = {name: reason.why for name, reason in zip(names, why, strict=True) if reason.by_slurm}
        stands = standings(ahead.site, table, float(now_s), names, before=before, usage_s=float(table["submit_s"].min()) - LEAD_S)
        for number, name in enumerate(names):
            by_slurm = why[number].by_slurm
            if name in stands:  # Slurm's own word for the class stays
                of_class = class_of(by_slurm) or stands[name].why
                why[number] = replace(stands[name], why=of_class, by_slurm=by_slurm)
        over = [number for number, reason in enumerate(why) if reason.why == "limit"]
        if over:
            for number, used in zip(over, self._used(rows[over], live[np.arange(len(live)) < len(self.running)]), strict=True):
                why[number] = replace(why[number], limit=used.text)
        return why

    def moved(self, row: int, since_s: int) -> tuple[Cause, ...]:
        """Return what moved the estimate of the row since an answer at ``since_s``.

        The causes are at most three, the largest first. Each is taken out of the same scenarios: jobs that came or
        started meanwhile, or outlive their predicted median; at a Slurm site also nodes that it lost and a limit that
        was reached. Causes under a minute are left out.
        """
        jobs, alone = self.jobs, np.array([row])
        starts_s = float(self._starts(jobs, alone).mean())
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
                starts = self.ahead.starts(self.present(jobs), alone, without=gone)
                effects.append(Cause(what, int(gone.sum()), starts_s - float(starts.mean())))
        for what, count, site in self._sites_before(row, since_s):
            without_s = float(self._elsewhere(site, self.site_ahead.table)._starts(jobs, alone).mean())
            effects.append(Cause(what, count, starts_s - without_s))
        effects = [cause for cause in effects if abs(cause.seconds) >= 60]
        return tuple(sorted(effects, key=lambda cause: -abs(cause.seconds))[:3])

    def _sites_before(self, row: int, since_s: int) -> Iterator[tuple[str, int, Site]]:
        """Yield what has changed at the site since ``since_s``, how many, and the site without it."""
        if not isinstance(self.ahead, SiteAhead):
            return
        site, origin_s = self.ahead.site, self.clean.origin_unix_s or 0
        lost = [outage for outage in site.outages if since_s < outage.start_s - origin_s <= self.now_s < outage.end_s - origin_s]
        if lost:
            others = tuple(outage for outage in site.outages if outage not in lost)
            yield "nodes lost since", len({outage.node for outage in lost}), replace(site, outages=others)
        ran = np.flatnonzero((self.jobs.start <= since_s) & (self.jobs.end > since_s))
        used, before = (self._used(np.array([row]), runs)[0] for runs in (self.running, ran))
        if used.text and used.key != before.key:
            yield f"limit reached since ({used.text})", 1, without_limit(site, used.key)

    def _used(self, rows: np.ndarray, running: np.ndarray) -> list[UsedUp]:
        """Return for each of ``rows`` the first limit that the ``running`` jobs have used up."""
        both = np.concatenate((running, rows))
        requests, runs = self.site_ahead.table.iloc[both], np.arange(len(both)) < len(running)
        return used_limits(self.site_ahead.site, requests, runs, range(len(running), len(both)))

    @property
    def site_ahead(self) -> SiteAhead:
        """Return the Slurm site's scheduler, which runs ahead; InputError if there is none."""
        if not isinstance(self.ahead, SiteAhead):
            raise InputError("queue=*: only the files of a Slurm site say which partitions there are: give its folder as --machine")
        return self.ahead

    def _elsewhere(self, site: Site, table: pd.DataFrame) -> TraceQueue:
        """Return this queue at another site, or with other requests."""
        ahead = copy(self.site_ahead)
        ahead.site, ahead.table = site, table
        return replace(self, ahead=ahead)

    def places(self, row: int) -> tuple[Place, ...]:
        """Return the partitions and QOS that would take a waiting job, the soonest first.

        The job of the row is submitted to each in turn, in the same scenarios. Raises InputError without a Slurm site,
        and if none takes it.
        """
        ahead, starts, alone = self.site_ahead, dict[tuple[str, str], np.ndarray](), np.array([row])
        for name, qos in self._takers(row):
            names = {column: ahead.table[column].astype(object).copy() for column in ("partition", "qos")}
            names["partition"].iloc[row], names["qos"].iloc[row] = name, qos
            table = ahead.table.assign(**names)
            starts[name, qos] = self._elsewhere(ahead.site, table)._starts(self.jobs, alone)[:, 0]
        if not starts:
            raise InputError(f"queue=*: no partition of {ahead.site.name} has time for the job and nodes that suit it")
        order = sorted(starts, key=lambda place: (float(starts[place].mean()), place))
        several, places = len({qos for _, qos in order}) > 1, []
        for place, after in zip(order, [*order[1:], None], strict=True):
            sample = blurred(starts[place][:, None], ahead.within_s)
            low, median, high = (float(wait) for wait in np.quantile(sample, (0.1, 0.5, 0.9), method="nearest"))
            sooner = None
            if after is not None:
                sooner = chance_sooner(starts[place], starts[after], ahead.within_s)
            places.append(Place(place[0], place[1] if several else "", low, median, high, sooner))
        return tuple(places)

    def _takers(self, row: int) -> Iterator[tuple[str, str]]:
        """Yield each partition with time for the job and nodes that suit it, with each QOS that the job may have
        there."""
        site, own = self.site_ahead.site, self.site_ahead.table.iloc[row]
        suit = suitable(site, Suits(own["features"], own["nodelist"], own["exclude"], own["memory_node"]))
        nodes = {node.name: node.cpus for node in site.nodes if node.name in suit and node.gpus >= own["gpus"]}
        submitter = (own["account"], own["user"])
        of_user = (association.qos for association in site.associations if (association.account, association.user) == submitter)
        granted = next(of_user, ())
        chosen = bool(self.snapshot["qos"][self.snapshot["job_id"] == self.job_id[row]].any())
        for name, part in site.partitions.items():
            cpus = [nodes[node] for node in part.nodes if node in nodes]
            room = part.max_s >= self.jobs.requested[row] and sum(cpus) >= self.jobs.procs[row] and len(cpus) >= own["min_nodes"]
            for qos in (own["qos"],) if chosen else dict.fromkeys((own["qos"], *granted)):
                if room and qos in site.qos and part.allows("qos", qos) and part.allows("accounts", own["account"]):
                    yield name, qos

    def questions(self, rows: np.ndarray) -> Questions:
        """Return questions about ``rows``, which wait and ascend, at this moment."""
        return self._questions(rows, self._starts(self.jobs, rows))

    def _questions(self, rows: np.ndarray, starts: np.ndarray) -> Questions:
        at = np.full(len(rows), self.now_s)
        described = states(self.jobs, rows, at, local_clock_s(at, *self.clean.clock), self.clean.procs, self.rank)
        plan = self.ahead.plan(self.present(self.jobs), self.jobs.requested, only=rows)
        return Questions(rows, at, described, np.stack([start_quantiles(scenario) for scenario in starts.T]), plan)

    def _starts(self, jobs: QueueJobs, rows: np.ndarray) -> np.ndarray:
        return self.ahead.starts(self.present(jobs), rows)

    def _changes(self, row: int, starts: np.ndarray) -> tuple[Gain, ...]:
        changes, tried = [], {(int(self.jobs.procs[row]), int(self.jobs.requested[row]))}
        for what, (wide, long) in CHANGES.items():
            procs, requested = int(np.ceil(self.jobs.procs[row] * wide)), max(int(self.jobs.requested[row] * long), 60)
            if (procs, requested) in tried:
                continue
            tried.add((procs, requested))
            gained = self._starts(changed(self.jobs, row, procs, requested), np.array([row]))[:, 0] - starts
            low, high = np.quantile(gained, (0.1, 0.9))
            sure = bool((gained < 0).mean() >= SURE)
            changes.append(Gain(what, procs, requested, float(gained.mean()), float(low), float(high), sure))
        return tuple(changes)


def changed(jobs: QueueJobs, row: int, procs: int, requested_s: int) -> QueueJobs:
    """Return the jobs with another width and limit of one; the limit cuts its predictions."""
    jobs = jobs._replace(procs=jobs.procs.copy(), requested=jobs.requested.copy(), quantiles=jobs.quantiles.copy())
    jobs.procs[row], jobs.requested[row] = procs, requested_s
    jobs.quantiles[row] = np.minimum(jobs.quantiles[row], requested_s)
    return jobs


def chance_sooner(starts_s: np.ndarray, others_s: np.ndarray, within_s: float) -> float:
    """Return the chance that a job starts sooner than by other starts.

    Both are of the same scenarios, seconds [scenarios]; equal ones count half. Both err as intervals take starts to err
    (:func:`sim.starts.questions.blurred`), each for itself: a difference of seconds is not sure, however many scenarios
    agree.
    """
    own, other = (
        blurred(starts[:, None], within_s).reshape(-1, len(starts))
        for starts in (np.asarray(starts_s, np.float64), np.asarray(others_s, np.float64))
    )
    sooner = int((own[:, None] < other).sum())
    equal = int((own[:, None] == other).sum())
    return (sooner + equal / 2) / (len(own) * other.size)


def load_kernels() -> None:
    """Compile, or load, the kernels of replays, decisions and queues run ahead."""
    site = read_site({CONF: "NodeName=n1 CPUs=1\nPartitionName=all Nodes=n1\n"}, "one node")
    times = {"submit_s": 100, "runtime_s": 1, "limit_s": 60, "eligible_s": -1, "held_s": 0, "cancel_s": -1}
    texts = {"job_id": "1", "user": "u", "account": "a", "partition": "all", "qos": "normal"}
    texts |= dict.fromkeys(("features", "reservation", "after", "licenses"), "")
    job = dict.fromkeys(COLUMNS, 0) | times | texts | {"cpus": 1, "min_nodes": 1, "group": 1, "task": -1}
    record = {"start_s": 101, "end_s": 102, "nodes": "n1", "started_by": "", "priority": 1}
    jobs = pd.DataFrame([job | record])
    replay(site, jobs)
    decisions(site, jobs)
    waiting = jobs.assign(start_s=np.nan, nodes="")
    starts_ahead(site, waiting, 101, np.ones((1, 1)))
    standings(site, waiting, 101, ())
