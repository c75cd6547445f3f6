"""A campaign: all combinations of policies and seeds, on every window of a workload.

Combinations are of schedulers, predictors, corrections, semantics, starvation thresholds and seeds. Points are small values that
name their settings, and any ``map`` may compute them, in any order: threads that share the trace (the kernel holds no lock), one
process, or a cluster. Results come back as one tidy table in the order of the points.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import pandas as pd

from features.clock import Clock
from features.errors import InputError
from features.jobs.dependencies import preceding_rows
from features.jobs.scaling import scaled
from features.jobs.shaking import moves
from models.runtime.names import predictor as named_predictor
from models.runtime.protocol import CompiledPredictor, OnlinePredictor, Predictor, TablePredictor
from sim.campaigns.windows import Window, Windows, split_windows
from sim.kernel.scratch import Scratch
from sim.machine.nodes import Description
from sim.metrics.predictability import predicted_start_error_s
from sim.metrics.satisfaction import UserJobs
from sim.metrics.schedule_metrics import TAU_S, as_columns, measure
from sim.outcome import TRACE_SECONDS, Outcome, outcome
from sim.policy import Policy
from sim.prepare import as_predictor, check_answerable
from sim.replays import Replay, as_replay, check_scaled
from sim.schedule import IDENTITY as SCHEDULE_IDENTITY
from sim.schedule import Schedule, as_schedule
from sim.shaken import check_seed, in_order, restored, seeded
from sim.simulate import processors, simulate_policy

Source: TypeAlias = str | Predictor | Callable[[], OnlinePredictor]
"""A predictor of a campaign: a name, a table for the whole trace, a compiled one, or a factory of a Python predictor (its class)."""
Row: TypeAlias = dict[str, Any]
"""One row of the results, plain Python values: a point's identity, a tau, and the metrics."""
Progress: TypeAlias = Callable[[int, int], None]
_R = TypeVar("_R")

_TRACE, *_REST = SCHEDULE_IDENTITY
IDENTITY = (_TRACE, "window", "window_begin_s", *_REST)
"""The columns that identify a row; the metrics of :func:`sim.metrics.schedule_metrics.evaluate` follow."""


@dataclass(frozen=True)
class Campaign:
    """All combinations to simulate, each judged with every ``taus_s`` (seconds).

    ``dependencies`` as :func:`sim.simulate`, within each window: a job that waits for one of another window is submitted as
    recorded; so are ``users``, whose sessions and batches are those of the window's jobs alone. ``load`` and ``squeeze`` as there too, within
    each window. ``seeds`` and ``shake_s`` as there too: each seed is a replicate, the same move of every job for all policies.
    Windows are those of the recorded submissions. Raises InputError for a choice that is empty or repeated, for a seed that
    changes nothing, and for a Python predictor object: it holds the state of one simulation, so a campaign takes a factory.
    """

    schedulers: tuple[str, ...]
    predictors: tuple[Source, ...] = ("requested",)
    corrections: tuple[str, ...] = ("requested",)
    semantics: tuple[str, ...] = ("per-second",)
    starvation_s: tuple[int | None, ...] = (None,)
    seeds: tuple[int, ...] = (0,)
    taus_s: tuple[float, ...] = (TAU_S,)
    dependencies: bool = False
    shake_s: int = 0
    users: str = "open"
    load: float = 1.0
    squeeze: float = 1.0

    def __post_init__(self) -> None:
        choices = {name: list(values) for name, values in vars(self).items() if isinstance(values, tuple)}
        choices["predictors"] = [predictor_name(each) for each in self.predictors]
        for name, chosen in choices.items():
            if not chosen:
                raise InputError(f"a campaign without {name} has nothing to do")
            twice = [each for each, times in Counter(chosen).items() if times > 1]
            if twice:
                raise InputError(f"a campaign takes each of its {name} once, and {twice[0]} is given again")
        check_seed(self.predictors, self.seeds, self.shake_s, self.schedulers)
        self.submissions.plan()

    @property
    def submissions(self) -> Policy:
        """Return what all policies share: when jobs are submitted."""
        return Policy(dependencies=self.dependencies, users=self.users, load=self.load, squeeze=self.squeeze)


