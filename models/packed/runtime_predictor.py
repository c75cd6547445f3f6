"""Predict runtimes of submissions from a registered model's settings, histories, method.

Packed unchanged into registered models; needs numpy and pandas with pyarrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .methods import LEVELS, METHODS, PREDICTED, Method, conditional
from .settings import SETTINGS, read_settings
from .site_names import HASHED, as_stored
from .snapshot import UserSnapshot
from .submitted import EARLY, as_unix_s, columns, earliest_clock_s, refuse


def read_method(directory: Path) -> Method:
    """Read a method from a directory that ``packing.assemble`` filled.

    Raises the errors of :class:`RuntimePredictor`.
    """
    settings = read_settings(directory)
    if settings["method"] not in METHODS:
        raise ValueError(f"{directory / SETTINGS}: unknown method {settings['method']!r}; known: {', '.join(METHODS)}")
    return METHODS[settings["method"]].read(directory)


@dataclass(frozen=True)
class Submissions:
    """Submissions as arrays, with the answers that do not come from the method.

    ``columns`` has ``user procs requested_s submit_s local_s`` and the method's optional columns, with names as stored.
    ``age_s`` int64 is the submission minus the snapshot, ``user_known`` bool whether the snapshot lists the user; all
    are [submissions].
    """

    columns: Mapping[str, np.ndarray]
    age_s: np.ndarray
    user_known: np.ndarray


class RuntimePredictor:
    """One model, loaded from a directory that ``packing.assemble`` filled."""

    def __init__(self, directory: Path) -> None:
        """Raises ValueError for an unknown format or method, OSError for a missing file."""
        self.method = read_method(directory)
        settings = read_settings(directory)
        self.hashed_with: str = settings.get(HASHED, "")
        self._at_s: int = settings["snapshot_s"]
        self._dated = settings["origin_unix_s"] is not None
        self.origin_s: int = settings["origin_unix_s"] or 0
        self._zone: str | None = settings["timezone"] if settings["origin_unix_s"] is not None else None
        self.snapshot = UserSnapshot.read(directory, self._at_s)

    def predict(self, submissions: pd.DataFrame, quantiles: Sequence[float] = ()) -> pd.DataFrame:
        """Answer ``submissions``, one row each.

        Columns: the method's answers (``predicted_s`` first; seconds, 1..request), ``quantile_<level>_s`` for each
        level of ``quantiles``, ``snapshot_age_s`` (submission minus snapshot) and ``user_known`` (whether the snapshot
        lists the user). ``submissions`` have the columns of ``submitted.py``. A user that is null or not in the
        snapshot has no history. Raises ValueError, naming row and column, for an invalid value.
        """
        snapshot = pd.Timestamp(self._at_s + self.origin_s, unit="s", tz="UTC")
        arrays = columns(submissions, self.method.optional, snapshot.tz_convert(self.timezone).tz_localize(None))
        refuse(arrays["local_s"] < self.earliest_local_s, submissions, "submit_time", EARLY)
        elapsed_s = arrays.pop("elapsed_s")
        checked = self.submissions(arrays)
        answers = self.method.predict(self.snapshot.features(checked.columns))
        if (late := elapsed_s > 0).any() or len(quantiles):
            named = {name: level for name, level in LEVELS.items() if name in answers}
            point, quantiles_s = self.predict_quantiles(checked, elapsed_s, (*named.values(), *quantiles))
            if len(quantiles) and not self.method.levels:
                raise ValueError(f"quantiles: the method {self.method.name} predicts none")
            by_name = dict(zip((*named, *(f"quantile_{level!r}_s" for level in quantiles)), quantiles_s.T, strict=True))
            later = {PREDICTED: point, **{name: by_name.pop(name) for name in named}}
            answers = {name: np.where(late, later[name], answer) for name, answer in answers.items()} | by_name
        return pd.DataFrame({**answers, "snapshot_age_s": checked.age_s, "user_known": checked.user_known}, index=submissions.index)

    def predict_quantiles(
        self, submissions: Submissions, elapsed_s: np.ndarray, levels: Sequence[float]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return ``predicted_s`` and quantiles of jobs that have run for ``elapsed_s``.

        The prediction is that at submission until the job has outlived it; then it is the median of what is left or,
        without quantiles, the request. Quantiles are [jobs, levels]; a method without has none. ValueError for a level
        outside (0, 1).
        """
        if not all(0 < level < 1 for level in levels):
            raise ValueError(f"quantiles: {', '.join(map(str, levels))} are not all between 0 and 1")
        point, own = self.method.predict_quantiles(self.snapshot.features(submissions.columns))
        own_levels, request_s, point = self.method.levels, submissions.columns["requested_s"], point.copy()
        late = np.flatnonzero((elapsed_s > 0) & (elapsed_s >= point))
        if not own_levels:
            point[late] = request_s[late]
            return point, np.empty((len(point), 0))
        point[late] = conditional(own_levels, own[late], request_s[late], elapsed_s[late], (0.5,))[:, 0]
        return point, conditional(own_levels, own, request_s, elapsed_s, levels)

    def submissions(self, arrays: Mapping[str, Any], unix_s: np.ndarray | None = None) -> Submissions:
        """Return checked submissions in the form that the method reads.

        ``arrays`` are arrays [submissions]: ``user`` and optional names (text, else unknown), ``procs``,
        ``requested_s`` and ``local_s`` (the site's wall clock, seconds since 1970-01-01 00:00). ``unix_s`` float64
        [submissions] are Unix times of submission, NaN where only the clock is known. ValueError for names stored with
        another key.
        """
        submit = as_unix_s(arrays["local_s"], self._zone) - self.origin_s
        if unix_s is not None:
            submit = np.where(np.isnan(unix_s), submit, np.nan_to_num(unix_s) - self.origin_s).astype(np.int64)
        stored = {**arrays, "submit_s": submit}
        if self.hashed_with:
            for name in ("user", "group", "executable"):
                if name in arrays:
                    stored[name] = np.array(as_stored(arrays[name], self.hashed_with, "the model"), object)
        return Submissions(stored, submit - self._at_s, self.snapshot.lists(stored["user"]))

    @property
    def earliest_local_s(self) -> int:
        """Return the earliest plausible wall clock, in seconds since 1970-01-01 00:00."""
        return earliest_clock_s(self._at_s + self.origin_s)

    @property
    def snapshot_unix_s(self) -> int | None:
        """Return the Unix time of the snapshot; None if the trace has no dates."""
        return self._at_s + self.origin_s if self._dated else None

    @property
    def timezone(self) -> str:
        """Return the zone of the site's wall clock, UTC if unknown."""
        return self._zone or "UTC"
