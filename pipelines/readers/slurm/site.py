"""The files that describe a Slurm site, from a folder or a tar."""

from __future__ import annotations

import lzma
import tarfile
import zlib
from pathlib import Path

from features.errors import InputError
from pipelines.readers.localtime import zone
from sim.slurm.files import read_site
from sim.slurm.lines import CONF, FILES
from sim.slurm.site import Site

_MOST_BYTES = 50_000_000


def is_site(path: str | Path) -> bool:
    """Tell whether ``path`` describes a Slurm site, and not a machine of clusters."""
    return Path(path).is_dir() or ".tar" in Path(path).name or Path(path).name == CONF


def load_site(path: str | Path, timezone: str = "UTC") -> Site:
    """Read a site's folder, a tar of it, or a slurm.conf alone.

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
        if place.is_dir():
            files = [file for file in sorted(place.iterdir()) if file.is_file() and file.stat().st_size <= _MOST_BYTES]
            return {file.name: file.read_bytes() for file in files}
        if place.name == CONF:
            return {CONF: place.read_bytes()}
        with tarfile.open(place) as packed:
            members = {member.name: member for member in packed.getmembers() if member.isfile() and member.size <= _MOST_BYTES}
            names = [Path(name).name for name in members]
            if repeated := [name for name in names if names.count(name) > 1 and (name in FILES or name.endswith(".conf"))]:
                raise InputError(f"{path}: has {min(repeated)} in two folders: pack one site's files")
            return {Path(name).name: packed.extractfile(member).read() for name, member in members.items()}  # type: ignore[union-attr]
    except tarfile.ReadError as error:
        raise InputError(f"{path}: is not a site: neither a folder, nor a tar of one, nor a file named {CONF}") from error
    except (EOFError, zlib.error, lzma.LZMAError) as error:
        raise InputError(f"{path}: is damaged or cut: {error}") from error
    except (OSError, tarfile.TarError) as error:
        raise InputError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
