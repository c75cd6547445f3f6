"""Simulation of jobs that slow each other down on a cluster, under any scheduler.

Start decisions are optional; the model that the scheduler asks is in the cluster's arrays. The jobs table is the
canonical one, its ``executable`` the application and its ``procs`` nodes; ``runtime_s`` is ignored, as runtimes are
results: an undisturbed run takes the time of :mod:`sim.cluster.applications`, with noise of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pandas as pd

from features.errors import InputError
from features.monitoring.samplers import FEATURES, MORE_FEATURES, PROBE_FEATURES, TYPE_FEATURES, counter_features
from models.variability.compiled_classifiers import Arrays
from models.variability.model import VariabilityModel
from sim.cluster import layout
from sim.cluster.applications import application
from sim.cluster.begin import as_site, behaviours, horizon_s
from sim.cluster.layout import ClusterSite
from sim.cluster.presets import SimulatedCluster
from sim.cluster.start_models import COUNTERS, EVERY, FULL, LOOKS, NEWEST, PROBED, SITUATED, TYPED, drive
from sim.inputs.prepare import prepare
from sim.kernel.loop import LoopInputs, Settings
from sim.kernel.outside import StartDecision
from sim.kernel.scratch import WorkArrays
from sim.kernel.state import MOMENT
from sim.outcome import Outcome, simulation
from sim.policy import Policy
from sim.schedule import Schedule, as_schedule
from sim.schedulers.names import Rush
from sim.schedulers.names import scheduler as named_scheduler


@dataclass(frozen=True)
class Adviser:
    """A variability model as the scheduler asks it, with the nodes' counters it reads."""

    model: VariabilityModel
    scope: str = "own"

    @property
    def arrays(self) -> Arrays:
        """Return the model as the kernel walks it; InputError if only its library can answer."""
        if self.model.arrays is None:
            raise InputError(f"a scheduler cannot ask {self.model.classifier}: take a classifier of trees")
        return self.model.arrays


class StartAdvice(NamedTuple):
    """What decides whether jobs may start: ``advisers`` by name, references, or a callback.

    ``limits`` are for oracle and nowcast: by (application, nodes), the runtime in seconds beyond which a run counts as
    varied. ``coin`` is the probability with which the coin skips.
    """

    advisers: Mapping[str, Adviser] = MappingProxyType({})
    limits: Mapping[tuple[str, int], float] = MappingProxyType({})
    coin: float = 0.0
    callback: StartDecision | None = None


WITHOUT_MODEL = {"oracle": layout.ORACLE, "nowcast": layout.NOWCAST, "coin": layout.COIN}
"""References that decide without a trained model: see :mod:`sim.cluster.start_models`."""


def ask(site: ClusterSite, rush: Rush | None, advice: StartAdvice) -> np.ndarray:
    """Write the deciding model into ``site``; return its columns' codes, int64 [columns]."""
    nothing = np.zeros(0, np.int64)
    site.clock[layout.DECIDER] = layout.NO_MODEL
    if rush is None:
        return nothing
    site.clock[[layout.PATIENCE_S, layout.EVERY_S]] = rush.patience, rush.every
    if advice.callback is not None:
        site.clock[layout.DECIDER] = layout.OUTSIDE
        return nothing
    if rush.model in WITHOUT_MODEL:
        site.clock[layout.DECIDER] = WITHOUT_MODEL[rush.model]
        site.physics[layout.CUTOFF] = advice.coin
        return nothing
    if rush.model not in advice.advisers:
        raise InputError(
            f"+RUSH(model={rush.model}); known models: {', '.join(WITHOUT_MODEL)}{''.join(f', {name}' for name in advice.advisers)}"
        )
    adviser = advice.advisers[rush.model]
    model = adviser.model
    site.clock[layout.DECIDER] = layout.MODEL
    first = model.variation
    site.clock[layout.FIRST_CLASS] = first
    site.physics[layout.CUTOFF] = model.cutoffs[first - 1] if rush.cutoff is None else rush.cutoff  # of these classes together
    return column_codes(model.columns, adviser.scope)


