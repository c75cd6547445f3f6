"""Logs classifiers of variation to MLflow, registers them as ``variability-<system>`` and gives them back.

A version is self-contained: settings as JSON, plain arrays, and the code that walks them under a private name
(``models.packed_variability``). Who becomes champion is decided elsewhere (``models.registry.variability_promotion``), but for the
first: that is the classifier of the highest F1, within ``TIE`` the one named first.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlflow
import mlflow.artifacts
import mlflow.pyfunc
import numpy as np
import pandas as pd
from mlflow.exceptions import MlflowException
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, DataType, Schema, TensorSpec

from features.errors import InputError
from features.monitoring.samplers import WINDOW_S
from features.names import check_name
from models.packed_variability.predictor import ARRAYS, FORMAT, SETTINGS, read
from models.registry.packing import Assembled, content_hash, copy_code
from models.registry.promotion import TIE
from models.registry.registration import new_version, requirements, version_at
from models.registry.tracking import Tracking
from models.registry.versions import REGISTERED_MODEL
from models.variability.compiled_classifiers import Arrays
from models.variability.model import CLASSIFIERS, VariabilityModel

_PACKED = Path(__file__).parents[1] / "packed_variability"
_SCRIPT = "variability_model.py"
_MODULES = ("__init__.py", "predictor.py")
_EXAMPLES = 2
DESCRIPTION = """Tells whether a job of an application that the system knows would vary if it started now: run longer than it usually does, because of \
what else happens on the machine.

Inputs, a row a job, all doubles, missing ones NaN (counted as the median of the training part); a version's signature lists those it asks for:

* `<sampler>.<metric>.<min|max|mean>`: of the metric's rate a second (gauges: of its value) over all samples of the {seconds} s before the start, \
over the job's own nodes or over all nodes, as the tag `scope` says
* `probe.<send_s|recv_s|allreduce_s>.<min|max|mean>`: over the job's nodes, the seconds each waited in the blocking calls of the two MPI probes
* `type.<compute|network|io>`: 1 for the application's type, else 0
* `application` (text, optional): only for `varies_above_s`

Outputs: `probability_<class>` (0 none, 1 little, 2 variation; the tag `thresholds` has the z that part them), `predicted_class` (the likeliest), \
`predicted_to_vary` (the last probability reaches the last of the tag `cutoffs`) and `varies_above_s` (runtime in seconds from which the run counts as varying).

`queuecast variability ask` makes the inputs from the counters that were ingested."""
_NUMBERS = ("kind", "neighbours")
"""The members of Arrays that are no arrays."""


@dataclass(frozen=True)
class Training:
    """Where a version comes from.

    ``runs`` control runs of ``system`` with the features of ``scope`` (``own`` or ``all`` nodes) and the fingerprint ``fingerprint`` trained it; the window is
    the first start and the last end, Unix seconds. Their labels are those of ``thresholds`` on z. ``example`` has a row or two of features.
    """

    system: str
    scope: str
    fingerprint: str
    runs: int
    window_s: tuple[int, int]
    thresholds: tuple[float, ...]
    example: pd.DataFrame
    generated: bool = False
    seed: int = 0


@dataclass(frozen=True)
class Candidate:
    """A registered version, and its F1 over ``judged_runs`` runs that it was not trained on."""

    classifier: str
    version: str
    f1: float
    judged_runs: int
    tags: Mapping[str, str] = field(default_factory=dict)


def registered_name(system: str) -> str:
    return f"variability-{check_name(system, 'registry')}"


def private_name() -> str:
    """Name of the packed package: format and SHA-256 of its content, which it is held against when it is loaded."""
    return f"_queuecast_variability_model_{FORMAT}_{content_hash(_PACKED, _MODULES)}"


def signature(model: VariabilityModel) -> ModelSignature:
    """The model's columns as doubles and, if given, the application; probabilities of classes, the likeliest, whether it is predicted to vary."""
    asked: list[ColSpec | TensorSpec] = [ColSpec(DataType.double, name) for name in model.columns]
    asked.append(ColSpec(DataType.string, "application", required=False))
    answers: list[ColSpec | TensorSpec] = [ColSpec(DataType.double, f"probability_{label}") for label in range(model.classes)]
    answers += [ColSpec(DataType.long, "predicted_class"), ColSpec(DataType.boolean, "predicted_to_vary")]
    answers.append(ColSpec(DataType.double, "varies_above_s", required=False))
    return ModelSignature(inputs=Schema(asked), outputs=Schema(answers))


def assemble(directory: Path, model: VariabilityModel, thresholds: Sequence[float]) -> Assembled:
    """Fill the empty ``directory`` with all that a registered version is made of; ``thresholds`` on z are those of its labels."""
    script, code = copy_code(directory, _PACKED, _MODULES, _SCRIPT, private_name())
    data = directory / "variability_model"
    data.mkdir()
    usual = model.baselines
    settings = {
        "format": FORMAT,
        "classifier": model.classifier,
        "columns": list(model.columns),
        "classes": model.classes,
        "cutoffs": list(model.cutoffs),
        "cutoff_rows": model.cutoff_rows,
        "thresholds": [float(each) for each in thresholds],
        "baselines": {
            "application": usual.index.tolist(),
            **{name: usual[name].tolist() for name in ("mean_s", "sigma_s", "runs")},
        },
        "missing": model.missing.tolist(),
        "importance": None if np.isnan(model.importance).any() else model.importance.tolist(),
        **{name: int(getattr(model.arrays, name)) for name in _NUMBERS},
    }
    (data / SETTINGS).write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    plain = {name: each for name, each in model.arrays._asdict().items() if name not in _NUMBERS}
    np.savez_compressed(data / ARRAYS, **plain)
    return Assembled(script, code, data)


