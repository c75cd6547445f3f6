"""A run's stages up to its publication, without Dagster, for the tests of what runs register and simulate."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from features.jobs.cleaning import CleanTrace
from models.registry.tracking import aliases
from pipelines.lake.publishing import alone
from pipelines.lake.tables import Lake, keep_features
from pipelines.training.night import own_registry
from pipelines.training.train import train
from pipelines.training.work import Cutoff, Work, cutoff_of


@dataclass(frozen=True)
class Registered:
    """What a run left in the registry: its date, the table ``runtime_model`` with its marks, and the models that serve."""

    date: Cutoff
    simulated: str
    why: str
    nothing_new: bool
    versions: pd.DataFrame
    models: Mapping[str, str]


def work_in(home: Path, trace: str) -> Work:
    """Return the work of a run of ``trace`` in ``home``, on a draft of its own."""
    return Work(Lake(home / "lake", f"run-{uuid.uuid4()}"), own_registry(home), f"runtime-{trace}", run_id="r")


def registered_in(home: Path, clean: CleanTrace, **options: str) -> Registered:
    """Train and register what a run of ``clean`` does in ``home``, and publish it; no alias moves before."""
    work = work_in(home, clean.name)
    with alone(home, clean.name):
        work.begin()
        before = aliases(work.store, work.subject)
        work.lake.write_clean(clean)
        keep_features(work.lake, clean)
        train(work, clean, **options)  # type: ignore[arg-type]
        assert aliases(work.store, work.subject) == before, "no alias moves before the run is published"
        versions, marks = work.lake.read_for(clean, "runtime_model")
        models = work.lake.models(work.subject)
        work.lake.write_for(clean, "learned_policy", pd.DataFrame({"version": [""]}), {"version": ""})  # no order is learned here
        work.publish()
    return Registered(cutoff_of(marks), marks["simulated"], marks["why"], marks["nothing_new"], versions, models)
