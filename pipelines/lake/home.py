"""Places of files: those that machines share, and those of this machine.

The home directory is $QUEUECAST_HOME, or ``.queuecast`` in the working directory. If $QUEUECAST_LAKE names a URL or another
directory, the files that machines share are there: tables, counters, pages, remembered traces and systems.
"""

import os
import re
from pathlib import Path, PosixPath

from features.errors import InputError
from pipelines.lake.places import place_of

LAKE = "QUEUECAST_LAKE"
"""Environment variable: URL or directory of the files that machines share."""
PAGES = "/pages"
"""The path of the home directory's pages under the UI's own address, so that links hold wherever it is served."""


def home() -> Path:
    """Return the place of the files that machines share, by default :func:`local_home`.

    It need not exist yet. Raises InputError for an unusable URL, and for a directory that is the ``lake`` inside of one.
    """
    address = os.environ.get(LAKE)
    if not address:
        return local_home()
    place = place_of(address)
    if isinstance(place, PosixPath) and (place / "current").is_dir() and not (place / "lake").exists():
        raise InputError(f"{LAKE}={address}: is a lake itself: name the directory around it, {place.parent}")
    return place


def local_home() -> Path:
    """Return the absolute path of this machine's home directory; it need not exist yet.

    Raises InputError for a path with ? or %: SQLite's addresses end at the first and decode the second, so that databases would lie
    elsewhere.
    """
    place = Path(os.environ.get("QUEUECAST_HOME") or ".queuecast").expanduser().absolute()
    if sign := re.search("[?%]", str(place)):
        raise InputError(f"{place}: cannot be a home directory: {sign[0]} in its path leads databases elsewhere; rename it")
    return place


def archive() -> Path:
    """Return the folder for traces of the Parallel Workloads Archive from ``queuecast fetch``."""
    return local_home() / "archive"
