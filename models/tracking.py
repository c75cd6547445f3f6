"""Where MLflow keeps runs and models: the site's own server ($MLFLOW_TRACKING_URI), or SQLite and plain files under one directory."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

EXPERIMENT = "runtime prediction"


@dataclass(frozen=True)
class Tracking:
    """A place for runs and registered models. ``uri`` is MLflow's tracking URI, ``artifacts`` where an own store puts files."""

    uri: str
    artifacts: Path | None

    @classmethod
    def under(cls, directory: Path) -> Tracking:
        """The site's tracking server if $MLFLOW_TRACKING_URI names one, else ``mlflow.db`` and ``mlartifacts`` in ``directory``."""
        given = os.environ.get("MLFLOW_TRACKING_URI")
        if given:
            return cls(given, None)
        return cls(f"sqlite:///{directory / 'mlflow.db'}", directory / "mlartifacts")

    def connect(self) -> str:
        """Make this place MLflow's, create it if it is new, and return the id of the experiment.

        MLflow's own default would put files into the working directory; and a fresh SQLite store opened by several processes at once
        fails in its migrations, so the first use is under a lock.
        """
        os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        for chatty in ("alembic", "mlflow.store.db.utils", "mlflow.pyfunc", "mlflow.models.model"):
            logging.getLogger(chatty).setLevel(logging.WARNING)
        import mlflow

        mlflow.set_tracking_uri(self.uri)
        mlflow.set_registry_uri(self.uri)
        if self.artifacts is None:
            return mlflow.set_experiment(EXPERIMENT).experiment_id
        self.artifacts.mkdir(parents=True, exist_ok=True)
        with FileLock(self.artifacts.parent / "mlflow.lock"):
            found = mlflow.get_experiment_by_name(EXPERIMENT)
            if found is not None:
                return found.experiment_id
            return mlflow.create_experiment(EXPERIMENT, artifact_location=self.artifacts.as_uri())
