"""Model inputs for new submissions from a snapshot of every user's history.

Needs only numpy and pandas. This file is packed unchanged into registered models and imported there under a private name, where
Queuecast is not installed: it repeats the few formulas of ``features.jobs.history``, and a test checks that both are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

DAY_S = 86_400
WEEK_S = 7 * DAY_S
MONDAY_S = 4 * DAY_S  # 1970-01-05

FEATURES = (
    "requested_s",
    "procs",
    "completed_jobs",
    "last_runtime_s",
    "second_last_runtime_s",
    "third_last_runtime_s",
    "mean_last2_runtime_s",
    "mean_last3_runtime_s",
    "mean_runtime_s",
    "sum_runtime_s",
    "mean_procs",
    "mean_allocated_procs",
    "procs_over_mean",
    "running_jobs",
    "running_mean_procs",
    "occupied_procs",
    "longest_running_s",
    "sum_running_s",
    "break_s",
    "cos_day",
    "sin_day",
    "cos_week",
    "sin_week",
)
KNOWN = {
    "completed_jobs": 0.0,
    "last_runtime_s": np.nan,
    "second_last_runtime_s": np.nan,
    "third_last_runtime_s": np.nan,
    "sum_runtime_s": 0.0,
    "sum_procs": 0.0,
    "sum_allocated_procs": 0.0,
    "last_end_s": np.nan,
    "running_jobs": 0.0,
    "running_procs": 0.0,
    "running_sum_start_s": 0.0,
    "running_earliest_start_s": np.nan,
}
"""Columns of a snapshot for each user, and their values for an unlisted user."""


class History:
    """The users' histories of one snapshot, ready for many calls of :meth:`inputs`.

    ``at_s`` is the snapshot's instant in seconds from the trace's origin, None for a snapshot without users.
    """

    def __init__(self, users: Iterable[str], histories: np.ndarray, at_s: float | None) -> None:
        """``histories`` is float64 [users, len(KNOWN)], NaN for missing values."""
        self.at_s = at_s
        self._row = {user: row for row, user in enumerate(users)}
        self._histories = np.vstack([histories, list(KNOWN.values())]).T.copy()

    @classmethod
    def from_frame(cls, snapshot: pd.DataFrame) -> History:
        """Read a table of ``features.jobs.snapshot.snapshot``."""
        columns = np.column_stack([_floats(snapshot, name) for name in KNOWN])
        return cls(snapshot["user"].tolist(), columns, float(snapshot["at_s"].iloc[0]) if len(snapshot) else None)

    def lists(self, users: Iterable[object]) -> np.ndarray:
        """Tell for which of ``users`` the snapshot has a history, bool [users]."""
        return np.fromiter((user in self._row for user in users), bool)

    def inputs(self, submissions: pd.DataFrame) -> pd.DataFrame:
        """Return :meth:`columns` as a table with the index of ``submissions``."""
        columns = self.columns(submissions)
        return pd.DataFrame(np.column_stack([*columns.values()]), index=submissions.index, columns=[*columns], copy=False)

    def columns(self, submissions: Mapping[str, np.ndarray] | pd.DataFrame) -> dict[str, np.ndarray]:
        """Return inputs of new submissions by their names, ``FEATURES``: float64 [submissions].

        ``submissions`` are arrays by name, or a table. They have ``user`` (str; null or unknown: no history), ``procs``,
        ``requested_s``, ``submit_s`` (seconds from the trace's origin) and ``local_s`` (local wall clock, seconds since
        1970-01-01 00:00). Jobs running at the snapshot count as still running, so elapsed times and the break grow with the
        clock. A submission from before the snapshot is answered as at the snapshot's instant: compare ``submit_s`` with ``at_s``.
        """
        unknown_user = len(self._row)
        rows = np.array([self._row.get(user, unknown_user) for user in submissions["user"].tolist()], np.intp)
        (
            completed,
            last,
            second_last,
            third_last,
            sum_runtime,
            sum_procs,
            sum_allocated,
            last_end,
            running,
            running_procs,
            running_sum_start,
            running_earliest_start,
        ) = self._histories[:, rows]
        procs = _floats(submissions, "procs")
        now = _floats(submissions, "submit_s")
        if self.at_s is not None:
            now = np.maximum(now, self.at_s)
        local = _floats(submissions, "local_s")
        day = local % DAY_S * (2 * np.pi / DAY_S)
        week = (local - MONDAY_S) % WEEK_S * (2 * np.pi / WEEK_S)
        some = np.where(completed > 0, completed, np.nan)
        some_running = np.where(running > 0, running, np.nan)
        mean_procs = sum_procs / some
        columns = (
            _floats(submissions, "requested_s"),
            procs,
            completed,
            last,
            second_last,
            third_last,
            (last + second_last) / 2,
            (last + second_last + third_last) / 3,
            sum_runtime / some,
            sum_runtime,
            mean_procs,
            sum_allocated / some,
            procs / mean_procs,
            running,
            running_procs / some_running,
            running_procs,
            now - running_earliest_start,
            running * now - running_sum_start,
            now - last_end,
            np.cos(day),
            np.sin(day),
            np.cos(week),
            np.sin(week),
        )
        return dict(zip(FEATURES, columns, strict=True))


def _floats(table: Mapping[str, np.ndarray] | pd.DataFrame, name: str) -> np.ndarray:
    values = table[name]
    return values.to_numpy(np.float64, na_value=np.nan) if isinstance(values, pd.Series) else np.asarray(values, np.float64)
