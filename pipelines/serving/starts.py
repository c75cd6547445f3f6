"""Requests and answers about the start of a job that is submitted to a queue.

An answer depends only on the queue's state. The model has learned from runtimes predicted at submission. If the runtime model of
the same trace is served, too, and has quantiles, these are used, and cached with its version; else each quantile is the request.
"""

import asyncio
from calendar import timegm
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, FailFast, Field, WrapValidator
from pydantic_core import PydanticSerializationError, to_json

from features import limits
from features.errors import InputError
from models.packed.queue_state import NOT_YET, QueueJobs, states
from models.packed.site_names import hashed, site_key
from models.packed.start_distribution import LEVELS
from models.packed.start_predictor import CHANCES, QUANTILES, RECENT, STATE, StartModel, answers
from models.runtime.remaining import LEVELS as OF_RUNTIMES
from models.starts.bulk import chances
from pipelines.serving.judging import start_entry
from pipelines.serving.loaded import ROWS, Loaded, LoadedVersion
from pipelines.serving.questions import Answering, Given, Text, Unanswerable, WallClock, one_unknown
from sim.starts.reasons import CLASSES, class_by_queue

MOST_QUEUED, REMEMBERED, LINES = 20_000, 100_000, 4
"""Max numbers of jobs of a queue, of cached predictions of runtimes, and of cached queues."""
_SOON_S = 60
"""A job whose median wait is shorter is said to start now."""
Seconds = Annotated[int, Field(ge=0, le=limits.SECONDS)]