class Point(NamedTuple):
    """One simulation of a campaign: a policy of names alone, and the number of the window."""

    window: int
    policy: Policy

    def __str__(self) -> str:
        policy = self.policy
        starving = "" if policy.starvation_s is None else f", starvation {policy.starvation_s} s"
        return f"{policy}, {policy.semantics}{starving}, seed {policy.seed}, window {self.window}"


def points(campaign: Campaign, windows: Windows) -> list[Point]:
    """Return every point, window by window, then in the order of the campaign's choices."""
    names = [predictor_name(each) for each in campaign.predictors]
    fixed = campaign.submissions._replace(shake_s=campaign.shake_s)
    policies = [
        fixed._replace(
            scheduler=scheduler, predictor=name, correction=correction, semantics=semantics, starvation_s=starvation_s, seed=seed
        )
        for scheduler, name, correction, semantics, starvation_s, seed in product(
            campaign.schedulers, names, campaign.corrections, campaign.semantics, campaign.starvation_s, campaign.seeds
        )
    ]
    return [Point(window.number, policy) for window in windows.windows for policy in policies]


@dataclass(frozen=True)
class _Answers:
    """A table of predictions for the whole trace, asked once, in the order of the trace."""

    seconds: np.ndarray
    capped: bool
    quantiles: pd.DataFrame | None

    def of(self, name: str, rows: np.ndarray) -> TablePredictor:
        """Return the table for the jobs ``rows`` of the trace."""
        told = self.quantiles
        return TablePredictor(
            name,
            lambda _: self.seconds[rows],
            self.capped,
            None if told is None else lambda _: told.iloc[rows].reset_index(drop=True),
        )


@dataclass(frozen=True)
class Setting:
    """The shared settings of a campaign's points.

    Windows and replays are by number, predictors by name. They can be sent to other processes. ``moves_s`` [jobs of the whole
    trace] by seed, where the campaign shakes.
    """

    windows: Mapping[int, Window]
    replays: Mapping[int, Replay]
    predictors: Mapping[str, str | CompiledPredictor | Callable[[], OnlinePredictor] | _Answers]
    procs: int
    trace: str
    generated: bool
    taus_s: tuple[float, ...]
    clock: Clock
    moves_s: Mapping[int, np.ndarray]
    machine: Description | None = None

    @property
    def machine_name(self) -> str:
        """Return the name of the machine of clusters, or ""."""
        return "" if self.machine is None else self.machine.name


def simulate_point(setting: Setting, point: Point) -> Schedule:
    """Return the schedule of one point. An InputError names the point."""
    made, replay = _outcome(setting, point)
    if replay.rows is not None:
        made = restored(made, replay.rows)
    jobs = setting.replays[point.window].jobs
    of, trace = setting.machine_name, setting.trace
    return as_schedule(made, jobs, point.policy, procs=setting.procs, machine=of, trace=trace, generated=setting.generated)


def evaluate_point(setting: Setting, point: Point) -> list[Row]:
    """Return the rows of one point, a row a tau. An InputError names the point."""
    made, replay = _outcome(setting, point)
    workload = replay.workload
    arrays = workload.arrays
    seen = UserJobs(arrays.user, made.submit, made.start, arrays.runtime, arrays.procs, arrays.requested)
    columns = as_columns(seen, made.predicted, made.corrections)
    error = predicted_start_error_s(made.plans, workload.jobs["job_id"].to_numpy(), made.start)
    identity = point.policy._asdict() | {
        "trace": point.policy.label(setting.trace),
        "procs": setting.procs,
        "machine": setting.machine_name,
        "generated": setting.generated,
    }
    identity |= {"window": point.window, "window_begin_s": setting.windows[point.window].begin_s}
    rows = []
    for tau_s in setting.taus_s:
        identity["tau_s"] = float(tau_s)
        row: Row = {name: identity[name] for name in IDENTITY} | measure(columns, setting.procs, tau_s)
        row |= {"predicted_start_error_s": error, "clamped_predictions": made.clamped, "simulate_s": made.seconds}
        rows.append(row)
    return rows


def _outcome(setting: Setting, point: Point) -> tuple[Outcome, Replay]:
    """Return a point's outcome and the jobs as it has them."""
    try:
        replay = _shaken(setting, point) if point.policy.shake_s else setting.replays[point.window]
        source = _predictor(setting, point, setting.windows[point.window])
        if replay.rows is not None:
            source = in_order(as_predictor(source), replay.jobs, replay.rows)
        made = outcome(
            replay.workload,
            point.policy._replace(predictor=source),
            clock=setting.clock,
            scratch=_scratch(),
            tells=point.policy.plan().promises,
        )
        return made, replay
    except InputError as error:
        raise InputError(f"{point}: {error}") from error
    except Exception as error:
        error.add_note(f"in {point}")
        raise


