"""Canonical Parquet: a trace with all its columns, units and provenance in one file.

For traces that are read often or made by other programs. Readers of formats that hold people's names hash them here
with the site's key, if it sets one, so that no later stage sees the names. SWF has numbers, not names.
"""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, Strict

from features import limits
from features.deferred import pd
from features.errors import InputError
from features.jobs.schema import COLUMNS, OVERRUN, TEXTS, Trace, UnreadLine, conform
from features.validation import validated
from models.packed.site_names import VARIABLE, check_value, hashed, site_key
from pipelines.readers.localtime import zone
from pipelines.readers.text import trace_name

NAMES = ("user", "group", "executable")
WITHHELD = f"(not kept: names are stored hashed, ${VARIABLE})"


def with_hashed_names(trace: Trace) -> Trace:
    """Return ``trace`` with its names hashed with the site's key, if there is one.

    Hashes users, groups and executables; unreadable lines lose their text. Raises InputError if the key is too short,
    or if the names are hashed with another key.
    """
    try:
        key = site_key()
    except ValueError as error:
        raise InputError(str(error)) from error
    if key and trace.hashed_with not in ("", check_value(key)):
        raise InputError(f"{trace.source or trace.name}: its names were hashed with another key than that of ${VARIABLE}")
    if not key or trace.hashed_with:
        return trace
    jobs = trace.jobs.copy(deep=False)
    for name in NAMES:
        column = jobs[name].cat
        if not len(column.categories):  # Arrow would lose the text type
            continue
        codes, kept = pd.factorize(pd.Index([hashed(text, key) for text in column.categories], dtype="str"))
        jobs[name] = pd.Categorical.from_codes(np.append(codes, -1)[column.codes], categories=kept)  # merge a name and its hash
    unread = tuple(line._replace(text=WITHHELD) for line in trace.unread)
    note = f"Users, groups and executables are hashed with ${VARIABLE}."
    return replace(trace, jobs=jobs, unread=unread, notes=(*trace.notes, note), hashed_with=check_value(key))


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
    from pipelines.lake.files import write_parquet

    metadata = {field.name: getattr(trace, field.name) for field in fields(_Stated)} | {
        "header": dict(trace.header),
        "unread": list(trace.unread),
    }
    write_parquet(trace.jobs, path, kind=KIND, metadata=metadata)


def read_canonical(path: str | Path) -> Trace:
    """Read the trace that :func:`write_canonical` wrote.

    Its ``name`` and ``source`` are this file's; the written ``source`` is ``Source`` in the header, unless the header
    has one. Raises InputError for another kind, format or set of columns.
    """
    from pipelines.lake.files import read_parquet

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