class Submitted(BaseModel):
    """A job that is submitted now."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    user: Text | None = Field(description="null: unknown")
    procs: int = Field(ge=1, le=limits.PROCESSORS)
    requested_s: int = Field(ge=1, le=limits.SECONDS)
    queue: Text | None = None


class QuestionedJob(Submitted):
    """The job that is asked about."""

    waits_s: Seconds = Field(0, description="how long it has waited: jobs that were submitted since are behind it")


class Queued(Submitted):
    """A job that runs or waits."""

    submit_time: WallClock | None = None
    waits_s: Seconds | None = Field(None, description="instead of submit_time: how long it has waited, or waited until it started")
    running_s: Seconds | None = Field(None, description="how long it has run; null: it waits")


@dataclass
class Standing:
    """The jobs of a queue at a second, in order of submission, without the one asked about.

    ``codes`` has the codes of users and of queues by name. Quantiles come from ``told_by``; if it is None, they are requests.
    """

    users: list[str | None]
    codes: tuple[dict[str | None, int], dict[str | None, int]]
    jobs: QueueJobs
    told_by: Loaded | None = None


class QueueColumns(list[Any]):
    """The columns of a given queue, with its :class:`Standing` at the last second.

    Many questions have the same queue. Columns are lists, kept instead of jobs, which the garbage collector would visit.
    """

    clock_s: int | None = None
    standing: Standing

    def at(self, clock_s: int) -> Standing:
        """Return the jobs in the queue at a second.

        Raises Unanswerable for a job without the time of its submission, or with one after that second.
        """
        if self.clock_s != clock_s:
            self.standing, self.clock_s = _standing(self, clock_s), clock_s
        return self.standing


_lines: dict[bytes, QueueColumns] = {}


def _line(value: Any, validated: Callable[[Any], list[Queued]]) -> list[Any]:
    """Validate a queue, or return it from the cache; leave one unknown field of each job.

    To leave it here takes a fifth of the time of each job's own check. The key is text, in which 1, 1.0 and true differ.
    """
    if not isinstance(value, list):
        return validated(value)
    try:
        as_json = to_json(value, inf_nan_mode="constants")
    except PydanticSerializationError as error:
        raise ValueError("a text holds half a character") from error
    if as_json not in _lines:
        rows = [*map(_TOLD, validated([one_unknown(Queued.__pydantic_fields__, job) for job in value]))]
        line = QueueColumns(map(list, zip(*rows, strict=True)) if rows else ([] for _ in range(7)))
        for old in list(_lines)[: 1 - LINES]:
            del _lines[old]
        _lines[as_json] = line
    return _lines[as_json]


class StartQuestion(Given):
    """A queue, and a job that is submitted to it, or waits in it and is left out of ``queue``."""

    model: Text | None = Field(None, description="which one, where several are served")
    procs: int | None = Field(None, ge=1, le=limits.PROCESSORS, description="processors of the machine; left out: the trace's")
    now: WallClock | None = Field(None, description="the wall clock at the site, without a time zone; left out: now")
    queue: Annotated[list[Queued], Field(max_length=MOST_QUEUED), FailFast(), WrapValidator(_line)]
    job: Annotated[QuestionedJob, BeforeValidator(partial(one_unknown, QuestionedJob.__pydantic_fields__))]
    job_id: int | Text | None = Field(None, description="kept in the log, so that the answer can be judged")


_EPOCH = datetime(1970, 1, 1)
_TOLD = attrgetter("user", "queue", "procs", "requested_s", "submit_time", "waits_s", "running_s")
FIELDS = {*StartQuestion.model_fields, *Queued.model_fields}


class Why(BaseModel):
    """Why a job waits: all jobs that have waited longer are ahead of it."""

    why: str = Field(description="priority: jobs ahead come first; resources: too few processors are free; next: nothing")
    ahead: int = Field(description="jobs that wait ahead of it")
    ahead_hours: float = Field(description="processor-hours that they ask for")
    ahead_in_queue: int = Field(description="those of its own queue")
    free: int = Field(description="processors that no job holds")


class StartAnswer(Answering):
    """When the job starts, by the state of the queue."""

    quantiles: dict[str, int] = Field(description="seconds of waiting by level: 0.5 is the median, which half of such jobs exceed")
    times: dict[str, str] = Field(description="the same on the site's wall clock")
    chances: dict[str, float] = Field(description="to have started after so long")
    reason: Why = Field(description="why it waits, by the queue that was given")
    card: dict[str, str] = Field(description="the answer as a few lines, name and text, for a portal's card of the job")
    snapshot_age_s: int = Field(description="how long before the question the last answers lie that the model is calibrated by")


@dataclass(frozen=True)
class LoadedStarts(LoadedVersion):
    """A version of a model of starts."""

    predictor: StartModel

    @property
    def method(self) -> str:
        return self.predictor.method

    @property
    def snapshot_unix_s(self) -> int | None:
        return None if self.predictor.origin_unix_s is None else self.predictor.at_s + self.predictor.origin_unix_s

    def check(self, now_s: float) -> None:
        now = datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%d %H:%M:%S")
        job = {"user": None, "procs": 1, "requested_s": 3600}
        question = StartQuestion.model_validate({"procs": 1, "now": now, "queue": [], "job": job})
        clock_s = self.clock_s(question, now_s)
        waits = list(self.answer(question, jobs_of(question, clock_s)[1], clock_s)["quantiles"].values())
        if waits != sorted(waits) or waits[0] < 0:
            raise InputError(f"version {self.number} of {self.name}: predicts quantiles {waits} s, which must ascend from 0")

    def clock_s(self, question: StartQuestion, now_s: float) -> int:
        """Return the site's wall clock at the question, seconds since 1970-01-01 00:00."""
        if question.now is not None:
            return int((question.now - _EPOCH).total_seconds())
        if self.snapshot_unix_s is None:
            raise Unanswerable("now is missing, and the model's trace has no dates: give the wall clock", "now")
        return timegm(datetime.fromtimestamp(now_s, self._zone).timetuple())

    @property
    def _zone(self) -> ZoneInfo:
        return ZoneInfo(self.predictor.timezone or "UTC")

    def answer(self, question: StartQuestion, jobs: QueueJobs, clock_s: int) -> dict[str, Any]:
        """Answer about the last of ``jobs`` at the second ``clock_s`` of the wall clock."""
        model, at = self.predictor, np.array([clock_s])
        procs = question.procs or model.procs
        if not procs:
            raise Unanswerable("procs is missing, and the model does not know the machine's", "procs")
        if question.job.procs > procs:
            raise Unanswerable(f"job.procs: {question.job.procs:,} are more than the machine's {procs:,}", "job.procs")
        rank = _ranks(jobs)
        state = states(jobs, np.array([len(jobs.submit) - 1]), at, at, procs, rank)
        if model.method == RECENT:
            distribution = model.chances(state)
        else:  # as the model answers, by compiled code
            raw = chances(model.trees[STATE], state, state[:, list(model.plans)], None)
            distribution = model.calibrated(STATE, raw)
        figures = answers(distribution)
        waits = {repr(level): round(float(figures[name][0])) for level, name in zip(LEVELS, QUANTILES, strict=True)}
        times = {level: datetime.fromtimestamp(clock_s + wait, UTC).strftime("%Y-%m-%d %H:%M:%S") for level, wait in waits.items()}
        shares = {name.removeprefix("chance_"): round(float(figures[name][0]), 4) for name in CHANCES}
        unix_s = datetime.fromtimestamp(clock_s, UTC).replace(tzinfo=self._zone).timestamp()
        age = int(unix_s) - (model.origin_unix_s or 0) - model.at_s
        why = _why(jobs, rank, procs)
        answer = {"quantiles": waits, "times": times, "chances": shares, "reason": why, "card": _card(waits, times, shares, why)}
        return answer | {"snapshot_age_s": age}

    def entry(self, question: StartQuestion, answer: Mapping[str, Any], jobs: QueueJobs, now_s: float) -> dict[str, Any]:
        """Return the entry of a log for what :meth:`answer` returned."""
        at_s = self.clock_s(question, now_s)
        local = datetime.fromtimestamp(at_s, UTC).replace(tzinfo=self._zone)
        figures = dict(zip(QUANTILES, answer["quantiles"].values(), strict=True)) | dict(
            zip(CHANCES, answer["chances"].values(), strict=True)
        )
        job, key = question.job, site_key()
        free = (question.procs or self.predictor.procs) - int(jobs.procs[jobs.start < NOT_YET].sum())
        facts = {"job_id": question.job_id, "user": hashed(job.user, key) if job.user else None, "procs": job.procs}
        facts |= {"requested_s": job.requested_s, "submit_unix_s": int(local.timestamp()) - job.waits_s}
        facts |= {"fits": job.procs <= free, "at_unix_s": int(local.timestamp())}
        return start_entry(now_s, self.name, self.number, {**facts, **figures})


