"""Resources of the assets: lake and model registry, by default in the home directory.

A test or a deployment configures others: ``LakeResource(home=...)``, ``RegistryResource(uri=...)``.
"""

from contextlib import ExitStack
from pathlib import Path

import dagster as dg
from pydantic import Field, PrivateAttr

from features.errors import InputError
from models.registry.tracking import Tracking
from pipelines.assets.partitions import is_night, name_and_day
from pipelines.dated.publish import Work, tell_failure
from pipelines.storage.home import home, trusted_home
from pipelines.storage.lake import Lake
from pipelines.storage.places import place_of
from pipelines.storage.publishing import RUN_WAITS_S, alone, lock_of
from pipelines.storage.registry import tracking


class LakeResource(dg.ConfigurableResource):
    """The home directory with its lake: Parquet tables, counters, pages, systems.

    An asset reads what was materialised last of its partition's tables, and writes beside it; ``published_trace`` and
    ``published_system`` publish it. A run holds the lock of its trace or system to the end.
    """

    home: str = Field(
        default="", description="Absolute path or URL of what machines share; $QUEUECAST_LAKE by default, else $QUEUECAST_HOME"
    )
    _lake: Lake | None = PrivateAttr(default=None)
    _run: str = PrivateAttr(default="")
    _subject: str = PrivateAttr(default="")
    _night: str = PrivateAttr(default="")
    _held: ExitStack = PrivateAttr(default_factory=ExitStack)

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Take the lock of the run's trace or system; a night does not wait for it."""
        run = context.run
        if run is None:
            return
        self._run = run.root_run_id or run.run_id
        name, day = name_and_day(run.tags.get("dagster/partition", ""))
        self._subject = f"{'runtime' if 'dagster/partition/trace' in run.tags else 'variability'}-{name}"
        self._night = day if is_night(run) else ""
        if not name:
            return
        try:
            self._held.enter_context(alone(self.place(), lock_of(self._subject), 0.0 if self._night else RUN_WAITS_S))
        except InputError as error:
            if self._night:
                self.tell_failure(error)
            raise

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Release the lock."""
        self._held.close()

    @property
    def night(self) -> str:
        """Return the day of the run if it is a night, else ""."""
        return self._night

    @property
    def name(self) -> str:
        """Return the trace or system of the run's partition."""
        return self._subject.partition("-")[2]

    @property
    def subject(self) -> str:
        """Return ``runtime-<trace>`` or ``variability-<system>`` of the run's partition."""
        return self._subject

    def begin(self) -> None:
        """Forget what the asset before has read."""
        self._lake = None

    def lake(self) -> Lake:
        """Return the lake with the run as maker; it notes what an asset reads."""
        if self._lake is None:
            self._lake = Lake(self.place() / "lake", self._run)
        return self._lake

    def place(self) -> Path:
        """Return the home directory, which holds the lake, reports, locks, ``systems.toml``."""
        return trusted_home(place_of(self.home)) if self.home else home()

    def tell_failure(self, error: Exception) -> None:
        """Write why a trace's night failed, as a line beside the pages of its nights."""
        if self._subject.startswith("runtime-"):
            tell_failure(self.place(), lock_of(self._subject), self._night, error)

    def work(self, store: Tracking, run_id: str) -> Work:
        """Return where the stages of the run or night read and write."""
        return Work(self.lake(), store, self._subject, self._night, run_id)


class RegistryResource(dg.ConfigurableResource):
    """The model registry: an MLflow store."""

    uri: str = Field(
        default="",
        description="MLflow tracking URI; $MLFLOW_TRACKING_URI by default, else mlflow.db in the home directory",
    )
    artifacts: str = Field(default="", description="Absolute path or URI of artifacts; a server decides itself where they lie")

    def tracking(self) -> Tracking:
        """Return the opened store; raise InputError if it cannot be opened."""
        return tracking(self.uri, self.artifacts)
