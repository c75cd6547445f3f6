"""Read tables of jobs that sites have published since 2020 as Slurm accounting.

Each is rewritten with columns of ``sacct`` in its units (``TimelimitRaw`` minutes, ``wallclock_req`` and ``ElapsedRaw`` seconds);
:mod:`pipelines.ingest.slurm` then counts and names what is odd. NREL's Eagle is read by that module itself. A table is recognised
by its columns. The schemas, tested only on samples made from them:

* Fugaku F-DATA: github.com/francescoantici/F-DATA, docs/feature_list.md; the limit ``elpl`` is taken as seconds.
* PM100 of Marconi100: github.com/francescoantici/PM100-data, documentation/job_features.md, of both versions.
* MIT Supercloud: arXiv:2108.02037; slurm-log.csv has columns (as github.com/ExaDigiT/RAPS reads them) and numbered states of Slurm's database.
* Lassen: github.com/LLNL/LAST, README.md of Lassen-Supercomputer-Job-Dataset; ``time_limit`` is taken as seconds. The history of steps is not read.
* Philly: github.com/msr-fiddle/philly-traces, README.md. A job runs from its first attempt's start to its last one's end on the most GPUs of an
  attempt, and has no limit.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from features.errors import InputError
from features.jobs.schema import Trace
from pipelines.ingest.slurm import parse_sacct
from pipelines.ingest.source import Source
from pipelines.storage.parquet import schema_of

_TIMES = ("Submit", "Start", "End")
_STATES = [
    "PENDING",
    "RUNNING",
    "SUSPENDED",
    "COMPLETED",
    "CANCELLED",
    "FAILED",
    "TIMEOUT",
    "NODE_FAIL",
    "PREEMPTED",
    "BOOT_FAIL",
    "DEADLINE",
    "OUT_OF_MEMORY",
]
"""Slurm's states by their numbers (enum job_states of slurm.h)."""


@dataclass(frozen=True)
class Dataset:
    """A published table of jobs.

    ``columns`` maps sacct's names to the table's, separated by blanks if versions differ: the first present one is read.
    ``procs`` says what a processor is, ``zone`` is that of times without one. ``states`` maps the table's states to Slurm's,
    ``other`` replaces the rest. The columns ``needs`` must be present.
    """

    name: str
    procs: str
    zone: str
    columns: Mapping[str, str]
    states: Mapping[str, str] = field(default_factory=dict)
    other: str = ""
    needs: tuple[str, ...] = ()

    def columns_of(self, names: Collection[str]) -> dict[str, str]:
        """Map sacct's columns to those of ``names``; return {} if they are of another table."""
        there = {ours: [each for each in theirs.split() if each in names] for ours, theirs in self.columns.items()}
        columns = {ours: each[0] for ours, each in there.items() if each}
        return columns if {*_TIMES, "JobID"} <= columns.keys() and set(self.needs) <= set(names) else {}


DATASETS = (
    Dataset(
        "Fugaku F-DATA", "a node", "Asia/Tokyo",
        {"JobID": "jid", "User": "usr", "JobName": "jnam", "ReqCPUS": "nnumr", "AllocCPUS": "nnuma", "Submit": "adt", "Start": "sdt", "End": "edt",
         "wallclock_req": "elpl", "State": "exit_state"}, {"completed": "COMPLETED"}, "FAILED", ("nnumr", "elpl"),
    ),
    Dataset(
        "PM100 (Marconi100)", "a core", "Europe/Rome",
        {"JobID": "job_id", "User": "user_id", "Account": "group_id", "Partition": "partition", "QOS": "qos",
         "ReqCPUS": "num_cores_req num_cpus_req", "AllocCPUS": "num_cores_alloc num_cpus_alloc", "nodes_req": "num_nodes_req",
         "gpus_req": "num_gpus_req", "Submit": "submit_time", "Start": "start_time", "End": "end_time", "ElapsedRaw": "run_time",
         "TimelimitRaw": "time_limit", "State": "job_state"}, needs=("num_nodes_alloc", "run_time"),
    ),
    Dataset(
        "MIT Supercloud", "a core", "America/New_York",
        {"JobID": "id_job", "User": "id_user", "Partition": "partition", "ReqCPUS": "cpus_req", "Submit": "time_submit", "Start": "time_start",
         "End": "time_end", "TimelimitRaw": "timelimit", "State": "state"},
        {str(number): state for number, state in enumerate(_STATES)}, needs=("cpus_req", "timelimit"),
    ),
    Dataset(
        "Lassen", "a node", "America/Los_Angeles",
        {"JobID": "allocation_id", "User": "hashed_user_id", "Account": "hashed_user_group_id", "QOS": "queue", "ReqCPUS": "num_nodes",
         "Submit": "job_submit_time", "Start": "begin_time", "End": "end_time", "wallclock_req": "time_limit", "State": "exit_status"},
        {"complete": "COMPLETED", "completed": "COMPLETED", "0": "COMPLETED"}, "FAILED", ("primary_job_id", "num_nodes"),
    ),
    Dataset(
        "Philly", "a GPU", "America/Los_Angeles",
        {"JobID": "jobid", "User": "user", "QOS": "vc", "ReqCPUS": "gpus", "Submit": "submitted_time", "Start": "start", "End": "end",
         "State": "status"}, {"pass": "COMPLETED", "killed": "CANCELLED", "failed": "FAILED"}, needs=("attempts",),
    ),
)  # fmt: skip