def jobs_of(question: StartQuestion, clock_s: int) -> tuple[Standing, QueueJobs]:
    """Return the queue's jobs in order of submission, and all jobs, the one asked about last.

    Times are of the wall clock, quantiles are requests. QueueJobs started in this second run. Raises Unanswerable as :meth:`QueueColumns.at`.
    """
    assert isinstance(question.queue, QueueColumns)
    job, standing = question.job, question.queue.at(clock_s)
    user, queue = (codes.get(name, len(codes)) for codes, name in zip(standing.codes, (job.user, job.queue), strict=True))
    last = (clock_s - job.waits_s, NOT_YET, NOT_YET, job.procs, job.requested_s, user, queue)
    submit, start, end, procs, requested, users, queues = (
        np.append(column, value) for column, value in zip(standing.jobs[:-1], last, strict=True)
    )
    return standing, QueueJobs(submit, start, end, procs, requested, users, queues, requested[:, None])


def _ranks(jobs: QueueJobs) -> np.ndarray:
    """Return each job's place in order of submission, int64 [jobs]; all but the last of ``jobs`` are in that order."""
    others = len(jobs.submit) - 1
    place = int(np.searchsorted(jobs.submit[:-1], jobs.submit[-1], "right"))
    return np.concatenate((np.arange(place), np.arange(place, others) + 1, [place]))


def _why(jobs: QueueJobs, rank: np.ndarray, procs: int) -> dict[str, Any]:
    """Return the fields of :class:`Why` for the last of ``jobs``."""
    ahead, runs = np.flatnonzero((jobs.start == NOT_YET) & (rank < rank[-1])), jobs.start < NOT_YET
    free = max(procs - int(jobs.procs[runs].sum()), 0)
    hours = float((jobs.procs[ahead].astype(float) * jobs.requested[ahead]).sum() / 3600)
    in_queue = int((jobs.queue[ahead] == jobs.queue[-1]).sum())
    why = class_by_queue(len(ahead), int(jobs.procs[-1]), free)
    return {"why": why, "ahead": len(ahead), "ahead_hours": round(hours, 1), "ahead_in_queue": in_queue, "free": free}


