"""Resources of the assets: the lake."""

from __future__ import annotations

import dagster as dg
from pydantic import PrivateAttr

from pipelines.storage.home import home
from pipelines.storage.lake import Lake


class LakeResource(dg.ConfigurableResource):
    """Parquet tables in ``lake`` in the home directory ($QUEUECAST_HOME, else ``.queuecast``).

    All assets of a run write into one draft, and read from it what the run has made so far; a run that continues a failed one ("from failure")
    continues its draft. ``published_trace`` and ``published_system`` publish it.
    """

    _draft: str = PrivateAttr(default="")

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Open the draft of the run."""
        if context.run is not None:
            self._draft = context.run.root_run_id or context.run.run_id

    def lake(self) -> Lake:
        """Return the lake as plain Python uses it."""
        return Lake(home() / "lake", self._draft)
