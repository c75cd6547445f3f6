"""Requests and answers as pydantic models."""

import re
from calendar import timegm
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

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
