"""Measure answers of the study of starts: losses, coverage, skill, and how often told chances came true."""

from __future__ import annotations

import numpy as np
import pandas as pd

from features.clock import WEEK_S
from features.statistics import mean_intervals
from models.packed.start_distribution import CHANCES_S, EDGES_S, LEVELS, at_waits, given_waiting
from models.runtime.distribution import losses
from models.starts.evaluation import INTERVALS, MONTH_S, WAITED_S

OURS, METHODS = "ours", ("state", "state, LightGBM", "plan, requested", "plan, last2", "last waits", "constant", "shuffled")


def losses_of(answers: pd.DataFrame, method: str) -> np.ndarray:
    """Return a method's pinball losses, seconds, float64 [answers, levels]."""
    quantiles_s = answers[[f"{method} {level}" for level in LEVELS]].to_numpy(np.float64)
    return losses(quantiles_s, np.array(LEVELS), answers["waited_s"].to_numpy(np.float64))


def covered(chances: np.ndarray, waited_s: np.ndarray, at_s: np.ndarray, first_s: int) -> pd.DataFrame:
    """Return the coverage of intervals among the jobs that wait, a row a share and month.

    Columns ``month share jobs covered``; month -1 is all. Intervals are those of a job that does not start at once, which is what is
    told to one that finds no room. Months count from ``first_s``.
    """
    waits = waited_s > WAITED_S
    place = at_waits(given_waiting(chances[waits]), waited_s[waits])
    month, rows = (at_s[waits] - first_s) // MONTH_S, []
    for share in INTERVALS:
        inside = np.abs(place - 0.5) <= share / 2.0
        for number in (-1, *np.unique(month)):
            chosen = inside[month == number] if number >= 0 else inside
            rows.append({"month": int(number), "share": share, "jobs": len(chosen), "covered": float(chosen.mean())})
    return pd.DataFrame(rows, columns=["month", "share", "jobs", "covered"])


def chance_table(chances: np.ndarray, waited_s: np.ndarray, bins: int = 10) -> pd.DataFrame:
    """Return how often told chances came true, a row a wait and bin.

    Columns ``by bin jobs told came``.
    """
    rows = []
    for name, wait in CHANCES_S.items():
        chance = chances[:, int(np.searchsorted(EDGES_S, wait))]
        place, came = np.minimum((chance * bins).astype(np.int64), bins - 1), waited_s <= wait
        for number in np.unique(place):
            chosen = place == number
            rows.append(
                {
                    "by": name,
                    "bin": int(number),
                    "jobs": int(chosen.sum()),
                    "told": float(chance[chosen].mean()),
                    "came": float(came[chosen].mean()),
                }
            )
    return pd.DataFrame(rows, columns=["by", "bin", "jobs", "told", "came"])


def worst_by_chance(bins: pd.DataFrame, seed: int = 0, draws: int = 4000) -> float:
    """Return how far off the worst of ``bins`` is at most, in 95 % of draws, where chances are right.

    As many jobs as in each bin are told its middle.
    """
    jobs, middle = bins["jobs"].to_numpy(), (bins["what"].str.extract(r"bin (\d+)")[0].to_numpy(np.float64) + 0.5) / 10
    came = np.random.default_rng(seed).binomial(jobs, middle, (draws, len(jobs))) / jobs
    return float(np.quantile(np.abs(came - middle).max(axis=1), 0.95))


def brier_skill(chances: np.ndarray, waited_s: np.ndarray, base: np.ndarray, wait_s: float) -> float:
    """Return the Brier skill of the chance to start by ``wait_s`` against ``base``.

    float64 [jobs]. One minus the ratio of the two mean squared errors.
    """
    came = (waited_s <= wait_s).astype(np.float64)
    chance = chances[:, int(np.searchsorted(EDGES_S, wait_s))]
    return float(1.0 - ((chance - came) ** 2).mean() / max(((base - came) ** 2).mean(), 1e-12))


def measured(answers: pd.DataFrame, log: str, rule: str, cases: int) -> pd.DataFrame:
    """Return rows ``log rule what method jobs value ratio low high``: losses, coverage, skill and reliability.

    ``loss`` is the mean pinball loss of jobs that waited (``loss, all``: of all), ``ratio`` its excess over ours with a simultaneous interval over
    weeks of the difference in parts of ours, among the comparisons of so many ``cases``; ``coverage`` by share, and by month; ``skill``; and
    ``off``, chances told less came true.
    """
    wait, at = answers["waited_s"].to_numpy(np.float64), answers["at_s"].to_numpy(np.int64)
    waits, rows = wait > WAITED_S, []
    week = pd.factorize(at[waits] // WEEK_S)[0]
    ours = losses_of(answers, OURS)
    confidence = 1.0 - 0.05 / (len(METHODS) * cases * len(LEVELS))
    for method in (OURS, *METHODS):
        theirs = losses_of(answers, method)
        more = theirs[waits] - ours[waits]
        low, high = mean_intervals(more, week, confidence) / ours[waits].mean(axis=0)
        rows.append(("loss, all", method, len(wait), theirs.mean(), np.nan, np.nan, np.nan))
        rows.append(("loss", method, waits.sum(), theirs[waits].mean(), more.mean() / ours[waits].mean(), np.nan, np.nan))
        for column, level in enumerate(LEVELS):
            value = theirs[waits, column].mean()
            rows.append(
                (
                    f"loss at {level}",
                    method,
                    waits.sum(),
                    value,
                    more[:, column].mean() / ours[waits, column].mean(),
                    low[column],
                    high[column],
                )
            )
    chances = answers[[f"chance {edge:g}" for edge in EDGES_S]].to_numpy(np.float64)
    for each in covered(chances, wait, at, int(at.min())).itertuples():
        what = f"coverage of {each.share:.0%}" + ("" if each.month < 0 else f", month {each.month}")
        rows.append((what, OURS, each.jobs, each.covered, np.nan, np.nan, np.nan))
    for name, within in (("1h", 3600.0), ("4h", 14400.0)):
        skill = brier_skill(chances, wait, answers[f"base {name}"].to_numpy(np.float64), within)
        rows.append((f"Brier skill, {name}", OURS, len(wait), skill, np.nan, np.nan, np.nan))
    for each in chance_table(chances, wait).itertuples():
        rows.append((f"off, {each.by}, bin {each.bin}", OURS, each.jobs, each.told - each.came, np.nan, np.nan, np.nan))
    table = pd.DataFrame(rows, columns=["what", "method", "jobs", "value", "ratio", "low", "high"])
    return table.assign(log=log, rule=rule)[["log", "rule", *table.columns]]
