"""Files that are whole or not there: written beside their place under a temporary name, then moved into it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the directory of ``path`` (created if need be); on success it takes the place of ``path``.

    If the body raises, the temporary file is removed and whatever was at ``path`` before stays. What the body wrote has reached
    the disk before the move, so a machine that dies leaves the old file or the new one, never an empty one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, path)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
