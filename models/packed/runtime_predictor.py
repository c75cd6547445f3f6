"""Predict runtimes of submissions from a registered model's settings, histories, method.

Packed unchanged into registered models; needs numpy and pandas with pyarrow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .methods import METHODS, Method
from .settings import SETTINGS, read_settings
from .site_names import HASHED, as_stored
from .snapshot_inputs import History

HISTORY = "history.parquet"
EARLY = "is of 1970 or before: was a Unix number taken for a time? Give the wall clock"
"""Said of such a time where the snapshot is of a later decade."""
_YEAR_S = 365 * 86_400
_YEARS_10_S = 10 * _YEAR_S


def read_method(directory: Path) -> Method:
    """Read a method from the directory that ``packing.assemble`` filled.

    Raises as :class:`RuntimePredictor`.
    """
    settings = read_settings(directory)
    if settings["method"] not in METHODS:
        raise ValueError(f"{directory / SETTINGS}: unknown method {settings['method']!r}; known: {', '.join(METHODS)}")
    return METHODS[settings["method"]].read(directory)


@dataclass(frozen=True)
class Asked:
    """Submissions as arrays, and what is known of them beside the method's answers.

    ``given`` has ``user procs requested_s submit_s local_s`` and what the method looks at, names as they are stored. ``age_s`` int64
    is the submission minus the snapshot, ``known`` bool whether the snapshot lists the user; all are [submissions].
    """

    given: Mapping[str, np.ndarray]
    age_s: np.ndarray
    known: np.ndarray


class RuntimePredictor:
    """One model, loaded from the directory ``packing.assemble`` filled."""

    def __init__(self, directory: Path) -> None:
        """Raises ValueError for an unknown format or method, OSError for a missing file."""
        self.method = read_method(directory)
        settings = read_settings(directory)
        self.hashed_with: str = settings.get(HASHED, "")
        self._at_s: int = settings["snapshot_s"]
        self._dated = settings["origin_unix_s"] is not None
        self.origin_s: int = settings["origin_unix_s"] or 0
        self._zone: str | None = settings["timezone"] if settings["origin_unix_s"] is not None else None
        self._history = History.from_frame(pd.read_parquet(directory / HISTORY))

    def predict(self, submissions: pd.DataFrame) -> pd.DataFrame:
        """Answer ``submissions``, a row each.

        Columns: the method's answers (``predicted_s`` first; seconds, 1..request), ``snapshot_age_s`` (submission minus snapshot) and
        ``user_known`` (does the snapshot list the user?).

        ``submissions``: ``user`` (text, null where it is unknown), ``procs`` and ``requested_s`` (whole numbers from 1), ``submit_time`` (the
        site's wall clock, no time zone), and, where the method looks at them, ``group`` and ``executable`` (text, may be null or left out). A
        user that is null or that the snapshot does not list has no history. Raises ValueError naming row and column of what makes no sense.
        """
        _check(submissions, self.method.optional)
        local = submissions["submit_time"].to_numpy("datetime64[s]").astype(np.int64)
        _refuse(local < self.earliest_local_s, submissions, "submit_time", EARLY)
        texts = {name: submissions[name].to_numpy(object) for name in ("user", *self.method.optional) if name in submissions}
        numbers = {name: submissions[name].to_numpy(np.float64) for name in ("procs", "requested_s")}
        asked = self.asked({**texts, **numbers, "local_s": local})
        answers = self.method.answer(self._history.columns(asked.given), asked.given)
        return pd.DataFrame({**answers, "snapshot_age_s": asked.age_s, "user_known": asked.known}, index=submissions.index)

    def asked(self, given: Mapping[str, Any]) -> Asked:
        """Return checked submissions as the method wants them.

        ``given`` are arrays [submissions]: ``user`` and optional names (text, else unknown), ``procs``, ``requested_s`` and ``local_s``
        (the site's wall clock, in seconds since 1970-01-01 00:00). ValueError for names that are stored with another key.
        """
        submit = self._unix_s(given["local_s"]) - self.origin_s
        asked = {**given, "submit_s": submit}
        if self.hashed_with:
            for name in ("user", "group", "executable"):
                if name in given:
                    asked[name] = np.array(as_stored(given[name], self.hashed_with, "the model"), object)
        return Asked(asked, submit - self._at_s, self._history.lists(asked["user"]))

    def distribution(self, asked: Asked) -> tuple[np.ndarray, np.ndarray]:
        """Return ``predicted_s`` and, [submissions, ``method.levels``], quantiles: seconds."""
        return self.method.distribution(self._history.columns(asked.given), asked.given)

    @property
    def earliest_local_s(self) -> int:
        """Return the first wall clock that is believed, in seconds since 1970-01-01 00:00."""
        return _YEAR_S if self._at_s + self.origin_s > _YEARS_10_S else -(2**62)

    @property
    def snapshot_unix_s(self) -> int | None:
        """Return the Unix time of the snapshot; None where the trace has no dates."""
        return self._at_s + self.origin_s if self._dated else None

    @property
    def timezone(self) -> str:
        """Return the zone of the site's wall clock, UTC where it is not known."""
        return self._zone or "UTC"

    def _unix_s(self, local: np.ndarray) -> np.ndarray:
        """Return Unix seconds of the wall clock.

        Of the hour that comes twice in autumn the first, of the one skipped in spring its end.
        """
        if self._zone in (None, "UTC", "Etc/UTC"):
            return local
        clock = pd.DatetimeIndex(local.astype("datetime64[s]"))
        unix = clock.tz_localize(self._zone, ambiguous=np.ones(len(clock), bool), nonexistent="shift_forward").tz_convert(None)
        return unix.to_numpy("datetime64[s]").astype(np.int64)


def _check(submissions: pd.DataFrame, optional: tuple[str, ...]) -> None:
    for name in ("user", "procs", "requested_s", "submit_time"):
        if name not in submissions:
            raise ValueError(f"column {name} is missing")
        if name != "user":
            _refuse(submissions[name].isna().to_numpy(bool), submissions, name, "is missing")
    for name in ("user", *(each for each in optional if each in submissions)):
        given = submissions[name]
        text = np.fromiter((isinstance(value, str) for value in given.to_numpy(object)), bool, len(given))
        _refuse(~text & ~given.isna().to_numpy(bool), submissions, name, "is not text")
    for name in ("procs", "requested_s"):
        if not pd.api.types.is_integer_dtype(submissions[name].dtype):
            raise ValueError(f"column {name} holds {submissions[name].dtype}, not whole numbers")
        _refuse(submissions[name].to_numpy(np.int64) < 1, submissions, name, "is below 1")
    if submissions["submit_time"].dtype.kind != "M" or getattr(submissions["submit_time"].dtype, "tz", None) is not None:
        raise ValueError(
            f"column submit_time holds {submissions['submit_time'].dtype}, not timestamps of the site's wall clock without time zone"
        )


def _refuse(wrong: np.ndarray, table: pd.DataFrame, column: str, why: str) -> None:
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"row {row} (counted from 0), column {column}: {table[column].iloc[row]} {why} ({int(wrong.sum())} such rows)"
        )
