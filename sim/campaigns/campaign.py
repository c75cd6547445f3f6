"""A campaign: all combinations of policies and seeds, on every window of a workload.

Combinations are of schedulers, predictors, corrections, semantics, starvation thresholds and seeds. Points are small
values that name their settings (:mod:`sim.campaigns.points`), and any ``map`` may compute them in groups, in any order:
threads that share the trace (the kernel holds no lock), one process, or a cluster. Results are one tidy table in the
order of the points.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, product
from typing import Any, TypeAlias, TypeVar

import numpy as np

from features.clock import Clock
from features.deferred import pd
from features.errors import InputError
from features.jobs.columns import Table, TableColumns
from features.jobs.dependencies import preceding_rows
from features.jobs.workload_changes import moves, scaled
from models.runtime.names import predictor as named_predictor
from models.runtime.protocol import CompiledPredictor, OnlinePredictor, Predictor, TablePredictor
from sim.campaigns.maps import Map, threads
from sim.campaigns.points import (
    Group,
    Point,
    Row,
    Setting,
    Stopped,
    TraceTable,
    evaluate_points,
    grouped,
    scratch,
    simulate_points,
)
from sim.campaigns.windows import Window, Windows, split_windows
from sim.inputs.estimates import check_answerable
from sim.inputs.prepare import Prepared, check_machine, counted, kernel_columns, on_clusters, prepare
from sim.kernel.state import Jobs
from sim.machine.nodes import Description
from sim.outcome import TRACE_SECONDS, Decider, simulation
from sim.policy import Policy
from sim.schedule import Schedule
from sim.schedulers.names import Scheduler, spelled
from sim.schedulers.names import scheduler as named_scheduler
from sim.settings import Campaign
from sim.simulation import ReplayInput, as_replay, check_scaled, processors

Source: TypeAlias = str | Predictor | Callable[[], OnlinePredictor]
"""A predictor of a campaign: a name, a table for the whole trace, a compiled one, or a factory (class) of a Python
predictor."""
Progress: TypeAlias = Callable[[int, int], None]
_R = TypeVar("_R")


def policies(campaign: Campaign) -> list[Policy]:
    """Return every combination, in the order of the campaign's choices.

    ``requested`` is one number and ``prior`` a distribution of the same requests. If both are chosen, ``Harm`` uses
    only ``prior`` and all other schedulers only ``requested``, because elsewhere the two are equal.
    """
    both = {"requested", "prior"} <= set(map(predictor_name, campaign.predictors))
    fixed = campaign.submissions._replace(shake_s=campaign.shake_s)
    return [
        fixed._replace(
            scheduler=scheduler,
            predictor=predictor,
            correction=correction,
            semantics=semantics,
            starvation_s=starvation_s,
            seed=seed,
        )
        for scheduler, predictor, correction, semantics, starvation_s, seed in product(
            campaign.schedulers,
            campaign.predictors,
            campaign.corrections,
            campaign.semantics,
            campaign.starvation_s,
            campaign.drawn,
        )
        if not both
        or predictor_name(predictor) != ("prior" if getattr(_identity(scheduler), "harm", None) is None else "requested")
    ]


def check_once(campaign: Campaign) -> None:
    """Raise InputError for a repeated choice of ``campaign``, which would give equal points."""
    for choice, values in campaign:
        names = map(predictor_name, values) if choice == "predictors" else values if isinstance(values, tuple) else ()
        if twice := [name for name, times in Counter(names).items() if times > 1]:
            raise InputError(f"a campaign takes each of its {choice} once; {twice[0]} is given twice")
    for one, other in combinations(campaign.schedulers, 2):
        if _identity(one) == _identity(other):
            raise InputError(f"a campaign takes each of its schedulers once; {other} is the same as {one}")


def _identity(name: str) -> Scheduler | str:
    """Return the scheduler behind ``name``; ``name`` for a policy in Python or invalid names."""
    try:
        return replace(named_scheduler(name), name="")
    except InputError:
        return name


def points(campaign: Campaign, windows: Windows) -> list[Point]:
    """Return every point, window by window, then in the order of :func:`policies`."""
    check_once(campaign)
    named = campaign.model_copy(update={"predictors": tuple(map(predictor_name, campaign.predictors))})
    return [Point(window.number, policy) for window in windows.windows for policy in policies(named)]


def windows_of(jobs: pd.DataFrame, campaign: Campaign) -> Windows:
    """Return the windows of ``jobs`` that ``campaign`` asks for."""
    return split_windows(jobs, campaign.windows, skip_first=not campaign.keep_first, drop=campaign.drop_rule)


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
    deciders: Mapping[str, Callable[[], Decider]] | None = None,
    map_points: Map | None = None,
    done: Mapping[Point, Sequence[Row]] | None = None,
    finished: Callable[[Point, Sequence[Row]], None] | None = None,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Return results of ``campaign`` on ``windows`` of ``jobs``: one row per point and tau.

    ``windows`` are by default the campaign's (:func:`sim.campaigns.windows.split_windows`). Columns are
    :data:`sim.campaigns.points.IDENTITY` and then the metrics of :func:`sim.metrics.schedule_metrics.evaluate`; rows are in the
    order of :func:`points`. ``done`` holds the rows of points that need not be computed again. This thread calls
    ``finished(point, rows)`` for each computed point, and ``progress(done, total)``. ``map_points`` defaults to :func:`threads`.
    A predictor known beforehand is called once, for the whole trace. ``deciders`` (:func:`sim.own.decide.decider`) are by name of
    scheduler. Raises InputError for unknown names before anything is simulated, and for an error at a point, naming the point.
    """
    windows = windows or windows_of(jobs, campaign)
    deciders = {spelled(name): make for name, make in (deciders or {}).items()}  # as the campaign spells them
    if deciders and campaign.starvation_s != (None,):
        raise InputError(f"a policy of your own decides about starving jobs itself, and {min(deciders)} takes no starvation_s")
    all_points = points(campaign, windows)
    named = campaign.model_copy(update={"schedulers": tuple(name for name in campaign.schedulers if name not in deciders)})
    setting = _setting(jobs, named, windows, processors(procs, machine), trace, generated, clock, machine)
    setting = replace(setting, deciders=deciders)
    rows = {point: list((done or {})[point]) for point in all_points if point in (done or {})}
    missing = sorted((point for point in all_points if point not in rows), key=lambda point: (point.window, point.policy.seed))
    for point, rows_of_point in _computed(evaluate_points, setting, missing, map_points, len(rows), progress):
        rows[point] = rows_of_point
        if finished is not None:
            finished(point, rows_of_point)
    whole = [row for point in all_points for row in rows[point]]
    columns: dict[str, Any] = {name: [row[name] for row in whole] for name in whole[0]}
    columns["starvation_s"] = pd.array(columns["starvation_s"], dtype="Int64")
    return pd.DataFrame(columns)


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

    Otherwise like :func:`run_campaign`.
    """
    windows = split_windows(jobs, "whole")
    all_points = points(campaign, windows)
    setting = _setting(jobs, campaign, windows, processors(procs, machine), trace, generated, clock, machine)
    schedules = dict(_computed(simulate_points, setting, all_points, map_points, 0, progress))
    return [schedules[point] for point in all_points]


def _computed(
    function: Callable[[Setting, Group], list[tuple[Point, _R]]],
    setting: Setting,
    points: Sequence[Point],
    map_points: Map | None,
    before: int,
    progress: Progress | None,
) -> Iterator[tuple[Point, _R]]:
    """Yield points with their results, as their groups are finished."""
    total = before + len(points)
    results = (map_points or threads())(partial(function, setting), grouped(setting, points))
    for count, result in enumerate(_one_by_one(results), before + 1):
        yield result
        if progress is not None:
            progress(count, total)


def _one_by_one(groups: Iterable[list[tuple[Point, _R]]]) -> Iterator[tuple[Point, _R]]:
    try:
        for done in groups:
            yield from done
    except Stopped as stopped:
        yield from stopped.done
        raise stopped.error from stopped.error.__cause__


def check_policies(jobs: Table, campaign: Campaign, procs: int, machine: Description | None = None) -> None:
    """Simulate one job under every policy, so that wrong names fail early. Raises InputError."""
    first = prepare(jobs.rows(slice(1)) if isinstance(jobs, TableColumns) else jobs.iloc[:1], procs, machine)
    for policy in policies(campaign.model_copy(update={"predictors": ("requested",), "seeds": (0,), "replicates": None})):
        simulation(first, policy, scratch=scratch()).outcome()


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
    scaled_jobs = scaled(jobs, campaign.load, campaign.squeeze)
    for source in campaign.predictors:
        check_scaled(source, campaign.squeeze)
        name = predictor_name(source)
        predictors[name] = source
        if isinstance(source, str):
            source = named_predictor(source)  # fails early for a wrong name
        if isinstance(source, TablePredictor):
            seconds = np.asarray(source.estimate(scaled_jobs), np.float64)
            if seconds.shape != (len(jobs),):
                raise InputError(f"predictor {name}: {seconds.shape} predictions for {len(jobs)} jobs")
            if not isinstance(predictors[name], str) or source.quantiles is None:
                predictors[name] = TraceTable(seconds, source.capped, source.quantiles(scaled_jobs) if source.quantiles else None)
            if source.quantiles is None and any(correction.startswith("conditional") for correction in campaign.corrections):
                kept = np.concatenate([window.rows for window in windows.windows])
                check_answerable(name, np.maximum(np.rint(seconds), 1.0)[kept], scaled_jobs["runtime_s"].to_numpy()[kept])
    numbered = {window.number: window for window in windows.windows}
    replays = dict(zip(numbered, _replays(jobs, windows.windows, campaign.submissions, procs, machine), strict=True))
    moves_s = {seed: moves(len(jobs), campaign.shake_s, seed) for seed in campaign.drawn if campaign.shake_s}
    return Setting(numbered, replays, predictors, procs, trace, generated, campaign.taus_s, clock, moves_s, machine)


def _replays(
    jobs: pd.DataFrame, windows: Sequence[Window], policy: Policy, procs: int, machine: Description | None
) -> Iterator[ReplayInput]:
    """Yield the ``windows`` of ``jobs`` as ``policy`` submits them, unmoved.

    If jobs are submitted as recorded, their columns are read once for all windows.
    """
    if not policy.as_recorded:
        yield from (as_replay(window.jobs, policy, procs, machine=machine) for window in windows)
        return
    check_machine(procs)
    columns, end = kernel_columns(jobs.iloc[np.concatenate([window.rows for window in windows])]), 0
    for window in windows:
        table, begin, end = window.jobs, end, end + len(window.jobs)
        arrays = counted(Jobs(*(column[begin:end] for column in columns)), table, procs)
        clusters = None if machine is None else on_clusters(table, machine)
        yield ReplayInput(Prepared(table, *arrays, int(procs), clusters), table, None)


def predictor_name(source: Source) -> str:
    """Return the name of a predictor; for a factory, that of its product."""
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
        raise InputError(f"a campaign takes predictors as names, tables or functions that make them, not {type(source).__name__}")
    return source().name
