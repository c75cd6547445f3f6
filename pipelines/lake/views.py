"""The published tables as views in SQL, for DuckDB: ``<lake>/current/views.sql``.

One view a table, over the current files of all traces or systems, whose rows name theirs; for counters one a sampler. Each
publication writes them anew.
"""

import json
from contextlib import suppress
from pathlib import Path

from features.errors import InputError
from pipelines.lake.locks import held
from pipelines.lake.places import inside, read, write
from pipelines.lake.version import COUNTERS_PART, PAGES


def write_views(lake: Path) -> Path:
    """Write the views of a lake; return their file."""
    place = lake / "current" / "views.sql"
    with held(place.with_suffix(".lock")):
        write(place, views(lake))
    return place


def write_views_if_possible(lake: Path) -> None:
    """Call :func:`write_views`; if it fails, the next publication does it.

    So does ``queuecast lake``.
    """
    with suppress(OSError, InputError):
        write_views(lake)


def views(lake: Path) -> str:
    """Return one statement a view; raise InputError for a damaged pointer."""
    tables: dict[str, list[str]] = {}
    counters: dict[str, dict[str, list[str]]] = {}
    for place in inside(lake / "current"):
        if place.suffix != ".json":
            continue
        try:
            files = json.loads(read(place) or b"{}")["current"]["files"]
        except (ValueError, LookupError, TypeError) as error:
            raise InputError(f"{place}: is damaged: {error}") from error
        system = place.stem.partition("-")[2]
        for table, file in sorted(files.items()):
            if COUNTERS_PART.fullmatch(table):
                sampler = table.partition("/")[0]
                counters.setdefault(sampler, {}).setdefault(system, []).append(_text(lake / file))
            elif not table.startswith(PAGES):
                tables.setdefault(table, []).append(_text(lake / file))
    statements = {table: _rows("*", files) for table, files in tables.items()}
    for sampler, systems in counters.items():
        parts = [_rows(f"{_text(system)} AS system, *", files) for system, files in systems.items()]
        statements[f"counters_{sampler}"] = "\nUNION ALL BY NAME ".join(parts)
    return "".join(f'CREATE OR REPLACE VIEW "{name}" AS {rows};\n' for name, rows in sorted(statements.items()))


def _rows(columns: str, files: list[str]) -> str:
    listed = ",\n  ".join(files)
    return f"SELECT {columns} FROM read_parquet([\n  {listed}],\n  union_by_name = true, hive_partitioning = false)"


def _text(value: object) -> str:
    """Return a text in SQL's quotes."""
    return "'" + str(value).replace("'", "''") + "'"
