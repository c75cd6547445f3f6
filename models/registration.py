"""The MLflow side of runtime models: a run and a registered version a candidate, and the rule by which one of them becomes the champion.

The rule: the candidate of higher mean accuracy, min(p/r, r/p), on the validation jobs, all predicted walk-forward; where two are equal to four
digits, the simpler one (requested before last2 before lightgbm). Aliases move last, so that a failure half way leaves the old champion.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import lightgbm
import mlflow
import pandas as pd
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, DataType, Schema

from models.packing import METHODS, SCRIPT, Configuration, pack

SIGNATURE = ModelSignature(
    inputs=Schema(
        [
            ColSpec(DataType.string, "user"),
            ColSpec(DataType.long, "procs"),
            ColSpec(DataType.long, "requested_s"),
            ColSpec(DataType.datetime, "submit_time"),
        ]
    ),
    outputs=Schema([ColSpec(DataType.double, "predicted_s"), ColSpec(DataType.double, "snapshot_age_s")]),
)
"""Raw submission columns in; ``submit_time`` is the wall clock at the site, without a zone."""
REQUIREMENTS = [f"{package}=={version(package)}" for package in ("mlflow", "lightgbm", "numpy", "pandas")] + ["tzdata"]
RULE = "higher mean accuracy min(p/r, r/p) on the validation jobs, predicted walk-forward; if equal to four digits, the simpler one"


@dataclass(frozen=True)
class Candidate:
    """A predictor that may become champion. ``accuracy`` is on the validation jobs; ``metrics`` and ``parameters`` are logged as they are."""

    method: str
    accuracy: float
    metrics: Mapping[str, float]
    parameters: Mapping[str, Any]
    booster: lightgbm.Booster | None = None


@dataclass(frozen=True)
class Lineage:
    """Where a model comes from, logged with it and kept as tags of its version."""

    trace: str
    generated: bool
    fingerprint: str
    training_window: str
    jobs: int
    validation_jobs: int
    code_version: str
    dagster_run: str
    history: str

    def tags(self) -> dict[str, str]:
        return {name: str(value) for name, value in vars(self).items()}


def model_name(trace: str) -> str:
    """Name of a trace's registered model."""
    return f"runtime-{trace}"


def register(
    candidates: Sequence[Candidate],
    lineage: Lineage,
    history: pd.DataFrame,
    example: pd.DataFrame,
    *,
    experiment: str,
    at_s: int,
    origin_unix_s: int,
    timezone: str | None,
) -> pd.DataFrame:
    """Log and register every candidate of a trace, then give the best the alias ``champion`` and the next ``challenger``.

    ``history`` is the snapshot of user history at ``at_s`` (:func:`features.snapshot.snapshot`), ``example`` some rows of raw submission columns, ``experiment``
    the id that :meth:`models.tracking.Tracking.connect` gave. Returns a row a candidate, best first: ``model version method alias accuracy run_id why``.
    """
    name = model_name(lineage.trace)
    client = mlflow.MlflowClient()
    if not client.search_registered_models(f"name = '{name}'"):
        client.create_registered_model(name, description=f"Runtimes of jobs like those of {lineage.trace}. Champion: {RULE}.")
    rows = []
    for candidate in candidates:
        configuration = Configuration(lineage.trace, candidate.method, at_s, origin_unix_s, timezone, lineage.generated)
        with (
            tempfile.TemporaryDirectory() as scratch,
            mlflow.start_run(experiment_id=experiment, run_name=f"{lineage.trace} {candidate.method}", tags=lineage.tags()) as run,
        ):
            mlflow.log_params({"method": candidate.method, **candidate.parameters})
            mlflow.log_metrics({"validation_accuracy": candidate.accuracy, **candidate.metrics})
            directory = pack(Path(scratch) / "model", configuration, history, candidate.booster)
            logged = mlflow.pyfunc.log_model(
                name="model",
                python_model=str(SCRIPT),
                artifacts={"model": str(directory)},
                signature=SIGNATURE,
                input_example=example,
                pip_requirements=REQUIREMENTS,
                metadata={"format": configuration.format, **lineage.tags()},
            )
        made = client.create_model_version(
            name, logged.model_uri, run.info.run_id, tags={"method": candidate.method, **lineage.tags()}
        )
        rows.append({"model": name, "version": int(made.version), "method": candidate.method, "run_id": run.info.run_id})
    table = pd.DataFrame(rows).assign(accuracy=[candidate.accuracy for candidate in candidates], alias="", why="")
    return _promote(table, lineage)


def ranked(table: pd.DataFrame) -> pd.DataFrame:
    """Candidates by :data:`RULE`, best first; ``table`` has ``method`` and ``accuracy``."""
    order = table.assign(rounded=table["accuracy"].round(4), simplicity=[METHODS.index(method) for method in table["method"]])
    return table.loc[order.sort_values(["rounded", "simplicity"], ascending=[False, True]).index].reset_index(drop=True)


def _promote(table: pd.DataFrame, lineage: Lineage) -> pd.DataFrame:
    client = mlflow.MlflowClient()
    best, name = ranked(table), model_name(lineage.trace)
    kind = "generated workload" if lineage.generated else "trace"
    others = ", ".join(f"{row.method} {row.accuracy:.4f}" for row in best.itertuples())
    for place, row in enumerate(best.itertuples()):
        alias = ("champion", "challenger", "")[min(place, 2)]
        judged = f"accuracy {row.accuracy:.4f} on {lineage.validation_jobs:,} jobs of the {kind} {lineage.trace} ({others})"
        why = f"{alias or 'neither'}: {judged}. Rule: {RULE}."
        best.loc[row.Index, ["alias", "why"]] = [alias, why]
        client.update_model_version(name, str(row.version), description=why)
    for row in reversed(list(best[best["alias"] != ""].itertuples())):  # the challenger first: what can fail has failed by then
        client.set_registered_model_alias(name, str(row.alias), str(row.version))
    return best
