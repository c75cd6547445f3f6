"""The benchmark's tables: jobs a second of each algorithm, and against the oracle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.report.table import Table
from pipelines.workflows.bench import Row

_TITLES = {
    "figures": "Simulation alone, one core, median",
    "long_queue": "With thousands of jobs waiting",
}


def listings(document: Mapping[str, Any]) -> list[Table]:
    """Return the tables of a benchmark's document, without empty ones."""
    headings = ["trace", "scheduler", "jobs", "waiting, mean", "waiting, most", "seconds", "spread", "million jobs/s", "peak GiB"]
    tables = []
    for section, title in _TITLES.items():
        if rows := document[section]:
            tables.append(Table(title, headings, [_cells(row) for row in rows], keys=2))
    return [*tables, *([_against_oracle(document["oracle"])] if "oracle" in document else [])]


def _cells(row: Row) -> list[str]:
    cells = [row["trace"], row["scheduler"], f"{row['jobs']:,}", f"{row['waiting_mean']:,.0f}", f"{row['waiting_max']:,}"]
    return [*cells, f"{row['median_s']:.4f}", _spread(row), f"{row['jobs_per_s'] / 1e6:.2f}", f"{row['peak_gib']:.2f}"]


def _spread(row: Row) -> str:
    """Return the spread from fastest to slowest, relative to the median."""
    return f"{100 * (row['slowest_s'] - row['fastest_s']) / row['median_s']:.0f} %" if row["repeat"] > 1 else "-"


def _against_oracle(oracle: Mapping[str, Any]) -> Table:
    rows = [
        [
            row["trace"],
            row["scheduler"],
            f"{row['jobs']:,}",
            f"{row['oracle_s']:.2f}",
            f"{row['median_s']:.5f}",
            f"{row['times']:,.0f}",
        ]
        for row in oracle["rows"]
    ]
    left_out = f"not known to the oracle: {', '.join(oracle['left_out'])}" if oracle["left_out"] else ""
    said = "every job starts at the same second in both" if rows else ""
    return Table(
        "Against the plain-Python oracle",
        ["trace", "scheduler", "jobs", "oracle, s", "simulator, s", "times as fast"],
        rows,
        "; ".join(text for text in (oracle["note"], said, left_out) if text),
        keys=2,
    )
