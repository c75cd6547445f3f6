"""Log models to MLflow, register ``<kind>-<subject>``, rank candidates, move aliases.

A :class:`Kind` and the :class:`Content` of a version hold what differs between models of runtimes, starts, variability
and policies: each has a file ``<kind>_registration.py``. All champions but the first are chosen by
``models.registry.promotion``.
"""

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path

import mlflow
import mlflow.artifacts
import mlflow.pyfunc
import numpy as np
import pandas as pd
from mlflow.data.code_dataset_source import CodeDatasetSource
from mlflow.data.meta_dataset import MetaDataset
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException
from mlflow.models import ModelSignature
from mlflow.models.model import ModelInfo

from features.errors import Damaged, InputError, check_name, meant
from models.packed.settings import FORMAT
from models.registry.packing import CONTENT, artifact, assemble, data_hash, private_name
from models.registry.promotion import TIE
from models.registry.tracking import REFRESHED_FROM, Tracking, why_of
from models.registry.unregistered import unregistered

_MOST_NAMES = 1_000
"""Number of registered models that are looked through for a name like one that is missing."""
_NUMBER = r"(-?\d+(\.\d+)?(e-?\d+)?|nan|-?inf)"
version = cache(metadata.version)
"""Return a package's version, cached: a lookup reads a file, and each new model names several packages."""


@dataclass(frozen=True)
class Kind:
    """A kind of registered model, ``<name>-<subject>``; the subject is a trace or a system.

    A version records its quality as ``judged_<score>`` over ``judged_<things>``; ``basis`` is the score in words. Of
    candidates with equal scores the first in ``order`` is chosen; ``first`` says so in words. ``description`` is that
    of the registered model, and ``experiment`` that of its runs, by default the store's first.
    """

    name: str
    subject: str
    score: str
    things: str
    basis: str
    order: tuple[str, ...]
    first: str
    description: str = ""
    experiment: str = ""

    def registered(self, subject: str) -> str:
        """Return the name of the registered model of ``subject``."""
        return f"{self.name}-{check_name(subject, 'registry')}"

    @property
    def measures(self) -> dict[str, str]:
        """Return the measures in a table of versions, with the tags that record them."""
        return {self.score: f"judged_{self.score}", f"judged_{self.things}": f"judged_{self.things}"}


@dataclass(frozen=True)
class Training:
    """The origin of a version, which every version records.

    It was trained on ``things`` jobs or runs of ``subject``, with the fingerprint ``fingerprint``. ``window_s`` is
    their time span, in seconds of the trace or in Unix seconds, and ``until`` the end of it as a date.
    """

    subject: str
    fingerprint: str
    things: int
    window_s: tuple[int, int]
    generated: bool = False
    seed: int = 0
    until: str = ""


@dataclass(frozen=True)
class Candidate:
    """A registered version and its score over ``judged`` jobs or runs outside its training."""

    method: str
    version: str
    score: float
    judged: int
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Content:
    """The data of a version, and what it records beside its :class:`Training`.

    ``facts`` become tags, ``numbers`` metrics; ``requirements`` are packages beyond mlflow, numpy and pandas.
    ``example`` returns inputs of the model, ``write`` writes the data to a directory and returns the settings.
    """

    method: str
    facts: Mapping[str, str]
    signature: ModelSignature
    example: Callable[[], pd.DataFrame]
    write: Callable[[Path], Mapping[str, object]]
    numbers: Mapping[str, float] = field(default_factory=dict)
    requirements: Sequence[str] = ()


def unrecorded(tags: Mapping[str, str], kind: Kind) -> str:
    """Return the first record that tags lack or that cannot be read, else "".

    These are records of its training and judgement, which every version of ``kind`` has unless it was registered by
    hand.
    """
    needed = {"method": r".+", "training_window_s": r"-?\d+\.\.-?\d+", f"judged_{kind.score}": _NUMBER}
    counts = dict.fromkeys((f"judged_{kind.things}", f"training_{kind.things}", "seed", "snapshot_s", REFRESHED_FROM), r"\d+")
    means = {tag: rf"{_NUMBER} {_NUMBER} \d+" for tag in tags if tag.startswith("recorded_")}
    present = {tag: form for tag, form in (counts | means).items() if tag in tags}
    return next((tag for tag, form in (needed | present).items() if not re.fullmatch(form, tags.get(tag, ""))), "")


