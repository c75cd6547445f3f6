"""Simulation of jobs that slow each other down on a cluster, under any scheduler.

Start decisions are optional. The jobs table is the canonical one, its ``executable`` the application and its ``procs`` nodes;
``runtime_s`` is ignored, as runtimes are results: an undisturbed run takes the time of :mod:`sim.cluster.applications`, with
noise of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from features.clock import DAY_S
from features.errors import InputError
from features.monitoring.labels import LITTLE, THREE_CLASSES
from features.monitoring.samplers import FEATURES, MORE_FEATURES, PROBE_FEATURES, TYPE_FEATURES, WINDOW_S, counter_features
from models.variability.model import VariabilityModel
from sim.cluster.applications import application, type_code
from sim.cluster.cluster_loop import FULL, drive
from sim.cluster.placement import CONGESTED
from sim.cluster.presets import PLACEMENTS, Cluster
from sim.cluster.sensors import sensors
from sim.cluster.site import (
    ADDED,
    ASKED_TIMES,
    BROUGHT_UP_TO,
    CLOCKS,
    COIN,
    CONTENTION,
    CORE,
    CUT,
    CUTOFF,
    DECIDER,
    EVERY_S,
    EXACT,
    FIRST_CLASS,
    HARM,
    INFORMED,
    INTERVAL_S,
    LAG_S,
    LATENTS,
    LEAF,
    MEAN_IO,
    MEAN_NETWORK,
    MODEL,
    NETWORK_GAIN,
    NO_MODEL,
    NODES_PER_LEAF,
    NOISE_NODES,
    NOISE_TRAFFIC,
    NOWCAST,
    ORACLE,
    OUTSIDE,
    PATIENCE_S,
    PHYSICS,
    PLACEMENT,
    POWER,
    PREDICTED,
    PROBE_NOISE,
    PROFILE,
    RECORDED,
    RUN,
    SAMPLES,
    SENSOR_NOISE,
    SKIPPED_TIMES,
    SLOT,
    SLOTS,
    START_IO,
    START_NETWORK,
    STORAGE,
    STORAGE_BACKGROUND,
    STORAGE_GAIN,
    TICK_S,
    UPLINK,
    WARM_S,
    Site,
    no_model,
)
from sim.cluster.start_models import COUNTERS, EVERY, LOOKS, NEWEST, PROBED, SITUATED, TYPED
from sim.kernel.loop import Settings
from sim.kernel.scratch import Scratch, Work
from sim.kernel.start_decision import StartDecision
from sim.kernel.state import MOMENT
from sim.names import CLASSES, Rush
from sim.names import scheduler as named_scheduler
from sim.outcome import Outcome, outcome
from sim.policy import Policy
from sim.prepare import prepare
from sim.schedule import Schedule, schedule_table

SCOPES = ("own", "all")
"""Nodes whose counters a model reads: those the job would get, or all."""
STORM = 0.75
"""Background on the file system, as a share of its capacity, above which there is a storm.