def _shaken(setting: Setting, point: Point) -> Replay:
    """Return the shaken window of ``point``.

    A thread keeps the last: points come window by window and, within one, seed by seed.
    """
    asked = (point.window, point.policy.seed)
    if getattr(_memory, "setting", None) is not setting or _memory.asked != asked:
        window = setting.windows[point.window]
        moves_s = setting.moves_s[point.policy.seed][window.rows]
        _memory.shaken = as_replay(window.jobs, point.policy, setting.procs, moves_s, setting.machine)
        _memory.setting, _memory.asked = setting, asked
    made: Replay = _memory.shaken
    return made


Map: TypeAlias = Callable[[Callable[[Point], Any], Sequence[Point]], Iterable[Any]]
"""Applies a picklable function to points, as the builtin does; results may come in any order. A cluster's fits as it is.

The function carries the trace: a map over processes does well to send points in chunks, or the function once.
"""


def serial(function: Callable[[Point], Any], points: Sequence[Point]) -> Iterable[Any]:
    """Compute one point after the other, in this thread."""
    return map(function, points)


def threads(workers: int | None = None) -> Map:
    """Return a map over ``workers`` threads, by default one a core, in order of completion.

    An error cancels what has not begun. Only the kernel runs in parallel, so long simulations gain most. In more than one thread
    ``simulate_s`` includes waiting for the interpreter.
    """

    def run(function: Callable[[Point], Any], points: Sequence[Point]) -> Iterator[Any]:
        with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
            try:
                for future in as_completed([pool.submit(function, point) for point in points]):
                    yield future.result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    return run


