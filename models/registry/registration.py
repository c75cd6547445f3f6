"""Logs predictors to MLflow, registers them as ``runtime-<trace>``, refreshes their snapshots and moves the aliases.

A version holds a method, trained once, and a dated snapshot of the users' histories, with what the method itself remembers of jobs. A refreshed
version has the model of an older one, named by the tag ``refreshed_from``, and a new snapshot.
 Who becomes champion is decided elsewhere (``models.registry.promotion``), but for the first:
that is the method of higher accuracy as served, within ``TIE`` the simpler.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import lightgbm
import mlflow
import mlflow.artifacts
import mlflow.pyfunc
import numpy as np
import pandas as pd
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException
from mlflow.models import ModelSignature
from mlflow.models.model import ModelInfo
from mlflow.pyfunc import PyFuncModel
from mlflow.types import ColSpec, DataType, Schema, TensorSpec

from features.clock import local_clock_s
from features.errors import InputError
from features.names import check_name
from models.packed.methods import METHODS, Method
from models.packed.predictor import FORMAT, read_method
from models.registry.packing import assemble, private_name
from models.registry.promotion import TIE
from models.registry.tracking import Tracking
from models.registry.versions import REGISTERED_MODEL, note_made

_ASKED = (
    ColSpec(DataType.string, "user"),
    ColSpec(DataType.long, "procs"),
    ColSpec(DataType.long, "requested_s"),
    ColSpec(DataType.datetime, "submit_time"),
)


def signature(outputs: Sequence[str], optional: Sequence[str] = ()) -> ModelSignature:
    """Make the signature of a version.

    It answers with ``outputs`` (seconds), the snapshot's age and whether the user is known, and looks at ``optional`` text if it is given.
    """
    answers: list[ColSpec | TensorSpec] = [
        *(ColSpec(DataType.double, name) for name in outputs),
        ColSpec(DataType.long, "snapshot_age_s"),
        ColSpec(DataType.boolean, "user_known"),
    ]
    asked: list[ColSpec | TensorSpec] = [*_ASKED, *(ColSpec(DataType.string, name, required=False) for name in optional)]
    return ModelSignature(inputs=Schema(asked), outputs=Schema(answers))


@dataclass(frozen=True)
class Training:
    """Where a version comes from: what every version of ``runtime-<trace>`` records.

    ``jobs`` jobs of the fingerprint ``fingerprint`` trained the model; the window is the first submission and the instant up to which ended
    jobs were learned from, both in seconds from the trace's origin. ``snapshot`` is ``features.jobs.snapshot.snapshot`` at ``snapshot_s``,
    made from the data of the fingerprint ``snapshot_fingerprint``; ``refreshed_from`` is the version whose model it is, if not this one's own.
    """

    trace: str
    fingerprint: str
    jobs: int
    window_s: tuple[int, int]
    snapshot: pd.DataFrame
    snapshot_s: int
    origin_unix_s: int | None = None
    timezone: str | None = None
    generated: bool = False
    seed: int = 0
    snapshot_fingerprint: str = ""
    refreshed_from: str = ""


@dataclass(frozen=True)
class Candidate:
    """A registered version and its accuracy as served over ``judged_jobs`` of ``jobs``."""

    method: str
    version: str
    accuracy: float
    judged_jobs: int
    jobs: int
    tags: Mapping[str, str] = field(default_factory=dict)


def log_and_register(
    tracking: Tracking,
    method: Method,
    training: Training,
    metrics: Mapping[str, float],
    judged: tuple[float, int],
    *,
    why: str = "",
    parameters: Mapping[str, object] | None = None,
    tags: Mapping[str, str] | None = None,
) -> Candidate:
    """One MLflow run and one new version of ``runtime-<trace>`` for ``method``; no alias moves.

    ``metrics`` are logged as they are, ``judged`` is the accuracy over the judged jobs and their number, ``parameters`` the method's
    own, ``tags`` what identifies the caller (``dagster_run_id``), ``why`` the version's note. Metrics that are NaN are left out. A failure leaves a
    run marked failed and no alias changed.
    """
    name = f"runtime-{check_name(training.trace, 'registry')}"
    facts = {
        "queuecast_format": str(FORMAT),
        "method": method.name,
        "data_fingerprint": training.fingerprint,
        "snapshot_fingerprint": training.snapshot_fingerprint or training.fingerprint,
        "training_jobs": str(training.jobs),
        "training_window_s": f"{training.window_s[0]}..{training.window_s[1]}",
        "snapshot_s": str(training.snapshot_s),
        "generated": str(training.generated).lower(),
        "seed": str(training.seed),
        "code_version": f"{version('queuecast')} {private_name()}",
        "judged_accuracy": repr(float(judged[0])),
        "judged_jobs": str(judged[1]),
        **({"refreshed_from": training.refreshed_from} if training.refreshed_from else {}),
        **(tags or {}),
    }
    kind = "refreshed" if training.refreshed_from else "trained"
    with (
        mlflow.start_run(
            experiment_id=tracking.experiment_id,
            run_name=f"{training.trace} {method.name} {kind}",
            tags={**facts, REGISTERED_MODEL: name},
        ) as run,
        tempfile.TemporaryDirectory(prefix="queuecast-") as directory,
    ):
        mlflow.log_params({"trace": training.trace, "method": method.name, "seed": training.seed, **(parameters or {})})
        numbers = {**metrics, "judged_accuracy": float(judged[0]), "judged_jobs": float(judged[1])}
        mlflow.log_metrics({key: value for key, value in numbers.items() if np.isfinite(value)})
        parts = assemble(
            Path(directory),
            method,
            training.snapshot,
            training.snapshot_s,
            origin_unix_s=training.origin_unix_s,
            timezone=training.timezone,
        )
        logged = mlflow.pyfunc.log_model(
            name=re.sub(r"[^a-zA-Z0-9_-]+", "-", f"{training.trace}-{method.name}").strip("-"),
            python_model=parts.script,
            code_paths=[str(parts.code)],
            artifacts={"runtime_model": str(parts.data)},
            signature=signature(method.outputs, method.optional),
            input_example=_example(training),
            pip_requirements=requirements(["pyarrow", *method.packages, *(["tzdata"] if training.timezone else [])]),
        )
        made = new_version(tracking, name, logged, run.info.run_id, facts, why)
    return Candidate(method.name, made, float(judged[0]), int(judged[1]), training.jobs, facts)


def new_version(tracking: Tracking, name: str, logged: ModelInfo, run_id: str, facts: Mapping[str, str], why: str) -> str:
    """Register what the run ``logged`` as the next version of ``name``, with the tags ``facts`` and the note ``why``; returns its number."""
    try:
        tracking.client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    made = tracking.client.create_model_version(name, logged.model_uri, run_id, tags=dict(facts), model_id=logged.model_id)
    note_made(name, str(made.version))
    if why:
        _describe(tracking, name, str(made.version), why)
    return str(made.version)


def rank_candidates(tracking: Tracking, trace: str, candidates: Sequence[Candidate], note: str = "") -> tuple[str, str]:
    """Rank the ``candidates`` for a first champion and write on each why, with ``note`` behind; returns the versions of champion and challenger.

    No alias moves (:func:`promote`); the challenger is empty where there is one candidate. Raises ValueError without candidates or with candidates
    judged on no jobs or on different numbers of them.
    """
    if not candidates:
        raise ValueError("no candidate to promote")
    if not all(np.isfinite(each.accuracy) for each in candidates):
        raise ValueError("no job judges the candidates")
    if len({(each.judged_jobs, each.jobs) for each in candidates}) > 1:
        raise ValueError("candidates were judged on different jobs")
    ranked = _ranked(candidates)
    table = ", ".join(f"{each.method} (version {each.version}) {each.accuracy:.4f}" for each in ranked)
    basis = f"mean accuracy as served over {ranked[0].judged_jobs:,} jobs (within {TIE} the simpler): {table}.{note and ' ' + note}"
    for each, title in zip(ranked, ("First champion", "Challenger", *["Candidate"] * len(ranked)), strict=False):
        _describe(tracking, f"runtime-{trace}", each.version, f"{title} by {basis}")
    return ranked[0].version, ranked[1].version if len(ranked) > 1 else ""


def promote(tracking: Tracking, trace: str, champion: str, challenger: str = "") -> None:
    """Point the aliases of ``runtime-<trace>`` at these versions (:func:`set_aliases`)."""
    set_aliases(tracking, f"runtime-{trace}", champion, challenger)


def set_aliases(tracking: Tracking, name: str, champion: str, challenger: str = "") -> None:
    """Point the aliases at these versions. The champion's moves last, so that a failure half way leaves the old champion. Doing it twice does no harm."""
    if challenger:
        tracking.client.set_registered_model_alias(name, "challenger", challenger)
    tracking.client.set_registered_model_alias(name, "champion", champion)


