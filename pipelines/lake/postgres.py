"""Dagster's storage in the site's PostgreSQL database, for which it waits.

Our ``dagster.yaml`` names :class:`PostgresStorage`, so the daemon, the web server and all runs wait for it in the same way.
"""

from collections.abc import Mapping
from typing import Any

from dagster._serdes import ConfigurableClassData
from dagster_postgres import DagsterPostgresStorage

from pipelines.lake.database import named, wait_for_databases


class PostgresStorage(DagsterPostgresStorage):
    """Dagster's own storage of runs, events and schedules; each connection waits."""

    @classmethod
    def from_config_value(  # type: ignore[override]
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> DagsterPostgresStorage:
        """Return the storage at ``postgres_url``.

        Raises InputError if the database does not answer in time.
        """
        named(url := config_value["postgres_url"])
        wait_for_databases()
        # SQLAlchemy from 2.1 on takes another driver if none is named
        settings: Any = {"postgres_url": url.replace("postgresql:", "postgresql+psycopg2:", 1)}
        return super().from_config_value(inst_data, settings)
