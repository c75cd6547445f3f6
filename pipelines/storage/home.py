"""Where Queuecast keeps what it makes and fetches: $QUEUECAST_HOME, or ``.queuecast`` in the working directory."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """Absolute path of the home directory; it need not exist yet."""
    return Path(os.environ.get("QUEUECAST_HOME") or ".queuecast").expanduser().absolute()


def archive() -> Path:
    """Where ``queuecast fetch`` puts the traces of the Parallel Workloads Archive."""
    return home() / "archive"
