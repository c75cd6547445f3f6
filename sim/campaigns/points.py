"""Points of a campaign: each one simulation, simulated and measured in groups.

A short simulation takes a tenth of a millisecond, less than the calls around it. So the data that points of one window
share are made once, and the metrics of a group are computed together, as arrays [points, jobs].
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from features.clock import Clock
from features.deferred import pd
from features.errors import InputError
from models.runtime.protocol import CompiledPredictor, OnlinePredictor, Predictor, TablePredictor
from sim.campaigns.windows import Window
from sim.inputs.estimates import Foreknown, as_estimates, as_predictor
from sim.inputs.prepare import Prepared
from sim.kernel.scratch import Scratch
from sim.machine.nodes import Description
from sim.metrics.schedule_metrics import UserJobs, as_columns, measure, slowdowns
from sim.outcome import DECIDED, Decider, Outcome, simulation
from sim.policy import Policy
from sim.schedule import IDENTITY as SCHEDULE_IDENTITY
from sim.schedule import Schedule, as_schedule
from sim.simulation import ReplayInput, as_replay, in_order, restored, seeded

Row: TypeAlias = dict[str, Any]
"""One row of the results, plain Python values: a point's identity, a tau, and the metrics."""
Group: TypeAlias = tuple["Point", ...]
"""Points of one window and seed that are simulated in sequence."""

_TRACE, *_REST = SCHEDULE_IDENTITY
IDENTITY = (_TRACE, "window", "window_begin_s", *_REST)
"""The columns that identify a row; the metrics of :func:`sim.metrics.schedule_metrics.evaluate` follow."""
_TOGETHER = 16384
"""Max jobs that a group simulates: beyond this, points take as long as the shared work."""


class Point(NamedTuple):
    """One simulation of a campaign: a policy with names only, and the number of the window."""

    window: int
    policy: Policy

    def __str__(self) -> str:
        policy = self.policy
        starving = "" if policy.starvation_s is None else f", starvation {policy.starvation_s} s"
        return f"{policy}, {policy.semantics}{starving}, seed {policy.seed}, window {self.window}"


@dataclass(frozen=True)
class TraceTable:
    """A predictor's table for the whole trace, computed once, in the order of the trace."""

    seconds: np.ndarray
    capped: bool
    quantiles: pd.DataFrame | None

    def of(self, name: str, rows: np.ndarray) -> TablePredictor:
        """Return the table for the jobs ``rows`` of the trace."""
        quantiles = self.quantiles
        return TablePredictor(
            name,
            lambda _: self.seconds[rows],
            self.capped,
            None if quantiles is None else lambda _: quantiles.iloc[rows].reset_index(drop=True),
        )


@dataclass(frozen=True)
class Setting:
    """The shared settings of a campaign's points.

    Windows and replays are by number, predictors by name. They can be sent to other processes. ``moves_s`` [jobs of the
    whole trace] is by seed, if the campaign shakes. ``deciders`` make the decider for a scheduler of that name.
    """

    windows: Mapping[int, Window]
    replays: Mapping[int, ReplayInput]
    predictors: Mapping[str, str | CompiledPredictor | Callable[[], OnlinePredictor] | TraceTable]
    procs: int
    trace: str
    generated: bool
    taus_s: tuple[float, ...]
    clock: Clock
    moves_s: Mapping[int, np.ndarray]
    machine: Description | None = None
    deciders: Mapping[str, Callable[[], Decider]] = field(default_factory=dict)

    @property
    def machine_name(self) -> str:
        """Return the name of the machine of clusters, or ""."""
        return "" if self.machine is None else self.machine.name


def grouped(setting: Setting, points: Sequence[Point]) -> list[Group]:
    """Return consecutive ``points`` of one window and seed in groups, long windows alone."""
    groups: list[list[Point]] = []
    for point in points:
        last = groups[-1] if groups else None
        alike = last is not None and (last[0].window, last[0].policy.seed) == (point.window, point.policy.seed)
        if last is not None and alike and (len(last) + 1) * len(setting.windows[point.window].jobs) <= _TOGETHER:
            last.append(point)
        else:
            groups.append([point])
    return [tuple(group) for group in groups]


class Stopped(Exception):
    """A group stopped by the ``error`` of a point; ``done`` are the results before it."""

    def __init__(self, done: list[Any], error: Exception) -> None:
        super().__init__(done, error)
        self.done, self.error = done, error


def simulate_points(setting: Setting, group: Group) -> list[tuple[Point, Schedule]]:
    """Return each point with its schedule.

    Raises Stopped for an error, which names the point.
    """
    outcomes, error = _outcomes(setting, group)
    done = [(simulated[0], _schedule(setting, *simulated)) for simulated in outcomes]
    if error is not None:
        raise Stopped(done, error)
    return done


def _schedule(setting: Setting, point: Point, outcome: Outcome, replay: ReplayInput) -> Schedule:
    if replay.rows is not None:
        outcome = restored(outcome, replay.rows)
    jobs = setting.replays[point.window].jobs
    machine, trace = setting.machine_name, setting.trace
    return as_schedule(outcome, jobs, point.policy, procs=setting.procs, machine=machine, trace=trace, generated=setting.generated)


def evaluate_points(setting: Setting, group: Group) -> list[tuple[Point, list[Row]]]:
    """Return each point with its rows, one per tau.

    Raises Stopped for an error, which names the point.
    """
    outcomes, error = _outcomes(setting, group)
    parts = [outcomes] if outcomes else []
    # if users wait for ends, each policy has other submissions
    if any(replay.workload.waits is not None for _, _, replay in outcomes):
        parts = [[simulated] for simulated in outcomes]
    done: list[tuple[Point, list[Row]]] = []
    for part in parts:
        replay = part[0][2]
        metrics = _measured(replay.workload, [outcome for _, outcome, _ in part], setting.taus_s)
        for (point, outcome, _), rows in zip(part, metrics, strict=True):
            done.append((point, _rows(setting, point, outcome, rows)))
    if error is not None:
        raise Stopped(done, error)
    return done


