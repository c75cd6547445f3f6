"""What assets are given: the lake, and the model registry."""

from __future__ import annotations

import dagster as dg

from pipelines.home import home
from pipelines.lake import Lake


class LakeResource(dg.ConfigurableResource):
    """Parquet tables under ``root``; by default ``lake`` in the home directory ($QUEUECAST_HOME, else ``.queuecast``)."""

    root: str = ""

    def lake(self) -> Lake:
        from pathlib import Path

        return Lake(Path(self.root) if self.root else home() / "lake")