def number_in(tags: Mapping[str, str], tag: str) -> float:
    """Return the number that a tag records, NaN if it is missing or was edited beyond reading."""
    text = tags.get(tag, "")
    return float(text) if re.fullmatch(_NUMBER, text) else float("nan")


def trained_number(tracking: Tracking, version: ModelVersion) -> str:
    """Return the version whose model a refreshed ``version`` has; itself if that was deleted."""
    number = version.tags.get(REFRESHED_FROM, "")
    exists = number.isdecimal() and version_at(tracking, version.name, number) is not None
    return number if exists else str(version.version)


def log_and_register(
    tracking: Tracking,
    kind: Kind,
    content: Content,
    training: Training,
    judged: tuple[float, int],
    metrics: Mapping[str, float],
    *,
    parameters: Mapping[str, object] | None = None,
    tags: Mapping[str, str] | None = None,
    why: str = "",
) -> Candidate:
    """Make one MLflow run and one version of ``kind`` that holds ``content``; move no alias.

    ``judged`` is the score and the number of jobs or runs behind it. ``metrics`` are logged too (without NaN).
    ``parameters`` are the method's own, ``tags`` name the origin (``dagster_run_id``), ``why`` is the description, by
    default :func:`_what_it_is`. A failure leaves a failed run.
    """
    name = kind.registered(training.subject)
    score = {f"judged_{kind.score}": float(judged[0]), f"judged_{kind.things}": int(judged[1])}
    facts = {
        "queuecast_format": str(FORMAT),
        "method": content.method,
        "data_fingerprint": training.fingerprint,
        f"training_{kind.things}": str(training.things),
        "training_window_s": f"{training.window_s[0]}..{training.window_s[1]}",
        "generated": str(training.generated).lower(),
        "seed": str(training.seed),
        "code_version": f"{version('queuecast')} {private_name()}",
        **{key: repr(value) for key, value in score.items()},
        **content.facts,
        **(tags or {}),
    }
    named = {kind.subject: training.subject, "method": content.method, "seed": training.seed}
    with (
        mlflow.start_run(
            experiment_id=tracking.experiment(kind.experiment),
            run_name=" ".join(dict.fromkeys((training.subject, content.method, kind.name))),
            tags=facts,
        ) as run,
        tempfile.TemporaryDirectory(prefix="queuecast-") as directory,
    ):
        source = CodeDatasetSource({kind.subject: training.subject, "window_s": facts["training_window_s"]})
        mlflow.log_input(MetaDataset(source, training.subject, training.fingerprint or None), "training")  # type: ignore[abstract]
        mlflow.log_params({**named, **(parameters or {})})
        numbers = {**metrics, **content.numbers, **{key: float(value) for key, value in score.items()}}
        parts = assemble(Path(directory), kind.name, content.write)
        logged = mlflow.pyfunc.log_model(
            name=re.sub(r"[^a-zA-Z0-9_-]+", "-", f"{training.subject}-{content.method}").strip("-"),
            python_model=parts.script,
            code_paths=[str(parts.code)],
            artifacts={artifact(kind.name): str(parts.data)},
            signature=content.signature,
            input_example=content.example(),
            metadata={CONTENT: data_hash(parts.data)},
            pip_requirements=[f"{package}=={version(package)}" for package in ("mlflow", "numpy", "pandas", *content.requirements)],
        )
        # logged to run and model together: log_model would look up each metric that the run already has
        mlflow.log_metrics({key: value for key, value in numbers.items() if np.isfinite(value)}, model_id=logged.model_id)
        _name_model(
            tracking, name, {"kind": kind.name, kind.subject: training.subject, "generated": facts["generated"]}, kind.description
        )
        number = new_version(tracking, name, logged, run.info.run_id, facts)
    candidate = Candidate(content.method, number, float(judged[0]), int(judged[1]), facts)
    what = _what_it_is(candidate, kind, training, metrics.get(f"judged_requested_{kind.score}"))
    tracking.client.update_model_version(name, number, description=why or what)
    return candidate