def _measured(workload: Prepared, outcomes: Sequence[Outcome], taus_s: Sequence[float]) -> Iterator[list[Row]]:
    """Yield each outcome's metrics, one row per tau; all have the same users and submissions."""
    arrays = workload.arrays
    start = np.stack([outcome.start for outcome in outcomes])
    predicted = np.stack([outcome.predicted for outcome in outcomes])
    corrections = np.stack([outcome.corrections for outcome in outcomes])
    seen = UserJobs(arrays.user, outcomes[0].submit, start, arrays.runtime, arrays.procs, arrays.requested)
    columns = as_columns(seen, predicted, corrections)
    shared = measure(columns, workload.procs, taus_s[0])
    by_tau = [shared, *(shared | slowdowns(columns, tau_s) for tau_s in taus_s[1:])]
    listed = [{name: values.tolist() for name, values in named_metrics.items()} for named_metrics in by_tau]
    for place in range(len(outcomes)):
        yield [{name: values[place] for name, values in named_metrics.items()} for named_metrics in listed]


def _rows(setting: Setting, point: Point, outcome: Outcome, metrics: Sequence[Row]) -> list[Row]:
    more_columns = {"clamped_predictions": outcome.clamped, "simulate_s": outcome.seconds}
    return [identity | values | more_columns for identity, values in zip(_identities(setting, point), metrics, strict=True)]


def _identities(setting: Setting, point: Point) -> Iterator[Row]:
    """Yield the identity of each row of a point, one per tau."""
    identity = point.policy._asdict() | {
        "trace": point.policy.label(setting.trace),
        "procs": setting.procs,
        "machine": setting.machine_name,
        "generated": setting.generated,
        "window": point.window,
        "window_begin_s": setting.windows[point.window].begin_s,
    }
    for tau_s in setting.taus_s:
        identity["tau_s"] = float(tau_s)
        yield {name: identity[name] for name in IDENTITY}


def _outcomes(setting: Setting, group: Group) -> tuple[list[tuple[Point, Outcome, ReplayInput]], Exception | None]:
    """Return each point with its outcome and replay, up to the first error, and that error."""
    outcomes: list[tuple[Point, Outcome, ReplayInput]] = []
    for point in group:
        try:
            begun = _begun(setting, point)
            source, foreknown = begun.predictor(setting, point)
            decider = setting.deciders.get(point.policy.scheduler)
            policy = point.policy if decider is None else point.policy._replace(scheduler=DECIDED)
            outcome = simulation(
                begun.replay.workload,
                policy._replace(predictor=source),
                clock=setting.clock,
                scratch=scratch(),
                foreknown=foreknown,
                decider=None if decider is None else decider(),
            ).outcome()
        except InputError as error:
            named = InputError(f"{point}: {error}")
            named.__cause__ = error
            return outcomes, named
        except Exception as error:
            error.add_note(f"in {point}")
            return outcomes, error
        outcomes.append((point, outcome, begun.replay))
    return outcomes, None


@dataclass
class _Begun:
    """What points of one window and seed share: the jobs, and untrained predictors by name."""

    setting: Setting
    window_and_seed: tuple[int, int]
    replay: ReplayInput
    sources: dict[str, tuple[Predictor, Foreknown]] = field(default_factory=dict)

    def predictor(self, setting: Setting, point: Point) -> tuple[Predictor, Foreknown | None]:
        """Return the predictor of ``point``, fresh if it may have learned in another simulation."""
        name = point.policy.predictor
        if name not in self.sources:
            source, workload = self._source(setting, point), self.replay.workload
            if isinstance(source, OnlinePredictor) or (isinstance(source, CompiledPredictor) and source.retrain is not None):
                return source, None
            self.sources[name] = source, as_estimates(source, workload.jobs, workload.arrays, setting.clock)
        source, foreknown = self.sources[name]
        return source, foreknown.again()

    def _source(self, setting: Setting, point: Point) -> Predictor:
        source: Any = setting.predictors[point.policy.predictor]
        if isinstance(source, TraceTable):
            source = source.of(point.policy.predictor, setting.windows[point.window].rows)
        elif not isinstance(source, (str, CompiledPredictor)):
            source = source()
        predictor = as_predictor(seeded(source, point.policy.seed))
        return predictor if self.replay.rows is None else in_order(predictor, self.replay.jobs, self.replay.rows)


_memory = threading.local()  # holds the last _Begun: points come by window and seed


def _begun(setting: Setting, point: Point) -> _Begun:
    """Return what points of a window and seed share; each thread keeps only the last."""
    window_and_seed = (point.window, point.policy.seed)
    kept: _Begun | None = getattr(_memory, "begun", None)
    if kept is None or kept.setting is not setting or kept.window_and_seed != window_and_seed:
        replay = setting.replays[point.window]
        if point.policy.shake_s:
            window = setting.windows[point.window]
            moves_s = setting.moves_s[point.policy.seed][window.rows]
            replay = as_replay(window.jobs, point.policy, setting.procs, moves_s, setting.machine)
        kept = _memory.begun = _Begun(setting, window_and_seed, replay)
    return kept


def scratch() -> Scratch:
    """Return this thread's scratch."""
    if not hasattr(_memory, "scratch"):
        _memory.scratch = Scratch()
    own_scratch: Scratch = _memory.scratch
    return own_scratch
