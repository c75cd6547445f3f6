"""The study of Legrand, Trystram & Zrigui (2018) on any trace.

Every window is simulated by itself, in steps that may be computed in any order and kept: the grid of directions, black-box
optimisers, a landscape, and replays of what was chosen, as recorded and with shaken submissions. :func:`run_study` gathers them.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from features.errors import InputError
from features.jobs.shaking import SHAKE_S, moves, shaken
from sim.campaigns.maps import Map, serial, threads
from sim.campaigns.policy_frontier import AIM
from sim.campaigns.sweep import MIXED, PreparedSweep
from sim.campaigns.windows import Window, Windows
from sim.policy import Policy
from sim.search.directions import POINTS, SURFACE, Directions, grid
from sim.search.landscape import landscape
from sim.search.optimisers import Search, optimise_weeks
from sim.search.pure import THRESHOLDS, WEIGHTS, PureWeek, pure_week, starvation
from sim.search.pure import longest as longest_jobs
from sim.search.transfer import RECORDED, Split, optimum

FEATURES = ("n", "r", "wait", "r/n", "expansion", "r n")
"""What the weights of mixed policies are on; those with three have the first ones."""
ORACLE, TRAINED, GREEDY, HINDSIGHT = "w*", "w_train", "w_greedy", "w_test"
"""The optimum of each window, of the training windows' sum, of the window before, and of the testing windows' sum."""
XNES = {"xnes3": 3, "xnes6": 6}
"""What xNES finds for each window with so many weights."""
SIDE, FACES = 100, ("n below 0", "n above 0")
"""Cells along each side of a face of a landscape, and its two faces, by the weight of n."""

Record: TypeAlias = dict[str, Any]
"""What a step found, in values of JSON."""


@dataclass(frozen=True)
class Settings:
    """What is studied; times in seconds.

    ``starvation_s`` is the threshold of mixed policies, one of the ``thresholds`` of pure ones. ``points`` a dimension make the grid of
    directions, in one of its two readings (:func:`sim.search.directions.grid`); each search by xNES has ``budget`` simulations, 0:
    there is none. ``replicates`` are shaken replays, ``landscapes`` the numbers of the windows to draw.
    """

    split: Split
    unit: str = "weeks"
    starvation_s: int | None = 200_000
    thresholds: tuple[int | None, ...] = THRESHOLDS
    taus_s: tuple[float, ...] = (10.0, 60.0)
    points: int = POINTS
    reading: str = SURFACE
    budget: int = 1000
    replicates: int = 20
    shake_s: int = SHAKE_S
    seed: int = 0
    landscapes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.starvation_s not in self.thresholds:
            raise InputError(f"the threshold {self.starvation_s} of mixed policies is none of those of pure ones")
        if self.replicates < 2:
            raise InputError(f"{self.replicates} shaken replays tell no chaos: give 2 or more")


class Step(NamedTuple):
    """One step of one window."""

    stage: str
    window: int


@dataclass(frozen=True)
class Tables:
    """What a study found, a tidy table each.

    ``pure``: ``week jobs policy starvation_s tau_s mean_bounded_slowdown mean_wait_s max_wait_s``. ``waits``: ``policy starvation_s
    mean_wait_s p99_wait_s max_wait_s`` over all windows. ``chosen``: ``week policy tau_s`` and the weights by feature, ``value``, and how
    many directions are ``equal``. ``replays``: ``seed week policy tau_s mean_bounded_slowdown max_wait_s``. ``landscapes``: ``week tau_s face
    across up value``, a row a cell of :func:`face_weights`. ``longest``: the jobs with the longest runtimes.
    """

    pure: pd.DataFrame
    waits: pd.DataFrame
    chosen: pd.DataFrame
    replays: pd.DataFrame
    landscapes: pd.DataFrame
    longest: pd.DataFrame

    def by_name(self) -> dict[str, pd.DataFrame]:
        """Return the tables by their names."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True)
class _Trace:
    """Windows by number, processors, and each seed's moves of the whole trace's jobs, int64 [jobs]."""

    windows: Mapping[int, Window]
    procs: int
    settings: Settings
    directions: Directions
    moves_s: Mapping[int, np.ndarray]

    @property
    def policy(self) -> Policy:
        """The policy of which weights are searched."""
        return MIXED._replace(starvation_s=self.settings.starvation_s)

    def measured(self, jobs: pd.DataFrame, weights: np.ndarray) -> pd.DataFrame:
        """Return the metrics of mixed policies on ``jobs``, a row each."""
        return PreparedSweep(jobs, procs=self.procs, policy=self.policy, taus_s=self.settings.taus_s).measure(weights)

    def judged(self, metrics: pd.DataFrame) -> np.ndarray:
        """Return the mean bounded slowdown for each tau, float64 [policies, taus]."""
        taus_s = self.settings.taus_s
        names = [f"{AIM}_{tau_s:g}" for tau_s in taus_s] if len(taus_s) > 1 else [AIM]
        return metrics[names].to_numpy(np.float64)


