"""Removal of old versions.

A version is removed with its MLflow run and its files. A version is kept if an alias points to it, if it is published, or if a kept
version was refreshed from it.
"""

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from mlflow.entities import LoggedModel, Run
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

from models.registry.tracking import Tracking

DAY_MS = 86_400_000
KEPT_VERSIONS, KEPT_DAYS = 50, 90
READS = "reads"
"""Tag of a version of a runtime model: the columns of ``runtime_features`` that it reads, with blanks between."""
REFRESHED_FROM = "refreshed_from"
"""Tag of a refreshed version: the number of the version whose model it has."""
_LOGGED = "models:/"


def why_of(version: ModelVersion) -> str:
    """Return why a version was promoted or not: the first paragraph of its description."""
    return (version.description or "").partition("\n\n")[0]


def prune(tracking: Tracking, name: str, published: Collection[str] = ()) -> int:
    """Remove old versions of ``name``; return their number.

    The last :data:`KEPT_VERSIONS` stay, and those of the last :data:`KEPT_DAYS` days. ``published`` are the numbers that stay
    although no alias may name them. Versions are removed with their runs and files. Raises MlflowException or OSError if the
    registry or the artifact store refuses; earlier removals stay.
    """
    oldest_ms = time.time() * 1000 - KEPT_DAYS * DAY_MS
    every = sorted(all_versions(tracking, name), key=lambda version: -int(version.version))
    kept = {
        str(version.version)
        for place, version in enumerate(every)
        if place < KEPT_VERSIONS or version.creation_timestamp >= oldest_ms
    }
    kept |= {*aliases(tracking, name).values(), *published}
    kept |= {version.tags[REFRESHED_FROM] for version in every if str(version.version) in kept and REFRESHED_FROM in version.tags}
    old = [version for version in every if str(version.version) not in kept]
    for version in old:
        remove(tracking, version)
    return len(old)


def run_of(tracking: Tracking, version: ModelVersion) -> Run | None:
    """Return the run of a version; None if it has none, or if it was removed by hand."""
    with _perhaps_gone():
        return tracking.client.get_run(version.run_id) if version.run_id else None
    return None


def all_versions(tracking: Tracking, name: str) -> list[ModelVersion]:
    """Return every version of ``name``, in no order; none if it was never registered."""
    versions: list[ModelVersion] = []
    page = None
    while page is None or page:
        answer = tracking.client.search_model_versions(f"name = '{name}'", page_token=page)
        versions.extend(answer)
        page = answer.token or ""
    return versions


def remove(tracking: Tracking, version: ModelVersion) -> None:
    """Remove a version from the registry, then its files, its logged model and its run.

    Files, models and runs of other experiments, of a version that was registered by hand, stay. What was deleted by hand is gone.
    """
    client = tracking.client
    with _perhaps_gone():
        client.delete_model_version(version.name, str(version.version))
    if logged_id := _logged_id(version):
        with _perhaps_gone():
            _forget(tracking, client.get_logged_model(logged_id))
    if version.run_id:
        with _perhaps_gone():
            run = client.get_run(version.run_id).info
            if tracking.holds(run.artifact_uri):
                client.delete_run(version.run_id)


def _logged_id(version: ModelVersion) -> str:
    """Return the id of a version's logged model; a listed version may lack it, and its source has it."""
    source = version.source or ""
    return version.model_id or (source.removeprefix(_LOGGED) if source.startswith(_LOGGED) else "")


def _forget(tracking: Tracking, logged: LoggedModel) -> None:
    """Remove a logged model of Queuecast's experiments and its files."""
    if tracking.holds(logged.artifact_location):
        get_artifact_repository(logged.artifact_location, tracking_uri=tracking.uri).delete_artifacts()
        tracking.client.delete_logged_model(logged.model_id)


@contextmanager
def _perhaps_gone() -> Iterator[None]:
    """Pass over what the registry no longer has, or has marked as deleted."""
    try:
        yield
    except MlflowException as error:
        if error.error_code not in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE", "INVALID_STATE"):
            raise


def aliases(tracking: Tracking, name: str) -> dict[str, str]:
    """Return the version number of each alias of ``name``; none if it was never registered."""
    try:
        numbers = tracking.client.get_registered_model(name).aliases
    except MlflowException as error:
        if error.error_code == "RESOURCE_DOES_NOT_EXIST":
            return {}
        raise
    return {alias: str(number) for alias, number in numbers.items()}
