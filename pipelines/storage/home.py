"""Queuecast's home directory: $QUEUECAST_HOME, or ``.queuecast`` in the working directory."""

from __future__ import annotations

import os
from pathlib import Path

from pipelines.storage.permissions import check_owner

_DECIDING = (
    "",
    "traces.toml",
    "systems.toml",
    "mlflow.db",
    "mlartifacts",
    "lake",
    "lake/current",
    "dagster",
    "dagster/dagster.yaml",
)
"""What in a home directory decides what is run."""


def home() -> Path:
    """Return the absolute path of the home directory; it need not exist yet.

    InputError for one that another user owns or can change.
    """
    return trusted_home(Path(os.environ.get("QUEUECAST_HOME") or ".queuecast").expanduser().absolute())


def trusted_home(place: Path) -> Path:
    """Return the home directory ``place``; InputError as :func:`home`."""
    for name in _DECIDING:
        check_owner(place / name)
    return place


def archive() -> Path:
    """Return where ``queuecast fetch`` puts the traces of the Parallel Workloads Archive."""
    return home() / "archive"
