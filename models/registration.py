"""Logs predictors to MLflow, registers them as ``runtime-<trace>`` and says which one is the champion.

The rule: the champion is the method of higher mean accuracy min(p/r, r/p) over the judged jobs (:func:`judged_jobs`), all methods
judged on the same jobs; within ``TIE`` the simpler one. The present champion takes part through its method, of which there is a
newer version. If its method is not among the candidates, the accuracy recorded with it stands for it, measured on other jobs, and
the description says so; if none is recorded, somebody chose it by hand, and it stays.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import lightgbm
import mlflow
import mlflow.pyfunc
import numpy as np
import pandas as pd
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException
from mlflow.models import ModelSignature
from mlflow.pyfunc import PyFuncModel
from mlflow.types import ColSpec, DataType, Schema

from features.clock import local_clock_s
from features.errors import InputError
from models.packed.predictor import FORMAT, METHODS
from models.packing import assemble, private_name
from models.tracking import Tracking

TIE = 0.001
"""Accuracies closer than this count as equal."""
JUDGED_SHARE, JUDGED_JOBS = 0.25, 1000
"""Share of the walk-forward weeks that judge, and the number of jobs they are extended to, as far as there are any."""

SIGNATURE = ModelSignature(
    inputs=Schema(
        [
            ColSpec(DataType.string, "user"),
            ColSpec(DataType.long, "procs"),
            ColSpec(DataType.long, "requested_s"),
            ColSpec(DataType.datetime, "submit_time"),
        ]
    ),
    outputs=Schema([ColSpec(DataType.double, "predicted_s"), ColSpec(DataType.long, "snapshot_age_s")]),
)


@dataclass(frozen=True)
class Training:
    """Where a version comes from: what every version of ``runtime-<trace>`` records.

    ``jobs`` is the number of jobs of the trace: all of them are predicted walking forward, and the last of them judge.
    ``snapshot`` is ``features.snapshot.snapshot`` at ``snapshot_s``; the window is the first submission and the instant up to which
    ended jobs were learned from, both in seconds from the trace's origin.
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


@dataclass(frozen=True)
class Candidate:
    """A registered version and its accuracy over the last ``judged_jobs`` of ``jobs``."""

    method: str
    version: str
    accuracy: float
    judged_jobs: int
    jobs: int
    tags: Mapping[str, str] = field(default_factory=dict)


def judged_jobs(period: np.ndarray) -> np.ndarray:
    """Mask [jobs] of the last quarter of the weeks in ``period`` (week of each job, ascending), extended back to 1000 jobs or all."""
    weeks = np.unique(period)
    first = len(weeks) - max(1, int(np.ceil(len(weeks) * JUDGED_SHARE)))
    while first > 0 and (period >= weeks[first]).sum() < JUDGED_JOBS:
        first -= 1
    return period >= weeks[first]


def log_and_register(
    tracking: Tracking,
    method: str,
    training: Training,
    metrics: Mapping[str, float],
    judged: tuple[float, int],
    *,
    booster: lightgbm.Booster | None = None,
    parameters: Mapping[str, object] | None = None,
    tags: Mapping[str, str] | None = None,
) -> Candidate:
    """One MLflow run and one new version of ``runtime-<trace>`` for ``method``; no alias moves.

    ``metrics`` are logged as they are, ``judged`` is the accuracy over the judged jobs and their number, ``parameters`` the method's
    own, ``tags`` what identifies the caller (``dagster_run_id``). A failure leaves a run marked failed and no alias changed.
    """
    name = f"runtime-{training.trace}"
    facts = {
        "queuecast_format": str(FORMAT),
        "method": method,
        "data_fingerprint": training.fingerprint,
        "training_jobs": str(training.jobs),
        "training_window_s": f"{training.window_s[0]}..{training.window_s[1]}",
        "snapshot_s": str(training.snapshot_s),
        "generated": str(training.generated).lower(),
        "seed": str(training.seed),
        "code_version": f"{version('queuecast')} {private_name()}",
        "judged_accuracy": repr(float(judged[0])),
        "judged_jobs": str(judged[1]),
        **(tags or {}),
    }
    with (
        mlflow.start_run(experiment_id=tracking.experiment_id, run_name=f"{training.trace} {method}", tags=facts) as run,
        tempfile.TemporaryDirectory(prefix="queuecast-") as directory,
    ):
        mlflow.log_params({"trace": training.trace, "method": method, "seed": training.seed, **(parameters or {})})
        mlflow.log_metrics({**metrics, "judged_accuracy": judged[0], "judged_jobs": judged[1]})
        parts = assemble(
            Path(directory),
            method,
            training.snapshot,
            training.snapshot_s,
            booster=booster,
            origin_unix_s=training.origin_unix_s,
            timezone=training.timezone,
        )
        logged = mlflow.pyfunc.log_model(
            name=f"{training.trace}-{method}".replace(".", "-"),
            python_model=parts.script,
            code_paths=[str(parts.code)],
            artifacts={"runtime_model": str(parts.data)},
            signature=SIGNATURE,
            input_example=_example(training),
            pip_requirements=_requirements(method, training.timezone),
        )
        try:
            tracking.client.create_registered_model(name)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        made = tracking.client.create_model_version(name, logged.model_uri, run.info.run_id, tags=facts, model_id=logged.model_id)
    return Candidate(method, str(made.version), float(judged[0]), int(judged[1]), training.jobs, facts)