def sampled(codes: np.ndarray) -> np.ndarray:
    """Return the counters that these columns read, int64, ascending."""
    newest = codes[(codes >= NEWEST) & (codes < SITUATED)] - NEWEST
    return np.union1d(codes[codes < PROBED] // 3 % COUNTERS, newest)


def column_codes(columns: tuple[str, ...], scope: str) -> np.ndarray:
    """Return the codes of a model's columns for :func:`sim.cluster.start_models.look`.

    Raises InputError for a column that the simulated cluster does not have.
    """
    first = EVERY if scope == "all" else 0
    codes = {name: first + at for at, name in enumerate(counter_features())}
    codes |= {name: PROBED + at for at, name in enumerate(PROBE_FEATURES)}
    codes |= {name: TYPED + at for at, name in enumerate(TYPE_FEATURES)}
    codes |= {name: NEWEST + at for at, name in enumerate(MORE_FEATURES)}
    unknown = [name for name in columns if name not in codes]
    if unknown:
        raise InputError(f"the model reads {unknown[0]}, which the simulated cluster does not measure")
    return np.array([codes[name] for name in columns], np.int64)


STORM = 0.75
"""Background on the file system, as a share of its capacity, above which there is a storm.

Such a background alone stretches I/O by 13 %, so that LBANN runs 1.5 standard deviations of its own noise longer. On
``congested`` the wandering level is there 0.3 % of the time; the bursts are, about twice a day."""


@dataclass(frozen=True)
class ClusterRun:
    """The results of jobs on a simulated cluster.

    ``schedule`` is in whole seconds, with each job's ``undisturbed_s``. ``runs`` has a row a job in the same order:
    ``job_id application nodes submit_s start_s wait_s runtime_s`` (unrounded), ``work_s`` (alone on the machine, its
    own noise included), ``contention`` (runtime over work), ``start_network start_io mean_network mean_io`` (stretch of
    communication and I/O at its start and on average: the truth, which no model sees), ``skips``, ``predicted`` (the
    model's last probability, NaN if never asked) and ``cut`` (at its request). ``own`` and ``all`` are the 282 features
    by scope of the requested jobs, whose rows are the index; ``situation`` has the columns
    :data:`features.monitoring.samplers.MORE_FEATURES`. ``decisions`` counts start decisions, ``skipped`` those to skip.
    ``storm_s`` is the time with a storm, in seconds (:data:`STORM`). ``places`` are the nodes of each job in the order
    of ``runs``, int32, if asked for.
    """

    schedule: Schedule
    runs: pd.DataFrame
    own: pd.DataFrame
    all: pd.DataFrame
    situation: pd.DataFrame
    decisions: int
    skipped: int
    storm_s: float
    places: list[np.ndarray] | None = None


class Observed(NamedTuple):
    """What is kept of a simulation besides its runs.

    ``features`` tells of which jobs the features at their start are kept, bool [jobs]. ``record`` is called with the
    number of the first new sample, and increments (gauges: values) float64 [samples, 90, nodes]; a number times
    ``cluster.interval_s`` is the sample's time in seconds from the first submission, negative before it. ``places``
    keeps the nodes of each job.
    """

    features: np.ndarray | None = None
    record: Callable[[int, np.ndarray], None] | None = None
    places: bool = False


_EASY, _NO_ADVICE, _NOTHING = Policy(), StartAdvice(), Observed()


def simulate_on(
    cluster: SimulatedCluster,
    jobs: pd.DataFrame,
    policy: Policy = _EASY,
    *,
    scaling: str = "weak",
    advice: StartAdvice = _NO_ADVICE,
    observed: Observed = _NOTHING,
) -> ClusterRun:
    """Schedule ``jobs`` on ``cluster``.

    Parameters
    ----------
    jobs
        Canonical jobs table whose ``executable`` names applications; times in seconds, ``procs`` nodes.
    policy
        The scheduler may end in ``+RUSH(OPTIONS)``, with the options of :class:`sim.schedulers.names.Rush`; the model
        is one of the advisers, ``oracle``, ``nowcast`` or ``coin``. A predictor knows the undisturbed runtime at most,
        as ``clairvoyant`` does, until a job has ended; runtimes of ended jobs are those of this schedule. The seed is
        that of background, applications' own noise and sensors; the first two are the same under any scheduler.
    scaling
        How applications behave on other numbers of nodes than 16: ``weak`` or ``strong``.

    Raises
    ------
    InputError
        For an unknown name, application or scaling, and as :func:`sim.simulate`.
    """
    rush = named_scheduler(policy.scheduler).rush
    names = jobs["executable"].astype("str").fillna("").to_numpy()
    work, profiles, variant = behaviours(names, jobs["procs"].to_numpy(np.int64), scaling, advice.limits)
    luck, random = np.random.default_rng(policy.seed).spawn(2)
    noise = np.array([application(name).noise for name in names]) * cluster.own_noise
    alone = work * np.exp(noise * luck.standard_normal(len(jobs)))
    alone_jobs = jobs.assign(runtime_s=np.minimum(np.maximum(np.rint(alone), 1), jobs["requested_s"]).astype(np.int64))
    prepared = prepare(alone_jobs, cluster.procs)
    horizon = horizon_s(cluster, prepared.arrays, work)
    site = as_site(cluster, prepared.arrays.procs, profiles, variant, alone, random, horizon)
    wanted = np.flatnonzero(observed.features) if observed.features is not None else np.zeros(0, np.int64)
    if observed.places:
        site = site._replace(places=np.zeros(prepared.arrays.procs.sum(), np.int32))
    site = _watched(site, rush, advice, observed, wanted)
    machine = ClusterMachine(site, _reporting(site, observed.record, 1 - cluster.warm_s // cluster.interval_s))
    simulated = simulation(prepared, policy, start_decision=advice.callback, machine=machine)
    outcome = simulated.outcome()
    machine.take()  # the last samples
    ended = alone_jobs.assign(runtime_s=outcome.runtime)
    schedule = as_schedule(outcome, ended, policy, procs=cluster.procs, trace=cluster.name, generated=True)
    runs = _runs_of(jobs, names, site, outcome)
    own, every = _features_of(site, wanted)
    return ClusterRun(
        schedule=replace(schedule, jobs=schedule.jobs.assign(undisturbed_s=site.work)),
        runs=runs,
        own=own,
        all=every,
        situation=pd.DataFrame(site.features[:, NEWEST:], columns=list(MORE_FEATURES), index=wanted),
        decisions=int(site.clock[layout.ASKED_TIMES]),
        skipped=int(site.clock[layout.SKIPPED_TIMES]),
        storm_s=_storm_s(site, runs),
        places=np.split(site.places, site.first_place[1:]) if observed.places else None,
    )


def _watched(site: ClusterSite, rush: Rush | None, advice: StartAdvice, observed: Observed, wanted: np.ndarray) -> ClusterSite:
    """Return the site with the model that decides starts, and room for what is ``observed``."""
    columns = ask(site, rush, advice)
    sample_all = observed.features is not None or observed.record is not None
    site.feature_row[wanted] = np.arange(len(wanted))
    site = site._replace(
        used=np.arange(COUNTERS) if sample_all else sampled(columns),
        wanted=columns,
        x=np.zeros(len(columns)),
        features=np.zeros((len(wanted), LOOKS)),
        record=np.zeros((_RECORDS if observed.record else 0, COUNTERS, site.record.shape[2])),
    )
    adviser = advice.advisers.get(rush.model) if rush else None
    return site if adviser is None else site._replace(model=adviser.arrays, out=np.zeros(adviser.model.classes))


def _reporting(site: ClusterSite, record: Callable[[int, np.ndarray], None] | None, first: int) -> Callable[[], None]:
    """Return what reports the samples in the site's record, numbered from ``first``, and clears it."""

    def take() -> None:
        nonlocal first
        count = int(site.clock[layout.RECORDED])
        if record is not None and count:
            record(first, site.record[:count])
        first += count
        site.clock[layout.RECORDED] = 0

    return take


def _storm_s(site: ClusterSite, runs: pd.DataFrame) -> float:
    """Return the seconds from the first submission to the last end in which there is a storm."""
    tick, ends = int(site.clock[layout.TICK_S]), runs["start_s"] + runs["runtime_s"]
    moments = np.arange(0, int(ends.max() - runs["submit_s"].min()), tick) + site.clock[layout.WARM_S]
    level = site.background[moments // tick % len(site.background), layout.STORAGE_BACKGROUND]
    return float(tick * np.count_nonzero(level > STORM))


def _runs_of(jobs: pd.DataFrame, names: np.ndarray, site: ClusterSite, outcome: Outcome) -> pd.DataFrame:
    """Return the result of each job, a row a job (:attr:`ClusterRun.runs`)."""
    return pd.DataFrame(
        {
            "job_id": jobs["job_id"].to_numpy(),
            "application": names,
            "nodes": jobs["procs"].to_numpy(),
            "submit_s": outcome.submit,
            "start_s": outcome.start,
            "wait_s": outcome.start - outcome.submit,
            "runtime_s": site.runs[:, layout.EXACT],
            "work_s": site.work,
            "contention": site.runs[:, layout.CONTENTION],
            "start_network": site.runs[:, layout.START_NETWORK],
            "start_io": site.runs[:, layout.START_IO],
            "mean_network": site.runs[:, layout.MEAN_NETWORK],
            "mean_io": site.runs[:, layout.MEAN_IO],
            "skips": outcome.skips if len(outcome.skips) else 0,
            "predicted": site.runs[:, layout.PREDICTED],
            "cut": site.runs[:, layout.CUT] > 0,
        }
    )


def _features_of(site: ClusterSite, wanted: np.ndarray) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return features of the jobs ``wanted``: from their own nodes' counters and from all."""
    rest = site.features[:, PROBED:NEWEST]
    own, every = (
        pd.DataFrame(np.hstack([site.features[:, at : at + EVERY], rest]), columns=list(FEATURES), index=wanted)
        for at in (0, EVERY)
    )
    return own, every


@dataclass(frozen=True)
class ClusterMachine:
    """The cluster as a :class:`sim.outcome.RuntimeMachine`, on which jobs run."""

    site: ClusterSite
    take: Callable[[], None]

    @property
    def decides(self) -> bool:
        """Tell whether start decisions are made here."""
        return self.site.clock[layout.DECIDER] not in (layout.NO_MODEL, layout.OUTSIDE)

    def go_on(self, settings: Settings, inputs: LoopInputs, work: WorkArrays, now: int) -> tuple[int, int]:
        """Run the event loop until it needs something that the cluster cannot answer."""
        if self.site.clock[layout.BROUGHT_UP_TO] < 0:
            work.state.counters[MOMENT] = self.site.clock[layout.BROUGHT_UP_TO]
        while True:
            reason, now = drive(settings, inputs, work, now, self.site, CODES)
            if reason != FULL:
                return reason, now
            self.take()


_RECORDS = 64
"""Samples that a record holds."""


CODES = np.arange(LOOKS)
"""Codes of all columns."""
