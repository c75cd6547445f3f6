"""Groups of similar jobs in a snapshot, and features of submissions from them.

With the same groups it describes a submission as the simulator's kernel (``models.runtime.job_features``) does; the formulas are
repeated here, and a test checks that both are equal. Packed into registered models.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

KEYS = ("user", "group", "executable", "requested_s", "procs")
"""Keys of groups of jobs."""
KNOWN = ("last", "second_last", "median", "quartile", "third_quartile")
"""Logarithms of runtimes, in seconds, kept for a group of jobs, beside ``ended`` (how many have ended) and the last end."""
GROUPS = "groups.parquet"
"""File of the groups in a registered model."""
UNKNOWN = -1.0
_DAY_S = 86_400
Columns = Mapping[str, Any] | pd.DataFrame
"""Columns of jobs: arrays by name, or a table."""


@dataclass(frozen=True)
class Groups:
    """Groups of jobs as of ``at_s`` (the trace's second).

    ``alike`` lists the keys of each level, the most similar first. ``table`` has a row for each group with an ended job:
    ``level`` (index in ``alike``), ``KEYS``, ``ended``, ``last_end_s``, ``KNOWN``.
    """

    alike: tuple[tuple[str, ...], ...]
    table: pd.DataFrame
    at_s: int

    def describe(self, asked: Columns) -> tuple[np.ndarray, np.ndarray]:
        """Return features [asked, features] and the first guess, log seconds [asked].

        Both float64. ``asked``, arrays by name or a table: ``user procs requested_s submit_s`` (the trace's seconds; a submission
        before ``at_s`` counts as at ``at_s``) and, if known, ``group`` and ``executable``. Unknown or null users are in no group.
        """
        submit = np.asarray(asked["submit_s"], np.int64)
        now = np.maximum(submit, self.at_s)
        request = np.log(np.asarray(asked["requested_s"], np.float64))
        given = _given(asked)
        columns: list[np.ndarray] = []
        guess = np.full(len(request), UNKNOWN)
        past, last_end, rows_of = self._past
        for level, keys in enumerate(self.alike):
            index = rows_of[level]
            row = np.array([index.get(key, -1) for key in zip(*(given[name] for name in keys), strict=True)], np.intp)
            has_past = row >= 0
            columns.extend(past[row].T)
            columns.append(np.where(has_past, np.log1p(np.maximum(now - last_end[row], 0)), UNKNOWN))
            guess = np.where((guess == UNKNOWN) & has_past, past[row, 1], guess)
        alike = np.where(guess == UNKNOWN, request, np.minimum(guess, request))
        procs = np.log(np.asarray(asked["procs"], np.float64))
        clock = (submit % _DAY_S / 3600, submit // _DAY_S % 7)
        return np.column_stack((*columns, request, procs, *clock, alike)), alike

    @cached_property
    def _past(self) -> tuple[np.ndarray, np.ndarray, list[dict[tuple[object, ...], int]]]:
        """Return features and last ends of the groups, and for each level the row of each group.

        The last row stands for an unknown group.
        """
        table = self.table
        past = np.column_stack((np.log1p(table["ended"].to_numpy(np.float64)), table[list(KNOWN)].to_numpy(np.float64)))
        past = np.vstack((past, [0.0] + [UNKNOWN] * len(KNOWN)))
        last_end = np.append(table["last_end_s"].to_numpy(np.int64), 0)
        level = table["level"].to_numpy(np.int64)
        # like _given, but by column: takes half the time for thousands of groups
        given = {name: table[name].astype(object).where(table[name].notna(), None).tolist() for name in KEYS}
        rows_of = []
        for number, keys in enumerate(self.alike):
            rows = np.flatnonzero(level == number).tolist()
            rows_of.append({tuple(given[name][row] for name in keys): row for row in rows})
        return past, last_end, rows_of


def leaves_of(nodes: np.ndarray, thresholds: np.ndarray, features: np.ndarray) -> np.ndarray:
    """Return the leaf of each job in each tree, int64 [jobs, trees].

    ``nodes`` int64 [trees, leaves, 3] are (feature, child if it is at most the threshold, other child); child -1 is leaf 0.
    """
    tree, row = np.arange(len(nodes)), np.arange(len(features))[:, None]
    node = np.where(nodes[:, 0, 0] < 0, -1, 0) + 0 * row
    while (inner := node >= 0).any():
        at = np.maximum(node, 0)
        low = features[row, nodes[tree, at, 0]] <= thresholds[tree, at]
        node = np.where(inner, np.where(low, nodes[tree, at, 1], nodes[tree, at, 2]), node)
    return -1 - node


def _given(table: Columns) -> dict[str, list[object]]:
    """Return the keys of jobs as plain Python values, None for null or missing."""
    keys: dict[str, list[object]] = {}
    for name in KEYS:
        if name not in table:
            keys[name] = [None] * len(table["user"])
        else:
            values = table[name].tolist()
            keys[name] = [None if _null(value) else value if isinstance(value, str) else int(value) for value in values]
    return keys


def _null(value: object) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))