def _what_it_is(version: Candidate, kind: Kind, training: Training, requested: float | None) -> str:
    """Return what a version learned from, and its score beside that of the requests."""
    until = f" up to {training.until}" if training.until else ""
    learned = f"{version.method} learned from {training.things:,} {kind.things} of {training.subject}{until}."
    if not np.isfinite(version.score):
        return f"{learned} No {kind.things} have judged it yet."
    beside = "" if requested is None else f", that of the requests {requested:.4f}"
    return f"{learned} Judged by {kind.basis} over {version.judged:,} {kind.things}: {version.score:.4f}{beside}."


def rank_candidates(candidates: Sequence[Candidate], kind: Kind) -> tuple[list[Candidate], str]:
    """Rank the ``candidates`` for a first champion, best first; return them and the reason.

    Each step takes, of the candidates within ``TIE`` of the best left, the first in ``kind.order``. All were judged on
    the same jobs or runs.
    """
    left, ranked = list(candidates), []
    while left:
        best = max(_comparable(candidate.score) for candidate in left)
        close = [candidate for candidate in left if _comparable(candidate.score) >= best - TIE]
        ranked.append(min(close, key=lambda candidate: (kind.order.index(candidate.method), -candidate.score)))
        left.remove(ranked[-1])
    table = ", ".join(f"{candidate.method} (version {candidate.version}) {candidate.score:.4f}" for candidate in ranked)
    return ranked, f"{kind.basis} over {ranked[0].judged:,} {kind.things} (within {TIE} {kind.first}): {table}."


def _comparable(score: float) -> float:
    return score if np.isfinite(score) else -np.inf


def version_at(tracking: Tracking, name: str, alias: str = "champion") -> ModelVersion | None:
    """Return the version of ``name`` at ``alias``, or of that number; None if there is none."""
    try:
        if alias.isdecimal():
            return tracking.client.get_model_version(name, alias)
        return tracking.client.get_model_version_by_alias(name, alias)
    except MlflowException as error:
        if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
            return None
        raise


def registered_version(tracking: Tracking, name: str, alias: str = "champion") -> ModelVersion:
    """Return the version of ``name`` that ``alias`` points to; InputError if there is none."""
    model_version = version_at(tracking, name, alias)
    if model_version is None and alias == "champion" and (best := version_at(tracking, name, "simulated")) is not None:
        raise InputError(f"{name}: {why_of(best)}")
    if model_version is None:
        raise unregistered(name, alias, f" at {tracking.place}", alternatives(tracking, name))
    return model_version


def readable_version(tracking: Tracking, name: str, alias: str = "champion") -> str:
    """Return the number of :func:`registered_version`; raise Damaged if it has another format."""
    entry = registered_version(tracking, name, alias)
    if (written := entry.tags.get("queuecast_format")) != str(FORMAT):
        raise Damaged(
            f"{name}@{alias} (version {entry.version}) has format {written}, this Queuecast reads format {FORMAT}: register it again"
        )
    return str(entry.version)


def alternatives(tracking: Tracking, name: str) -> str:
    """Return the aliases of a model or, if it is missing, the names like it; else ""."""
    names = [model.name for model in tracking.client.search_registered_models(max_results=_MOST_NAMES)]
    if name in names:
        aliases = sorted(tracking.client.get_registered_model(name).aliases)
        return f"its aliases: {', '.join(aliases) or 'none'}"
    longer = sorted(other for other in names if other.startswith(name))
    return f"did you mean {' or '.join(longer[:3])}?" if longer else meant(name, names)


def _name_model(tracking: Tracking, name: str, tags: Mapping[str, str], description: str) -> None:
    """Create the registered model ``name`` unless it exists."""
    try:
        tracking.client.create_registered_model(name, dict(tags), description or None)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise


def new_version(tracking: Tracking, name: str, logged: ModelInfo, run_id: str, facts: Mapping[str, str]) -> str:
    """Register the model ``logged`` as the next version of ``name``; return its number.

    ``facts`` are its tags.
    """
    model_version = tracking.client.create_model_version(name, logged.model_uri, run_id, tags=dict(facts), model_id=logged.model_id)
    return str(model_version.version)
