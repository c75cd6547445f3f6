"""Dagster's storage in the site's PostgreSQL database, for our ``dagster.yaml``."""

from collections.abc import Mapping
from typing import Any

from dagster._serdes import ConfigurableClassData
from dagster_postgres import DagsterPostgresStorage

from pipelines.lake.locks import named


class PostgresStorage(DagsterPostgresStorage):
    """Dagster's own storage of runs, events and schedules, with the driver named."""

    @classmethod
    def from_config_value(  # type: ignore[override]
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> DagsterPostgresStorage:
        """Return the storage at ``postgres_url``; raise InputError for another text."""
        named(url := config_value["postgres_url"])
        # SQLAlchemy from 2.1 on takes another driver if none is named
        settings: Any = {"postgres_url": url.replace("postgresql:", "postgresql+psycopg2:", 1)}
        return super().from_config_value(inst_data, settings)
