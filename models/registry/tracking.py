"""Open MLflow's store once, at absolute paths, with few messages; remove old versions.

MLflow's own defaults put ``mlflow.db`` and ``mlruns`` into the working directory, and two processes that open a fresh
SQLite store at once fail in its migrations. If a site sets ``MLFLOW_TRACKING_URI``, that store is used; if it is a
server, so is the server's artifact root. Places of artifacts in MLflow's database are absolute: they follow a home that
was moved.

A version is removed with its MLflow run and its files. A version is kept if an alias points to it, if it is published,
or if a kept version was refreshed from it.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import mlflow
import sqlalchemy
from filelock import FileLock
from mlflow.entities import LoggedModel, Run
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
from mlflow.tracking import MlflowClient
from mlflow.utils.file_utils import local_file_uri_to_path

from features.errors import first_line, masked
from models.registry.syncing import sync

_SITE = os.environ.get("MLFLOW_TRACKING_URI")
"""The site's setting at import: ``mlflow.set_tracking_uri`` overwrites the variable."""
_CHATTY = ("mlflow", "alembic")
_TELLS_ALL = "mlflow.store.db.utils"
"""This logger prints the whole traceback of a database error that MLflow then raises."""
_OURS = "queuecast"
ARTIFACTS = "mlartifacts"
"""Folder of a home's artifacts, beside its database."""
_TAGS = {
    _OURS: "yes",
    "mlflow.experimentKind": "custom_model_development",
    "mlflow.note.content": "Models that Queuecast trained. The registered ones stand under *Model registry*.",
}
"""Tags of experiments. MLflow opens this kind on its runs; from 3.17 on in pages for model training alone."""
_PATIENCE = {"MAX_RETRIES": "5", "BACKOFF_FACTOR": "2", "TIMEOUT": "30"}
"""MLflow's own settings of requests to a server: without an answer they are repeated for about a minute."""


@dataclass(frozen=True)
class Tracking:
    """An opened store: its URI, its first experiment, a client.

    ``artifacts`` is the artifact location of further experiments, None if the server decides. ``moved_from`` is where
    artifacts lay before their home was moved or copied, "" if it was not since the store was last opened.
    """

    uri: str
    experiment_id: str
    client: MlflowClient
    artifacts: str | None = None
    moved_from: str = ""

    def experiment(self, name: str) -> str:
        """Return the id of Queuecast's experiment ``name``, made if missing; "" for the first."""
        return _experiment(self.client, name, self.artifacts) if name else self.experiment_id

    def holds(self, location: str) -> bool:
        """Tell whether ``location`` lies below the artifacts of Queuecast's experiments."""
        ours = self.client.search_experiments(filter_string=f"tags.{_OURS} = 'yes'")
        return any(is_below(location, experiment.artifact_location) for experiment in ours)

    @property
    def place(self) -> str:
        """Return the URI to show, without a password."""
        return masked(self.uri)


def connect(tracking_uri: str, artifact_location: str, experiment: str, *, site: bool = True) -> Tracking:
    """Open the store at ``tracking_uri`` (or, if ``site``, the site's); make ``experiment``.

    A ``tracking_uri`` of SQLite must be absolute (``sqlite:////path/mlflow.db``), ``artifact_location`` an absolute
    path or URI; a server decides itself where artifacts lie. Raises ValueError for relative paths, OSError for a
    database that does not answer or is empty, and MLflow's own errors.
    """
    for logger in _CHATTY:
        logging.getLogger(logger).setLevel(logging.WARNING)
    logging.getLogger(_TELLS_ALL).setLevel(logging.CRITICAL)
    for name, setting in _PATIENCE.items():
        os.environ.setdefault(f"MLFLOW_HTTP_REQUEST_{name}", setting)
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    uri = (_SITE if site else None) or tracking_uri
    if uri.startswith("postgresql:"):  # SQLAlchemy from 2.1 on has another default driver
        uri = uri.replace("postgresql:", "postgresql+psycopg2:", 1)
    if uri.startswith("sqlite:"):
        database = Path(uri.removeprefix("sqlite:///"))
        if not database.is_absolute():
            raise ValueError(f"{uri}: not an absolute place; sqlite:////path/mlflow.db is")
        database.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{database}.lock"):
            return _open(uri, artifact_location, experiment)
    return _open(uri, None if uri.startswith(("http://", "https://")) else artifact_location, experiment)


