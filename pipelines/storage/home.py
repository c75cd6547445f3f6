"""Where things lie: what machines share, and what is this machine's own.

The home directory is $QUEUECAST_HOME, or ``.queuecast`` in the working directory. Where $QUEUECAST_LAKE names a URL or another
directory, what machines share lies there: tables, counters, pages, remembered traces and systems.
"""

import os
from pathlib import Path

from features.errors import InputError
from pipelines.storage.permissions import check_owner
from pipelines.storage.places import at
from pipelines.storage.remote import place_of

LAKE = "QUEUECAST_LAKE"
"""Environment variable: URL or directory of what machines share."""
PAGES = "/pages"
"""The path of the home directory's pages under the UI's own address, so that links hold wherever it is served."""

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
    """Return the place of what machines share, by default :func:`local_home`.

    It need not exist yet. InputError for a directory that another user owns or can change, and for a URL that cannot be used.
    """
    address = os.environ.get(LAKE)
    return trusted_home(place_of(address)) if address else local_home()


def local_home() -> Path:
    """Return the absolute path of this machine's home directory; it need not exist yet.

    InputError for one that another user owns or can change.
    """
    path = os.environ.get("QUEUECAST_HOME") or ".queuecast"
    try:
        return trusted_home(Path(path).expanduser().absolute())
    except RuntimeError as error:
        raise InputError(f"QUEUECAST_HOME={path}: there is no such user") from error


def trusted_home(place: Path) -> Path:
    """Return the home directory ``place``; InputError as :func:`home`."""
    for name in () if at(place).shared else _DECIDING:
        check_owner(place / name)
    return place


def archive() -> Path:
    """Return where ``queuecast fetch`` puts the traces of the Parallel Workloads Archive."""
    return local_home() / "archive"
