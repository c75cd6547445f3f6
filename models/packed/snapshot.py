"""The features of new submissions from a snapshot of users and groups of like jobs.

They are the columns of the table ``runtime_features``, by the code that makes the table. Packed into registered models.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from features.jit import njit
from features.jobs.like_jobs import (
    COMMON,
    GROUP,
    KEYS,
    LEVELS,
    PER_LEVEL,
    RECENT,
    RING,
    SORTED,
    SPREAD,
    STATE,
    UNKNOWN,
    columns_of,
    describe,
    history,
    spread,
)

Columns = Mapping[str, Any] | pd.DataFrame
"""Columns of jobs: arrays by name, or a table."""
USERS, GROUPS = "history.parquet", "groups.parquet"
"""Files of a snapshot in a registered model."""


class UserSnapshot:
    """Users and groups at ``at_s`` (the trace's second), ready for many calls."""

    def __init__(self, users: pd.DataFrame, groups: pd.DataFrame, at_s: int) -> None:
        """``users`` and ``groups`` are as in ``features.jobs.runtime_features.States``."""
        self.at_s = at_s
        self._row = {user: row for row, user in enumerate(users["user"].tolist())}
        states = np.column_stack([users[name].to_numpy(np.float64, na_value=np.nan) for name in STATE])
        self._users = np.vstack([states, list(STATE.values())])
        ring = [f"runtime_{slot}_log_s" for slot in range(RECENT)]
        self._groups = np.zeros((len(groups), GROUP))
        self._groups[:, :RING] = groups[["ended", "last_end_s"]]
        self._groups[:, RING:SORTED] = groups[ring]
        self._groups[:, SORTED:] = np.sort(groups[ring].to_numpy(np.float64), axis=1)  # missing ones come last
        filled = [name for name in KEYS if groups[name].notna().any()]
        self._keys = [[name for name in level if name in filled] for level in LEVELS]
        filled_in = {name: groups[name].astype(object).where(groups[name].notna(), None).tolist() for name in KEYS}
        self._group_of: list[dict[tuple[object, ...], int]] = []
        for number, keys in enumerate(self._keys):
            rows = np.flatnonzero(groups["level"].to_numpy(np.int64) == number).tolist()
            self._group_of.append({tuple(filled_in[name][row] for name in keys): row for row in rows})

    @classmethod
    def read(cls, directory: Path, at_s: int) -> UserSnapshot:
        """Read the snapshot in ``directory``; OSError for a missing file."""
        return cls(pd.read_parquet(directory / USERS), pd.read_parquet(directory / GROUPS), at_s)

    def lists(self, users: Iterable[object]) -> np.ndarray:
        """Tell for which of ``users`` the snapshot has a history, bool [users]."""
        return np.fromiter((user in self._row for user in users), bool)

    def features(self, submissions: Columns) -> dict[str, np.ndarray]:
        """Return the features of submissions by name, float64 [submissions], NaN where missing.

        ``submissions`` are arrays by name, or a table: ``user`` (str; null or unknown: no history), ``procs``,
        ``requested_s``, ``submit_s`` (seconds from the trace's origin), ``local_s`` (wall clock, seconds since
        1970-01-01 00:00) and, if known, ``group`` and ``executable``. Jobs running at the snapshot count as still
        running, so elapsed times and breaks grow with the clock. A submission from before the snapshot is answered as
        at its instant.
        """
        nobody = len(self._row)
        row = np.array([self._row.get(user, nobody) for user in submissions["user"].tolist()], np.intp)
        procs, requested = (np.asarray(submissions[name], np.float64) for name in ("procs", "requested_s"))
        now = np.maximum(np.asarray(submissions["submit_s"], np.int64), self.at_s)
        clock = np.asarray(submissions["local_s"], np.int64)
        key_values, keys = _given(submissions), np.empty((len(row), len(LEVELS)), np.int64)
        for level, names in enumerate(self._keys):
            group_of, none = self._group_of[level], -1
            keys[:, level] = (
                [group_of.get(key, none) for key in zip(*(key_values[name] for name in names), strict=True)] if names else none
            )
        like = np.empty((len(row), len(LEVELS) * PER_LEVEL + COMMON + 1))
        _describe(like, self._groups, keys, now, clock, requested, procs)
        like[:, -1][row == nobody] = np.nan
        state = dict(zip(STATE, self._users[row].T, strict=True))
        return {
            "requested_s": requested,
            "procs": procs,
            **dict(zip((*columns_of(), SPREAD), np.where(like == UNKNOWN, np.nan, like).T, strict=True)),
            **history(state, procs, now.astype(np.float64), clock.astype(np.float64)),
        }


@njit
def _describe(like, groups, keys, now, clock, requested, procs):
    """Write the features of each submission from like jobs, and their spread, to ``like``."""
    for i in range(len(like)):
        describe(like[i], groups, keys[i], now[i], clock[i], requested[i], procs[i])
        like[i, like.shape[1] - 1] = spread(groups, keys[i])


def _given(table: Columns) -> dict[str, list[object]]:
    """Return the keys of jobs as plain Python values, None for null or missing."""
    keys: dict[str, list[object]] = {}
    for name in KEYS:
        if name not in table:
            keys[name] = [None] * len(table["user"])
        else:
            values = table[name].tolist()
            keys[name] = [None if pd.isna(value) else value if isinstance(value, str) else int(value) for value in values]
    return keys
