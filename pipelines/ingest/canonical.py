"""Canonical Parquet: a trace with all its columns, units and provenance in one file.

For traces that are read often or made by other programs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from features import limits
from features.errors import InputError
from features.jobs.schema import COLUMNS, OVERRUN, TEXTS, Trace, UnreadLine, conform, widened
from pipelines.ingest.hashed_names import with_hashed_names
from pipelines.ingest.localtime import zone
from pipelines.ingest.source import trace_name

KIND = "trace"
MAGIC = b"PAR1"
"""First bytes of any Parquet file."""

_NONE = type(None)
_TYPES: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "procs": (int, _NONE),
    "origin_unix_s": (int, _NONE),
    "timezone": (str, _NONE),
    "generated": (bool,),
    "source": (str,),
    "sha256": (str,),
    "header": (dict,),
    "notes": (list,),
    "hashed_with": (str,),
}
_UNREAD = [[int, int, str], [int, _NONE, str]]


def write_canonical(trace: Trace, path: str | Path) -> None:
    """Write ``trace`` atomically, zstd-compressed.

    Units are in the columns' metadata and the rest of the trace in the schema's.
    """
    from pipelines.storage.parquet import write_parquet

    metadata = {name: getattr(trace, name) for name in _TYPES} | {"header": dict(trace.header), "unread": list(trace.unread)}
    write_parquet(trace.jobs, path, kind=KIND, metadata=metadata, units={name: column.unit for name, column in COLUMNS.items()})


def read_canonical(path: str | Path) -> Trace:
    """Read the trace that :func:`write_canonical` wrote.

    It is named and placed by this file; its origin is ``Source`` in its header. Raises InputError for another kind, format or set
    of columns.
    """
    from pipelines.storage.parquet import check_size, read_parquet

    check_size(path)
    frame, metadata = read_parquet(path, kind=KIND)
    fields = _checked(metadata, path)
    if not frame.columns.is_unique or not all(isinstance(name, str) for name in frame.columns):
        raise InputError(f"{path}: is damaged: it has a column twice, or one without a name")
    if OVERRUN in frame:  # a cleaned table: restore the runtime that was cut off at the request
        try:
            frame = frame.assign(runtime_s=frame["runtime_s"] + frame[OVERRUN].fillna(0)).drop(columns=OVERRUN)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path}: is damaged: runtime_s and {OVERRUN} are no seconds") from error
    frame = widened(frame)
    for what, names in (("lacks", COLUMNS.keys() - frame.columns), ("has the unknown", set(frame.columns) - COLUMNS.keys())):
        if names:
            raise InputError(f"{path}: {what} columns {', '.join(sorted(names))}")
    try:
        jobs = conform({name: frame[name] for name in COLUMNS}, len(frame))
    except (TypeError, ValueError, ArithmeticError) as error:
        raise InputError(f"{path}: a column has a wrong type: {error}") from error
    for name in TEXTS:
        if pd.api.types.infer_dtype(jobs[name].cat.categories, skipna=False) not in ("string", "empty"):
            raise InputError(f"{path}: a column has a wrong type: {name} holds {jobs[name].cat.categories.dtype}, not text")
    fields["header"] = {"Source": fields["source"], **fields["header"]}
    trace = Trace(jobs=jobs, **{**fields, "name": trace_name(path), "source": str(path)})
    return trace if trace.generated else with_hashed_names(trace)


def _checked(metadata: dict[str, Any], path: str | Path) -> dict[str, Any]:
    """Return what a file says of its trace, each with its type; InputError for anything else."""
    fields: dict[str, Any] = {"hashed_with": ""} | {name: metadata.get(name) for name in _TYPES if name in metadata}
    fields = {name: fields.get(name) for name in _TYPES}
    for name, types in _TYPES.items():
        if not isinstance(fields[name], types) or (isinstance(fields[name], bool) and bool not in types):
            raise InputError(f"{path}: is damaged: it states the trace's {name} as {str(fields[name])[:40]!r}")
    unread = metadata.get("unread", [])
    if (
        not all(isinstance(text, str) for text in (*fields["notes"], *fields["header"].values()))
        or not isinstance(unread, list)
        or not all(isinstance(line, list) and [type(each) for each in line] in _UNREAD for line in unread)
    ):
        raise InputError(f"{path}: is damaged: its notes, header or unread lines are no text")
    for line, job_id, _ in unread:
        if not 0 < line <= limits.JOB_ID or not -1 <= (job_id or 0) < 2**63:
            raise InputError(f"{path}: is damaged: its unread lines have impossible numbers")
    if abs(fields["origin_unix_s"] or 0) > limits.SECONDS:
        raise InputError(f"{path}: states origin_unix_s beyond the {limits.SECONDS:,} s that are possible")
    if fields["timezone"] is not None:
        try:
            zone(fields["timezone"])
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
    return {**fields, "notes": tuple(fields["notes"]), "unread": tuple(UnreadLine(*line) for line in unread)}
