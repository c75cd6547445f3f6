"""``quantile`` without Queuecast: a runtime's distribution from plain arrays and numpy.

With the same memory it answers as the simulator's kernel (``models.runtime.quantile``) does; the formulas are repeated here, and
a test checks that both are equal. Trees and settings are learned once; leaves, calibrated levels and groups of jobs are updated
every night. Packed into registered models.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from .groups import GROUPS, Columns, Groups, leaves_of

TREES, LEAVES = "forest.npz", "leaves.npz"
"""Files of trees and settings, which are learned once, and of the nightly state beside the groups."""
_HOUR, _WEEKDAY = -3, -2
"""Columns among the inputs of the trees."""
_SLACK = 1e-9
_GOLDEN = 0.6180339887498949
_ROWS = 128
"""Rows answered at a time."""


@dataclass(frozen=True)
class Plan:
    """Constants of the arrays: bins, cells, weights, levels.

    Bins are ``step`` wide in the logarithm of runtime; relative runtimes span ``reach`` bins either way. Cells of ln(request /
    runtime) begin at ``ends``. ``shares`` weigh runtimes, relative runtimes, runtimes relative to requests and runtimes of all
    jobs in the distribution for quantiles; ``point_shares`` do in that for the most accurate point. ``alike`` lists the keys of
    each level, the most similar first. ``levels`` are those of the kept quantiles, tilted by size from ``upper`` on.
    """

    step: float
    bins: int
    reach: int
    ends: tuple[float, ...]
    shares: tuple[float, float, float, float]
    point_shares: tuple[float, float, float, float]
    upper: float
    alike: tuple[tuple[str, ...], ...]
    levels: tuple[float, ...]


@dataclass(frozen=True)
class Forest:
    """A quantile regression forest as of ``at_s`` (the trace's second).

    ``nodes`` int64 [trees, leaves, 3] (feature, child if it is at most the threshold, other child; child -1 is leaf 0) and
    ``thresholds`` float64 [trees, leaves] are fixed. ``counts`` [trees, leaves, bins + 2 reach + 1 + cells] are the leaves'
    histograms (runtimes; relative to the last similar job; relative to the request). ``calibrated`` are the levels used for
    ``plan.levels``, and ``tilt`` is added to them for large jobs. ``work`` holds the processor-seconds of ended jobs by half
    octave of requested processor-seconds, and last the number of these jobs. ``groups`` are the groups of jobs.
    """

    plan: Plan
    nodes: np.ndarray
    thresholds: np.ndarray
    counts: np.ndarray
    calibrated: np.ndarray
    tilt: np.ndarray
    work: np.ndarray
    groups: Groups

    @property
    def at_s(self) -> int:
        """Return the instant of the nightly state."""
        return self.groups.at_s

    def predict(self, asked: Columns) -> tuple[np.ndarray, np.ndarray]:
        """Return the most accurate points [asked] and the quantiles of ``plan.levels``.

        Float64, seconds in 1..request; quantiles are [asked, levels]. ``asked`` is as in :meth:`Groups.describe`. Unknown or null
        users have no history: other similar jobs answer, or else all jobs.
        """
        requested = np.asarray(asked["requested_s"], np.float64)
        inputs, alike = self.groups.describe(asked)
        wanted, place = self._taken(np.asarray(asked["procs"], np.float64) * requested), self._place(inputs)
        point, quantiles = np.empty(len(requested)), np.empty((len(requested), len(self.plan.levels)))
        for first in range(0, len(requested), _ROWS):
            some = slice(first, first + _ROWS)
            seen, has_past = self._gathered(inputs[some])
            mass, sharp = (
                self._mass(seen, alike[some], np.log(requested[some]), each) for each in (self.plan.shares, self.plan.point_shares)
            )
            quantiles_of_past = self._quantiles(mass, wanted[some], place[some], requested[some])
            quantiles[some] = np.where(has_past[:, None], quantiles_of_past, requested[some, None])
            point[some] = np.where(has_past, self._most_accurate(sharp, alike[some], requested[some]), requested[some])
        return point, quantiles

    @cached_property
    def _of_all(self) -> np.ndarray:
        """Return the distribution over bins of the runtimes that the first tree has learned."""
        seen = self.counts[0, :, : self.plan.bins].astype(np.float64).sum(axis=0)
        return seen / max(seen.sum(), 1.0)

    def _taken(self, area: np.ndarray) -> np.ndarray:
        """Return the levels used for jobs of ``area`` requested processor-seconds [asked, levels].

        The upper levels are tilted by size.
        """
        work = self.work[:-1]
        size = np.minimum((2.0 * np.log(area) / np.log(2.0) + _SLACK).astype(np.int64), len(work) - 1)
        less, total = np.cumsum(work) - work / 2.0, work.sum()
        share = np.full(len(area), 0.5) if total == 0.0 else less[size] / total
        tilted = (np.array(self.plan.levels) >= self.plan.upper) & (self.calibrated > 0.0) & (self.calibrated < 1.0)
        return self.calibrated + np.where(tilted, self.tilt, 0.0) * share[:, None]

    @staticmethod
    def _place(inputs: np.ndarray) -> np.ndarray:
        """Return a job's rank, by second of the week, among jobs that end at the request: [0, 1)."""
        return np.rint(3600.0 * (24.0 * inputs[:, _WEEKDAY] + inputs[:, _HOUR])) * _GOLDEN % 1.0

    def _gathered(self, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean histograms of the leaves [asked, counts], and whether any holds a job."""
        leaves = self.counts[np.arange(len(self.nodes)), leaves_of(self.nodes, self.thresholds, inputs)].astype(np.float64)
        members = leaves[:, :, : self.plan.bins].sum(axis=2)
        trees = (members > 0.0).sum(axis=1)
        seen = (leaves / np.maximum(members, 1.0)[:, :, None]).sum(axis=1)
        return seen / np.maximum(trees, 1)[:, None], trees > 0

    def _mass(self, seen: np.ndarray, alike: np.ndarray, request: np.ndarray, shares: tuple[float, ...]) -> np.ndarray:
        """Return the distributions over cells, float64 [asked, cells], from histograms ``seen``."""
        plan, bins, behind = self.plan, self.plan.bins, self.plan.bins + 2 * self.plan.reach + 1
        of_runtimes, of_relative, of_ratios, of_all = shares
        mass = of_ratios * seen[:, behind:]
        runtimes = of_runtimes * seen[:, :bins] + of_all * self._of_all
        steps = plan.step * np.arange(-plan.reach, plan.reach + 1)
        for short, weight in (
            (request[:, None] - plan.step * (np.arange(bins) + 0.5), runtimes),
            # the middle of the relative histogram is the last similar runtime
            ((request - alike)[:, None] - steps, of_relative * seen[:, bins:behind]),
        ):
            place = self._cell(short) + mass.shape[1] * np.arange(len(seen))[:, None]
            mass += np.bincount(place.ravel(), weight.ravel(), minlength=mass.size).reshape(mass.shape)
        return mass

    def _cell(self, short: np.ndarray) -> np.ndarray:
        """Return the cells of runtimes given ``short``, which is ln(request / runtime)."""
        nearest_first = np.array(self.plan.ends[::-1])
        return np.maximum(len(nearest_first) - 1 - np.searchsorted(nearest_first, short - _SLACK, "left"), 0)

    def _quantiles(self, mass: np.ndarray, wanted: np.ndarray, place: np.ndarray, requested: np.ndarray) -> np.ndarray:
        """Return the quantiles of the levels ``wanted`` [asked, levels].

        In the cell of the request, ``place`` [asked] decides between the request and a second less.
        """
        ends, last, row = np.array(self.plan.ends), mass.shape[1] - 1, np.arange(len(mass))[:, None]
        until = np.cumsum(mass[:, :last], axis=1)
        cell = (until[:, None, :] < wanted[:, :, None]).sum(axis=2)
        inside = np.minimum(cell, last - 1)
        below = np.where(cell > 0, until[row, np.maximum(cell, 1) - 1], 0.0)
        share = np.clip((wanted - below) / np.maximum(mass[row, inside], 1e-300), 0.0, 1.0)
        short = ends[inside] + share * (ends[inside + 1] - ends[inside])
        whole = requested[:, None]
        seconds = np.minimum(np.rint(np.exp(np.log(whole) - short)), whole - 1.0)
        reaches = wanted - below > place[:, None] * mass[:, [last]]
        seconds = np.where(cell == last, np.where(reaches, whole, whole - 1.0), np.where(wanted > 0.0, seconds, 1.0))
        seconds = np.where(wanted >= 1.0, whole, seconds)
        return np.maximum.accumulate(np.maximum(seconds, 1.0), axis=1)  # calibrated levels may cross, quantiles may not

    def _most_accurate(self, mass: np.ndarray, alike: np.ndarray, requested: np.ndarray) -> np.ndarray:
        """Return the seconds p with the highest mean of min(p/r, r/p).

        Within a step of the last similar runtime, p is that runtime.
        """
        ends, request = np.array(self.plan.ends), np.log(requested)
        centre = np.exp(-np.append((ends[1:] + ends[:-1]) / 2.0, 0.0))
        below = np.cumsum(mass * centre, axis=1)
        above = (mass / centre).sum(axis=1)[:, None] - np.cumsum(mass / centre, axis=1)
        best = (below / centre + above * centre).argmax(axis=1)
        chosen = request + np.log(centre[best])
        chosen = np.where((best < len(ends) - 1) & (np.abs(chosen - alike) <= self.plan.step), alike, chosen)
        return np.clip(np.rint(np.exp(chosen)), 1.0, requested)

    def write(self, directory: Path) -> None:
        """Write the files that :meth:`read` reads."""
        plan = json.dumps(vars(self.plan))
        np.savez_compressed(directory / TREES, plan=np.array(plan), nodes=self.nodes, thresholds=self.thresholds)
        counts = self.counts.astype(np.min_scalar_type(int(self.counts.max(initial=0))))
        levels = np.stack([self.calibrated, self.tilt])
        np.savez_compressed(directory / LEAVES, counts=counts, levels=levels, work=self.work, at_s=np.int64(self.at_s))
        self.groups.table.to_parquet(directory / GROUPS, index=False)

    @classmethod
    def read(cls, directory: Path) -> Forest:
        """Read the files that :meth:`write` wrote; OSError for a missing one."""
        with np.load(directory / TREES) as learned, np.load(directory / LEAVES) as dated:
            settings = json.loads(str(learned["plan"]))
            settings.pop("answers", None)  # a forest from when some of its levels were answers
            settings |= {name: tuple(settings[name]) for name in ("ends", "shares", "point_shares", "levels")}
            settings |= {"alike": tuple(map(tuple, settings["alike"]))}
            calibrated, tilt = dated["levels"]
            arrays = (learned["nodes"], learned["thresholds"], dated["counts"], calibrated, tilt, dated["work"])
            groups = Groups(settings["alike"], pd.read_parquet(directory / GROUPS), int(dated["at_s"]))
        return cls(Plan(**settings), *arrays, groups)
