"""Checksums recorded at first downloads, for addresses whose catalogue entry states none.

``checksums.toml`` in the home directory holds one table per address: SHA-256 of the content, and the day. Later downloads and all
reads are checked against it.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from features.errors import InputError, masked, shown
from pipelines.lake.home import home
from pipelines.lake.places import exists
from pipelines.readers.settings import changing, read_settings


@dataclass(frozen=True)
class RecordedDownload:
    """SHA-256 of the first download from an address, and its day (2026-03-01)."""

    sha256_content: str
    since: str


def checksums() -> Path:
    """Return the file of recorded checksums."""
    return home() / "checksums.toml"


def recorded() -> dict[str, RecordedDownload]:
    """Return the recorded checksums by address. Raises InputError for a damaged file."""
    path = checksums()
    if not exists(path):
        return {}
    records = {}
    for place, table in read_settings(path, "checksums").items():
        try:
            records[place] = RecordedDownload(**table)
            if not re.fullmatch(r"[0-9a-f]{64}", records[place].sha256_content):
                raise TypeError
        except TypeError as error:
            raise InputError(
                f"{path}: {shown(masked(place))} must have sha256_content (64 hexadecimal digits in lower case) and since (a day), nothing else"
            ) from error
    return records


def record(place: str, sha256_content: str) -> RecordedDownload:
    """Record a checksum of the address ``place``; return what is recorded.

    That is another checksum if another process recorded one first.
    """
    with changing(checksums()) as document:
        if place not in document:
            document[place] = {"sha256_content": sha256_content, "since": f"{datetime.now(UTC):%Y-%m-%d}"}
    return recorded()[place]
