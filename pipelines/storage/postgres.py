"""Dagster's storage in the site's PostgreSQL database, which is waited for where it does not answer.

Our ``dagster.yaml`` names :class:`PostgresStorage`, so daemon, web server and runs wait alike, whichever process they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy
from dagster._serdes import ConfigurableClassData
from dagster_postgres import DagsterPostgresStorage

from pipelines.storage.database import CONNECTION, named, patiently


class PostgresStorage(DagsterPostgresStorage):
    """Dagster's own storage of runs, events and schedules; each connection is made patiently."""

    @classmethod
    def from_config_value(  # type: ignore[override]
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> DagsterPostgresStorage:
        """Return the storage at ``postgres_url``; InputError if the database does not answer in time."""
        named(url := config_value["postgres_url"])
        if not sqlalchemy.event.contains(sqlalchemy.Engine, "do_connect", _connect):
            sqlalchemy.event.listen(sqlalchemy.Engine, "do_connect", _connect)
        # SQLAlchemy from 2.1 on takes another driver where none is named
        given: Any = {"postgres_url": url.replace("postgresql:", "postgresql+psycopg2:", 1)}
        return super().from_config_value(inst_data, given)


def _connect(dialect: Any, _: object, positional: list[Any], given: dict[str, Any]) -> Any:
    """Connect in place of SQLAlchemy; it does so itself to other databases."""
    if dialect.name != "postgresql":
        return None
    address = f"{given.get('host', 'this machine')}:{given.get('port', 5432)}"
    return patiently(
        lambda: dialect.connect(*positional, **{**CONNECTION, **given}), f"postgresql://{address}/{given.get('dbname')}"
    )