def run_study(
    jobs: pd.DataFrame,
    settings: Settings,
    windows: Windows,
    procs: int,
    *,
    map_steps: Map | None = None,
    done: Mapping[Step, Record] | None = None,
    finished: Callable[[Step, Record], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Tables:
    """Run the study on the ``windows`` of ``jobs``.

    Steps that are ``done`` are not computed again. ``finished(step, record)`` is called from this thread for each computed one,
    ``progress(done, steps)`` too; ``map_steps`` shares the windows, by default among a thread a core. Raises InputError for a landscape of
    a window that has no jobs.
    """
    numbered = {window.number: window for window in windows.windows}
    if missing := [each for each in settings.landscapes if each not in numbered]:
        raise InputError(f"no landscape of {settings.unit} {missing[0]}: those with jobs are {min(numbered)} to {max(numbered)}")
    seeds = range(settings.seed, settings.seed + settings.replicates)
    trace = _Trace(
        numbered,
        procs,
        settings,
        grid(settings.points, settings.reading),
        {RECORDED: np.zeros(len(jobs), np.int64)} | {seed: moves(len(jobs), settings.shake_s, seed) for seed in seeds},
    )
    total = (3 if settings.budget else 2) * len(numbered) + len(settings.landscapes)
    known = dict(done or {})
    pool = _Pool(map_steps or threads(), known, finished, progress, total)
    pure = [pure_week(window, procs, settings.thresholds, settings.taus_s) for window in windows.windows]
    surfaces = pool.compute("grid", sorted(numbered), partial(_grid, trace))
    optimised = pool.compute("xnes", sorted(numbered) if settings.budget else (), partial(_optimised, trace))
    chosen = _choices(trace, surfaces, optimised)
    replays = pool.compute("replays", sorted(numbered), partial(_replays, trace, chosen))
    drawn = pool.compute("landscape", settings.landscapes, partial(_landscape, trace))
    return Tables(
        _rows(pure),
        starvation(pure),
        chosen,
        pd.DataFrame([row for number in sorted(numbered) for row in _replay_rows(chosen, settings, number, replays[number])]),
        pd.concat([_faces(settings, number, drawn[number]) for number in settings.landscapes]) if drawn else pd.DataFrame(),
        longest_jobs(jobs),
    )


def _rows(pure: Sequence[PureWeek]) -> pd.DataFrame:
    return pd.DataFrame([row for week in pure for row in week.rows]).astype({"starvation_s": "Int64"})


@dataclass
class _Pool:
    """A map that computes the steps that are not known."""

    map_steps: Map
    known: dict[Step, Record]
    finished: Callable[[Step, Record], None] | None
    progress: Callable[[int, int], None] | None
    total: int
    before: int = 0

    def compute(self, stage: str, numbers: Sequence[int], function: Callable[[int], Record]) -> dict[int, Record]:
        """Return the records of ``stage`` by window, in the order of ``numbers``."""
        steps = [Step(stage, number) for number in numbers]
        self.before += sum(step in self.known for step in steps)
        missing = [step for step in steps if step not in self.known]
        for step, record in self.map_steps(partial(_found, function), missing):
            self.known[step] = record
            self.before += 1
            if self.finished is not None:
                self.finished(step, record)
            if self.progress is not None:
                self.progress(self.before, self.total)
        return {step.window: self.known[step] for step in steps}


def _found(function: Callable[[int], Record], step: Step) -> tuple[Step, Record]:
    return step, function(step.window)


def _grid(trace: _Trace, number: int) -> Record:
    """Return the values of every schedule of the grid, and which of them each direction has."""
    found = landscape(
        trace.windows[number].jobs,
        procs=trace.procs,
        directions=trace.directions,
        policy=trace.policy,
        taus_s=trace.settings.taus_s,
    )
    return {"values": packed(trace.judged(found.schedules)), "region": packed(found.found.region.astype(np.uint32))}


def _optimised(trace: _Trace, number: int) -> Record:
    """Return the weights that xNES finds for the window, by its name: a list a tau."""
    jobs, settings = trace.windows[number].jobs, trace.settings
    found: Record = {}
    for name, features in XNES.items():
        found[name] = []
        for tau_s in settings.taus_s:
            made = optimise_weeks(
                {number: jobs},
                features,
                Search(budget=settings.budget),
                procs=trace.procs,
                policy=trace.policy,
                tau_s=tau_s,
                seed=settings.seed,
                map_pieces=serial,
            )
            found[name].append(made[number].weights.tolist())
    return found


def _surface(record: Record, taus: int) -> np.ndarray:
    """Return the value of every direction, float64 [directions, taus]."""
    return unpacked(record["values"], taus)[np.frombuffer(_bytes(record["region"]), np.uint32)]


def packed(values: np.ndarray) -> str:
    """Return an array as text; much of it repeats, so it is short."""
    return base64.b64encode(zlib.compress(np.ascontiguousarray(values).tobytes(), 1)).decode()


def unpacked(text: str, columns: int) -> np.ndarray:
    """Return what was :func:`packed`, float64 [rows, columns]."""
    return np.frombuffer(_bytes(text), np.float64).reshape(-1, columns)


def _bytes(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))


def _choices(trace: _Trace, surfaces: Mapping[int, Record], optimised: Mapping[int, Record]) -> pd.DataFrame:
    """Return what is chosen for each window: a row a window, policy and tau, with its weights."""
    settings, directions = trace.settings, trace.directions.weights
    taus = len(settings.taus_s)
    parts = {TRAINED: settings.split.training, HINDSIGHT: settings.split.testing}
    totals = {name: np.zeros((len(directions), taus)) for name in parts}
    best: dict[tuple[int, int], tuple[int, int, float]] = {}
    for number, record in surfaces.items():
        values = _surface(record, taus)
        for name, numbers in parts.items():
            if number in numbers:
                totals[name] += values
        for place in range(taus):
            row, equal = optimum(directions, values[:, place])
            best[number, place] = row, equal, float(values[row, place])
    rows = []
    for place, tau_s in enumerate(settings.taus_s):
        fixed = {name: optimum(directions, total[:, place]) for name, total in totals.items()}
        before: tuple[int, int] | None = None
        for number in surfaces:
            row, equal, _ = best[number, place]
            named: dict[str, tuple[np.ndarray, int]] = {ORACLE: (directions[row], equal)}
            named[GREEDY] = (directions[before[0]], before[1]) if before else (np.array(WEIGHTS["FCFS"][:3], np.float64), 1)
            named |= {name: (directions[at], count) for name, (at, count) in fixed.items()}
            named |= {name: (np.array(weights[place]), 1) for name, weights in optimised.get(number, {}).items()}
            before = row, equal
            rows += [
                {"week": number, "policy": name, "tau_s": tau_s, **_named(weights), "equal": count}
                for name, (weights, count) in named.items()
            ]
    return pd.DataFrame(rows)


def _named(weights: np.ndarray) -> dict[str, float]:
    """Return weights by feature; those that are not given are 0."""
    full = np.zeros(len(FEATURES))
    full[: len(weights)] = weights
    return dict(zip(FEATURES, full.tolist(), strict=True))


def _replays(trace: _Trace, chosen: pd.DataFrame, number: int) -> Record:
    """Return pure and chosen policies on the window as recorded and shaken, by seed.

    Each has its mean bounded slowdown for each tau, and last its longest wait in seconds.
    """
    window = trace.windows[number]
    weights = np.vstack([list(WEIGHTS.values()), _weights(chosen, number)])
    found: Record = {}
    for seed, by_s in trace.moves_s.items():
        metrics = trace.measured(shaken(window.jobs, by_s[window.rows])[0], weights)
        found[str(seed)] = np.column_stack([trace.judged(metrics), metrics["max_wait_s"]]).tolist()
    return found


def _weights(chosen: pd.DataFrame, number: int) -> np.ndarray:
    """Return the weights chosen for a window, float64 [rows, 6], in the order of the table."""
    return chosen.loc[chosen["week"] == number, list(FEATURES)].to_numpy(np.float64)


def _replay_rows(chosen: pd.DataFrame, settings: Settings, number: int, record: Record) -> list[Record]:
    mine = chosen[chosen["week"] == number]
    rows = []
    for seed, values in record.items():
        for place, tau_s in enumerate(settings.taus_s):
            named = [(name, row) for row, name in enumerate(WEIGHTS)]
            judged = enumerate(zip(mine["policy"], mine["tau_s"], strict=True), len(WEIGHTS))
            named += [(name, row) for row, (name, by_s) in judged if by_s == tau_s]
            common = {"seed": int(seed), "week": number, "tau_s": tau_s}
            rows += [{**common, "policy": name, AIM: values[row][place], "max_wait_s": values[row][-1]} for name, row in named]
    return rows


def face_weights(side: int = SIDE) -> np.ndarray:
    """Return weights on both faces of the L1 sphere, float64 [2 side side, 3].

    First that with n below 0, then that above. A face has ``side`` rows upwards and as many columns across: wait - r goes from -1 to
    1 across, wait + r upwards. So the weights of r grow to the upper left and those of wait to the upper right, as in figure 4 of the
    paper.
    """
    middles = (np.arange(side) + 0.5) / side * 2.0 - 1.0
    up, across = np.meshgrid(middles, middles, indexing="ij")
    wait, r = (up + across).ravel() / 2.0, (up - across).ravel() / 2.0
    n = 1.0 - np.abs(wait) - np.abs(r)
    return np.vstack([np.column_stack([sign * n, r, wait]) for sign in (-1.0, 1.0)])


def _landscape(trace: _Trace, number: int) -> Record:
    return {"values": packed(trace.judged(trace.measured(trace.windows[number].jobs, face_weights())))}


def _faces(settings: Settings, number: int, record: Record) -> pd.DataFrame:
    values = unpacked(record["values"], len(settings.taus_s))
    face, up, across = (each.ravel() for each in np.indices((len(FACES), SIDE, SIDE)))
    places = {"week": number, "face": np.array(FACES)[face], "across": across, "up": up}
    return pd.concat(
        [pd.DataFrame({**places, "tau_s": tau_s, "value": values[:, place]}) for place, tau_s in enumerate(settings.taus_s)]
    )