def _open(uri: str, artifact_location: str | None, experiment: str) -> Tracking:
    if artifact_location is not None and "://" not in artifact_location:
        if not Path(artifact_location).is_absolute():
            raise ValueError(f"artifact location {artifact_location} is not absolute")
        artifact_location = Path(artifact_location).as_uri()
    moved_from = ""
    if uri.startswith("sqlite:"):
        database = Path(uri.removeprefix("sqlite:///"))
        _initialise(database)
        if artifact_location == (database.parent / ARTIFACTS).as_uri():
            moved_from = rewrite(database, artifact_location)
    if "://" in uri and not uri.startswith(("http", "file", "databricks")):
        _answers(uri)
    mlflow.set_tracking_uri(uri)
    client = MlflowClient(uri)
    return Tracking(uri, _experiment(client, experiment, artifact_location), client, artifact_location, moved_from)


def _experiment(client: MlflowClient, name: str, artifact_location: str | None) -> str:
    """Return the id of the experiment ``name``, made or restored if needed."""
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        try:
            return client.create_experiment(name, artifact_location, _TAGS)
        except MlflowException:  # another process may have just made it
            if (experiment := client.get_experiment_by_name(name)) is None:
                raise
    if experiment.lifecycle_stage != "active":
        client.restore_experiment(experiment.experiment_id)
    return experiment.experiment_id


def _initialise(database: Path) -> None:
    """Make an empty store beside ``database``, if missing, and move it there in one step.

    MLflow makes it by all its migrations, each of which would sync to disk several times. Here the store is synced
    once.
    """
    if database.exists():
        if database.stat().st_size == 0:
            raise OSError(
                f"{database.name} is empty: it was cut; restore it from a backup, or remove it to begin anew without its models"
            )
        return
    new_database = database.with_name(f"{database.name}.new")
    new_database.unlink(missing_ok=True)
    _answers(f"sqlite:///{new_database}")

    def relax(connection: sqlite3.Connection, _: object) -> None:
        connection.execute("PRAGMA synchronous = OFF")

    sqlalchemy.event.listen(sqlalchemy.Engine, "connect", relax)
    try:
        MlflowClient(f"sqlite:///{new_database}").search_experiments(max_results=1)
    finally:
        sqlalchemy.event.remove(sqlalchemy.Engine, "connect", relax)
    sync(new_database)
    os.replace(new_database, database)
    sync(database.parent)


def _answers(uri: str) -> None:
    """Try the database once, where MLflow would try ten times; OSError without an answer."""
    try:
        engine = sqlalchemy.create_engine(uri)
        try:
            sqlalchemy.inspect(engine).get_table_names()
        finally:
            engine.dispose()
    except (sqlalchemy.exc.SQLAlchemyError, ImportError) as error:
        raise OSError(first_line(getattr(error, "orig", None) or error)) from error


_RECORDED = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("logged_models", "artifact_location"),
    ("model_versions", "storage_location"),
    ("model_versions", "source"),
)
_OUR_PLACES = """
SELECT DISTINCT artifact_location FROM experiments JOIN experiment_tags USING (experiment_id)
WHERE key = 'queuecast' AND artifact_location LIKE 'file:%'
"""


def rewrite(database: Path, artifacts: str) -> str:
    """Record that artifacts lie at the URI ``artifacts``; return where they lay.

    Returns "" if that was recorded already. Raises OSError if the database cannot be read or written.
    """
    try:
        with closing(sqlite3.connect(database)) as store, store:
            former = [place for (place,) in store.execute(_OUR_PLACES) if not _is_same(place, artifacts)]
            for place in former:
                for table, column in _RECORDED:
                    store.execute(
                        f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE {column} = ? OR instr({column}, ?) = 1",
                        (artifacts, len(place) + 1, place, f"{place}/"),
                    )
    except sqlite3.Error as error:
        raise OSError(str(error)) from error
    return local_file_uri_to_path(former[0]) if former else ""


def is_below(location: str, folder: str) -> bool:
    """Tell whether an artifact location lies below another one, for files by real paths."""
    if not folder.startswith(("file:", "/")):
        return location.startswith(f"{folder}/") and ".." not in location.split("/")
    if not location.startswith(("file:", "/")):
        return False
    path, root = (Path(local_file_uri_to_path(place)).resolve() for place in (location, folder))
    return path != root and path.is_relative_to(root)


def _is_same(place: str, artifacts: str) -> bool:
    """Tell whether two URIs are the same folder, which may have two names by a link."""
    paths = [local_file_uri_to_path(uri) for uri in (place, artifacts)]
    return place == artifacts or (all(map(os.path.exists, paths)) and os.path.samefile(*paths))


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

    The last :data:`KEPT_VERSIONS` stay, and those of the last :data:`KEPT_DAYS` days. ``published`` are the numbers
    that stay although no alias may name them. Versions are removed with their runs and files. Raises MlflowException or
    OSError if the registry or the artifact store refuses; earlier removals stay.
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

    Files, models and runs of other experiments, of a version that was registered by hand, stay. What was deleted by
    hand is gone.
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
