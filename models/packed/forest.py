"""``quantile`` where Queuecast is not installed: a runtime's distribution and its most accurate point, from plain arrays and numpy alone.

It answers as the simulator's kernel (``models.quantile``, ``models.job_features``) does with the same memory; the formulas are repeated here, and a
test holds the two equal. Trees and settings are learned once; leaves, calibrated levels and groups of jobs are dated. Packed into registered models.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

TREES, LEAVES, GROUPS = "forest.npz", "leaves.npz", "groups.parquet"
"""Files: what was learned once, and what is dated."""
KEYS = ("user", "group", "executable", "requested_s", "procs")
"""What jobs can have in common."""
KNOWN = ("last", "second_last", "median", "quartile", "third_quartile")
"""Logarithms of runtimes, in seconds, that are kept of a group of jobs; beside them how many have ended (``ended``) and when the last did."""
UNKNOWN = -1.0
_DAY_S = 86_400
_ROWS = 256
"""Rows answered at a time."""


@dataclass(frozen=True)
class Plan:
    """What the arrays mean: bins of ``step`` of the logarithm of runtime, of relative runtimes up to ``reach`` of them either way.

    ``alike`` lists what jobs have in common, the most alike first; ``levels`` are those of the kept quantiles, ``answers`` which of them are told.
    """

    step: float
    bins: int
    reach: int
    relative_share: float
    alike: tuple[tuple[str, ...], ...]
    levels: tuple[float, ...]
    answers: Mapping[str, float]


@dataclass(frozen=True)
class Forest:
    """A quantile regression forest as of ``at_s`` (the trace's second).

    ``nodes`` int64 [trees, leaves, 3] (feature, child where it is at most the threshold, other child; child -1 is leaf 0) and ``thresholds`` float64
    [trees, leaves] are fixed. ``counts`` [trees, leaves, bins + 1 + 2 reach + 1] are the leaves' histograms (runtimes; to the request; relative to
    the last that was alike), ``calibrated`` the levels taken for ``plan.levels``, ``groups`` a row a group of jobs of which one has ended: ``level``
    (place in ``plan.alike``), ``KEYS``, ``ended``, ``last_end_s``, ``KNOWN``.
    """

    plan: Plan
    nodes: np.ndarray
    thresholds: np.ndarray
    counts: np.ndarray
    calibrated: np.ndarray
    groups: pd.DataFrame
    at_s: int

    def predict(self, asked: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """The most accurate points, float64 [asked], and the quantiles of ``plan.levels``, float64 [asked, levels]; seconds in 1..request.

        ``asked``: ``user procs requested_s submit_s`` (the trace's seconds; what was submitted before ``at_s`` is answered as at that instant) and, if
        known, ``group`` and ``executable``. People nobody has seen, or null, have no past: jobs that are alike otherwise answer, at last all jobs.
        """
        requested = asked["requested_s"].to_numpy(np.float64)
        inputs, alike = self.describe(asked)
        point, quantiles = np.empty(len(asked)), np.empty((len(asked), len(self.plan.levels)))
        for first in range(0, len(asked), _ROWS):
            some = slice(first, first + _ROWS)
            mass = self._mass(inputs[some], alike[some], np.log(requested[some]))
            quantiles[some] = self._quantiles(mass, requested[some])
            point[some] = self._most_accurate(mass, alike[some], requested[some])
        return point, quantiles

    def answer(self, asked: pd.DataFrame) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """The most accurate points, and by name the quantiles that are told."""
        point, quantiles = self.predict(asked)
        levels = list(self.plan.levels)
        return point, {name: quantiles[:, levels.index(level)] for name, level in self.plan.answers.items()}

    def describe(self, asked: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """What the trees see, float64 [asked, features], and the first guess, the logarithm of seconds, float64 [asked]."""
        submit = asked["submit_s"].to_numpy(np.int64)
        now = np.maximum(submit, self.at_s)
        request = np.log(asked["requested_s"].to_numpy(np.float64))
        given = _given(asked)
        columns: list[np.ndarray] = []
        guess = np.full(len(asked), UNKNOWN)
        past, last_end, rows_of = self._past
        for level, keys in enumerate(self.plan.alike):
            index = rows_of[level]
            row = np.array([index.get(key, -1) for key in zip(*(given[name] for name in keys), strict=True)], np.intp)
            known = row >= 0
            columns.extend(past[row].T)
            columns.append(np.where(known, np.log1p(np.maximum(now - last_end[row], 0)), UNKNOWN))
            guess = np.where((guess == UNKNOWN) & known, past[row, 1], guess)
        alike = np.where(guess == UNKNOWN, request, np.minimum(guess, request))
        procs = np.log(asked["procs"].to_numpy(np.float64))
        clock = (submit % _DAY_S / 3600, submit // _DAY_S % 7)
        return np.column_stack((*columns, request, procs, *clock, alike)), alike

    @cached_property
    def _past(self) -> tuple[np.ndarray, np.ndarray, list[dict[tuple[object, ...], int]]]:
        """Features and last ends of the groups, with those of an unknown group behind, and of each level the row of each group."""
        table = self.groups
        past = np.column_stack((np.log1p(table["ended"].to_numpy(np.float64)), table[list(KNOWN)].to_numpy(np.float64)))
        past = np.vstack((past, [0.0] + [UNKNOWN] * len(KNOWN)))
        last_end = np.append(table["last_end_s"].to_numpy(np.int64), 0)
        level, given = table["level"].to_numpy(np.int64), _given(table)
        rows_of = []
        for number, keys in enumerate(self.plan.alike):
            rows = np.flatnonzero(level == number).tolist()
            rows_of.append({tuple(given[name][row] for name in keys): row for row in rows})
        return past, last_end, rows_of

    def _mass(self, inputs: np.ndarray, alike: np.ndarray, request: np.ndarray) -> np.ndarray:
        """The distributions, float64 [asked, bins + 1]: over bins of the logarithm of runtime below the request, and at the request."""
        plan, bins = self.plan, self.plan.bins
        leaves = self.counts[np.arange(len(self.nodes)), self._leaves(inputs)].astype(np.float64)
        members = leaves[:, :, : bins + 1].sum(axis=2)
        weight = 1.0 / np.maximum(members, 1.0)
        seen = (leaves * weight[:, :, None]).sum(axis=1)
        mass = (1.0 - plan.relative_share) * seen[:, : bins + 1]
        # where the last runtime that was alike lies, the relative histogram has its middle
        place = np.floor(alike / plan.step).astype(np.int64)[:, None] + np.arange(-plan.reach, plan.reach + 1)
        place = np.clip(place, 0, bins - 1) + (bins + 1) * np.arange(len(inputs))[:, None]
        relative = plan.relative_share * seen[:, bins + 1 :]
        mass += np.bincount(place.ravel(), relative.ravel(), minlength=mass.size).reshape(mass.shape)
        beyond = np.arange(bins) > np.minimum(request / plan.step, bins - 1.0).astype(np.int64)[:, None]
        mass[:, bins] += np.where(beyond, mass[:, :bins], 0.0).sum(axis=1)
        mass[:, :bins][beyond] = 0.0
        total = mass.sum(axis=1)
        mass[total == 0.0, bins] = 1.0
        return mass / np.where(total == 0.0, 1.0, total)[:, None]

    def _leaves(self, inputs: np.ndarray) -> np.ndarray:
        """The leaf into which each job falls, int64 [asked, trees]."""
        tree, row = np.arange(len(self.nodes)), np.arange(len(inputs))[:, None]
        node = np.where(self.nodes[:, 0, 0] < 0, -1, 0) + 0 * row
        while (inner := node >= 0).any():
            at = np.maximum(node, 0)
            low = inputs[row, self.nodes[tree, at, 0]] <= self.thresholds[tree, at]
            node = np.where(inner, np.where(low, self.nodes[tree, at, 1], self.nodes[tree, at, 2]), node)
        return -1 - node

    def _quantiles(self, mass: np.ndarray, requested: np.ndarray) -> np.ndarray:
        step, bins = self.plan.step, self.plan.bins
        until = np.cumsum(mass[:, :bins], axis=1)
        place = (until[:, None, :] < self.calibrated[:, None]).sum(axis=2)
        inside, row = np.minimum(place, bins - 1), np.arange(len(mass))[:, None]
        below = np.where(inside > 0, until[row, inside - 1], 0.0)
        share = np.clip((self.calibrated - below) / np.maximum(mass[row, inside], 1e-300), 0.0, 1.0)
        begin, request = inside * step, np.log(requested)[:, None]
        seconds = np.exp(begin + share * (np.minimum(begin + step, request) - begin))
        seconds = np.where(place == bins, requested[:, None], np.minimum(np.rint(seconds), requested[:, None]))
        return np.maximum.accumulate(np.maximum(seconds, 1.0), axis=1)  # calibrated levels may cross, quantiles may not

    def _most_accurate(self, mass: np.ndarray, alike: np.ndarray, requested: np.ndarray) -> np.ndarray:
        """Seconds of the highest mean of min(p/r, r/p); within a step of the last runtime that was alike it is that."""
        step, bins = self.plan.step, self.plan.bins
        request, at = np.log(requested), np.arange(bins) * step
        centre, inner, at_request = at + step / 2, mass[:, :bins], mass[:, bins]
        below = np.exp(-at) * np.cumsum(inner * np.exp(at), axis=1)
        above = (inner * np.exp(-at)).sum(axis=1)[:, None] - np.cumsum(inner * np.exp(-at), axis=1)
        value = below + above * np.exp(at) + at_request[:, None] * np.exp(centre - request[:, None])
        value[centre > request[:, None]] = -1.0
        best = value.argmax(axis=1)
        as_requested = at_request + (inner * np.exp(np.minimum(centre, request[:, None]) - request[:, None])).sum(axis=1)
        chosen = np.where(value[np.arange(len(mass)), best] > as_requested, centre[best], request)
        chosen = np.where((chosen < request) & (np.abs(chosen - alike) <= step), alike, chosen)
        return np.clip(np.rint(np.exp(chosen)), 1.0, requested)

    def write(self, directory: Path) -> None:
        """Files that :meth:`read` reads."""
        plan = json.dumps(vars(self.plan))
        np.savez_compressed(directory / TREES, plan=np.array(plan), nodes=self.nodes, thresholds=self.thresholds)
        counts = self.counts.astype(np.min_scalar_type(int(self.counts.max(initial=0))))
        np.savez_compressed(directory / LEAVES, counts=counts, calibrated=self.calibrated, at_s=np.int64(self.at_s))
        self.groups.to_parquet(directory / GROUPS, index=False)

    @classmethod
    def read(cls, directory: Path) -> Forest:
        """From the files :meth:`write` wrote; OSError for one that is not there."""
        with np.load(directory / TREES) as learned, np.load(directory / LEAVES) as dated:
            settings = json.loads(str(learned["plan"]))
            settings |= {"alike": tuple(map(tuple, settings["alike"])), "levels": tuple(settings["levels"])}
            arrays = (learned["nodes"], learned["thresholds"], dated["counts"], dated["calibrated"])
            at_s = int(dated["at_s"])
        return cls(Plan(**settings), *arrays, pd.read_parquet(directory / GROUPS), at_s)


def _given(table: pd.DataFrame) -> dict[str, list[object]]:
    """What jobs can have in common, as plain Python values, None where it is null or not told."""
    found: dict[str, list[object]] = {}
    for name in KEYS:
        if name not in table:
            found[name] = [None] * len(table)
        else:
            values = table[name].tolist()
            found[name] = [None if _null(value) else value if isinstance(value, str) else int(value) for value in values]
    return found


def _null(value: object) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))
