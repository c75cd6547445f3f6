"""Requests and answers about the start of a job that is submitted to a queue.

An answer depends only on the queue's state. The model has learned from runtimes predicted at submission. If the runtime
model of the same trace is served, too, and has quantiles, these are used, and cached with its version; else each
quantile is the request.
"""

import asyncio
from calendar import timegm
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
from pydantic import BaseModel, ConfigDict, FailFast, Field

from features import limits
from features.errors import InputError
from models.packed.queue_state import NOT_YET, QueueJobs, by_priority, states
from models.packed.site_names import hashed, site_key
from models.packed.start_distribution import LEVELS
from models.packed.start_predictor import CHANCES, QUANTILES, RECENT, STATE, StartModel, answers
from models.packed.submitted import stand_aside
from models.runtime.distribution import LEVELS as OF_RUNTIMES
from models.starts.bulk import chances
from pipelines.serving.asked_log import start_entry
from pipelines.serving.loaded import ROWS, Answering, Given, Loaded, LoadedVersion, Text, Unanswerable, WallClock
from sim.starts.reasons import CLASSES, class_by_queue, class_of

MOST_QUEUED, REMEMBERED = 20_000, 100_000
"""Max numbers of jobs of a queue, and of cached predictions of runtimes."""
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
    account: Text | None = None
    priority: float | None = Field(
        None,
        allow_inf_nan=False,
        description="the site's, as squeue's PriorityLong: waiting jobs of a higher one are ahead, then those submitted before; "
        "a job without one is behind those with one",
    )
    reason: Text | None = Field(
        None, description="squeue's Reason of a waiting job: one that is held, or waits for others or for a time, is ahead of none"
    )


class QuestionedJob(Submitted):
    """The job that is asked about."""

    waits_s: Seconds = Field(0, description="how long it has waited: jobs of its priority that were submitted since are behind it")


class Queued(Submitted):
    """A job that runs or waits."""

    submit_time: WallClock | None = None
    waits_s: Seconds | None = Field(None, description="instead of submit_time: how long it has waited, or waited until it started")
    running_s: Seconds | None = Field(None, description="how long it has run; null: it waits")


class StartQuestion(Given):
    """A queue, and a job that is submitted to it, or waits in it and is left out of ``queue``."""

    model: Text | None = Field(None, description="which one, where several are served")
    procs: int | None = Field(None, ge=1, le=limits.PROCESSORS, description="processors of the machine; left out: the trace's")
    now: WallClock | None = Field(None, description="the wall clock at the site, without a time zone; left out: now")
    queue: Annotated[list[Queued], Field(max_length=MOST_QUEUED), FailFast()]
    job: QuestionedJob
    job_id: int | Text | None = Field(None, description="kept in the log, so that the answer can be judged")


FIELDS = {*StartQuestion.model_fields, *Queued.model_fields}


class QuestionedQueue(NamedTuple):
    """The jobs of a queue at a second, in order of submission, and last the one asked about.

    ``jobs`` have times of the wall clock, and requests as quantiles. ``users`` are theirs. ``rank`` int64 [jobs] is that of
    :func:`models.packed.queue_state.by_priority`, and ``aside`` bool [jobs] tells which keep no other job from starting.
    """

    jobs: QueueJobs
    users: list[str | None]
    rank: np.ndarray
    aside: np.ndarray


class Why(BaseModel):
    """Why a job waits.

    Jobs of a higher priority are ahead or, where no job has one, those that have waited longer.
    """

    why: str = Field(
        description="by the job's reason, if it has one: " + ", ".join(CLASSES) + "; otherwise priority (jobs ahead come first), "
        "resources (too few processors are free) or next (nothing)"
    )
    ahead: int = Field(description="jobs that wait ahead of it")
    ahead_hours: float = Field(description="processor-hours that they ask for")
    ahead_in_queue: int = Field(description="those of its own queue")
    ahead_in_account: int = Field(description="those of its own account")
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
        waits = list(self.answer(question, queue_of(question, clock_s), clock_s)["quantiles"].values())
        if waits != sorted(waits) or waits[0] < 0:
            raise InputError(f"version {self.number} of {self.name}: predicts quantiles {waits} s, which must ascend from 0")

    def clock_s(self, question: StartQuestion, now_s: float) -> int:
        """Return the site's wall clock at the question, seconds since 1970-01-01 00:00."""
        if question.now is not None:
            return timegm(question.now.timetuple())
        if self.snapshot_unix_s is None:
            raise Unanswerable("now is missing, and the model's trace has no dates: give the wall clock", "now")
        return timegm(datetime.fromtimestamp(now_s, self._zone).timetuple())

    @property
    def _zone(self) -> ZoneInfo:
        return ZoneInfo(self.predictor.timezone or "UTC")

    def answer(self, question: StartQuestion, queue: QuestionedQueue, clock_s: int) -> dict[str, Any]:
        """Answer about the last job of ``queue`` at the second ``clock_s`` of the wall clock."""
        model = self.predictor
        procs = question.procs or model.procs
        if not procs:
            raise Unanswerable("procs is missing, and the model does not know the machine's", "procs")
        if question.job.procs > procs:
            raise Unanswerable(f"job.procs: {question.job.procs:,} are more than the machine's {procs:,}", "job.procs")
        figures = self._figures(queue, clock_s, procs)
        waits = {repr(level): round(float(figures[name][0])) for level, name in zip(LEVELS, QUANTILES, strict=True)}
        times = {level: datetime.fromtimestamp(clock_s + wait, UTC).strftime("%Y-%m-%d %H:%M:%S") for level, wait in waits.items()}
        shares = {name.removeprefix("chance_"): round(float(figures[name][0]), 4) for name in CHANCES}
        unix_s = datetime.fromtimestamp(clock_s, UTC).replace(tzinfo=self._zone).timestamp()
        age = int(unix_s) - (model.origin_unix_s or 0) - model.at_s
        why = _why(queue, question.job, procs)
        answer = {"quantiles": waits, "times": times, "chances": shares, "reason": why, "card": _card(waits, times, shares, why)}
        return answer | {"snapshot_age_s": age}

    def _figures(self, queue: QuestionedQueue, clock_s: int, procs: int) -> dict[str, np.ndarray]:
        """Return quantiles of the last job's wait, in seconds, and chances, by name."""
        model, at = self.predictor, np.array([clock_s])
        state = states(queue.jobs, np.array([len(queue.users) - 1]), at, at, procs, queue.rank)
        if model.method == RECENT:
            return answers(model.chances(state))
        # as the model answers, by compiled code
        raw = chances(model.trees[STATE], state, state[:, list(model.plans)], None)
        return answers(model.calibrated(STATE, raw))

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


