"""Open MLflow's store: initialised once, at absolute paths, with few log messages.

MLflow's own defaults put ``mlflow.db`` and ``mlruns`` into the working directory, and two processes that open a fresh SQLite
store at once fail in its migrations. If a site sets ``MLFLOW_TRACKING_URI``, that store is used; if it is a server, so is the
server's artifact root.
"""

import logging
import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path

import mlflow
import sqlalchemy
from filelock import FileLock
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from features.errors import first_line, masked
from models.registry.places import is_below, rewrite
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

    ``artifacts`` is the artifact location of further experiments, None if the server decides. ``moved_from`` is where artifacts
    lay before their home was moved or copied, "" if it was not since the store was last opened.
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

    A ``tracking_uri`` of SQLite must be absolute (``sqlite:////path/mlflow.db``), ``artifact_location`` an absolute path or URI;
    a server decides itself where artifacts lie. Raises ValueError for relative paths, OSError for a database that does not answer
    or is empty, and MLflow's own errors.
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

    MLflow makes it by all its migrations, each of which would sync to disk several times. Here the store is synced once.
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