def dataset(names: Collection[str]) -> Dataset | None:
    """Return the data set whose table has columns of those names, or None."""
    return next((each for each in DATASETS if each.columns_of(_plain(names))), None)


def parse_published(source: Source, timezone: str | None) -> Trace:
    """Read a table of :data:`DATASETS`: Parquet, CSV or JSON.

    ``timezone`` overrides the data set's for times that state none. Second 0 is the earliest submission. If ids are not unique
    numbers, jobs are numbered from 1 in file order. Raises InputError as :func:`pipelines.ingest.slurm.parse_sacct` does.
    """
    table = _table(source)
    table.columns = pd.Index(_plain(table.columns))
    kind = dataset(table.columns)
    if kind is None:
        raise InputError(
            f"{source.path}: has no columns of a published table of jobs; known: {', '.join(each.name for each in DATASETS)}"
        )
    columns, notes = kind.columns_of(table.columns), []
    rows = pd.DataFrame({ours: _text(table[theirs]) for ours, theirs in columns.items() if ours not in _TIMES})
    ids = rows["JobID"].str.extract(r"^\D*_?(\d{1,18})$")[0]
    if ids.isna().any() or ids.duplicated().any():
        ids = pd.Series(range(1, len(rows) + 1), rows.index).astype(str)
        notes.append("Jobs are numbered in the order of the file.")
    rows["JobID"] = ids
    if kind.states and "State" in rows:
        states = rows["State"].str.lower().map(kind.states)
        rows["State"] = states.fillna(kind.other or rows["State"].str.upper())
    has_zone = [_states_zone(table[columns[each]]) for each in _TIMES]
    for each in _TIMES:
        rows[each] = _written(table[columns[each]], any(has_zone))
    local = "UTC" if any(has_zone) else timezone or kind.zone
    with io.StringIO() as text:
        csv.writer(text, lineterminator="\n").writerows([list(rows), *rows.itertuples(index=False)])
        trace = parse_sacct(replace(source, content=text.getvalue().encode(), stamp=()), local)
    note = f"Read as {kind.name}: a processor is {kind.procs}, times are {'UTC' if any(has_zone) else 'of ' + local}."
    unread = [str(name) for name in table.columns if name not in columns.values()]
    notes += [f"Columns that are not read: {', '.join(unread)}."] if unread else []
    return replace(trace, timezone=timezone or kind.zone, notes=(note, *notes, *trace.notes), header={"Data set": kind.name})


def _plain(names: Collection[str]) -> list[str]:
    return [str(name).strip().replace(" ", "_") for name in names]


def is_published_parquet(path: str | Path) -> bool:
    """Tell whether a Parquet file has the columns of a published table."""
    try:
        return dataset(schema_of(path).names) is not None
    except InputError:  # damaged: its reader reports it
        return False


def _table(source: Source) -> pd.DataFrame:
    try:
        if is_published_parquet(source.path):
            return pd.read_parquet(source.path)
        head = source.head(100).lstrip(b"\xef\xbb\xbf \t\r\n")
        with source.open() as text:
            if head.startswith(b"["):
                return pd.DataFrame([_philly(job) for job in json.load(text)])
            return pd.read_csv(text, dtype=str, keep_default_na=False, skipinitialspace=True)
    except (pa.ArrowException, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{source.path}: is no table of jobs: {' '.join(str(error).split())}") from error


def _philly(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job of Philly's log with the span of its attempts and the most GPUs of one."""
    tried = job["attempts"]
    spans = {"start": tried[0]["start_time"], "end": tried[-1]["end_time"]} if tried else {"start": None, "end": None}
    gpus = max((sum(len(server["gpus"]) for server in each["detail"]) for each in tried), default=0)
    return {**job, **spans, "gpus": gpus or None}


def _text(column: pd.Series) -> pd.Series:
    """Return values as text, whole numbers without a point; "" for a missing one."""
    return column.astype("str").where(column.notna(), "").str.strip().str.replace(r"(?<=\d)\.0+$", "", regex=True)


def _states_zone(column: pd.Series) -> bool:
    """Tell whether times are Unix seconds or state their zone."""
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        return True
    return bool(_text(column).str.fullmatch(r"\d{9,}|.*\d(Z|[+-]\d\d:?\d\d)").any())


def _written(column: pd.Series, zoned: bool) -> pd.Series:
    """Return times as sacct writes them, in UTC if ``zoned``; other text stays as it is."""
    text = _text(column)
    text = text.mask(text.isin(["0", "NaT", "None", "NULL"]), "")
    unix = text.str.fullmatch(r"\d{9,11}")
    parsed = pd.to_datetime(text.mask(unix), format="ISO8601", errors="coerce", utc=zoned)
    if unix.any():
        parsed = parsed.where(~unix, pd.to_datetime(pd.to_numeric(text.where(unix)), unit="s", utc=True))
    return parsed.dt.strftime("%Y-%m-%dT%H:%M:%S").where(parsed.notna(), text)
