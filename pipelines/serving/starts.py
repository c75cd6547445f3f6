"""When a job starts that is submitted to a queue which a request tells.

An answer is made of the queue's state alone. The model has learned from runtimes predicted at submission: the runtime model of the same trace is
asked for them where it is served too and tells quantiles, else the request stands for all of a job's. They are kept with that version.
"""

import asyncio
from calendar import timegm
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import numpy as np
from pydantic import FailFast, Field

from features import limits
from features.errors import InputError
from models.packed.start_distribution import AS_TOLD, LEVELS
from models.packed.start_predictor import CHANCES, QUANTILES, RECENT, STATE, StartModel, answers
from models.starts.bulk import chances
from models.starts.states import NEVER, Jobs, states
from pipelines.serving.models import ROWS, Loaded, Version
from pipelines.serving.questions import Answering, Given, Text, Unanswerable, WallClock

MOST_QUEUED, REMEMBERED = 20_000, 100_000
"""Max jobs of a queue, and predicted runtimes that are kept."""
Seconds = Annotated[int, Field(ge=0, le=limits.SECONDS)]


class Submitted(Given):
    """A job that is submitted now."""

    user: Text | None = Field(description="null: unknown")
    procs: int = Field(ge=1, le=limits.PROCESSORS)
    requested_s: int = Field(ge=1, le=limits.SECONDS)
    queue: Text | None = None


class Queued(Submitted):
    """A job that runs or waits."""

    submit_time: WallClock | None = None
    waits_s: Seconds | None = Field(None, description="instead of submit_time: how long it has waited, or waited until it started")
    running_s: Seconds | None = Field(None, description="how long it has run; null: it waits")


class StartQuestion(Given):
    """A queue, and a job that is submitted to it."""

    model: Text | None = Field(None, description="which one, where several are served")
    procs: int | None = Field(None, ge=1, le=limits.PROCESSORS, description="processors of the machine; left out: the trace's")
    now: WallClock | None = Field(None, description="the wall clock at the site, without a time zone; left out: now")
    queue: Annotated[list[Queued], Field(max_length=MOST_QUEUED), FailFast()]
    job: Submitted


FIELDS = {*StartQuestion.model_fields, *Queued.model_fields}


class StartAnswer(Answering):
    """When the job starts, by the state of the queue."""

    quantiles: dict[str, int] = Field(description="seconds of waiting by level: 0.5 is the median, which half of such jobs exceed")
    times: dict[str, str] = Field(description="the same on the site's wall clock")
    chances: dict[str, float] = Field(description="to have started after so long")
    snapshot_age_s: int = Field(description="how long before the question the last answers lie that the model is calibrated by")


@dataclass(frozen=True)
class LoadedStarts(Version):
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
            raise InputError(f"version {self.number} of {self.name}: tells quantiles {waits} s")

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

    def answer(self, question: StartQuestion, jobs: Jobs, clock_s: int) -> dict[str, Any]:
        """Answer about the last of ``jobs`` at the second ``clock_s`` of the wall clock."""
        model, at = self.predictor, np.array([clock_s])
        procs = question.procs or model.procs
        if not procs:
            raise Unanswerable("procs is missing, and the model does not know the machine's", "procs")
        if question.job.procs > procs:
            raise Unanswerable(f"job.procs: {question.job.procs:,} are more than the machine's {procs:,}", "job.procs")
        state = states(jobs, np.array([len(jobs.submit) - 1]), at, at, procs)
        if model.method == RECENT:
            found = model.chances(state)
        else:  # as the model answers, by compiled code
            raw = chances(model.trees[STATE], state, state[:, list(model.plans)], None)
            found = model.calibrations.get(STATE, AS_TOLD).apply(raw)
        told = answers(found)
        waits = {repr(level): round(float(told[name][0])) for level, name in zip(LEVELS, QUANTILES, strict=True)}
        times = {level: datetime.fromtimestamp(clock_s + wait, UTC).strftime("%Y-%m-%d %H:%M:%S") for level, wait in waits.items()}
        shares = {name.removeprefix("chance_"): round(float(told[name][0]), 4) for name in CHANCES}
        asked = datetime.fromtimestamp(clock_s, UTC).replace(tzinfo=self._zone).timestamp()
        age = int(asked) - (model.origin_unix_s or 0) - model.at_s
        return {"quantiles": waits, "times": times, "chances": shares, "snapshot_age_s": age}


def jobs_of(question: StartQuestion, clock_s: int) -> tuple[list[str | None], Jobs]:
    """Return users and jobs by submission, the asked one last, in wall-clock seconds.

    A job's quantiles are its request. What started in this second runs. Raises Unanswerable for a job without the time of its submission, or
    with one after ``clock_s``.
    """
    queue = question.queue
    ran = np.array([-1 if each.running_s is None else each.running_s for each in queue], np.int64)
    until = clock_s - np.where(ran < 0, 0, np.maximum(ran, 1))
    submit = until - np.array([each.waits_s or 0 for each in queue], np.int64)
    for row, each in enumerate(queue):
        if each.submit_time is not None:
            submit[row] = min(timegm(each.submit_time.timetuple()), until[row])
            if timegm(each.submit_time.timetuple()) > clock_s:
                raise Unanswerable(f"queue[{row}].submit_time is after now", f"queue[{row}].submit_time")
        if (each.submit_time is None) == (each.waits_s is None):
            raise Unanswerable(f"queue[{row}].waits_s: give either submit_time or waits_s", f"queue[{row}].waits_s")
    order = np.append(np.argsort(submit, kind="stable"), len(queue))
    jobs: list[Submitted] = [*queue, question.job]
    jobs = [jobs[row] for row in order.tolist()]
    start = np.append(np.where(ran < 0, NEVER, until), NEVER)[order]
    procs, requested = (np.array([getattr(each, name) for each in jobs], np.int64) for name in ("procs", "requested_s"))
    users, queues = [each.user for each in jobs], [each.queue for each in jobs]
    coded = _codes(users), _codes(queues)
    return users, Jobs(
        np.append(submit, clock_s)[order], start, np.full(len(jobs), NEVER), procs, requested, *coded, requested[:, None]
    )


def _codes(names: Sequence[str | None]) -> np.ndarray:
    known: dict[str | None, int] = {None: -1}
    return np.array([known.setdefault(name, len(known)) for name in names], np.int64)


async def predicted(runtimes: Loaded, users: Sequence[str | None], jobs: Jobs) -> Jobs:
    """Return ``jobs`` with the quantiles of runtimes that a model told, or tells now, at their submission."""
    keys = list(zip(users, *(each.tolist() for each in (jobs.procs, jobs.requested, jobs.submit)), strict=True))
    found = {key: runtimes.told[key] for key in keys if key in runtimes.told}
    new = list(dict.fromkeys(key for key in keys if key not in found))
    for first in range(0, len(new), ROWS):
        if first:
            await asyncio.sleep(0)
        part = new[first : first + ROWS]
        found.update(zip(part, runtimes.quantiles(part), strict=True))
    if len(runtimes.told) > REMEMBERED:
        runtimes.told.clear()
    runtimes.told.update((key, found[key]) for key in new)
    return jobs._replace(quantiles=np.stack([found[key] for key in keys]))
