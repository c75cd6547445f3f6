"""Questions about runtimes as pydantic models, and loaded versions that answer them."""

import re
from abc import ABC, abstractmethod
from calendar import timegm
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import numpy as np
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    FailFast,
    Field,
    NaiveDatetime,
    Tag,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError
from starlette.exceptions import HTTPException

from features import limits
from features.errors import InputError
from models.packed.runtime_predictor import RuntimePredictor
from models.packed.submitted import EARLY
from models.runtime.distribution import LEVELS, whole_quantiles

MOST_JOBS, MOST_LEVELS, LONGEST_TEXT = 10_000, 100, 1_000
"""Max numbers of jobs of a request, of levels of quantiles, and of characters of a text."""
TEXTS = ("user", "group", "executable")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


class Unanswerable(HTTPException):
    """A request that cannot be answered: its HTTP status, the field, and one line about it."""

    def __init__(self, why: str, field: str = "", status: int = 422) -> None:
        super().__init__(status, why)
        self.field = field


def _written(value: Any) -> Any:
    """Refuse numbers, which pydantic would take for Unix times."""
    if not isinstance(value, str) or not _DATE.match(value):
        raise PydanticCustomError("wall_clock", "is not a time such as 2026-03-01 09:00:00")
    return value


Text = Annotated[str, Field(max_length=LONGEST_TEXT)]
WallClock = Annotated[
    NaiveDatetime, Field(strict=False, ge=datetime(1970, 1, 1), lt=datetime(2262, 1, 1)), BeforeValidator(_written)
]


