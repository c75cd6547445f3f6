"""The study of Legrand, Trystram & Zrigui (2018) on any trace.

Every window is simulated by itself: the twelve pure policies under three thresholds, every direction of the grid, searches by xNES, and
then replays of what was chosen, as recorded and with shaken submissions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.common.policy_frontier import AIM
from benchmarks.papers.legrand.mixed import FEATURES, POINTS, THRESHOLDS, WEIGHTS, grid, on_sphere, pure_week
from benchmarks.papers.legrand.optimisers import Search, optimise_week
from benchmarks.papers.legrand.transfer import RECORDED, Split, last_of, optimum, split_of
from features.jobs.cleaning import CleanTrace
from features.jobs.workload_changes import moves, shaken
from features.limits import SHAKE_S
from sim.campaigns.learned_order import MIXED, PreparedSweep
from sim.campaigns.maps import threads
from sim.campaigns.windows import Window, split_windows

ORACLE, TRAINED, GREEDY, HINDSIGHT = "w*", "w_train", "w_greedy", "w_test"
"""The optimum of each window, of the training windows' sum, of the window before, and of the testing windows' sum."""
XNES = {"xnes3": 3, "xnes6": 6}
"""What xNES finds for each window with so many weights."""


@dataclass(frozen=True)
class Settings:
    """What is studied; times in seconds.

    ``starvation_s`` is the threshold of mixed policies. ``points`` a dimension make the grid of directions; each search by xNES has
    ``budget`` simulations, 0: there is none. ``replicates`` are shaken replays.
    """

    unit: str = "weeks"
    starvation_s: int | None = 200_000
    taus_s: tuple[float, ...] = (10.0, 60.0)
    points: int = POINTS
    budget: int = 1000
    replicates: int = 20
    shake_s: int = SHAKE_S
    seed: int = 0


class Study(NamedTuple):
    """What a study found, a tidy table each.

    ``pure``: :func:`benchmarks.papers.legrand.mixed.pure_week` of all windows. ``chosen``: ``week policy tau_s``, the weights by feature,
    and how many directions are ``equal``. ``replays``: ``seed week policy tau_s mean_bounded_slowdown max_wait_s``.
    """

    split: Split
    pure: pd.DataFrame
    chosen: pd.DataFrame
    replays: pd.DataFrame


@dataclass(frozen=True)
class _Trace:
    """Processors, the grid, and each seed's moves of the whole trace's jobs, int64 [jobs]."""

    procs: int
    settings: Settings
    directions: np.ndarray
    moves_s: Mapping[int, np.ndarray]

    def sweep(self, jobs: pd.DataFrame, *taus_s: float) -> PreparedSweep:
        policy = MIXED._replace(starvation_s=self.settings.starvation_s)
        return PreparedSweep(jobs, procs=self.procs, policy=policy, taus_s=taus_s or self.settings.taus_s)

    def judged(self, metrics: pd.DataFrame) -> np.ndarray:
        """Return the mean bounded slowdown for each tau, float64 [policies, taus]."""
        taus_s = self.settings.taus_s
        names = [f"{AIM}_{tau_s:g}" for tau_s in taus_s] if len(taus_s) > 1 else [AIM]
        return metrics[names].to_numpy(np.float64)


def study_of(clean: CleanTrace, settings: Settings) -> Study:
    """Run the study on a trace, a thread a core; windows and parts are the paper's for its traces."""
    windows = split_windows(clean.jobs, settings.unit).windows
    last = last_of(clean.name, settings.unit)
    windows = tuple(window for window in windows if last is None or window.number <= last)
    split = split_of([window.number for window in windows], clean.name, settings.unit)
    seeds = range(settings.seed, settings.seed + settings.replicates)
    by_s = {RECORDED: np.zeros(len(clean.jobs), np.int64)}
    by_s |= {seed: moves(len(clean.jobs), settings.shake_s, seed) for seed in seeds}
    trace, share = _Trace(clean.procs, settings, grid(settings.points), by_s), threads()
    surfaces = dict(sorted(share(partial(_surface, trace), windows)))
    searched = dict(share(partial(_searched, trace), windows if settings.budget else ()))
    chosen = _choices(settings, split, trace.directions, surfaces, searched)
    replays = dict(share(partial(_replays, trace, chosen), windows))
    return Study(
        split,
        pd.concat([pure_week(window, clean.procs, THRESHOLDS, settings.taus_s) for window in windows], ignore_index=True),
        chosen,
        pd.concat([replays[window.number] for window in windows], ignore_index=True),
    )


