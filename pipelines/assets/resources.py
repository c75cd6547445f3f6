"""What assets are given: the lake."""

from __future__ import annotations

import dagster as dg

from pipelines.storage.home import home
from pipelines.storage.lake import Lake


class LakeResource(dg.ConfigurableResource):
    """Parquet tables in ``lake`` in the home directory ($QUEUECAST_HOME, else ``.queuecast``)."""

    def lake(self) -> Lake:
        """The lake as plain Python uses it."""
        return Lake(home() / "lake")
