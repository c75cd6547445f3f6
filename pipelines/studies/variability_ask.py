"""Ask a system's champion whether a job started now on these nodes would vary.

It reads the ingested counters. No Dagster here: a scheduler that asks at every start imports this and has its answer in
a fraction of a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd

from features.errors import InputError, shown
from features.monitoring.labels import feature_matrix
from features.monitoring.samplers import PROBES, SITUATION_FEATURES, WINDOW_S
from features.monitoring.situation import MonitoredMachine, PlacedJob, jobs_of, situation
from models.registry.tracking import Tracking
from models.registry.variability_registration import VARIABILITY, registered_classifier
from models.variability.model import VariabilityModel
from pipelines.lake.counters import CountersStore
from pipelines.lake.publishing import check_registry, version_of
from pipelines.lake.run_store import RUNS, application_types, machine_of, stored
from pipelines.lake.tables import Lake
from pipelines.readers.systems import settings_of
from pipelines.studies.monitored import newest_before, windows_before

_ASKED = "asked"
"""The identifier of the run that is asked about."""


@dataclass(frozen=True)
class VariationAnswer:
    """A model's answer about a start of ``application`` on ``nodes`` at ``at_s`` (Unix s).

    ``probabilities`` are by class; those of the classes of variation add up to ``variation``. ``varies`` is true if
    that reaches ``cutoff``: then a scheduler would let the job wait. ``varies_above_s`` is the runtime in seconds from
    which the run would count as varying (NaN for an application without control runs). ``missing`` names columns
    without a value, which count as the median of the training part.
    """

    model: str
    version: str
    classifier: str
    scope: str
    application: str
    nodes: tuple[str, ...]
    at_s: float
    probabilities: tuple[float, ...]
    variation: float
    cutoff: float
    varies: bool
    varies_above_s: float
    missing: tuple[str, ...]


def ask(
    home: Path,
    store: Tracking,
    system: str,
    nodes: Sequence[str],
    application: str,
    at_s: float,
) -> VariationAnswer:
    """Ask variability-<system>@champion about a start of ``application`` on ``nodes``.

    It uses the counters that could be read by ``at_s``, and the ingested runs that began before and had not ended.
    Features of probes are missing. Raises InputError without a champion, for an application without control runs and
    type, for a node that the topology does not name, and if no counter was sampled in the window before.
    """
    lake, name = Lake(home / "lake"), VARIABILITY.registered(system)
    check_registry(lake, store, name)
    champion = registered_classifier(store, name, version_of(lake, store, name) or "champion")
    model, scope = champion.model, champion.scope
    lag_s, machine, types = settings_of(home, system).lag_s, machine_of(lake, system), application_types(lake, system)
    applications = {*map(str, model.baselines.index), *types}
    if application not in applications:
        raise InputError(
            f"unknown application {shown(application)}: {system} has neither control runs nor a type of it; known: {', '.join(sorted(applications))}"
        )
    job = PlacedJob(_ASKED, application, tuple(nodes), at_s)
    beside = _beside(job, machine, _running(lake, system, at_s)) if machine is not None else None
    counters = CountersStore(lake.root, system)
    run = pd.DataFrame({"run_id": [_ASKED], "application": [application], "nodes": [list(nodes)], "start_s": [int(np.ceil(at_s))]})
    windows = windows_before(counters, run, (scope,), lag_s)
    if windows.coverage.filter(like=f".{scope}.samples").to_numpy().sum() == 0:
        raise InputError(
            f"{system}: no counter of {'these' if scope == 'own' else 'any'} nodes was sampled in the {WINDOW_S} s before "
            f"{time_text(at_s)}: ingest what is new, or ask about another time"
        )
    waits = pd.DataFrame(columns=["run_id", "node", *PROBES])
    window = windows.own if scope == "own" else windows.all
    assert window is not None
    features = feature_matrix(window, waits, types, run)
    if beside is not None:
        features = features.join(newest_before(counters, run, windows.interval_s, lag_s, model.columns)).assign(**beside)
    probability = model.predict_proba(features)
    mean_s, sigma_s = _usual(model, application)
    variation = float(model.variation_of(probability)[0])
    return VariationAnswer(
        model=champion.name,
        version=champion.version,
        classifier=model.classifier,
        scope=scope,
        application=application,
        nodes=tuple(nodes),
        at_s=at_s,
        probabilities=tuple(float(chance) for chance in probability[0]),
        variation=variation,
        cutoff=model.cutoff,
        varies=variation >= model.cutoff,
        varies_above_s=mean_s + champion.thresholds[model.variation - 1] * sigma_s,
        missing=tuple(model.missing_in(features)),
    )


def _beside(placed: PlacedJob, machine: MonitoredMachine, running: Sequence[PlacedJob]) -> Mapping[str, float]:
    """Return the features of the jobs that run under the same leaf switches."""
    unknown = [node for node in placed.nodes if node not in machine.leaf_of]
    if unknown:
        raise InputError(
            f"node {shown(unknown[0])} is under no leaf switch of the ingested topology ({len(machine.leaf_of):,} nodes)"
        )
    others = [(job, machine.spread(job)) for job in running]
    return dict(zip(SITUATION_FEATURES, situation(placed, machine.spread(placed), others, machine), strict=True))


def _running(lake: Lake, system: str, at_s: float) -> list[PlacedJob]:
    """Return the ingested runs that began before ``at_s`` and had not ended."""
    runs = stored(lake, RUNS, system)
    return jobs_of(runs[(runs["start_s"] < at_s) & (at_s - runs["start_s"] < runs["runtime_s"])])


def _usual(model: VariabilityModel, application: str) -> tuple[float, float]:
    """Return mean and standard deviation of the application's runtime, NaN if unknown."""
    if application not in model.baselines.index:
        return float("nan"), float("nan")
    mean, sigma = model.baselines.loc[application, ["mean_s", "sigma_s"]].to_numpy(np.float64)
    return float(mean), float(sigma)


def time_text(unix_s: float) -> str:
    """Return a time in UTC, to the second."""
    return datetime.fromtimestamp(unix_s, UTC).isoformat(timespec="seconds")