def champion(tracking: Tracking, trace: str) -> ModelVersion | None:
    """The present champion of ``runtime-<trace>``, None if there is none."""
    return version_at(tracking, f"runtime-{trace}", "champion")


def version_at(tracking: Tracking, name: str, alias: str) -> ModelVersion | None:
    """The version of ``name`` that ``alias`` points to, None if there is none."""
    try:
        return tracking.client.get_model_version_by_alias(name, alias)
    except MlflowException as error:
        if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
            return None
        raise


def trained_method(tracking: Tracking, trace: str, number: str) -> Method:
    """What a version learned, without its snapshot, to predict or to be refreshed. Raises InputError for a version of another format or code."""
    place = f"models:/runtime-{trace}/{number}"
    try:
        with tempfile.TemporaryDirectory(prefix="queuecast-") as directory:
            home = Path(mlflow.artifacts.download_artifacts(f"{place}/artifacts/runtime_model", dst_path=directory))
            return read_method(home)
    except (ValueError, OSError, MlflowException, lightgbm.basic.LightGBMError) as error:
        raise InputError(f"{place}: cannot be read by this Queuecast: {str(error).strip().splitlines()[0]}") from error


def load(tracking: Tracking, name: str, alias: str = "champion") -> PyFuncModel:
    """The registered model ``name`` at ``alias``, ready to predict; InputError if it is not there or of another format."""
    try:
        found = tracking.client.get_model_version_by_alias(name, alias)
    except MlflowException as error:
        raise InputError(f"no registered model {name}@{alias} at {tracking.uri}") from error
    if found.tags.get("queuecast_format") != str(FORMAT):
        raise InputError(
            f"{name}@{alias} (version {found.version}) has format {found.tags.get('queuecast_format')}, this Queuecast reads format {FORMAT}: register it again"
        )
    return mlflow.pyfunc.load_model(f"models:/{name}/{found.version}")