def queue_of(question: StartQuestion, clock_s: int) -> QuestionedQueue:
    """Return the jobs of a question at a second of the wall clock.

    Raises Unanswerable for a job without the time of its submission, or with one after that second.
    """
    rows = [*question.queue, question.job]
    columns: dict[str, list[Any]] = {name: [getattr(job, name, None) for job in rows] for name in Queued.model_fields}
    submit, start = _times(columns, clock_s)
    order = np.append(np.argsort(submit[:-1], kind="stable"), len(submit) - 1)

    procs, requested = (np.array(columns[name], np.int64)[order] for name in ("procs", "requested_s"))
    user, queue, account = (_codes(columns[name])[order] for name in ("user", "queue", "account"))
    not_yet = np.full(len(order), NOT_YET)
    jobs = QueueJobs(submit[order], start[order], not_yet, procs, requested, user, queue, account, requested[:, None])

    priority, aside = np.array(columns["priority"], np.float64)[order], stand_aside(columns["reason"])[order]
    users = [columns["user"][row] for row in order.tolist()]
    return QuestionedQueue(jobs, users, by_priority(priority, jobs.submit, aside), aside)


def _times(columns: Mapping[str, list[Any]], clock_s: int) -> tuple[np.ndarray, np.ndarray]:
    """Return submissions and starts, seconds of the wall clock, int64 [jobs]; a job that started in this second
    runs."""
    clock = [None if time is None else timegm(time.timetuple()) for time in columns["submit_time"]]
    submit, waits, ran = (
        np.array([-1 if seconds is None else seconds for seconds in values], np.int64)
        for values in (clock, columns["waits_s"], columns["running_s"])
    )
    has_time = submit >= 0
    for field, why, wrong in (
        ("waits_s", "give either submit_time or waits_s", has_time == (waits >= 0)),
        ("submit_time", "is after now", submit > clock_s),
    ):
        for row in np.flatnonzero(wrong)[:1]:
            raise Unanswerable(f"queue[{row}].{field}: {why}", f"queue[{row}].{field}")
    start = np.where(ran < 0, NOT_YET, clock_s - np.maximum(ran, 1))
    until = np.minimum(start, clock_s)
    return np.where(has_time, np.minimum(submit, until), until - waits), start


def _codes(names: Sequence[str | None]) -> np.ndarray:
    codes = {name: code for code, name in enumerate(dict.fromkeys(names))} | {None: -1}
    return np.array([codes[name] for name in names], np.int64)


def _why(queue: QuestionedQueue, job: QuestionedJob, procs: int) -> dict[str, Any]:
    """Return the fields of :class:`Why` for the last job of ``queue``."""
    jobs, rank = queue.jobs, queue.rank
    ahead = np.flatnonzero((jobs.start == NOT_YET) & (rank < rank[-1]) & ~queue.aside)
    free = max(procs - int(jobs.procs[jobs.start < NOT_YET].sum()), 0)
    hours = float((jobs.procs[ahead].astype(float) * jobs.requested[ahead]).sum() / 3600)
    in_queue, in_account = (int((column[ahead] == column[-1]).sum()) for column in (jobs.queue, jobs.account))
    why = class_of(job.reason or "") or class_by_queue(len(ahead), job.procs, free)
    return {
        "why": why,
        "ahead": len(ahead),
        "ahead_hours": round(hours, 1),
        "ahead_in_queue": in_queue,
        "ahead_in_account": in_account,
        "free": free,
    }


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


async def predicted(runtimes: Loaded, users: Sequence[str | None], jobs: QueueJobs) -> QueueJobs:
    """Return ``jobs``, which are those of ``users``, with a model's quantiles of their runtimes."""
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
    rows = np.concatenate([quantiles[key] for key in keys])
    return jobs._replace(quantiles=rows.reshape(len(keys), len(OF_RUNTIMES)))
