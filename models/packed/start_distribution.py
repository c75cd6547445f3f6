"""Distributions of waits without Queuecast: chances by time, boosted trees, calibration.

A wait is counted from the time of the question. Its distribution is the chance that the job has started by each of
``EDGES_S``. A model gives for each bin between two edges the chance that a job still waiting at its beginning starts
within it (a hazard in discrete time; Cox 1972, section 3; Singer & Willett 1993). So jobs that still wait can be
learned from up to now, and distributions are monotone. Packed into registered models: numpy alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

_MINUTES = (0, 1, 1.25, 1.5, 2, 3, 5, 10, 20, 30, 45, 60, 90, 120, 180, 240, 300, 360, 480, 600, 720, 960, 1200, 1440)
_DAYS = (1.25, 1.5, 2, 2.5, 3, 4, 5, 7, 10, 14, 28, 60)
EDGES_S = np.array([*(60 * minute for minute in _MINUTES), *(86_400 * day for day in _DAYS)], np.float64)
"""Bin edges, seconds of waiting; a job that waits longer than the last edge counts as starting then.

Many schedulers start jobs in passes of a minute: of ALCF Theta's jobs that waited longer, one in seven started within
105 s. Bins that are wider than that hold too much at their beginning."""
AT_ONCE = 1
"""Index of the edge up to which a job counts as starting at once: a minute."""
CHANCES_S = {"10m": 600, "1h": 3_600, "4h": 14_400, "24h": 86_400}
"""Waits whose chances are returned; each is an edge."""
LEVELS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
"""Levels of the returned quantiles."""
SCENARIOS = 16
"""Number of scenarios; a model reads a job's start in each."""
_BLUR, _BEYOND_S = 0.25, 60.0
"""Blur of a scenario's start: its width in the logarithm of seconds, and the seconds added before taking it. Not
tuned."""
_DOUBT = 0.5
"""Weight of an uninformed distribution, in scenarios."""
_AT_ONCE = 32
"""Jobs answered at a time; their rows fit into a processor's cache."""
_LOG_EDGES = np.log(EDGES_S + _BEYOND_S)