def ask(model: PyFuncModel, submitted: pd.DataFrame) -> pd.DataFrame:
    """What a loaded model says of ``submitted``, of which it is given the columns that its signature lists; without a signature, those all versions need."""
    schema = model.metadata.get_input_schema()
    wanted = schema.input_names() if schema is not None and schema.has_input_names() else [column.name for column in _ASKED]
    return pd.DataFrame(model.predict(submitted[[name for name in submitted if name in wanted]]))


def _ranked(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Best first: repeatedly the simplest of those within TIE of the best that is left."""
    left, ranked = list(candidates), []
    while left:
        best = max(each.accuracy for each in left)
        close = [each for each in left if each.accuracy >= best - TIE]
        chosen = min(close, key=lambda each: (list(METHODS).index(each.method), -each.accuracy))
        ranked.append(chosen)
        left.remove(chosen)
    return ranked


def _describe(tracking: Tracking, name: str, number: str, why: str) -> None:
    tracking.client.update_model_version(name, number, description=why)


def _example(training: Training) -> pd.DataFrame:
    users = training.snapshot["user"].tolist()
    local = local_clock_s(np.full(2, training.snapshot_s), training.origin_unix_s, training.timezone)
    return pd.DataFrame(
        {
            "user": [users[0] if users else "somebody", "a user without history"],
            "procs": np.array([4, 1], np.int64),
            "requested_s": np.array([3600, 600], np.int64),
            "submit_time": local.astype("datetime64[s]"),
        }
    )


def requirements(needed: Sequence[str]) -> list[str]:
    """What every registered model needs and what this one does, in the versions of here."""
    return [f"{package}=={version(package)}" for package in ("mlflow", "numpy", "pandas", *needed)]