def log_and_register(
    tracking: Tracking,
    model: VariabilityModel,
    training: Training,
    metrics: Mapping[str, float],
    judged: tuple[float, int],
    *,
    why: str = "",
    parameters: Mapping[str, object] | None = None,
    tags: Mapping[str, str] | None = None,
) -> Candidate:
    """One MLflow run and one new version of ``variability-<system>`` for ``model``; no alias moves.

    ``metrics`` are logged as they are (NaN left out), ``judged`` is F1 over judged runs and their number, ``parameters`` the learner's own, ``tags`` what
    identifies the caller (``dagster_run_id``), ``why`` the version's note. A failure leaves a run marked failed and no alias changed.
    """
    facts = {
        "queuecast_format": str(FORMAT),
        "method": model.classifier,
        "scope": training.scope,
        "data_fingerprint": training.fingerprint,
        "training_runs": str(training.runs),
        "training_window_s": f"{training.window_s[0]}..{training.window_s[1]}",
        "thresholds": " ".join(map(str, training.thresholds)),
        "columns": str(len(model.columns)),
        "cutoffs": " ".join(map(repr, model.cutoffs)),
        "filled_values": str(int(model.missing.sum())),
        "generated": str(training.generated).lower(),
        "seed": str(training.seed),
        "code_version": f"{version('queuecast')} {private_name()}",
        "judged_f1": repr(float(judged[0])),
        "judged_runs": str(judged[1]),
        **(tags or {}),
    }
    title = f"{training.system} {model.classifier} variability"
    with (
        mlflow.start_run(
            experiment_id=tracking.experiment_id,
            run_name=title,
            tags={**facts, REGISTERED_MODEL: registered_name(training.system)},
        ) as run,
        tempfile.TemporaryDirectory(prefix="queuecast-") as directory,
    ):
        of_all = {"system": training.system, "method": model.classifier, "seed": training.seed, "columns": len(model.columns)}
        mlflow.log_params({**of_all, **(parameters or {})})
        numbers = {**metrics, "judged_f1": float(judged[0]), "judged_runs": float(judged[1]), "cutoff": model.cutoff}
        mlflow.log_metrics({key: value for key, value in numbers.items() if np.isfinite(value)})
        parts = assemble(Path(directory), model, training.thresholds)
        logged = mlflow.pyfunc.log_model(
            name=f"{registered_name(training.system)}-{model.classifier}".replace(".", "-"),
            python_model=parts.script,
            code_paths=[str(parts.code)],
            artifacts={"variability_model": str(parts.data)},
            signature=signature(model),
            input_example=training.example.loc[:, list(model.columns)].head(_EXAMPLES).astype(np.float64).reset_index(drop=True),
            pip_requirements=requirements([]),
        )
        made = new_version(tracking, registered_name(training.system), logged, run.info.run_id, facts, why)
    tracking.client.update_registered_model(registered_name(training.system), DESCRIPTION.format(seconds=WINDOW_S))
    return Candidate(model.classifier, made, float(judged[0]), int(judged[1]), facts)


def rank_candidates(candidates: Sequence[Candidate]) -> tuple[Candidate, Candidate | None, str]:
    """First champion, challenger (None if alone) and why. ValueError without candidates or with candidates judged on different numbers of runs."""
    if not candidates:
        raise ValueError("no candidate to promote")
    if len({each.judged_runs for each in candidates}) > 1:
        raise ValueError("candidates were judged on different runs")
    left = sorted(candidates, key=lambda each: -each.f1)
    close = [each for each in left if each.f1 >= left[0].f1 - TIE]
    first = min(close, key=lambda each: CLASSIFIERS.index(each.classifier))
    left.remove(first)
    table = ", ".join(f"{each.classifier} (version {each.version}) {each.f1:.4f}" for each in [first, *left])
    return first, left[0] if left else None, f"F1 over {first.judged_runs:,} runs (within {TIE} the one named first): {table}."


def load_variability(tracking: Tracking, name: str, alias: str = "champion") -> VariabilityModel:
    """The registered classifier ``name`` (``variability-<system>``) at ``alias`` for use in this process; InputError if it is not there or unreadable."""
    found = version_at(tracking, name, alias)
    if found is None:
        raise InputError(f"no registered model {name}@{alias} at {tracking.uri}")
    return load_version(name, str(found.version))


def load_version(name: str, number: str) -> VariabilityModel:
    """A version by its number; InputError if it cannot be read by this Queuecast."""
    place = f"models:/{name}/{number}"
    try:
        with tempfile.TemporaryDirectory(prefix="queuecast-") as directory:
            home = Path(mlflow.artifacts.download_artifacts(f"{place}/artifacts/variability_model", dst_path=directory))
            return from_directory(home)
    except (ValueError, KeyError, OSError, MlflowException) as error:
        raise InputError(
            f"{place}: no variability model that this Queuecast reads: {str(error).strip().splitlines()[0]}"
        ) from error


def from_directory(directory: Path) -> VariabilityModel:
    """The inverse of what :func:`assemble` writes. Raises ValueError for another format, OSError for a missing file."""
    settings, stored = read(directory)
    usual = pd.DataFrame(settings["baselines"]).set_index("application")
    columns = settings["columns"]
    importance = settings["importance"]
    members: dict[str, Any] = {**stored, **{name: settings[name] for name in _NUMBERS}}
    return VariabilityModel(
        classifier=settings["classifier"],
        columns=tuple(columns),
        classes=settings["classes"],
        arrays=Arrays(**members),
        cutoffs=tuple(settings["cutoffs"]),
        baselines=usual,
        importance=np.full(len(columns), np.nan) if importance is None else np.array(importance, np.float64),
        missing=np.array(settings["missing"], np.int64),
        cutoff_rows=settings["cutoff_rows"],
    )