def _card(
    waits: Mapping[str, int], times: Mapping[str, str], shares: Mapping[str, float], why: Mapping[str, Any]
) -> dict[str, str]:
    """Return an answer in a few lines, by their names, as a portal's card of the job shows them."""
    if waits["0.5"] < _SOON_S:
        lines = {"Expected start": "now"}
    else:
        lines = {"Expected start": times["0.5"][:-3], "With 80 %": f"between {times['0.1'][:-3]} and {times['0.9'][:-3]}"}
        ahead = f"; {why['ahead']:,} ahead of it ask for {why['ahead_hours']:,.0f} processor-hours" if why["ahead"] else ""
        lines["Waits because of"] = f"{why['why']}: {CLASSES[why['why']]}{ahead}"
    return lines | {"Chance to start within 1 h": f"{shares['1h']:.0%}"}


def _standing(line: QueueColumns, clock_s: int) -> Standing:
    users, queues, procs, requested, times, *durations = line
    waits, ran = (np.array([-1 if seconds is None else seconds for seconds in durations_s], np.int64) for durations_s in durations)
    has_time = np.array([time is not None for time in times], bool)
    submit = np.array([0 if time is None else (time - _EPOCH).total_seconds() for time in times]).astype(np.int64)
    for field, why, wrong in (
        ("waits_s", "give either submit_time or waits_s", has_time == (waits >= 0)),
        ("submit_time", "is after now", has_time & (submit > clock_s)),
    ):
        for row in np.flatnonzero(wrong)[:1]:
            raise Unanswerable(f"queue[{row}].{field}: {why}", f"queue[{row}].{field}")
    start = np.where(ran < 0, NOT_YET, clock_s - np.maximum(ran, 1))
    until = np.minimum(start, clock_s)
    submit = np.where(has_time, np.minimum(submit, until), until - waits)
    order = np.argsort(submit, kind="stable")
    users, queues = ([names[row] for row in order.tolist()] for names in (users, queues))
    columns = [np.array(column, np.int64)[order] for column in (submit, start, np.full(len(order), NOT_YET), procs, requested)]
    (user, of_user), (queue, of_queue) = _codes(users), _codes(queues)
    jobs = QueueJobs._make([*columns, user, queue, columns[-1][:, None]])
    return Standing(users, (of_user, of_queue), jobs)


def _codes(names: Sequence[str | None]) -> tuple[np.ndarray, dict[str | None, int]]:
    codes: dict[str | None, int] = {None: -1}
    return np.array([codes.setdefault(name, len(codes)) for name in names], np.int64), codes


async def predicted(runtimes: Loaded, standing: Standing, user: str | None, jobs: QueueJobs) -> QueueJobs:
    """Return ``jobs``, the last one of ``user``, with a model's quantiles of their runtimes."""
    if standing.told_by is not runtimes:
        quantiles = await _quantiles(runtimes, standing.users, standing.jobs)
        standing.jobs, standing.told_by = standing.jobs._replace(quantiles=quantiles), runtimes
    last = QueueJobs._make(column[-1:] for column in jobs)
    return jobs._replace(quantiles=np.concatenate((standing.jobs.quantiles, await _quantiles(runtimes, [user], last))))


async def _quantiles(runtimes: Loaded, users: Sequence[str | None], jobs: QueueJobs) -> np.ndarray:
    keys = list(zip(users, *(column.tolist() for column in (jobs.procs, jobs.requested, jobs.submit)), strict=True))
    quantiles = {key: runtimes.cached[key] for key in keys if key in runtimes.cached}
    new = list(dict.fromkeys(key for key in keys if key not in quantiles))
    for first in range(0, len(new), ROWS):
        if first:
            await asyncio.sleep(0)
        part = new[first : first + ROWS]
        if unknown := [key for key in part if key not in runtimes.cached]:  # another question may have asked meanwhile
            runtimes.cached.update(zip(unknown, runtimes.quantiles(unknown), strict=True))
        quantiles.update((key, runtimes.cached[key]) for key in part)
    if len(runtimes.cached) > REMEMBERED:
        runtimes.cached.clear()
    return np.array([quantiles[key] for key in keys], np.int64).reshape(len(keys), len(OF_RUNTIMES))
