"""Transfer: what policies chosen on some weeks are worth on others.

After Legrand, Trystram & Zrigui (2018), sections 7.2 and 11: the optimum of each week, that of all training weeks together, and that
of the week before, on every week. Sums of weekly means are compared with a baseline's by a bootstrap of whole weeks, paired, and
of replicates: every week replayed with shaken submissions, the same shake for both policies (:mod:`features.jobs.workload_changes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.common.policy_frontier import AIM, change
from benchmarks.papers.legrand.mixed import BASELINE
from features.errors import InputError
from features.statistics import FEWEST_BLOCKS, Ratio, drawn

RECORDED = -1
"""The seed of the replay that is not shaken."""
TRAINING, TESTING = "training", "testing"
PAPER_WEEKS = {
    "kth-sp2": ((1, 22), (23, 45)),
    "sdsc-sp2": ((28, 64), (65, 100)),
    "sdsc-blue": ((1, 50), (51, 100)),
    "ctc-sp2": ((1, 22), (23, 45)),
}
"""First and last training and testing weeks by the beginning of a trace's name. Of SDSC-SP2 the paper names them, of others it says
how many weeks it takes, and halves."""
PAPER_MONTHS = 10
"""Training months of the paper; all others are for testing."""
RESAMPLES = 2000


@dataclass(frozen=True)
class Split:
    """Numbers of the windows for training and for testing, in order; none is in both."""

    training: tuple[int, ...]
    testing: tuple[int, ...]

    def parts(self) -> dict[str, tuple[int, ...]]:
        """Return the windows of each part by its name."""
        return {TRAINING: self.training, TESTING: self.testing}


def split_of(present: Sequence[int], trace: str, unit: str) -> Split:
    """Return which of the windows ``present`` are for training, and which for testing.

    As in the paper, for weeks of its traces and for months; else halves, an odd one for testing. Raises InputError where a part is empty.
    """
    published = _published(trace, unit)
    if unit == "months" and len(present) > PAPER_MONTHS:
        parts = (present[:PAPER_MONTHS], present[PAPER_MONTHS:])
    elif published is not None:
        parts = tuple([number for number in present if first <= number <= last] for first, last in published)  # type: ignore[assignment]
    else:
        parts = (present[: len(present) // 2], present[len(present) // 2 :])
    if not all(parts):
        raise InputError(f"{trace}: {len(present)} {unit} are too few to learn on some and test on others")
    return Split(tuple(parts[0]), tuple(parts[1]))


def last_of(trace: str, unit: str) -> int | None:
    """Return the last window that the paper takes of a trace; None where it does not say."""
    published = _published(trace, unit)
    return published[1][1] if published else None


def _published(trace: str, unit: str) -> tuple[tuple[int, int], tuple[int, int]] | None:
    named = (parts for name, parts in PAPER_WEEKS.items() if trace.lower().startswith(name))
    return next(named, None) if unit == "weeks" else None


def optimum(directions: np.ndarray, values: np.ndarray) -> tuple[int, int]:
    """Return the row of the direction with the min value, and how many directions have it.

    ``directions`` float64 [directions, features], ``values`` [directions]. Of equals the one in their middle: the nearest to
    their mean, of those as near the first.
    """
    equal = np.flatnonzero(values == values.min())
    away = ((directions[equal] - directions[equal].mean(axis=0)) ** 2).sum(axis=1)
    return int(equal[away.argmin()]), len(equal)


def sums(
    replays: pd.DataFrame,
    split: Split,
    baseline: str = BASELINE,
    policies: Sequence[str] | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """Return sums of weekly means by policy over training and testing windows (table 2).

    ``replays`` has columns ``seed week policy tau_s mean_bounded_slowdown max_wait_s``; the seed :data:`RECORDED` is of submissions as
    recorded, all others are replicates; ``policies`` are by default all. Columns: ``tau_s policy part windows sum relative low high better
    replicates max_wait_s``. ``sum`` is that of the recorded replay, ``max_wait_s`` its longest wait; ``relative`` the change of the
    replicates' sums to the baseline's, ``low`` and ``high`` its interval over weeks and replicates, ``better`` the share of resamples
    in which the sum is below the baseline's, an equal one half. The interval and that share are NaN below 5 windows.
    """
    rows = []
    for tau_s, judged in replays.groupby("tau_s", sort=False):
        values, waits = (_Cube.of(judged, column) for column in (AIM, "max_wait_s"))
        for name in values.policies if policies is None else policies:
            for part, numbers in split.parts().items():
                mine, theirs = (values.shaken(each, numbers) for each in (name, baseline))
                ours, base = ({AIM: Ratio(each, np.ones_like(each))} for each in (mine, theirs))
                against = change(ours, base, AIM)
                row: dict[str, Any] = {"tau_s": tau_s, "policy": name, "part": part, "windows": len(numbers)}
                row |= {"sum": values.recorded(name, numbers).sum()}
                row |= {"relative": against.relative, "low": against.low, "high": against.high}
                row |= {"better": better(mine, theirs, seed), "replicates": len(mine)}
                rows.append(row | {"max_wait_s": waits.recorded(name, numbers).max()})
    return pd.DataFrame(rows).astype(dict.fromkeys(("relative", "low", "high", "better"), "float64"))


def by_policy(transfer: pd.DataFrame, tau_s: float, part: str) -> dict[str, dict[str, Any]]:
    """Return the rows of :func:`sums` for one tau and part, by policy."""
    rows = transfer[(transfer["tau_s"] == tau_s) & (transfer["part"] == part)]
    return {str(row["policy"]): {str(name): value for name, value in row.items()} for row in rows.to_dict("records")}


@dataclass(frozen=True)
class _Cube:
    """Values float64 [policies, seeds, weeks] of one tau."""

    values: np.ndarray
    policies: list[str]
    seeds: np.ndarray
    weeks: np.ndarray

    @staticmethod
    def of(judged: pd.DataFrame, column: str) -> _Cube:
        table = judged.pivot(index=["policy", "seed"], columns="week", values=column)
        names, seeds = judged["policy"].drop_duplicates().tolist(), np.sort(judged["seed"].unique())
        rows = table.reindex(pd.MultiIndex.from_product([names, seeds]))
        return _Cube(rows.to_numpy(np.float64).reshape(len(names), len(seeds), -1), names, seeds, table.columns.to_numpy())

    def shaken(self, policy: str, numbers: Sequence[int]) -> np.ndarray:
        """Return the shaken replicates, float64 [replicates, numbers]."""
        return self._of(policy, numbers)[self.seeds != RECORDED]

    def recorded(self, policy: str, numbers: Sequence[int]) -> np.ndarray:
        """Return the replay as recorded, float64 [numbers]."""
        return self._of(policy, numbers)[self.seeds == RECORDED][0]

    def _of(self, policy: str, numbers: Sequence[int]) -> np.ndarray:
        return self.values[self.policies.index(policy)][:, np.isin(self.weeks, numbers)]


def better(mine: np.ndarray, theirs: np.ndarray, seed: int) -> float:
    """Return the share of resamples in which ``mine`` sums to less than ``theirs``.

    Both are float64 [replicates, weeks]. A resample draws weeks and replicates with replacement, the same for both; equal sums count
    half. NaN below ``FEWEST_BLOCKS`` weeks.
    """
    replicates, weeks = mine.shape
    if weeks < FEWEST_BLOCKS:
        return float("nan")
    of_weeks, of_seeds = drawn(weeks, RESAMPLES, seed), drawn(replicates, RESAMPLES, seed + 1)
    gained = ((of_seeds @ (theirs - mine)) * of_weeks).sum(axis=1)
    return float((gained > 0).mean() + (gained == 0).mean() / 2)