def run_campaign(
    jobs: pd.DataFrame,
    campaign: Campaign,
    *,
    procs: int,
    windows: Windows | None = None,
    trace: str = "",
    generated: bool = False,
    clock: Clock = TRACE_SECONDS,
    machine: Description | None = None,
    map_points: Map | None = None,
    done: Mapping[Point, Sequence[Row]] | None = None,
    finished: Callable[[Point, Sequence[Row]], None] | None = None,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Return results of ``campaign`` on the ``windows`` of ``jobs``: a row a point and tau.

    Windows come from :func:`sim.campaigns.windows.split_windows`, by default the whole trace. Columns are :data:`IDENTITY` and
    then the metrics of :func:`sim.metrics.schedule_metrics.evaluate`; rows are in the order of :func:`points`. ``done`` holds the
    rows of points that need not be computed again, ``finished(point, rows)`` is called from this thread for each computed one,
    and ``progress(done, total)`` too. ``map_points`` defaults to :func:`threads`. A predictor known beforehand is asked once, for
    the whole trace. Raises InputError for unknown names before anything is simulated, and for errors at a point, naming it.
    """
    windows = windows or split_windows(jobs, "whole")
    setting = _setting(jobs, campaign, windows, processors(procs, machine), trace, generated, clock, machine)
    asked = points(campaign, windows)
    rows = {point: list((done or {})[point]) for point in asked if point in (done or {})}
    missing = sorted((point for point in asked if point not in rows), key=lambda point: (point.window, point.policy.seed))
    for point, made in _computed(evaluate_point, setting, missing, map_points, len(rows), progress):
        rows[point] = made
        if finished is not None:
            finished(point, made)
    table = pd.DataFrame([row for point in asked for row in rows[point]])
    return table.astype({"starvation_s": "Int64"})


def campaign_schedules(
    jobs: pd.DataFrame,
    campaign: Campaign,
    *,
    procs: int,
    trace: str = "",
    generated: bool = False,
    clock: Clock = TRACE_SECONDS,
    machine: Description | None = None,
    map_points: Map | None = None,
    progress: Progress | None = None,
) -> list[Schedule]:
    """Return the schedules of the whole workload, in the order of :func:`points`.

    Otherwise as :func:`run_campaign`.
    """
    windows = split_windows(jobs, "whole")
    setting = _setting(jobs, campaign, windows, processors(procs, machine), trace, generated, clock, machine)
    asked = points(campaign, windows)
    made = dict(_computed(simulate_point, setting, asked, map_points, 0, progress))
    return [made[point] for point in asked]


def _computed(
    function: Callable[[Setting, Point], _R],
    setting: Setting,
    points: Sequence[Point],
    map_points: Map | None,
    before: int,
    progress: Progress | None,
) -> Iterator[tuple[Point, _R]]:
    """Yield points with their results, as they are finished."""
    total = before + len(points)
    results = (map_points or threads())(partial(_with_point, function, setting), points)
    for count, result in enumerate(results, before + 1):
        yield result
        if progress is not None:
            progress(count, total)


def _with_point(function: Callable[[Setting, Point], _R], setting: Setting, point: Point) -> tuple[Point, _R]:
    return point, function(setting, point)


def check_policies(jobs: pd.DataFrame, campaign: Campaign, procs: int, machine: Description | None = None) -> None:
    """Simulate one job under every policy, so that wrong names fail early. Raises InputError."""
    policies = product(campaign.schedulers, ("requested",), campaign.corrections, campaign.semantics, campaign.starvation_s)
    for policy in policies:
        simulate_policy(jobs.iloc[:1], Policy(*policy), procs=procs, machine=machine, scratch=_scratch())


def _setting(
    jobs: pd.DataFrame,
    campaign: Campaign,
    windows: Windows,
    procs: int,
    trace: str,
    generated: bool,
    clock: Clock,
    machine: Description | None,
) -> Setting:
    check_policies(jobs, campaign, procs, machine)
    # the columns are checked on the whole trace, not on each window
    if campaign.dependencies and preceding_rows(jobs).named == 0:
        raise InputError("no job names a preceding job (SWF field 17): there are no dependencies to simulate")
    predictors: dict[str, Any] = {}
    told = scaled(jobs, campaign.load, campaign.squeeze)
    for source in campaign.predictors:
        check_scaled(source, campaign.squeeze)
        name = predictor_name(source)
        predictors[name] = source
        if isinstance(source, str):
            source = named_predictor(source)  # fails early for a wrong name
        if isinstance(source, TablePredictor):
            seconds = np.asarray(source.estimate(told), np.float64)
            if seconds.shape != (len(jobs),):
                raise InputError(f"predictor {name}: {seconds.shape} predictions for {len(jobs)} jobs")
            if not isinstance(predictors[name], str):
                predictors[name] = _Answers(seconds, source.capped, source.quantiles(told) if source.quantiles else None)
            if source.quantiles is None and any(correction.startswith("conditional") for correction in campaign.corrections):
                kept = np.concatenate([window.rows for window in windows.windows])
                check_answerable(name, np.maximum(np.rint(seconds), 1.0)[kept], told["runtime_s"].to_numpy()[kept])
    numbered = {window.number: window for window in windows.windows}
    replays = {number: as_replay(window.jobs, campaign.submissions, procs, machine=machine) for number, window in numbered.items()}
    moves_s = {seed: moves(len(jobs), campaign.shake_s, seed) for seed in campaign.seeds if campaign.shake_s}
    return Setting(numbered, replays, predictors, procs, trace, generated, campaign.taus_s, clock, moves_s, machine)


def _predictor(setting: Setting, point: Point, window: Window) -> Any:
    """Return the predictor argument of :func:`sim.simulate` for one window."""
    name = point.policy.predictor
    source = setting.predictors[name]
    if isinstance(source, _Answers):
        return source.of(name, window.rows)
    if isinstance(source, (str, CompiledPredictor)):
        return seeded(source, point.policy.seed)
    return source()


def predictor_name(source: Source) -> str:
    """Return the name of a predictor; a factory's product tells its own."""
    if isinstance(source, str):
        return source
    if isinstance(source, (TablePredictor, CompiledPredictor)):
        return source.name
    if isinstance(source, OnlinePredictor) and not isinstance(source, type):
        raise InputError(
            f"predictor {source.name}: an object that learns holds the state of one simulation and cannot be shared by a campaign's: give what "
            "makes a fresh one, such as its class"
        )
    if not callable(source):
        raise InputError(f"a campaign takes predictors by name, as tables or by what makes them, not {type(source).__name__}")
    return source().name


_memory = threading.local()


def _scratch() -> Scratch:
    """Return this thread's scratch."""
    if not hasattr(_memory, "scratch"):
        _memory.scratch = Scratch()
    return _memory.scratch
