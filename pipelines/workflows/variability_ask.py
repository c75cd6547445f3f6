"""Ask a system's champion whether a job started now on these nodes would vary.

It reads the ingested counters. No Dagster here: a scheduler that asks at every start imports this and has its answer in a
fraction of a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd

from features.errors import InputError
from features.monitoring.labels import feature_matrix
from features.monitoring.samplers import PROBES, WINDOW_S
from models.registry.tracking import Tracking
from models.registry.variability_registration import VARIABILITY, registered_classifier
from models.variability.model import VariabilityModel
from pipelines.sources.systems import settings_of
from pipelines.storage.counters_store import CountersStore
from pipelines.storage.lake import Lake
from pipelines.storage.publishing import finish_for_reader
from pipelines.storage.run_store import application_types
from pipelines.workflows.variability_table import windows_before

_ASKED = "asked"
"""The identifier of the run that is asked about."""


@dataclass(frozen=True)
class Answer:
    """A model's answer about a start of ``application`` on ``nodes`` at ``at_s`` (Unix s).

    ``probabilities`` by class, the last of which is variation; ``varies`` if that reaches ``cutoff``. ``varies_above_s`` is the
    runtime in seconds from which the run would count as varying (NaN for an application without control runs). It uses
    ``samples`` of ``expected`` in the window, of all samplers together; ``missing`` names columns without a value, which counted
    as the median of the training part.
    """

    model: str
    version: str
    classifier: str
    scope: str
    application: str
    nodes: tuple[str, ...]
    at_s: float
    probabilities: tuple[float, ...]
    cutoff: float
    varies: bool
    varies_above_s: float
    samples: int
    expected: float
    missing: tuple[str, ...]


def ask(
    home: Path,
    store: Tracking,
    system: str,
    nodes: Sequence[str],
    application: str,
    at_s: float,
    probes: pd.DataFrame | None = None,
) -> Answer:
    """Ask variability-<system>@champion about a start of ``application`` on ``nodes``.

    It uses what could be read of the counters by ``at_s``. ``probes`` has a row a node, ``node`` and the columns of
    :data:`features.monitoring.samplers.PROBES` (seconds waited); without, their features are missing. InputError without a
    champion, and where no counter was sampled in the window before.
    """
    finish_for_reader(home, store, VARIABILITY.registered(system))
    champion = registered_classifier(store, VARIABILITY.registered(system))
    model, scope = champion.model, champion.scope
    lake = Lake(home / "lake")
    counters = CountersStore(lake.root, system)
    run = pd.DataFrame({"run_id": [_ASKED], "application": [application], "nodes": [list(nodes)], "start_s": [int(np.ceil(at_s))]})
    windows = windows_before(counters, run, (scope,), settings_of(home, system).lag_s)
    seen = windows.coverage.filter(like=f".{scope}.")
    samples = int(seen.filter(like=".samples").to_numpy().sum())
    if samples == 0:
        raise InputError(_nothing_seen(counters, nodes if scope == "own" else (), at_s))
    waits = pd.DataFrame(columns=["run_id", "node", *PROBES])
    if probes is not None:
        waits = probes[probes["node"].isin(list(nodes))].assign(run_id=_ASKED)
    window = windows.own if scope == "own" else windows.all
    assert window is not None
    features = feature_matrix(window, waits, application_types(lake, system), run)
    probability = model.probabilities(features)[0]
    return Answer(
        model=champion.name,
        version=champion.version,
        classifier=model.classifier,
        scope=scope,
        application=application,
        nodes=tuple(nodes),
        at_s=at_s,
        probabilities=tuple(float(each) for each in probability),
        cutoff=model.cutoff,
        varies=bool(probability[-1] >= model.cutoff),
        varies_above_s=_above_s(model, application, champion.thresholds[-1]),
        samples=samples,
        expected=float(np.nansum(seen.filter(like=".expected").to_numpy())),
        missing=tuple(model.missing_in(features)),
    )


def _above_s(model: VariabilityModel, application: str, sigmas: float) -> float:
    if application not in model.baselines.index:
        return float("nan")
    mean, sigma = model.baselines.loc[application, ["mean_s", "sigma_s"]].to_numpy(np.float64)
    return float(mean + sigmas * sigma)


def _nothing_seen(counters: CountersStore, nodes: Sequence[str], at_s: float) -> str:
    last = max((part.last_s for sampler in counters.samplers for part in counters.parts(sampler)), default=float("nan"))
    of = f" of {nodes[0]}{f' and {len(nodes) - 1} others' if len(nodes) > 1 else ''}" if nodes else ""
    return (
        f"{counters.system}: no counter{of} was sampled in the {WINDOW_S} s before {time_text(at_s)}; the last of all is of {time_text(last)}: "
        "ingest what is new, or ask about another time"
    )


def time_text(unix_s: float) -> str:
    """Return a time in UTC, to the second."""
    return datetime.fromtimestamp(unix_s, UTC).isoformat(timespec="seconds")
