"""Resources of the assets: lake and model registry, where the site's environment says."""

from contextlib import ExitStack
from pathlib import Path

import dagster as dg
from pydantic import Field, PrivateAttr

from models.registry.tracking import Tracking
from pipelines.assets.partitions import night_of
from pipelines.lake.home import home
from pipelines.lake.publishing import RUN_WAITS_S, alone, lock_of
from pipelines.lake.registry import tracking
from pipelines.lake.tables import Lake
from pipelines.training.publish import Work


class LakeResource(dg.ConfigurableResource):
    """The home directory with its lake: Parquet tables, counters, pages, systems.

    All assets of a partition write into one draft and read from it; ``published_trace`` and ``published_system`` publish it. A run
    holds the lock of its trace or system to its end.
    """

    kind: str = Field(default="runtime", description="What a partition is: runtime for a trace, variability for a system")
    _name: str = PrivateAttr(default="")
    _night: str = PrivateAttr(default="")
    _run_id: str = PrivateAttr(default="")
    _held: ExitStack = PrivateAttr(default_factory=ExitStack)

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Take the lock of the run's trace or system."""
        if context.run is None:
            return
        self._name, self._night = night_of(context.run)
        self._run_id = context.run.root_run_id or context.run.run_id
        if self._name:
            self._held.enter_context(alone(self.place(), lock_of(self.subject), RUN_WAITS_S))

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
        return self._name

    @property
    def subject(self) -> str:
        """Return ``runtime-<trace>`` or ``variability-<system>`` of the run's partition."""
        return f"{self.kind}-{self._name}"

    def lake(self) -> Lake:
        """Return the lake, which notes what an asset reads as what it is made from."""
        return Lake(self.place() / "lake", self._run_id, system=self.kind == "variability")

    def place(self) -> Path:
        """Return the home directory, which holds the lake, reports, locks, ``systems.toml``."""
        return home()

    def work(self, registry: "RegistryResource") -> Work:
        """Return where the stages of the run or night read and write."""
        return Work(self.lake(), registry.tracking(), self.subject, self._night, self._run_id)


class RegistryResource(dg.ConfigurableResource):
    """The model registry: an MLflow store."""

    def tracking(self) -> Tracking:
        """Return the opened store; raise InputError if it cannot be opened."""
        return tracking()
