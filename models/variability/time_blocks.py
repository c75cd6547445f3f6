"""Blocks of time: training and judged runs that share no minute of the machine.

Runs that start minutes apart see the same counters and the same disturbance. Folds drawn at random put such neighbours on both
sides, and a model is judged by what it has memorised of the hour. So folds are consecutive stretches of time with a gap to the
training runs: a run sees the machine from the beginning of its counters' window to its end, and no such interval of a training
run overlaps one of a judged run (purging and embargo: Lopez de Prado, "Advances in Financial Machine Learning", 2018, section
7.4).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from features.monitoring.samplers import WINDOW_S


class Times(NamedTuple):
    """Starts and ends of runs, Unix seconds, float64 [runs] each."""

    start_s: np.ndarray
    end_s: np.ndarray

    def take(self, rows: np.ndarray) -> Times:
        """Return the times of ``rows``."""
        return Times(self.start_s[rows], self.end_s[rows])


def times_of(runs: pd.DataFrame) -> Times:
    """Return the times of control runs, from their columns ``start_s`` and ``runtime_s``."""
    start = runs["start_s"].to_numpy(np.float64)
    return Times(start, start + runs["runtime_s"].to_numpy(np.float64))


def stretches(times: Times, varied: np.ndarray, parts: int) -> np.ndarray:
    """Return each run's stretch of time, int64 [runs] in 0..``parts`` - 1, in order of starts.

    Stretches have equally many runs. If there are ``parts`` runs that ``varied`` (bool [runs]) and as many others, but a stretch
    would lack either, then each has equally many of the rarer kind instead, and borders lie halfway between two of these.
    """
    order = np.argsort(times.start_s, kind="stable")
    kind = varied[order]
    turn = np.repeat(np.arange(parts), [len(part) for part in np.array_split(order, parts)])
    rare = np.flatnonzero(kind if 2 * kind.sum() <= len(kind) else ~kind)
    if len(rare) >= parts and (np.bincount(turn[rare], minlength=parts) == 0).any():
        first = np.array([part[0] for part in np.array_split(np.arange(len(rare)), parts)][1:], np.int64)
        borders = (rare[first - 1] + rare[first] + 1) // 2
        turn = np.searchsorted(borders, np.arange(len(order)), side="right")
    stretch_of_run = np.empty(len(order), np.int64)
    stretch_of_run[order] = turn
    return stretch_of_run


def apart(times: Times, rows: np.ndarray, judged: np.ndarray) -> np.ndarray:
    """Return the ``rows`` that share no time with ``judged``; int64 indices into ``times``.

    A run sees the machine from ``WINDOW_S`` seconds before its start to its end. So a remaining run ends at least the window
    before a judged run starts, or starts at least the window after a judged run ends.
    """
    begin, end = np.sort(times.start_s[judged] - WINDOW_S), np.sort(times.end_s[judged])
    begun = np.searchsorted(begin, times.end_s[rows], side="right")
    over = np.searchsorted(end, times.start_s[rows] - WINDOW_S, side="left")
    return rows[begun == over]


def blocked(times: Times, varied: np.ndarray, parts: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return rows to train on and rows to judge, int64, for each of :func:`stretches`.

    Every run is judged once.
    """
    turn = stretches(times, varied, parts)
    pairs = []
    for number in range(parts):
        judged = np.flatnonzero(turn == number)
        pairs.append((apart(times, np.flatnonzero(turn != number), judged), judged))
    return pairs
