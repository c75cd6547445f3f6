"""Let files and directories reach the disk, so that a power loss does not undo what rests on them."""

from __future__ import annotations

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Wait until the content of a file, or the names in a directory, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path, above: int) -> None:
    """Wait for every file and directory below ``folder``, and for the names of it and ``above`` more."""
    for place, _, files in os.walk(folder):
        for name in files:
            sync(Path(place) / name)
        sync(Path(place))
    for parent in folder.parents[: above + 1]:
        if os.access(parent, os.R_OK):
            sync(parent)
