"""Queuecast's home directory: $QUEUECAST_HOME, or ``.queuecast`` in the working directory."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """Return the absolute path of the home directory; it need not exist yet."""
    return Path(os.environ.get("QUEUECAST_HOME") or ".queuecast").expanduser().absolute()


def archive() -> Path:
    """Return where ``queuecast fetch`` puts the traces of the Parallel Workloads Archive."""
    return home() / "archive"
