"""The files that describe a Slurm site."""

from __future__ import annotations

from pathlib import Path

from features.errors import InputError
from pipelines.readers.localtime import zone
from sim.slurm.files import read_site
from sim.slurm.lines import CONF
from sim.slurm.site import Site

_MOST_BYTES = 50_000_000


def is_site(path: str | Path) -> bool:
    """Tell whether ``path`` describes a Slurm site, and not a machine of clusters."""
    return Path(path).is_dir() or Path(path).name == CONF


def load_site(path: str | Path, timezone: str = "UTC") -> Site:
    """Read a site's folder, or a slurm.conf alone.

    Raises InputError as :func:`sim.slurm.files.read_site` does, and for files that cannot be read.
    """
    zone(timezone)
    files = site_files(path)
    return read_site({name: content.decode("utf-8-sig", "replace") for name, content in files.items()}, str(path), timezone)


def site_files(path: str | Path) -> dict[str, bytes]:
    """Return the files of a site by name, without those of more than 50 MB.

    Raises InputError if they cannot be read.
    """
    place = Path(path)
    try:
        if place.name == CONF:
            return {CONF: place.read_bytes()}
        files = [file for file in sorted(place.iterdir()) if file.is_file() and file.stat().st_size <= _MOST_BYTES]
        return {file.name: file.read_bytes() for file in files}
    except NotADirectoryError as error:
        raise InputError(f"{path}: is not a site: neither a folder nor a file named {CONF}") from error
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
