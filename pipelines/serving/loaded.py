"""Questions about runtimes as pydantic models, and loaded versions that answer them.

A request asks about one job; ``queuecast predict`` and the registered model itself take tables.
"""

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
    Field,
    NaiveDatetime,
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

MOST_LEVELS, LONGEST_TEXT = 100, 1_000
"""Max numbers of levels of quantiles, and of characters of a text."""
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


class Question(Given):
    """A job that is submitted, or has run for ``elapsed_s``."""

    model: Text | None = Field(None, description="which one, where several are served")
    quantiles: list[Annotated[float, Field(gt=0, lt=1)]] | None = Field(
        None, max_length=MOST_LEVELS, description="the share of such jobs that run at most as long"
    )
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


FIELDS = {*Question.model_fields}


class Answering(BaseModel):
    """The version that answers."""

    model: str
    alias: str
    version: str
    stale: bool | None = Field(description="whether the snapshot is too old by the clock; null without dates")


class RuntimeAnswer(Answering):
    """How long the job runs, in seconds."""

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


class Refusal(BaseModel):
    """Why a request is not answered."""

    error: str = Field(description="one line")
    field: str | None = Field(None, description="such as queue[0].procs")


ROWS = 32
"""Max number of queued jobs that are predicted at a time, so that other requests come in between."""
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
        job = {"user": None, "procs": 1, "requested_s": request, "submit_time": at.isoformat(), "quantiles": [0.5]}
        answer, _ = self.answer(Question.model_validate(job), now_s)
        if not 1 <= answer["predicted_s"] <= request:
            raise InputError(
                f"version {self.number} of {self.name}: predicts {answer['predicted_s']} s for a request of {request} s"
            )

    def answer(self, question: Question, now_s: float) -> tuple[dict[str, Any], Mapping[str, np.ndarray]]:
        """Answer as the registered model does; a job without a time is submitted at ``now_s``.

        Returns the answer, and the submission as the model stores it. Raises Unanswerable for a time that the model
        cannot place.
        """
        predictor, field = self.predictor, "submit_time"
        if question.submit_time is None:
            if predictor.snapshot_unix_s is None:
                raise Unanswerable(f"{field} is missing, and the model's trace has no dates: give its time", field)
            unix_s = float(int(now_s))
            local_s = timegm(datetime.fromtimestamp(now_s, ZoneInfo(predictor.timezone)).timetuple())
        else:
            unix_s, local_s = np.nan, timegm(question.submit_time.timetuple())
            if local_s < predictor.earliest_local_s:
                raise Unanswerable(f"{field} {EARLY}", field)

        columns = {name: np.array([getattr(question, name) or None], object) for name in TEXTS}
        columns |= {name: np.array([getattr(question, name)], np.float64) for name in ("procs", "requested_s")}
        submitted = predictor.submissions({**columns, "local_s": np.array([local_s], np.int64)}, np.array([unix_s]))
        levels, elapsed_s = question.quantiles or (), np.array([question.elapsed_s], np.float64)
        point, quantiles = predictor.predict_quantiles(submitted, elapsed_s, levels)

        answer: dict[str, Any] = {"predicted_s": _whole(point[0])}
        if levels:
            by_level = {repr(level): _whole(seconds) for level, seconds in zip(levels, quantiles[0], strict=False)}
            answer["quantiles"] = by_level or None  # a model of points has none
        answer |= {"snapshot_age_s": int(submitted.age_s[0]), "user_known": bool(submitted.user_known[0])}
        return answer, submitted.columns

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

    def entry(
        self, question: Question, stored: Mapping[str, np.ndarray], answer: Mapping[str, Any], now_s: float
    ) -> dict[str, Any]:
        """Return the entry of a log for what :meth:`answer` returned.

        Names are as the model stores them, times are Unix times.
        """
        head = {"asked_s": round(now_s, 3), "model": self.name, "version": self.number}
        job = {name: getattr(question, name) for name in ("procs", "requested_s", "elapsed_s")}
        submit_s = int(stored["submit_s"][0]) + self.predictor.origin_s
        named = {**{name: stored[name][0] for name in TEXTS}, "job_id": question.job_id or None}
        return {**head, **named, **job, "submit_unix_s": submit_s, **answer}


def _whole(seconds: float) -> float | int:
    seconds = float(seconds)
    return int(seconds) if seconds == int(seconds) else seconds