def _surface(trace: _Trace, window: Window) -> tuple[int, np.ndarray]:
    """Return the value of every direction of the grid, float64 [directions, taus]."""
    return window.number, trace.judged(trace.sweep(window.jobs).measure(trace.directions))


def _searched(trace: _Trace, window: Window) -> tuple[int, dict[str, list[np.ndarray]]]:
    """Return the weights that xNES finds for the window, by its name: one a tau."""
    settings, search = trace.settings, Search(budget=trace.settings.budget)
    return window.number, {
        name: [
            optimise_week(trace.sweep(window.jobs, tau_s), window.number, features, search, settings.seed).weights
            for tau_s in settings.taus_s
        ]
        for name, features in XNES.items()
    }


def _choices(
    settings: Settings,
    split: Split,
    whole: np.ndarray,
    surfaces: Mapping[int, np.ndarray],
    searched: Mapping[int, Mapping[str, list[np.ndarray]]],
) -> pd.DataFrame:
    """Return what is chosen for each window: a row a window, policy and tau, with its weights."""
    directions, parts, rows = on_sphere(whole), {TRAINED: split.training, HINDSIGHT: split.testing}, []
    for place, tau_s in enumerate(settings.taus_s):
        totals = {name: sum(surfaces[number][:, place] for number in numbers) for name, numbers in parts.items()}
        fixed = {name: optimum(directions, total) for name, total in totals.items()}
        before: tuple[np.ndarray, int] = np.array(WEIGHTS["FCFS"][:3], np.float64), 1
        for number, values in surfaces.items():
            row, equal = optimum(directions, values[:, place])
            named = {ORACLE: (directions[row], equal), GREEDY: before}
            named |= {name: (directions[at], count) for name, (at, count) in fixed.items()}
            named |= {name: (weights[place], 1) for name, weights in searched.get(number, {}).items()}
            before = directions[row], equal
            rows += [
                {"week": number, "policy": name, "tau_s": tau_s, **_by_feature(weights), "equal": count}
                for name, (weights, count) in named.items()
            ]
    return pd.DataFrame(rows)


def _by_feature(weights: np.ndarray) -> dict[str, float]:
    """Return weights by feature; those that are not given are 0."""
    full = np.zeros(len(FEATURES))
    full[: len(weights)] = weights
    return dict(zip(FEATURES, full.tolist(), strict=True))


def _replays(trace: _Trace, chosen: pd.DataFrame, window: Window) -> tuple[int, pd.DataFrame]:
    """Return pure and chosen policies on the window as recorded and shaken, as ``Study.replays``."""
    mine = chosen[chosen["week"] == window.number]
    weights = np.vstack([list(WEIGHTS.values()), mine[list(FEATURES)].to_numpy(np.float64)])
    names = [*((name, None) for name in WEIGHTS), *zip(mine["policy"], mine["tau_s"], strict=True)]
    tables = []
    for seed, by_s in trace.moves_s.items():
        metrics = trace.sweep(shaken(window.jobs, by_s[window.rows])[0]).measure(weights)
        for place, tau_s in enumerate(trace.settings.taus_s):
            rows = [row for row, (_, of_s) in enumerate(names) if of_s in (None, tau_s)]
            table = {"policy": [names[row][0] for row in rows], AIM: trace.judged(metrics)[rows, place]}
            table["max_wait_s"] = metrics["max_wait_s"].to_numpy()[rows]
            tables.append(pd.DataFrame(table).assign(seed=seed, week=window.number, tau_s=tau_s))
    return window.number, pd.concat(tables, ignore_index=True)
