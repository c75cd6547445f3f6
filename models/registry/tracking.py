"""Open MLflow's store: initialised once, absolute places, quiet.

MLflow's own defaults put ``mlflow.db`` and ``mlruns`` into the working directory, and two processes that open a fresh SQLite
store at once fail in its migrations. A site that sets ``MLFLOW_TRACKING_URI`` gets its own store; if that is a server, the
server's artifact root too.
"""

import logging
import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlflow
import sqlalchemy
from filelock import FileLock
from mlflow.entities import ViewType
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from features.errors import masked
from models.registry.syncing import sync

_SITE = os.environ.get("MLFLOW_TRACKING_URI")
"""The site's setting at import: ``mlflow.set_tracking_uri`` overwrites the variable."""
_CHATTY = ("mlflow", "alembic")
_TELLS_ALL = "mlflow.store.db.utils"
"""Logs the whole traceback of a database error that it then raises."""
_OURS = "queuecast"
_TAGS = {_OURS: "yes", "mlflow.experimentKind": "custom_model_development"}
"""Tags of experiments: MLflow opens one of this kind on its runs; from 3.17 on, in pages switched to model training alone."""
WAIT_S = 60.0
"""Default max seconds to wait for a database that another process has locked, or a server that does not answer."""
_MOST_RETRIES = 10  # MLflow allows no more


@dataclass(frozen=True)
class Tracking:
    """An opened store: its URI, its first experiment, a client.

    ``artifacts`` is where those of further experiments lie, None where the server decides.
    """

    uri: str
    experiment_id: str
    client: MlflowClient
    artifacts: str | None = None

    def experiment(self, name: str) -> str:
        """Return the id of another experiment of Queuecast's, by default that of the first."""
        return _experiment(self.client, name, self.artifacts) if name else self.experiment_id

    def experiments(self) -> list[str]:
        """Return the ids of Queuecast's experiments."""
        return [each.experiment_id for each in self.client.search_experiments(filter_string=f"tags.{_OURS} = 'yes'")]

    @property
    def place(self) -> str:
        """Return the URI without a password, to be shown."""
        return masked(self.uri)


def connect(tracking_uri: str, artifact_location: str, experiment: str, *, site: bool = True, wait_s: float = WAIT_S) -> Tracking:
    """Open the store at ``tracking_uri`` (or, if ``site``, the site's); make ``experiment``.

    ``tracking_uri`` of SQLite must be absolute (``sqlite:////path/mlflow.db``), ``artifact_location`` an absolute path or URI; a
    server decides itself where artifacts lie. A server that does not answer, or an SQLite database that is locked, now or later, is
    given up after ``wait_s`` seconds. Raises ValueError for relative places, OSError for a database that does not answer or was cut
    to nothing, and MLflow's own errors.
    """
    for logger in _CHATTY:
        logging.getLogger(logger).setLevel(logging.WARNING)
    logging.getLogger(_TELLS_ALL).setLevel(logging.CRITICAL)
    wait_for_locks(wait_s)
    _wait_for_server(wait_s)
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    uri = (_SITE if site else None) or tracking_uri
    if uri.startswith("postgresql:"):  # SQLAlchemy from 2.1 on takes another driver where none is named
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
    if uri.startswith("sqlite:"):
        _initialise(Path(uri.removeprefix("sqlite:///")))
    if "://" in uri and not uri.startswith(("http", "file", "databricks")):
        _answers(uri)
    mlflow.set_tracking_uri(uri)
    client = MlflowClient(uri)
    return Tracking(uri, _experiment(client, experiment, artifact_location), client, artifact_location)


def _experiment(client: MlflowClient, name: str, artifact_location: str | None) -> str:
    """Return the id of the experiment ``name``, made or restored where needed, with its tags."""
    experiment = next((each for each in client.search_experiments(ViewType.ALL) if each.name == name), None)
    if experiment is None:
        try:
            return client.create_experiment(name, artifact_location, _TAGS)
        except MlflowException:  # another process has just made it
            if (experiment := client.get_experiment_by_name(name)) is None:
                raise
    if experiment.lifecycle_stage != "active":
        client.restore_experiment(experiment.experiment_id)
    for key, value in _TAGS.items():
        if key not in experiment.tags:
            client.set_experiment_tag(experiment.experiment_id, key, value)
    return experiment.experiment_id


def _initialise(database: Path) -> None:
    """Make an empty store beside ``database``, if missing, and move it there whole.

    MLflow makes one by all its migrations, each of which would wait for the disk several times; here the disk is waited for once.
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


_wait_ms = 0


def wait_for_locks(seconds: float) -> None:
    """Let every SQLite connection of this process wait so long for a lock."""
    global _wait_ms
    first, _wait_ms = _wait_ms == 0, max(round(seconds * 1000), 1)
    if first:
        sqlalchemy.event.listen(sqlalchemy.Engine, "connect", _set_wait)
        sqlalchemy.event.listen(sqlalchemy.Engine, "before_cursor_execute", _keep_wait, retval=True)


def _set_wait(connection: object, _: object) -> None:
    if isinstance(connection, sqlite3.Connection):
        connection.execute(f"PRAGMA busy_timeout = {_wait_ms}")


def _keep_wait(_: object, __: object, statement: str, parameters: Any, *___: object) -> tuple[str, Any]:
    """Replace the time that MLflow sets in each of its sessions."""
    return (f"PRAGMA busy_timeout = {_wait_ms}" if statement.startswith("PRAGMA busy_timeout") else statement), parameters


def _answers(uri: str) -> None:
    """Ask the database once, where MLflow would ask ten times; OSError without answer."""
    try:
        engine = sqlalchemy.create_engine(uri)
        try:
            sqlalchemy.inspect(engine).get_table_names()
        finally:
            engine.dispose()
    except (sqlalchemy.exc.SQLAlchemyError, ImportError) as error:
        raise OSError(f"{getattr(error, 'orig', None) or error}".strip().splitlines()[0]) from error


def _wait_for_server(seconds: float) -> None:
    """Let MLflow repeat requests that its server does not answer, for about so long, unless the site sets how often."""
    retries = next((each for each in range(_MOST_RETRIES) if 2**each - 2 >= seconds), _MOST_RETRIES)
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", str(retries))
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", str(max(round(seconds / max(2**retries - 2, 1)), 1)))
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")