def at_levels(chances: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return the quantiles of distributions, seconds, float64 [jobs, levels].

    ``chances`` float64 [jobs, edges] rise to 1. Starts are uniform within a bin.
    """
    row, quantiles_s = np.arange(len(chances)), np.empty((len(chances), len(levels)))
    for column, level in enumerate(levels):
        bin_ = np.minimum((chances < level - 1e-12).sum(axis=1), len(EDGES_S) - 1)
        before = np.maximum(bin_ - 1, 0)
        low = np.where(bin_ > 0, chances[row, before], 0.0)
        share = (level - low) / np.maximum(chances[row, bin_] - low, 1e-12)
        first = np.where(bin_ > 0, EDGES_S[before], 0.0)
        quantiles_s[:, column] = first + (EDGES_S[bin_] - first) * np.clip(share, 0.0, 1.0)
    return quantiles_s


def at_waits(chances: np.ndarray, wait_s: np.ndarray) -> np.ndarray:
    """Return each job's chance to have started after ``wait_s``, float64 [jobs]."""
    after = np.clip(np.searchsorted(EDGES_S, wait_s, "left"), 0, len(EDGES_S) - 1)
    row, before = np.arange(len(chances)), np.maximum(after - 1, 0)
    width = np.maximum(EDGES_S[after] - EDGES_S[before], 1.0)
    share = np.clip((wait_s - EDGES_S[before]) / width, 0.0, 1.0)
    low = np.where(after > 0, chances[row, before], 0.0)
    return np.where(after > 0, low + share * (chances[row, after] - low), chances[row, 0])


def given_waiting(chances: np.ndarray) -> np.ndarray:
    """Return the distributions given that a job does not start at once, float64 [jobs, edges]."""
    at_once = chances[:, AT_ONCE : AT_ONCE + 1]
    rest = np.clip((chances - at_once) / np.maximum(1.0 - at_once, 1e-9), 0.0, 1.0)
    rest[:, : AT_ONCE + 1], rest[:, -1] = 0.0, 1.0
    return rest


def of_scenarios(starts_s: np.ndarray) -> np.ndarray:
    """Return the distribution of the scenarios' starts, each blurred, float64 [jobs, edges].

    ``starts_s`` float64 [jobs, scenarios] are seconds from the time of the question.
    """
    starts, count = starts_s[:, :, None], starts_s.shape[1]
    soft = 1.0 / (1.0 + np.exp(np.clip((np.log(starts + _BEYOND_S) - _LOG_EDGES) / _BLUR, -30.0, 30.0)))
    chances = np.where(EDGES_S[AT_ONCE] >= EDGES_S, starts <= EDGES_S, soft).mean(axis=1)
    none = np.linspace(0.0, 1.0, len(EDGES_S))
    return (np.maximum.accumulate(chances, axis=1) * count + _DOUBT * none) / (count + _DOUBT)


def pooled(chances: np.ndarray, starts_s: np.ndarray) -> np.ndarray:
    """Return the mean of distributions and of those of the scenarios.

    A linear opinion pool (Stone 1961). Float64 [jobs, edges]; arguments as in :func:`of_scenarios`.
    """
    return np.asarray(0.5 * (chances + of_scenarios(starts_s)))


def hazards(chances: np.ndarray) -> np.ndarray:
    """Return the chance of jobs waiting at the beginning of each bin to start within it."""
    before = np.column_stack((np.zeros(len(chances)), chances[:, :-1]))
    return np.clip((chances - before) / np.maximum(1.0 - before, 1e-9), 1e-4, 1.0 - 1e-4)


def rows_of(states: np.ndarray, plans: np.ndarray, scenarios: np.ndarray | None, job: np.ndarray, bins: np.ndarray) -> np.ndarray:
    """Return the trees' inputs for ``job`` in ``bins``, float64 [rows, columns].

    ``states`` float64 [jobs, features]; ``plans`` float64 [jobs, plans] are waits by simple plans; ``scenarios``
    float64 [jobs, ``SCENARIOS``] are starts in scenarios, or None. ``job`` and ``bins`` are int64 [rows]. Columns
    beside the state: the bin, its edge relative to each plan and, with scenarios, their quantiles and log odds in the
    bin.
    """
    edge = np.log1p(EDGES_S[bins])
    parts = [states[job], bins[:, None].astype(np.float64)]
    if scenarios is not None:
        ordered = np.sort(scenarios, axis=1)
        quartiles = np.quantile(ordered, (0.1, 0.25, 0.5, 0.75, 0.9), axis=1).T
        plans = np.column_stack((plans, quartiles[:, 1:4]))
        within = hazards(of_scenarios(scenarios))
        odds = np.log(within / (1.0 - within))
        shares = np.column_stack([(scenarios <= wait).mean(axis=1) for wait in (60.0, 3600.0)])
        parts += [np.log1p(quartiles)[job], shares[job], odds[job, bins][:, None]]
    return np.column_stack([*parts, *(edge - np.log1p(plan[job]) for plan in plans.T)])


def of_odds(odds: np.ndarray) -> np.ndarray:
    """Return the distributions from the log odds of the bins, float64 [jobs, edges]."""
    stays = 1.0 / (1.0 + np.exp(np.clip(odds.reshape(-1, len(EDGES_S) - 1), -30.0, 30.0)))
    return np.column_stack((1.0 - np.cumprod(stays, axis=1), np.ones(len(stays))))


def leaves_of(nodes: np.ndarray, thresholds: np.ndarray, features: np.ndarray) -> np.ndarray:
    """Return the leaf of each job in each tree, int64 [jobs, trees].

    ``nodes`` int64 [trees, leaves, 3] are (feature, child if it is at most the threshold, other child); child -1 is
    leaf 0.
    """
    tree, row = np.arange(len(nodes)), np.arange(len(features))[:, None]
    node = np.where(nodes[:, 0, 0] < 0, -1, 0) + 0 * row
    while (inner := node >= 0).any():
        at = np.maximum(node, 0)
        low = features[row, nodes[tree, at, 0]] <= thresholds[tree, at]
        node = np.where(inner, np.where(low, nodes[tree, at, 1], nodes[tree, at, 2]), node)
    return -1 - node


@dataclass(frozen=True)
class Hazard:
    """Boosted trees of a hazard: nodes int64 [trees, leaves, 3], thresholds and values.

    As in :func:`leaves_of`; the values of a row's leaves add up to the log odds of starting in its bin.
    """

    nodes: np.ndarray
    thresholds: np.ndarray
    values: np.ndarray

    def chances(self, states: np.ndarray, plans: np.ndarray, scenarios: np.ndarray | None) -> np.ndarray:
        """Return the distributions of jobs, float64 [jobs, edges].

        Arguments as in :func:`rows_of`.
        """
        distributions = [np.empty((0, len(EDGES_S)))]
        for first in range(0, len(states), _AT_ONCE):
            some = slice(first, first + _AT_ONCE)
            rows = self.rows(states[some], plans[some], None if scenarios is None else scenarios[some])
            leaves = leaves_of(self.nodes, self.thresholds, rows)
            distributions.append(of_odds(self.values[np.arange(len(self.nodes)), leaves].sum(axis=1)))
        return np.concatenate(distributions)

    @staticmethod
    def rows(states: np.ndarray, plans: np.ndarray, scenarios: np.ndarray | None) -> np.ndarray:
        """Return the trees' inputs for each job and each bin but the last, which needs no answer."""
        jobs, bins = len(states), len(EDGES_S) - 1
        return rows_of(states, plans, scenarios, np.repeat(np.arange(jobs), bins), np.tile(np.arange(bins), jobs))

    def arrays(self) -> Mapping[str, np.ndarray]:
        """Return the arrays for :func:`numpy.savez`."""
        return {"nodes": self.nodes, "thresholds": self.thresholds, "values": self.values}


PINNED = (AT_ONCE, *(int(np.searchsorted(EDGES_S, wait)) for wait in (600, 3_600, 14_400)))
"""Edges whose chances are calibrated directly: at once, and within 10 min, 1 h and 4 h."""
_FREE_FROM = int(np.searchsorted(EDGES_S, 86_400))
_BETWEEN = np.stack([np.interp(np.arange(len(EDGES_S)), (*PINNED, _FREE_FROM), row) for row in np.eye(len(PINNED) + 1)[:-1]])
"""Weight of each pinned edge's move of the odds at each edge, float64 [pinned, edges]."""


@dataclass(frozen=True)
class Calibration:
    """How recent chances compare with outcomes, for jobs that start at once or wait.

    The odds of starting by each of the first edges of ``PINNED`` are raised to ``slope`` and multiplied by
    exp(``shift``), both float64 [edges]. Among the jobs that waited, a chance given as ``forecast`` came true with
    frequency ``came``; both are float64 [points] and rise from 0 to 1. Between pinned edges the move of the odds is
    interpolated.
    """

    shift: np.ndarray
    slope: np.ndarray
    forecast: np.ndarray
    came: np.ndarray

    def apply(self, chances: np.ndarray) -> np.ndarray:
        """Return calibrated distributions, float64 [jobs, edges]."""
        pinned = list(PINNED[: len(self.shift)])
        odds = self.shift + self.slope * _log_odds(chances[:, pinned])
        now = 1.0 / (1.0 + np.exp(-odds[:, :1]))
        rest = np.interp(given_waiting(chances), self.forecast, self.came)
        within = chances[:, : AT_ONCE + 1] / np.maximum(chances[:, AT_ONCE : AT_ONCE + 1], 1e-9)
        calibrated = now + (1.0 - now) * rest
        later = slice(AT_ONCE + 1, _FREE_FROM)
        moved = np.exp(np.clip((odds - _log_odds(calibrated[:, pinned]))[:, 1:] @ _BETWEEN[1 : len(pinned), later], -30.0, 30.0))
        calibrated[:, later] *= moved / (1.0 - calibrated[:, later] + calibrated[:, later] * moved)
        calibrated[:, : AT_ONCE + 1] = within * now
        calibrated[:, -1] = 1.0
        return np.maximum.accumulate(calibrated, axis=1)


def _log_odds(chance: np.ndarray) -> np.ndarray:
    chance = np.clip(chance, 1e-3, 1.0 - 1e-3)
    return np.log(chance / (1.0 - chance))
