"""Resources of the assets: lake and model registry, by default in the home directory.

A test or a deployment configures others: ``LakeResource(home=...)``, ``RegistryResource(uri=...)``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field, PrivateAttr

from pipelines.storage.home import home, trusted_home
from pipelines.storage.lake import Lake
from pipelines.storage.registry import tracking

if TYPE_CHECKING:
    from models.registry.tracking import Tracking


class LakeResource(dg.ConfigurableResource):
    """The home directory with its lake: Parquet tables, counters, pages, systems.

    All assets of a run write into one draft, and read from it what the run has made so far; a run that continues a failed one ("from failure")
    continues its draft. ``published_trace`` and ``published_system`` publish it.
    """

    home: str = Field(default="", description="Absolute path of the home directory; $QUEUECAST_HOME by default, else .queuecast")
    _draft: str = PrivateAttr(default="")

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Open the draft of the run."""
        if context.run is not None:
            self._draft = context.run.root_run_id or context.run.run_id

    def lake(self) -> Lake:
        """Return the lake as plain Python uses it."""
        return Lake(self.place() / "lake", self._draft)

    def place(self) -> Path:
        """Return the home directory: that of the lake, of reports, locks and ``systems.toml``."""
        return trusted_home(Path(self.home)) if self.home else home()


class RegistryResource(dg.ConfigurableResource):
    """The model registry: an MLflow store."""

    uri: str = Field(
        default="",
        description="MLflow tracking URI; $MLFLOW_TRACKING_URI by default, else mlflow.db in the home directory",
    )
    artifacts: str = Field(default="", description="Absolute path or URI of artifacts; a server decides itself where they lie")

    def tracking(self) -> Tracking:
        """Return the opened store; InputError if it cannot be opened."""
        return tracking(self.uri, self.artifacts)
