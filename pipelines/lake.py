"""The lake: one Parquet file for each table and trace, written whole or not at all, with everything needed to read it in its metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from features.cleaning import CleanTrace
from features.errors import InputError
from features.schema import COLUMNS
from pipelines.parquet import read_parquet, write_parquet

_CLEAN_FIELDS = ("name", "procs", "origin_unix_s", "timezone", "generated", "missing_request", "jobs_read", "source", "notes")


@dataclass(frozen=True)
class Lake:
    """Tables under ``root``, as ``<root>/<table>/<trace>.parquet``. Units are those of the columns' names."""

    root: Path

    def path(self, table: str, trace: str) -> Path:
        return self.root / table / f"{trace}.parquet"

    def write(self, table: str, trace: str, frame: pd.DataFrame, metadata: Mapping[str, Any] | None = None) -> Path:
        """Put ``frame`` in its place; ``metadata`` is anything JSON can hold."""
        path = self.path(table, trace)
        units = {name: unit(name) for name in frame.columns}
        write_parquet(frame, path, kind=table, metadata={"trace": trace, **(metadata or {})}, units=units)
        return path

    def read(self, table: str, trace: str) -> tuple[pd.DataFrame, dict[str, Any]]:
        """A table and its metadata; InputError where it was never made or is of another format."""
        path = self.path(table, trace)
        if not path.exists():
            raise InputError(f"{path}: not there yet; materialise {table} of {trace} first")
        return read_parquet(path, kind=table)

    def write_clean(self, clean: CleanTrace) -> None:
        """Keep a cleaned trace: tables ``jobs`` and ``rejected_jobs``."""
        metadata = {name: getattr(clean, name) for name in _CLEAN_FIELDS}
        self.write("rejected_jobs", clean.name, clean.rejected_jobs, {"generated": clean.generated})
        self.write("jobs", clean.name, clean.jobs, metadata)

    def read_clean(self, trace: str) -> CleanTrace:
        """The cleaned trace that :meth:`write_clean` kept."""
        jobs, metadata = self.read("jobs", trace)
        rejected, _ = self.read("rejected_jobs", trace)
        fields = {name: metadata[name] for name in _CLEAN_FIELDS}
        return CleanTrace(jobs=jobs, rejected_jobs=rejected, **{**fields, "notes": tuple(fields["notes"])})


def unit(column: str) -> str:
    """Unit of a column, by the canonical table or by the ending of its name; empty for counts, codes and ratios."""
    if column in COLUMNS:
        return COLUMNS[column].unit
    return "s" if column.endswith("_s") else "processors" if column.endswith("procs") else ""
