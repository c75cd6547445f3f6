"""Canonical Parquet: a trace with all its columns, units and provenance in one file.

For traces that are read often or made by other programs.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, Strict

from features import limits
from features.deferred import pd
from features.errors import InputError
from features.jobs.schema import COLUMNS, OVERRUN, TEXTS, Trace, UnreadLine, conform
from features.validation import validated
from pipelines.readers.hashed_names import with_hashed_names
from pipelines.readers.localtime import zone
from pipelines.readers.source import trace_name

KIND = "trace"
MAGIC = b"PAR1"
"""First bytes of any Parquet file."""

_Line = Annotated[int, Field(gt=0, le=limits.JOB_ID)]
_JobId = Annotated[int, Field(ge=-1, lt=2**63)]
_UnreadLine = Annotated[tuple[_Line, _JobId | None, str], Strict(False)]
_UnreadByRule = Annotated[tuple[_Line, _JobId | None, str, str], Strict(False)]


@dataclass(frozen=True)
class _Stated:
    """The metadata of a trace in its file, with the required types."""

    name: str
    procs: int | None
    origin_unix_s: Annotated[int, Field(ge=-limits.SECONDS, le=limits.SECONDS)] | None
    timezone: str | None
    generated: bool
    source: str
    sha256: str
    header: dict[str, str]
    notes: list[str]
    hashed_with: str
    summaries: bool
    unread: list[_UnreadLine | _UnreadByRule]


def write_canonical(trace: Trace, path: str | Path) -> None:
    """Write ``trace`` atomically, zstd-compressed.

    What is not a job goes into the schema's metadata.
    """
    from pipelines.lake.parquet import write_parquet

    metadata = {field.name: getattr(trace, field.name) for field in fields(_Stated)} | {
        "header": dict(trace.header),
        "unread": list(trace.unread),
    }
    write_parquet(trace.jobs, path, kind=KIND, metadata=metadata)


def read_canonical(path: str | Path) -> Trace:
    """Read the trace that :func:`write_canonical` wrote.

    Its ``name`` and ``source`` are this file's; the written ``source`` is ``Source`` in the header, unless the header has one.
    Raises InputError for another kind, format or set of columns.
    """
    from pipelines.lake.parquet import check_size, read_parquet

    check_size(path)
    frame, metadata = read_parquet(path, kind=KIND)
    facts = _checked(metadata, path)
    if not frame.columns.is_unique or not all(isinstance(name, str) for name in frame.columns):
        raise InputError(f"{path}: is damaged: it has a column twice, or one without a name")
    if OVERRUN in frame:  # a cleaned table: restore the runtime that was cut off at the request
        try:
            frame = frame.assign(runtime_s=frame["runtime_s"] + frame[OVERRUN].fillna(0)).drop(columns=OVERRUN)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path}: is damaged: runtime_s and {OVERRUN} are not seconds") from error
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
    facts["header"] = {"Source": facts["source"], **facts["header"]}
    named: dict[str, Any] = {**facts, "name": trace_name(path), "source": str(path)}
    trace = Trace(jobs=jobs, **named)
    return trace if trace.generated else with_hashed_names(trace)


def _checked(metadata: dict[str, Any], path: str | Path) -> dict[str, Any]:
    """Return the metadata as fields of Trace; raise InputError for a wrong type or zone."""
    optional = {"hashed_with": "", "summaries": False, "unread": []}
    table = {field.name: metadata.get(field.name, optional.get(field.name)) for field in fields(_Stated)}
    facts = validated(_Stated, table, f"{path}: is damaged", left_out=())
    if facts["timezone"] is not None:
        try:
            zone(facts["timezone"])
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
    return facts | {"notes": tuple(facts["notes"]), "unread": tuple(UnreadLine(*line) for line in facts["unread"])}
