"""The recorded logs of studies, by their titles."""

from __future__ import annotations

from pathlib import Path

from features.jobs.cleaning import CleanTrace, clean
from pipelines.readers.swf import read_swf

LOGS: dict[str, tuple[str, int | None]] = {
    "KTH-SP2": ("KTH-SP2-filtered.swf.gz", None),
    "SDSC-SP2": ("SDSC-SP2-filtered.swf.gz", 128),
    "LANL-CM5": ("LANL-CM5-1994-4.1-cln.swf.gz", None),
    "CERIT": ("CERIT-wagap-2013.swf.gz", 1600 + 576),
    "ALCF-Theta": ("ALCF-Theta-2022-chunks.swf.gz", 4360),
}
"""File, and processors where the log does not say them, of the logs that have requests, users, and jobs that wait; CERIT is one pool."""


def load(title: str, shared: Path) -> CleanTrace:
    """Return one cleaned log."""
    file, procs = LOGS[title]
    return clean(read_swf(shared / "traces" / file), procs)