Such a background alone stretches I/O by 13 %, which makes LBANN run 1.5 standard deviations of its own noise longer. On
``congested`` the wandering level comes there 0.3 % of the time; the bursts do, about twice a day.
"""


@dataclass(frozen=True)
class Adviser:
    """A variability model as the scheduler asks it, with the nodes' counters it reads.

    ``thresholds`` of z divide its classes.
    """

    model: VariabilityModel
    scope: str = "own"
    thresholds: tuple[float, ...] = THREE_CLASSES

    def first(self, classes: str) -> int:
        """Return the class from which on a job is skipped.

        ``classes`` is one of :data:`sim.names.CLASSES`.
        """
        return self.model.variation if classes == CLASSES[0] else 1 + self.thresholds.index(LITTLE)


@dataclass(frozen=True)
class ClusterRun:
    """The results of jobs on a simulated cluster.

    ``schedule`` in whole seconds; ``runs`` has a row a job in the same order: ``job_id application nodes submit_s start_s wait_s
    runtime_s`` (unrounded), ``work_s`` (alone on the machine, its own noise included), ``contention`` (runtime over work),
    ``start_network start_io mean_network mean_io`` (stretch of communication and I/O at its start and on average: the truth,
    which no model sees), ``skips``, ``predicted`` (the model's last probability, NaN if never asked), ``added`` (to those of
    running jobs, with harm) and ``cut`` (at its request). ``own`` and ``all`` are the 282 features by scope of the requested
    jobs, whose rows the index names, and ``situation`` the columns :data:`features.monitoring.samplers.MORE_FEATURES`.
    ``asked`` and ``skipped`` count start decisions. ``storm_s`` is the time with a storm, in seconds (:data:`STORM`).
    ``places`` are the nodes of each job in the order of ``runs``, int32, if asked for.
    """

    schedule: Schedule
    runs: pd.DataFrame
    own: pd.DataFrame
    all: pd.DataFrame
    situation: pd.DataFrame
    asked: int
    skipped: int
    storm_s: float
    places: list[np.ndarray] | None = None


def simulate_on(
    cluster: Cluster,
    jobs: pd.DataFrame,
    *,
    scheduler: str = "EASY",
    seed: int = 0,
    scaling: str = "weak",
    advisers: Mapping[str, Adviser] | None = None,
    limits: Mapping[tuple[str, int], float] | None = None,
    start_decision: StartDecision | None = None,
    coin: float = 0.0,
    features: np.ndarray | None = None,
    record: Callable[[int, np.ndarray], None] | None = None,
    places: bool = False,
    semantics: str = "per-second",
    scratch: Scratch | None = None,
) -> ClusterRun:
    """Schedule ``jobs`` on ``cluster``.

    Parameters
    ----------
    jobs
        Canonical jobs table whose ``executable`` names applications; times in seconds, ``procs`` nodes.
    scheduler
        ``[ORDER-]ALGORITHM[-BACKFILLORDER][+RUSH(OPTIONS)]`` with the options of :class:`sim.names.Rush`; the model is one of
        ``advisers``, ``oracle``, ``nowcast`` or ``coin``.
    seed
        Of everything random: background, applications' own noise, sensors. The background and the noise of a run are the same under any scheduler.
    scaling
        How applications behave on other than 16 nodes: ``weak`` or ``strong``.
    limits
        Of oracle and nowcast: by (application, nodes), the runtime in seconds beyond which a run counts as varied.
    coin
        Probability with which the coin skips.
    features
        Of which jobs, bool [jobs], to keep the features at their start.
    record
        Is told of samples as they fill up: the number of the first, and increments (values, for gauges) float64 [samples, 90, nodes]. A sample's number
        times ``cluster.interval_s`` is its time from the first submission in seconds, negative for those before it.
    places
        Whether to keep the nodes of each job.

    Raises
    ------
    InputError
        For an unknown name, application or scaling, and as :func:`sim.simulate`.
    """
    plan = named_scheduler(scheduler)
    names = jobs["executable"].astype("str").fillna("").to_numpy()
    work, profiles, variant = behaviours(names, jobs["procs"].to_numpy(np.int64), scaling, limits or {})
    given = jobs.assign(runtime_s=np.minimum(np.maximum(np.rint(work), 1), jobs["requested_s"]).astype(np.int64))
    prepared = prepare(given, cluster.procs)
    random = np.random.default_rng(seed)
    noise = np.array([application(name).noise for name in names]) * cluster.own_noise
    own_luck = np.exp(noise * random.standard_normal(len(jobs)))
    site = as_site(
        cluster, prepared.arrays.procs, profiles, variant, work * own_luck, random, horizon_s(cluster, prepared.arrays, work)
    )
    columns = ask(site, plan.rush, advisers or {}, coin, start_decision is not None)
    sample_all = features is not None or record is not None
    wanted = np.flatnonzero(features) if features is not None else np.zeros(0, np.int64)
    site.feature_row[wanted] = np.arange(len(wanted))
    heard = np.full(int(cluster.placement == PLACEMENTS[INFORMED]), CONGESTED)
    site = site._replace(
        used=np.arange(COUNTERS) if sample_all else np.union1d(sampled(columns), heard),
        wanted=columns,
        x=np.zeros(len(columns)),
        y=np.zeros(len(columns)),
        features=np.zeros((len(wanted), LOOKS)),
        record=np.zeros((_RECORDS if record else 0, COUNTERS, cluster.nodes)),
        places=np.zeros(prepared.arrays.procs.sum() if places else 0, np.int32),
    )
    adviser = (advisers or {}).get(plan.rush.model) if plan.rush else None
    if adviser is not None:
        site = site._replace(model=adviser.model.arrays, out=np.zeros(adviser.model.classes))
    recorded = 1 - cluster.warm_s // cluster.interval_s

    def take() -> None:
        """Report the recorded samples and clear the record."""
        nonlocal recorded
        count = int(site.clock[RECORDED])
        if record is not None and count:
            record(recorded, site.record[:count])
        recorded += count
        site.clock[RECORDED] = 0

    made = outcome(
        prepared,
        Policy(scheduler, semantics=semantics),
        scratch=scratch,
        start_decision=start_decision,
        machine=Machine(site, take),
    )
    take()
    schedule = Schedule(
        jobs=schedule_table(given.assign(runtime_s=made.runtime), made.start, made.predicted, made.corrections),
        procs=cluster.procs,
        trace=cluster.name,
        scheduler=scheduler,
        semantics=semantics,
        seed=seed,
        generated=True,
        simulate_s=made.seconds,
    )
    own, every = _features_of(site, wanted)
    situation = pd.DataFrame(site.features[:, NEWEST:], columns=list(MORE_FEATURES), index=wanted)
    asked, skipped = int(site.clock[ASKED_TIMES]), int(site.clock[SKIPPED_TIMES])
    runs = _runs_of(jobs, names, site, made)
    held = np.split(site.places, site.first_place[1:]) if places else None
    return ClusterRun(schedule, runs, own, every, situation, asked, skipped, _storm_s(site, runs), held)


def _storm_s(site: Site, runs: pd.DataFrame) -> float:
    """Return the seconds from the first submission to the last end in which there is a storm."""
    tick, ends = int(site.clock[TICK_S]), runs["start_s"] + runs["runtime_s"]
    moments = np.arange(0, int(ends.max() - runs["submit_s"].min()), tick) + site.clock[WARM_S]
    level = site.background[moments // tick % len(site.background), STORAGE_BACKGROUND]
    return float(tick * np.count_nonzero(level > STORM))


def _runs_of(jobs: pd.DataFrame, names: np.ndarray, site: Site, made: Outcome) -> pd.DataFrame:
    """Return what came of each job, a row a job (:attr:`ClusterRun.runs`)."""
    return pd.DataFrame(
        {
            "job_id": jobs["job_id"].to_numpy(),
            "application": names,
            "nodes": jobs["procs"].to_numpy(),
            "submit_s": made.submit,
            "start_s": made.start,
            "wait_s": made.start - made.submit,
            "runtime_s": site.runs[:, EXACT],
            "work_s": site.work,
            "contention": site.runs[:, CONTENTION],
            "start_network": site.runs[:, START_NETWORK],
            "start_io": site.runs[:, START_IO],
            "mean_network": site.runs[:, MEAN_NETWORK],
            "mean_io": site.runs[:, MEAN_IO],
            "skips": made.skips if len(made.skips) else 0,
            "predicted": site.runs[:, PREDICTED],
            "added": site.runs[:, ADDED],
            "cut": site.runs[:, CUT] > 0,
        }
    )


def _features_of(site: Site, wanted: np.ndarray) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return features of the jobs ``wanted``: from their own nodes' counters and from all."""
    rest = site.features[:, PROBED:NEWEST]
    own, every = (
        pd.DataFrame(np.hstack([site.features[:, at : at + EVERY], rest]), columns=list(FEATURES), index=wanted)
        for at in (0, EVERY)
    )
    return own, every


