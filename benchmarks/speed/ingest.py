"""Measure the SWF reader beside ``pandas.read_csv`` (C engine) on the same file.

The file is a random trace written as the archive writes its traces, right-aligned columns and all; -1 stands
for a tenth of the values. Both read the same bytes in turn, and the median of paired ratios is told. The reader
also checks every field, computes the file's SHA-256 and builds the canonical table; pandas only parses.
Run with ``python -m benchmarks.speed.ingest [--lines N]``.
"""

from __future__ import annotations

import argparse
import gzip
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from pipelines.readers.swf import read_swf
from pipelines.report.table import Table

WIDTHS = (7, 9, 7, 7, 4, 6, 6, 4, 7, 6, 2, 4, 4, 5, 3, 3, 3, 3)
"""Columns as wide as those of the archive's files."""
TARGET = 2.0
"""The reader may take this many times what pandas takes."""


def write_trace(path: Path, lines: int, rng: np.random.Generator) -> None:
    """Write ``lines`` random jobs as SWF."""
    highest = np.array([1, 1, 10**6, 10**5, 512, 10**5, 10**5, 512, 10**5, 10**5, 5, 300, 60, 4_000, 20, 5, 10, 10])
    values = rng.integers(0, highest, (lines, len(highest)))
    values[rng.random(values.shape) < 0.1] = -1
    values[:, 0] = np.arange(1, lines + 1)
    values[:, 1] = np.sort(rng.integers(0, 300 * lines, lines))
    with path.open("w") as file:
        file.write("; Version: 2.2\n; MaxProcs: 512\n;\n")
        np.savetxt(file, values, fmt=" ".join(f"%{width}d" for width in WIDTHS))


def with_pandas(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, sep=r"\s+", comment=";", header=None, engine="c")


def seconds(read: Callable[[Path], object], path: Path) -> np.ndarray:
    """Seconds by the clock, and of processor time."""
    begin = np.array([time.perf_counter(), time.process_time()])
    read(path)
    return np.array([time.perf_counter(), time.process_time()]) - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    rows, worst = [], 0.0
    with tempfile.TemporaryDirectory() as directory:
        plain = Path(directory) / "trace.swf"
        write_trace(plain, options.lines, np.random.default_rng(0))
        packed = Path(directory) / "trace.swf.gz"
        packed.write_bytes(gzip.compress(plain.read_bytes(), 6))
        jobs = read_swf(plain).jobs  # compiles, and shows that both read the same
        assert (jobs["requested_s"].fillna(-1).to_numpy() == with_pandas(plain)[8].to_numpy()).all()
        for name, path in (("plain", plain), ("gzip", packed)):
            pairs = np.array([(seconds(read_swf, path), seconds(with_pandas, path)) for _ in range(options.repeats)])
            (ours, _), (theirs, _) = np.median(pairs, axis=0)
            ratio, cpu_ratio = np.median(pairs[:, 0] / pairs[:, 1], axis=0)
            worst = max(worst, ratio)
            figures = (f"{path.stat().st_size / 1e6:.0f}", f"{ours:.3f}", f"{theirs:.3f}", f"{ratio:.2f}", f"{cpu_ratio:.2f}")
            rows.append([name, *figures, f"{options.lines / ours:,.0f}"])
    headings = ("file", "MB", "Queuecast s", "pandas s", "ratio", "ratio of CPU s", "lines/s")
    Table(f"{options.lines:,} lines of SWF, {options.repeats} readings each", headings, rows).show()
    if worst > TARGET:
        raise SystemExit(f"slower than {TARGET} times pandas")


if __name__ == "__main__":
    main()
