"""The canonical jobs table (columns, types, units, meaning) and the trace that holds it.

Times are int64 seconds from the trace's origin, processors are counts, and unknown values are null: readers replace the
Standard Workload Format's -1. Identities (user, group, executable, queue, partition) are categories of strings, so that
SWF's numbers and Slurm's names are treated alike.

Requests beside processors and time (``ASKED``) are for the whole job, over all its nodes: each of n nodes gets the n-th
part. Null means that the source does not state a request, or that the job makes none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from features.deferred import pd
from features.errors import InputError
from features.jobs.columns import Table, TableColumns, Texts, column, tabled

JOBS_FORMAT = 3
"""Version of the table layout, written into every stored table; no other is read."""


@dataclass(frozen=True)
class Column:
    """One column of the canonical jobs table; ``dtype`` is the pandas dtype before cleaning."""

    dtype: str
    unit: str
    meaning: str


COLUMNS: dict[str, Column] = {
    "job_id": Column("int64", "", "the source's number of the job"),
    "submit_s": Column("int64", "s", "submission, from the trace's origin"),
    "wait_s": Column("Int64", "s", "recorded wait between submission and start"),
    "runtime_s": Column("Int64", "s", "wall-clock time between start and end"),
    "procs": Column("Int64", "processors", "processors requested"),
    "allocated_procs": Column("Int64", "processors", "processors the site recorded as allocated"),
    "requested_s": Column("Int64", "s", "wall-clock time requested, the job's limit"),
    "user": Column("category", "", "user that submitted the job"),
    "group": Column("category", "", "group or account charged"),
    "executable": Column("category", "", "executable or job name"),
    "queue": Column("category", "", "queue or quality of service"),
    "partition": Column("category", "", "partition of the machine"),
    "status": Column("Int8", "", "SWF status: 1 completed, 0 failed, 5 cancelled, 2-4 partial"),
    "preceding_job": Column("Int64", "", "job_id this job waits for (SWF field 17)"),
    "think_s": Column("Int64", "s", "time between that job's end and this submission (SWF field 18)"),
    "nodes": Column("Int64", "nodes", "nodes requested, each another; null: processors of any nodes"),
    "procs_per_node": Column("Int64", "processors", "processors requested of each of these nodes; null: the nodes' share of procs"),
    "memory_kib": Column("Int64", "KiB", "memory requested for the whole job, all its nodes together"),
    "gpus": Column("Int64", "GPUs", "GPUs requested for the whole job, all its nodes together"),
    "properties": Column("category", "", "properties its nodes must have, as in x86_64:cl_zewura; ^ before one they must not have"),
    "exclusive": Column("Int8", "", "1: no other job may run on its nodes; 0: others may"),
    "written_id": Column("category", "", "the number as the source writes it, as in 12_3; null: job_id"),
}
ASKED = ("nodes", "procs_per_node", "memory_kib", "gpus", "properties", "exclusive")
"""Columns of a job's requests on machines that have more than processors (:mod:`sim.machine`)."""
IDENTITIES = ("user", "group", "executable", "queue", "partition")
TEXTS = (*IDENTITIES, "properties", "written_id")
REQUIRED = ("runtime_s", "procs", "requested_s")
"""Columns without nulls in a cleaned trace (plain int64 there)."""


class UnreadLine(NamedTuple):
    """A line of the source that gives no job: number, job id if certain, text, and rule."""

    line: int
    job_id: int | None
    text: str
    rule: str = "unreadable-line"


@tabled("jobs")
@dataclass(frozen=True)
class Trace:
    """A workload as its source recorded it, before cleaning.

    ``jobs`` has the columns of :data:`COLUMNS` in source order. ``origin_unix_s`` is the Unix time of second 0, if
    known. ``notes`` are whole sentences about oddities that the reader did not treat as errors. ``unread`` are the
    lines that could not be read as jobs; cleaning lists them among the rejected jobs. ``hashed_with`` identifies the
    key with which users, groups and executables are hashed; it is empty if they are not hashed. With ``summaries``, as
    in SWF, a line of status 0, 1 or 5 describes a whole job, and lines of status 2 to 4 with the same ``job_id`` its
    parts.
    """

    name: str
    jobs: pd.DataFrame
    procs: int | None = None
    origin_unix_s: int | None = None
    timezone: str | None = None
    generated: bool = False
    source: str = ""
    sha256: str = ""
    header: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unread: tuple[UnreadLine, ...] = ()
    hashed_with: str = ""
    summaries: bool = False


