"""Canonical Parquet: a trace with all its columns, units and provenance in one file.

For traces that are read often or made by other programs.
"""

from __future__ import annotations

from pathlib import Path

from features.errors import InputError
from features.jobs.schema import COLUMNS, OVERRUN, Trace, UnreadLine, conform
from pipelines.ingest.source import trace_name

KIND = "trace"
MAGIC = b"PAR1"
"""First bytes of any Parquet file."""

_FIELDS = ("name", "procs", "origin_unix_s", "timezone", "generated", "source", "sha256", "header", "notes")


def write_canonical(trace: Trace, path: str | Path) -> None:
    """Write ``trace`` atomically, zstd-compressed.

    Units are in the columns' metadata and the rest of the trace in the schema's.
    """
    from pipelines.storage.parquet import write_parquet

    metadata = {name: getattr(trace, name) for name in _FIELDS} | {"header": dict(trace.header), "unread": list(trace.unread)}
    write_parquet(trace.jobs, path, kind=KIND, metadata=metadata, units={name: column.unit for name, column in COLUMNS.items()})


def read_canonical(path: str | Path) -> Trace:
    """Read the trace that :func:`write_canonical` wrote.

    It is named and placed by this file; its origin is ``Source`` in its header. Raises InputError for another kind, format or set
    of columns.
    """
    from pipelines.storage.parquet import read_parquet

    frame, metadata = read_parquet(path, kind=KIND)
    if OVERRUN in frame:  # a cleaned table: restore the runtime that was cut off at the request
        frame = frame.assign(runtime_s=frame["runtime_s"] + frame[OVERRUN].fillna(0)).drop(columns=OVERRUN)
    for what, names in (("lacks", COLUMNS.keys() - frame.columns), ("has the unknown", set(frame.columns) - COLUMNS.keys())):
        if names:
            raise InputError(f"{path}: {what} columns {', '.join(sorted(names))}")
    try:
        jobs = conform({name: frame[name] for name in COLUMNS}, len(frame))
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}: a column has a wrong type: {error}") from error
    fields = {name: metadata[name] for name in _FIELDS}
    fields["header"] = {"Source": fields["source"], **fields["header"]}
    fields["unread"] = tuple(UnreadLine(*line) for line in metadata.get("unread", ()))
    return Trace(jobs=jobs, **{**fields, "name": trace_name(path), "source": str(path), "notes": tuple(fields["notes"])})
