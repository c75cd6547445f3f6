"""Queuecast's home directory: $QUEUECAST_HOME, or ``.queuecast`` in the working directory."""

from __future__ import annotations

import os
from pathlib import Path

from features.errors import InputError
from pipelines.storage.permissions import check_owner

_DECIDING = (
    "",
    "traces.toml",
    "systems.toml",
    "checksums.toml",
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
    stated = os.environ.get("QUEUECAST_HOME") or ".queuecast"
    try:
        return trusted_home(Path(stated).expanduser().absolute())
    except RuntimeError as error:
        raise InputError(f"QUEUECAST_HOME={stated}: there is no such user") from error


def trusted_home(place: Path) -> Path:
    """Return the home directory ``place``; InputError as :func:`home`."""
    for name in _DECIDING:
        check_owner(place / name)
    return place


def archive() -> Path:
    """Return where ``queuecast fetch`` puts the traces of the Parallel Workloads Archive."""
    return home() / "archive"