def conform(columns: Mapping[str, object], length: int, *, copy: bool = True) -> pd.DataFrame:
    """Build a jobs table of ``length`` rows: canonical columns and dtypes, missing ones null.

    Without ``copy`` the table takes over arrays that already have the right type. Raises ``KeyError`` for a column that
    is not canonical: a typing error, not bad input.
    """
    arrays: dict[str, object] = {}
    for name, values in columns.items():
        dtype = COLUMNS[name].dtype if name in COLUMNS else ""
        if values is None or not dtype:
            arrays[name] = values
        elif dtype == "category":
            arrays[name] = _category(values)
        else:
            _check_whole(values, name)
            arrays[name] = pd.array(values, dtype=dtype, copy=copy)  # type: ignore[call-overload]
    return canonical(arrays, length).frame()


def canonical(columns: Mapping[str, object], length: int) -> TableColumns:
    """Return ``columns``, which have the right types, and null ones in place of missing ones.

    Raises ``KeyError`` as :func:`conform` does.
    """
    unknown = set(columns) - set(COLUMNS)
    if unknown:
        raise KeyError(f"unknown columns: {sorted(unknown)}")
    arrays: dict[str, object] = {}
    for name, declared in COLUMNS.items():
        values = columns.get(name)
        arrays[name] = _nulls(declared.dtype, length) if values is None else values
    return TableColumns(arrays)


def _check_whole(values: object, name: str) -> None:
    """Raise TypeError for values that a cast to int64 would change silently."""
    dtype = getattr(values, "dtype", np.dtype(object))
    kind = getattr(dtype, "kind", "O")
    if kind in "bmMSU" or (kind == "O" and isinstance(dtype, pd.StringDtype)):
        raise TypeError(f"{name} holds {dtype}, not numbers")
    if kind not in "fu":
        return
    numbers = pd.Series(values).dropna().to_numpy()  # type: ignore[call-overload]
    if kind == "f" and not (np.isfinite(numbers) & (np.abs(numbers) < 2.0**63) & (numbers == np.rint(numbers))).all():
        raise TypeError(f"{name} has numbers that are not whole, or not of 64 bits")
    if kind == "u" and (numbers > np.iinfo(np.int64).max).any():
        raise TypeError(f"{name} has numbers beyond 64 bits with a sign")


def _category(values: object) -> pd.Categorical:
    if isinstance(values, pd.Series):
        values = values.array
    if isinstance(values, pd.Categorical):
        return values
    return pd.Categorical(pd.array(values, dtype="str"))  # type: ignore[call-overload]


def _nulls(dtype: str, length: int) -> np.ndarray | Texts:
    if dtype == "category":
        return Texts(np.full(length, -1, np.int8), [])
    zeros = np.zeros(length, dtype.lower())
    return zeros if dtype == "int64" else np.ma.MaskedArray(zeros, np.ones(length, bool))


def masked(values: np.ndarray, present: np.ndarray, dtype: str = "Int64") -> pd.api.extensions.ExtensionArray:
    """Return nullable integers: ``values`` where ``present`` (bool, same length), else null."""
    numbers = np.where(present, values, 0).astype(dtype.lower())
    return pd.arrays.IntegerArray(numbers, ~np.asarray(present, bool))


def codes(jobs: Table, name: str) -> np.ndarray:
    """Return integer codes of an identity column, int64 [jobs], -1 for null."""
    return column(jobs, name).codes.astype(np.int64)


def known_users(jobs: pd.DataFrame) -> int:
    """Return the number of users in a jobs table; their codes are below it, -1 is unknown."""
    return int(codes(jobs, "user").max(initial=-1)) + 1


def alike(keys: Sequence[np.ndarray]) -> np.ndarray:
    """Number the distinct rows by first appearance, int64 [rows].

    Equal rows, the same in all ``keys`` (integers [rows], at least -1), share a number.
    """
    kind = np.zeros(len(keys[0]), np.int64)
    for key in keys:
        kind = pd.factorize(kind * (int(key.max(initial=-1)) + 2) + key + 1)[0]
    return kind


def start_s(jobs: pd.DataFrame) -> np.ndarray | None:
    """Return recorded start times, int64 [jobs], or None if any wait is missing."""
    if jobs["wait_s"].isna().any():
        return None
    return jobs["submit_s"].to_numpy(np.int64) + jobs["wait_s"].to_numpy(np.int64)


OVERRUN = "overrun_s"
"""Column of a cleaned table: recorded seconds beyond the request, which cleaning cut off the runtime (int64)."""