def promote(tracking: Tracking, trace: str, candidates: Sequence[Candidate]) -> tuple[str, str | None]:
    """Give the alias ``champion`` to the best of ``candidates`` by the rule above, ``challenger`` to the next; returns their versions.

    Both versions' descriptions say why. The champion's alias moves last, so a failure half way leaves the old champion. Raises
    ValueError without candidates or with candidates judged on different numbers of jobs.
    """
    if not candidates:
        raise ValueError("no candidate to promote")
    if len({(each.judged_jobs, each.jobs) for each in candidates}) > 1:
        raise ValueError("candidates were judged on different jobs")
    name = f"runtime-{trace}"
    field_ = list(candidates)
    present = champion(tracking, trace)
    note = ""
    if present is not None and present.tags.get("method") not in {each.method for each in candidates}:
        recorded = present.tags.get("judged_accuracy")
        if recorded is None:
            best = _ranked(field_)[0]
            _describe(
                tracking,
                name,
                best.version,
                f"Challenger: the champion, version {present.version}, records no accuracy, so somebody chose it by hand, and it stays.",
            )
            tracking.client.set_registered_model_alias(name, "challenger", best.version)
            return str(present.version), best.version
        field_.append(
            Candidate(
                present.tags.get("method", "unknown"),
                str(present.version),
                float(recorded),
                int(present.tags.get("judged_jobs", 0)),
                int(present.tags.get("training_jobs", 0)),
            )
        )
        note = f" Version {present.version}, the champion before, was judged earlier, on other jobs."
    ranked = _ranked(field_)
    first, second = ranked[0], ranked[1] if len(ranked) > 1 else None
    table = ", ".join(f"{each.method} (version {each.version}) {each.accuracy:.4f}" for each in ranked)
    judged, jobs = candidates[0].judged_jobs, candidates[0].jobs
    over = f"all {jobs:,} jobs" if judged == jobs else f"the last {judged:,} of {jobs:,} jobs"
    basis = f"mean accuracy over {over} (within {TIE} the simpler): {table}.{note}"
    if second is not None:
        _describe(tracking, name, second.version, f"Challenger by {basis}")
    _describe(tracking, name, first.version, f"Champion by {basis}")
    if second is not None:
        tracking.client.set_registered_model_alias(name, "challenger", second.version)
    tracking.client.set_registered_model_alias(name, "champion", first.version)
    return first.version, second.version if second else None


def champion(tracking: Tracking, trace: str) -> ModelVersion | None:
    """The present champion of ``runtime-<trace>``, None if there is none."""
    try:
        return tracking.client.get_model_version_by_alias(f"runtime-{trace}", "champion")
    except MlflowException as error:
        if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
            return None
        raise


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


def _ranked(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Best first: repeatedly the simplest of those within TIE of the best that is left."""
    left, ranked = list(candidates), []
    while left:
        best = max(each.accuracy for each in left)
        close = [each for each in left if each.accuracy >= best - TIE]
        chosen = min(
            close, key=lambda each: (METHODS.index(each.method) if each.method in METHODS else len(METHODS), -each.accuracy)
        )
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


def _requirements(method: str, timezone: str | None) -> list[str]:
    packages = ["mlflow", "numpy", "pandas", "pyarrow"]
    packages += ["lightgbm"] if method == "lightgbm" else []
    packages += ["tzdata"] if timezone else []
    return [f"{package}=={version(package)}" for package in packages]