class Given(BaseModel):
    """Part of a request: strictly typed, without unknown fields."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class AskedJob(Given):
    """A job that is submitted, or has run for ``elapsed_s``."""

    user: Text | None = Field(description="null: unknown")
    procs: int = Field(ge=1, le=limits.PROCESSORS)
    requested_s: int = Field(ge=1, le=limits.SECONDS)
    group: Text | None = None
    executable: Text | None = None
    elapsed_s: int = Field(0, ge=0, le=limits.SECONDS, description="the job has run for so long, and still runs")
    submit_time: WallClock | None = Field(
        None, description="the wall clock at the site, without a time zone; left out: now", examples=["2026-03-01 09:00:00"]
    )
    job_id: int | Text | None = Field(None, description="kept in the log, so that the answer can be judged")

    @field_validator("elapsed_s")
    @classmethod
    def _still_runs(cls, elapsed_s: int, info: ValidationInfo) -> int:
        if elapsed_s > info.data.get("requested_s", elapsed_s):
            raise PydanticCustomError("elapsed_s", "is more than requested_s, at which the job is ended")
        return elapsed_s

    @property
    def local_s(self) -> int | None:
        """Return the wall clock at submission, seconds since 1970-01-01 00:00; None: now."""
        return None if self.submit_time is None else timegm(self.submit_time.timetuple())


class _Request(Given):
    model: Text | None = Field(None, description="which one, where several are served")
    quantiles: list[Annotated[float, Field(gt=0, lt=1)]] | None = Field(
        None, max_length=MOST_LEVELS, description="the share of such jobs that run at most as long"
    )


class OneJob(_Request, AskedJob):
    """A question about one job."""

    @property
    def jobs(self) -> Sequence[AskedJob]:
        return [self]


class ManyJobs(_Request):
    """A question about a list of jobs."""

    jobs: Annotated[list[AskedJob], Field(min_length=1, max_length=MOST_JOBS), FailFast()]


def _form(body: Any) -> str | None:
    return ("many" if "jobs" in body else "one") if isinstance(body, dict) else None


def _listed(body: Any) -> Any:
    return {"jobs": body} if isinstance(body, list) else body


Question = Annotated[
    Annotated[OneJob, Tag("one")] | Annotated[ManyJobs, Tag("many")],
    Discriminator(_form),
    BeforeValidator(_listed, json_schema_input_type=OneJob | ManyJobs | list[AskedJob]),
]
FIELDS = {*OneJob.model_fields, *ManyJobs.model_fields}


class Answer(BaseModel):
    """The answer for a job, in seconds."""

    predicted_s: float = Field(
        description="in 1..requested_s; of a model with quantiles the time whose ratio to the runtime is expected to be closest to 1. "
        'That is no median: quantiles["0.5"] is, and may lie far from it where many jobs end early and many run to their request'
    )
    quantiles: dict[str, float] | None = Field(
        None,
        description="runtimes by level, if asked for: 0.5 is the median, which half of such jobs exceed; null of a model without",
    )
    snapshot_age_s: int = Field(description="from the snapshot of users' histories to the submission")
    user_known: bool = Field(description="whether the snapshot lists the user")


class Answering(BaseModel):
    """The version that answers."""

    model: str
    alias: str
    version: str
    stale: bool | None = Field(description="whether the snapshot is too old by the clock; null without dates")


class OneAnswer(Answer, Answering):
    """The answer for one job."""


class ManyAnswers(Answering):
    """The answers for a list of jobs, in its order."""

    answers: list[Answer]


class Refusal(BaseModel):
    """Why a request is not answered."""

    error: str = Field(description="one line")
    field: str | None = Field(None, description="such as jobs[0].procs")


ROWS = 32
"""Max number of jobs that are answered at a time, so that other requests come in between."""
Queued = tuple[str | None, int, int, int]
"""A queued job: user, processors, request, wall clock at submission."""
_KINDS = (object, np.float64, np.float64, np.int64)


@dataclass(frozen=True)
class LoadedVersion(ABC):
    """A loaded version of a model, which answers."""

    name: str
    alias: str
    number: str

    @property
    @abstractmethod
    def method(self) -> str:
        """Return the name of its method."""

    @property
    @abstractmethod
    def snapshot_unix_s(self) -> int | None:
        """Return the Unix time of its snapshot; None if the trace has no dates."""

    @abstractmethod
    def check(self, now_s: float) -> None:
        """Ask a new version once, which also prepares it.

        Raises InputError if the answer is not plausible.
        """

    def head(self, now_s: float, stale_after_s: float) -> dict[str, Any]:
        """Return the fields on the version that every answer has."""
        return {"model": self.name, "alias": self.alias, "version": self.number, "stale": self.stale(now_s, stale_after_s)}

    def stale(self, now_s: float, after_s: float) -> bool | None:
        """Tell whether the snapshot is older than ``after_s``; None if it has no date."""
        return None if self.snapshot_unix_s is None else now_s - self.snapshot_unix_s > after_s


@dataclass(frozen=True)
class Loaded(LoadedVersion):
    """A version of a runtime model; ``cached`` has its quantiles of queued jobs."""

    predictor: RuntimePredictor
    cached: dict[Queued, np.ndarray] = field(default_factory=dict, compare=False)

    @property
    def method(self) -> str:
        return self.predictor.method.name

    @property
    def snapshot_unix_s(self) -> int | None:
        return self.predictor.snapshot_unix_s

    def check(self, now_s: float) -> None:
        taken_s, request = self.snapshot_unix_s, 3600
        at = datetime.fromtimestamp(now_s if taken_s is None else taken_s, UTC).replace(tzinfo=None)
        job = AskedJob.model_validate({"user": None, "procs": 1, "requested_s": request, "submit_time": at.isoformat()})
        (answer,), _ = self.answer([job], (0.5,), now_s)
        if not 1 <= answer["predicted_s"] <= request:
            raise InputError(
                f"version {self.number} of {self.name}: predicts {answer['predicted_s']} s for a request of {request} s"
            )

    def check_times(self, jobs: Sequence[AskedJob], alone: bool) -> None:
        """Raise Unanswerable for the first job whose time the model cannot place."""
        dated = self.predictor.snapshot_unix_s is not None
        for row, job in enumerate(jobs):
            field = "submit_time" if alone else f"jobs[{row}].submit_time"
            local_s = job.local_s
            if local_s is None and not dated:
                raise Unanswerable(f"{field} is missing, and the model's trace has no dates: give its time", field)
            if local_s is not None and local_s < self.predictor.earliest_local_s:
                raise Unanswerable(f"{field} {EARLY}", field)

    def answer(
        self, jobs: Sequence[AskedJob], levels: Sequence[float], now_s: float
    ) -> tuple[list[dict[str, Any]], Mapping[str, np.ndarray]]:
        """Answer as the registered model does; jobs without a time are submitted at ``now_s``.

        Answers also have quantiles at ``levels``, if any, and heed how long a job has run. Returns the answers, and the
        submissions as the model stores them.
        """
        predictor = self.predictor
        clock = timegm(datetime.fromtimestamp(now_s, ZoneInfo(predictor.timezone)).timetuple())
        local_s = [clock if (at := job.local_s) is None else at for job in jobs]
        texts = {name: np.array([getattr(job, name) or None for job in jobs], object) for name in TEXTS}
        numbers = {name: np.array([getattr(job, name) for job in jobs], np.float64) for name in ("procs", "requested_s")}
        unix_s = np.array([int(now_s) if job.local_s is None else np.nan for job in jobs])
        submitted = predictor.submissions({**texts, **numbers, "local_s": np.array(local_s, np.int64)}, unix_s)
        elapsed_s, answers = np.array([job.elapsed_s for job in jobs], np.float64), []
        point, quantiles = predictor.predict_quantiles(submitted, elapsed_s, levels)
        for row, seconds in enumerate(point.tolist()):
            answer: dict[str, Any] = {"predicted_s": _whole(seconds)}
            if levels:
                row_quantiles_s = quantiles[row].tolist()
                answer["quantiles"] = (
                    {repr(level): _whole(seconds) for level, seconds in zip(levels, row_quantiles_s, strict=True)}
                    if row_quantiles_s
                    else None
                )
            answer |= {"snapshot_age_s": int(submitted.age_s[row]), "user_known": bool(submitted.user_known[row])}
            answers.append(answer)
        return answers, submitted.columns

    def quantiles(self, jobs: Sequence[Queued]) -> np.ndarray:
        """Return quantiles of the jobs' runtimes at their submission, int64 [jobs, levels].

        The levels are ``LEVELS``, those of simulations.
        """
        user, procs, requested, local_s = (
            np.array(column, kind) for column, kind in zip(zip(*jobs, strict=True), _KINDS, strict=True)
        )
        unknown = np.full(len(jobs), None, object)
        texts = dict.fromkeys(TEXTS, unknown) | {"user": user}
        submitted = self.predictor.submissions({**texts, "procs": procs, "requested_s": requested, "local_s": local_s})
        _, quantiles_s = self.predictor.predict_quantiles(submitted, np.zeros(len(jobs)), LEVELS.tolist())
        return whole_quantiles(quantiles_s, requested)

    def entries(
        self, jobs: Sequence[AskedJob], stored: Mapping[str, np.ndarray], answers: Sequence[Mapping[str, Any]], now_s: float
    ) -> list[dict[str, Any]]:
        """Return the entries of a log for what :meth:`answer` returned.

        Names are as the model stores them, times are Unix times.
        """
        head = {"asked_s": round(now_s, 3), "model": self.name, "version": self.number}
        submit_s, entries = (stored["submit_s"].astype(int) + self.predictor.origin_s).tolist(), []
        for row, (job, answer) in enumerate(zip(jobs, answers, strict=True)):
            texts = {name: stored[name][row] for name in TEXTS}
            question = {
                "procs": job.procs,
                "requested_s": job.requested_s,
                "elapsed_s": job.elapsed_s,
                "submit_unix_s": submit_s[row],
            }
            entries.append({**head, **texts, **question, "job_id": None if job.job_id == "" else job.job_id, **answer})
        return entries


def _whole(seconds: float) -> float | int:
    return int(seconds) if seconds == int(seconds) else seconds