def recorded_end_s(jobs: pd.DataFrame, start_s: np.ndarray) -> np.ndarray:
    """Return recorded ends of jobs of a cleaned table started at ``start_s``, int64 [jobs].

    The part of the runtime that cleaning cut off is included.
    """
    end = np.asarray(start_s, np.int64) + jobs["runtime_s"].to_numpy(np.int64)
    return end + jobs[OVERRUN].to_numpy(np.int64) if OVERRUN in jobs else end


def fingerprint(jobs: pd.DataFrame) -> str:
    """Return the SHA-256 (first 16 hex digits) of a table's content, in row order.

    Columns of ``ASKED`` without any value and ``written_id`` are skipped, so that tables of older formats keep their
    fingerprints.
    """
    digest = hashlib.sha256()
    for name in jobs.columns:
        if name == "written_id" or (name in ASKED and jobs[name].isna().all()):
            continue
        digest.update(name.encode())
        digest.update(pd.util.hash_pandas_object(jobs[name], index=False).to_numpy().tobytes())
    return digest.hexdigest()[:16]


NEEDED = ("submit_s", "runtime_s", "procs")


def jobs_from(frame: pd.DataFrame) -> pd.DataFrame:
    """Make a canonical jobs table from a DataFrame with some of its columns, one row per job.

    ``submit_s``, ``runtime_s`` and ``procs`` are required. Other columns of :data:`features.jobs.schema.COLUMNS` are
    optional: a missing one is null, and a missing ``job_id`` counts the rows from 1. Times are whole seconds. Rows come
    in order of submission, ties in the order of ``frame``. They keep their index labels, so that predictions made from
    ``frame`` still match their jobs. Raises InputError, naming column and row, for a column that is unknown, repeated,
    or required and missing, for times and counts that are not whole numbers of at least 0 (submissions may be below 0),
    and a missing submission or ``job_id``.

    >>> import pandas as pd
    >>> table = jobs_from(pd.DataFrame({"submit_s": [60, 0], "runtime_s": [5, 9], "procs": [1, 2], "user": ["ann", None]}))
    >>> table[["job_id", "submit_s", "procs"]].values.tolist()
    [[2, 0, 2], [1, 60, 1]]
    """
    if not isinstance(frame, pd.DataFrame):
        raise InputError(f"jobs_from makes a jobs table of a DataFrame, not of a {type(frame).__name__}")
    names = [str(name) for name in frame.columns]
    if unknown := [name for name in names if name not in COLUMNS]:
        raise InputError(f"unknown column {unknown[0]!r}; known: {', '.join(COLUMNS)}")
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(f"column {twice[0]} appears twice")
    if absent := [name for name in NEEDED if name not in names]:
        raise InputError(f"column {absent[0]} is missing: a job needs {', '.join(NEEDED)}")
    columns: dict[str, object] = {"job_id": np.arange(1, len(frame) + 1)}
    for name in names:
        columns[name] = _text(frame[name]) if name in TEXTS else _whole(frame[name])
    table = conform(columns, len(frame))
    table.index = frame.index
    whole = {name: "int64" for name in REQUIRED if not table[name].isna().any()}
    return table.astype(whole).sort_values("submit_s", kind="stable")


def _text(column: pd.Series) -> pd.Categorical:
    missing = column.isna().to_numpy(bool)
    texts = column.astype(object).map(str).mask(missing, None).to_list()
    return pd.Categorical(pd.array(texts, dtype="str"))


def _whole(column: pd.Series) -> pd.api.extensions.ExtensionArray:
    name = column.name
    if not pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_bool_dtype(column.dtype):
        hint = " (seconds since the first: (t - t.min()).dt.total_seconds())" if name == "submit_s" else ""
        raise InputError(f"column {name} is of type {column.dtype}, not of whole numbers{hint}")
    values = column.to_numpy(np.float64, na_value=np.nan)
    missing = np.isnan(values)
    free = name in ("submit_s", "job_id", "preceding_job")
    for wrong, what in (
        (
            ~missing & (~np.isfinite(values) | (np.nan_to_num(values) % 1 != 0) | (np.abs(values) > 2.0**53)),
            "is not a whole number",
        ),
        (~missing & (values < 0) & (not free), "is below 0: leave unknown values empty"),
        (missing & (name in ("submit_s", "job_id")), "is missing"),
        (~missing & (values > 5) & (name == "status"), "is not a status from 0 to 5"),
        (~missing & (values > 1) & (name == "exclusive"), "is neither 0 nor 1"),
    ):
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InputError(f"row {column.index[row]!r}: {name} {column.iloc[row]!r} {what} ({int(wrong.sum()):,} such rows)")
    numbers = np.where(missing, 0, np.nan_to_num(values)).astype(np.int64)
    return pd.arrays.IntegerArray(numbers, missing)
