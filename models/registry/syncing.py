"""Sync files and directories to disk, so that a power loss undoes nothing."""

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Wait until the content of a file, or the names in a directory, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
