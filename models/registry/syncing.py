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


def sync_tree(folder: Path, above: int) -> None:
    """Sync everything in ``folder``, its parent, and the next ``above`` parents."""
    for place, _, files in os.walk(folder):
        for name in files:
            sync(Path(place) / name)
        sync(Path(place))
    for parent in folder.parents[: above + 1]:
        if os.access(parent, os.R_OK):
            sync(parent)
