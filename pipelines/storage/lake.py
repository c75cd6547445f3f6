"""The lake: one Parquet file for each table and trace, written atomically, with metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from features.errors import InputError
from features.jobs.cleaning import CleanTrace
from features.jobs.schema import COLUMNS, fingerprint
from features.names import check_name
from pipelines.storage.parquet import read_parquet, write_parquet

_CLEAN_FIELDS = ("name", "procs", "origin_unix_s", "timezone", "generated", "missing_request", "jobs_read", "source", "notes")


@dataclass(frozen=True)
class Lake:
    """Tables under ``root``, as ``<root>/<table>/<trace>.parquet``; units as in column names."""

    root: Path

    def path(self, table: str, trace: str) -> Path:
        """Return the path of a table; InputError unless ``trace`` is a name.

        So nothing is written outside.
        """
        return self.root / table / f"{check_name(trace, 'lake')}.parquet"

    def write(self, table: str, trace: str, frame: pd.DataFrame, metadata: Mapping[str, Any] | None = None) -> Path:
        """Write ``frame`` to its place; ``metadata`` is anything JSON can hold."""
        path = self.path(table, trace)
        units = {name: unit(name) for name in frame.columns}
        write_parquet(frame, path, kind=table, metadata={"trace": trace, **(metadata or {})}, units=units)
        return path

    def read(self, table: str, trace: str) -> tuple[pd.DataFrame, dict[str, Any]]:
        """Return a table and its metadata; InputError if it is missing or of another format."""
        path = self.path(table, trace)
        if not path.exists():
            raise InputError(f"{path}: not there yet; materialise {table} of {trace} first")
        return read_parquet(path, kind=table)

    def write_for(self, clean: CleanTrace, table: str, frame: pd.DataFrame, metadata: Mapping[str, Any] | None = None) -> Path:
        """Write a table made from ``clean``, with the jobs' fingerprint and if they are generated."""
        return self.write(
            table, clean.name, frame, {**(metadata or {}), "jobs": fingerprint(clean.jobs), "generated": clean.generated}
        )

    def read_for(self, clean: CleanTrace, table: str) -> tuple[pd.DataFrame, dict[str, Any]]:
        """Return a table made from ``clean``; InputError if it was made from other jobs."""
        frame, metadata = self.read(table, clean.name)
        if metadata.get("jobs") != fingerprint(clean.jobs):
            raise InputError(
                f"{self.path(table, clean.name)}: was made from other jobs than {clean.name} has now: materialise {table} first"
            )
        return frame, metadata

    def write_clean(self, clean: CleanTrace) -> None:
        """Write a cleaned trace: tables ``jobs`` and ``rejected_jobs``."""
        self.write_for(clean, "rejected_jobs", clean.rejected_jobs)
        self.write_for(clean, "jobs", clean.jobs, {name: getattr(clean, name) for name in _CLEAN_FIELDS})

    def read_clean(self, trace: str) -> CleanTrace:
        """Return the cleaned trace that :meth:`write_clean` wrote."""
        jobs, metadata = self.read("jobs", trace)
        rejected, rejected_metadata = self.read("rejected_jobs", trace)
        if rejected_metadata.get("jobs") != metadata.get("jobs"):
            raise InputError(f"{self.path('rejected_jobs', trace)}: does not belong to the jobs beside it: materialise jobs first")
        fields = {name: metadata[name] for name in _CLEAN_FIELDS}
        return CleanTrace(jobs=jobs, rejected_jobs=rejected, **{**fields, "notes": tuple(fields["notes"])})


def unit(column: str) -> str:
    """Return a column's unit, by the canonical table or the end of its name.

    Empty for counts, codes and ratios.
    """
    if column in COLUMNS:
        return COLUMNS[column].unit
    return "s" if column.endswith("_s") else "processors" if column.endswith("procs") else ""