@dataclass(frozen=True)
class Machine:
    """The cluster, as :func:`sim.outcome.outcome` lets jobs run on it."""

    site: Site
    take: Callable[[], None]

    @property
    def decides(self) -> bool:
        """Tell whether start decisions are made here."""
        return self.site.clock[DECIDER] not in (NO_MODEL, OUTSIDE)

    def go_on(self, settings: Settings, work: Work, now: int, *given: object) -> tuple[int, int]:
        """Run the event loop until it needs something that the cluster cannot answer."""
        if self.site.clock[BROUGHT_UP_TO] < 0:
            work.state.counters[MOMENT] = self.site.clock[BROUGHT_UP_TO]
        while True:
            reason, now = drive(settings, *given[:3], *work, given[3], now, self.site, CODES)
            if reason != FULL:
                return reason, now
            self.take()


_RECORDS = 64
"""Samples that a record holds."""


def behaviours(
    names: np.ndarray, nodes: np.ndarray, scaling: str, limits: Mapping[tuple[str, int], float]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return undisturbed seconds, profiles and the variant of each job.

    float64 [jobs], float64 [variants, PROFILE] and int64 [jobs].
    """
    kinds = pd.MultiIndex.from_arrays([names, nodes])
    variant, known = pd.factorize(kinds)
    profiles = np.zeros((len(known), PROFILE))
    seconds = np.zeros(len(known))
    for row, (name, count) in enumerate(known):
        program = application(name)
        behaviour = program.on(int(count), scaling)
        seconds[row] = behaviour.runtime_s
        profiles[row] = (*behaviour[1:], type_code(program.type), limits.get((name, int(count)), np.inf), behaviour.runtime_s)
    return seconds[variant], profiles, variant.astype(np.int64)


LONGEST_S = 1000 * DAY_S
"""Max seconds of a simulated cluster."""


def horizon_s(cluster: Cluster, arrays: object, work: np.ndarray) -> int:
    """Return the seconds after which the background repeats.

    Three times the min that the jobs need, and a day more. InputError beyond ``LONGEST_S``: the background takes memory by seconds.
    """
    submit, procs = arrays.submit, arrays.procs  # type: ignore[attr-defined]
    horizon = int(submit[-1] + 3 * (work * procs).sum() / cluster.procs) + DAY_S
    if horizon > LONGEST_S:
        raise InputError(f"the jobs take up to {horizon:,} s on this cluster, and at most {LONGEST_S:,} s are simulated of one")
    return horizon


def as_site(
    cluster: Cluster,
    procs: np.ndarray,
    profiles: np.ndarray,
    variant: np.ndarray,
    work: np.ndarray,
    random: np.random.Generator,
    horizon: int,
) -> Site:
    """Return a cluster with only the noise job, ``warm_s`` before the first submission."""
    jobs, nodes, leaves = len(variant), cluster.nodes, cluster.leaves
    slots = 1 + cluster.procs // max(int(procs.min()), 1)
    ticks = (horizon + cluster.warm_s) // cluster.tick_s + 1
    clock, physics = np.zeros(CLOCKS, np.int64), np.zeros(PHYSICS)
    clock[[TICK_S, INTERVAL_S, LAG_S, WARM_S]] = cluster.tick_s, cluster.interval_s, cluster.lag_s, cluster.warm_s
    clock[[NODES_PER_LEAF, NOISE_NODES, SLOTS]] = cluster.nodes_per_leaf, cluster.noise_nodes, 1
    clock[PLACEMENT] = PLACEMENTS.index(cluster.placement)
    clock[[SAMPLES, BROUGHT_UP_TO]] = -cluster.warm_s // cluster.interval_s, -cluster.warm_s
    physics[[UPLINK, CORE, STORAGE]] = cluster.uplink, cluster.core, cluster.storage
    physics[[NETWORK_GAIN, STORAGE_GAIN, POWER]] = cluster.network_gain, cluster.storage_gain, cluster.power
    physics[[NOISE_TRAFFIC, SENSOR_NOISE, PROBE_NOISE]] = cluster.noise_traffic, cluster.sensor_noise, cluster.probe_noise
    levels = (cluster.storage_background, cluster.core_background, cluster.noise_background)
    background = np.column_stack([level.drawn(ticks, cluster.tick_s, random) for level in levels])
    owner, spread, held = np.full(nodes, -1), np.zeros((slots, leaves)), np.zeros(slots, np.int64)
    if cluster.noise_nodes:
        beside = cluster.noise_nodes // cluster.noise_leaves
        for number in range(cluster.noise_leaves):
            leaf = number * leaves // cluster.noise_leaves
            owner[leaf * cluster.nodes_per_leaf : leaf * cluster.nodes_per_leaf + beside] = 0
            spread[0, leaf] = beside
        held[0] = cluster.noise_nodes
    runs = np.zeros((jobs, RUN))
    runs[:, [PREDICTED, ADDED]] = np.nan
    ring = (WINDOW_S + cluster.lag_s) // cluster.interval_s + 3
    return Site(
        clock=clock,
        physics=physics,
        variants=profiles,
        variant=variant,
        work=work,
        owner=owner,
        chosen=np.zeros(nodes, np.int64),
        free=np.zeros(leaves, np.int64),
        rest=np.zeros(leaves, np.int64),
        loud=np.zeros(leaves),
        first_skip=np.full(jobs, -1),
        answered=np.full(jobs, -1),
        left=np.zeros(slots),
        there=np.zeros(slots, np.int64),
        slot_job=np.full(slots, -1),
        slot_sequence=np.zeros(slots, np.int64),
        slot_nodes=held,
        slot_of=np.zeros(jobs, np.int64),
        places=np.zeros(0, np.int32),
        first_place=(np.cumsum(procs) - procs).astype(np.int64),
        spread=spread,
        slots=np.zeros((slots, SLOT)),
        sums=np.zeros((slots, LATENTS)),
        leaves=np.zeros((leaves, LEAF)),
        pending=np.zeros((LATENTS, nodes)),
        latents=np.zeros((LATENTS, nodes)),
        background=background,
        sensors=sensors(),
        used=np.zeros(0, np.int64),
        ring=np.zeros((ring, COUNTERS, nodes)),
        every=np.zeros((ring, COUNTERS, 3)),
        record=np.zeros((0, COUNTERS, nodes)),
        wanted=np.zeros(0, np.int64),
        x=np.zeros(0),
        y=np.zeros(0),
        found=np.zeros(3 + len(PROBE_FEATURES)),
        out=np.zeros(2),
        model=no_model(),
        runs=runs,
        feature_row=np.full(jobs, -1),
        features=np.zeros((0, LOOKS)),
        random=random.integers(1, 2**63, 1).astype(np.uint64),
    )


WITHOUT_MODEL = {"oracle": ORACLE, "nowcast": NOWCAST, "coin": COIN}
"""References that decide without a trained model: see :mod:`sim.cluster.start_models`."""


def ask(site: Site, rush: Rush | None, advisers: Mapping[str, Adviser], coin: float, outside: bool) -> np.ndarray:
    """Write the deciding model into ``site``; return its columns' codes, int64 [columns]."""
    nothing = np.zeros(0, np.int64)
    site.clock[DECIDER] = NO_MODEL
    if rush is None:
        return nothing
    site.clock[[PATIENCE_S, EVERY_S, HARM]] = rush.patience, rush.every, rush.harm
    if rush.harm and (outside or rush.model == "coin"):
        raise InputError(f"+RUSH(model={rush.model},harm=yes): {rush.model or 'it'} does not say what becomes of running jobs")
    if outside:
        site.clock[DECIDER] = OUTSIDE
        return nothing
    if rush.model in WITHOUT_MODEL:
        site.clock[DECIDER] = WITHOUT_MODEL[rush.model]
        site.physics[CUTOFF] = coin
        return nothing
    if rush.model not in advisers:
        raise InputError(
            f"+RUSH(model={rush.model}); known models: {', '.join(WITHOUT_MODEL)}{''.join(f', {name}' for name in advisers)}"
        )
    adviser = advisers[rush.model]
    model = adviser.model
    site.clock[DECIDER] = MODEL
    first = adviser.first(rush.classes)
    site.clock[FIRST_CLASS] = first
    site.physics[CUTOFF] = model.cutoffs[first - 1] if rush.cutoff is None else rush.cutoff  # of these classes together
    codes = column_codes(model.columns, adviser.scope)
    if rush.harm and (codes < EVERY).any():
        raise InputError(
            f"+RUSH(model={rush.model},harm=yes): the model reads counters of a job's own nodes, and is asked about other jobs"
        )
    return codes


def sampled(codes: np.ndarray) -> np.ndarray:
    """Return the counters that these columns read, int64, ascending."""
    newest = codes[(codes >= NEWEST) & (codes < SITUATED)] - NEWEST
    return np.union1d(codes[codes < PROBED] // 3 % COUNTERS, newest)


def column_codes(columns: tuple[str, ...], scope: str) -> np.ndarray:
    """Return the codes of a model's columns for :func:`sim.cluster.start_models.look`.

    InputError for a column that the simulated cluster does not have.
    """
    first = EVERY if scope == "all" else 0
    known = {name: first + at for at, name in enumerate(counter_features())}
    known |= {name: PROBED + at for at, name in enumerate(PROBE_FEATURES)}
    known |= {name: TYPED + at for at, name in enumerate(TYPE_FEATURES)}
    known |= {name: NEWEST + at for at, name in enumerate(MORE_FEATURES)}
    unknown = [name for name in columns if name not in known]
    if unknown:
        raise InputError(f"the model reads {unknown[0]}, which the simulated cluster does not measure")
    return np.array([known[name] for name in columns], np.int64)


CODES = np.arange(LOOKS)
"""Codes of all columns."""
