"""The catalogue: traces by name, with place, checksums and reading options.

The packaged ``catalogue.toml`` explains the keys; a site's own ``queuecast.toml`` (or $QUEUECAST_CATALOGUE) adds to it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn
from urllib.parse import unquote, urlsplit

from features import limits
from features.errors import InputError, check_name, masked, shown
from features.limits import MISSING_REQUEST
from pipelines.lake.places import archive, exists, home, is_url
from pipelines.readers.localtime import zone
from pipelines.readers.site_file import settings_file, site_table
from pipelines.readers.text import Source, read_settings

if TYPE_CHECKING:
    from sim.machine.description import Machine

PACKAGED = Path(__file__).with_name("catalogue.toml")
FORMATS = ("swf", "slurm", "parquet", "generated", "simulated")
MADE = ("generated", "simulated")
"""Formats of traces that have no place: they are made here."""
PROCESSORS = ("cpus", "nodes")
_NO_KEYS = ("name", "stated_in")


@dataclass(frozen=True)
class Entry:
    """One trace of a catalogue; the keys are explained in ``catalogue.toml``.

    ``stated_in`` is the file that has the entry.
    """

    name: str
    title: str = ""
    place: str = ""
    sha256_content: str = ""
    procs: int | None = None
    timezone: str | None = None
    missing_request: Literal[MISSING_REQUEST] = "drop"  # type: ignore[valid-type]
    processors: Literal[PROCESSORS] = "cpus"  # type: ignore[valid-type]
    cpus_per_node: int | None = None
    procs_from: Literal["requested", "allocated"] = "requested"
    machine: str = ""
    queues: str = ""
    format: Literal[FORMATS] = ""  # type: ignore[valid-type]
    options: Mapping[str, Any] = field(default_factory=dict)
    grows: bool | None = None
    arrives_days: int = 0
    starts: bool = False
    since: str = ""
    stated_in: Path = PACKAGED

    @property
    def remote(self) -> bool:
        """Tell whether the place is an address to fetch from."""
        return self.place.startswith(("http://", "https://"))

    @property
    def path(self) -> Path:
        """Return the path of the file, or the one it will have once it is fetched."""
        if self.remote:
            return archive() / Path(unquote(urlsplit(self.place).path)).name
        return self._beside(self.place)

    @property
    def described(self) -> "Machine | None":
        """Return the machine of clusters that the jobs run on, if any.

        Returns None for one pool, and for a Slurm site. Raises InputError for a file that cannot be read.
        """
        if not self.machine or self.site is not None:
            return None
        from pipelines.readers.machine_file import read_machine

        return read_machine(self.machine_path)

    @property
    def site(self) -> Path | None:
        """Return the path of the Slurm site that the jobs ran on, if it is one."""
        if not self.machine:
            return None
        from pipelines.readers.slurm.site import is_site

        return self.machine_path if is_site(self.machine_path) else None

    @property
    def machine_path(self) -> Path:
        """Return the path of the file of the trace's machine, or of the files of its Slurm site."""
        return self._beside(self.machine)

    @property
    def queues_path(self) -> Path:
        """Return the folder in which the site keeps snapshots of the queue."""
        return self._beside(self.queues)

    def _beside(self, text: str) -> Path:
        place = Path(text).expanduser()
        return place if is_url(self.stated_in) else self.stated_in.parent / place

    @property
    def checked(self) -> bool:
        """Tell whether the entry has a checksum."""
        return bool(self.sha256_content)

    def check(self, source: Source) -> None:
        """Raise InputError unless a file has the checksum that the entry states."""
        wanted = self.sha256_content
        if wanted and source.sha256_content != wanted:
            raise InputError(
                f"{source.path}: is not the trace {self.name} of {self.stated_in.name}: sha256_content is "
                f"{source.sha256_content[:12]}..., not {wanted[:12]}..."
            )


def load_catalogue() -> dict[str, Entry]:
    """Return all entries by name: packaged, those of traces that were run, and the site's.

    An entry of a run replaces a packaged one, and a site's replaces both. Raises InputError with file, entry and key.
    """
    entries = read_catalogue(PACKAGED)
    if exists(remembered()):
        entries |= read_catalogue(remembered())
    site = settings_file()
    return entries if site is None else entries | read_catalogue(site)


def remembered() -> Path:
    """Return the catalogue of traces that were run, in the home directory.

    :mod:`pipelines.readers.read` writes it.
    """
    return home() / "traces.toml"


def read_catalogue(path: Path) -> dict[str, Entry]:
    """Return the entries of one file by name; raise as :func:`load_catalogue` does."""
    traces = _toml(path).get("traces", {})
    if not isinstance(traces, dict) or not all(isinstance(table, dict) for table in traces.values()):
        raise InputError(f"{path}: traces must be tables [traces.NAME]")
    return {name: catalogue_entry(name, table, path) for name, table in traces.items()}


def _toml(path: Path) -> dict[str, Any]:
    settings = read_settings(path, "catalogue")
    site_table(settings, path)
    if unknown := settings.keys() - {"traces", "site"}:
        raise InputError(f"{path}: unknown key {shown(min(unknown))}: traces are tables [traces.NAME]")
    return settings


def catalogue_entry(name: str, table: dict[str, Any], path: Path) -> Entry:
    """Return the entry ``name`` from its ``table`` in ``path``; raise InputError with the key."""

    def refuse(key: str, what: str) -> NoReturn:
        raise InputError(f"{path}: traces.{name}: {key} {what}")

    check_name(name, f"{path}: traces")
    if path != PACKAGED:  # tests validate that one, so that a simulation need not import pydantic
        from features.validation import validated

        validated(Entry, table, f"{path}: traces.{name}", left_out=_NO_KEYS)
    for key in ("procs", "cpus_per_node"):
        if not 1 <= table.get(key, 1) <= limits.PROCESSORS:
            refuse(key, f"must be from 1 to {limits.PROCESSORS:,}, not {shown(table[key], 20)}")
    if table.get("arrives_days", 0) < 0:
        refuse("arrives_days", f"must be a number of days, not {table['arrives_days']}")
    if not re.fullmatch(r"|[0-9a-f]{64}", table.get("sha256_content", "")):
        refuse("sha256_content", "must be 64 hexadecimal digits in lower case")
    if "since" in table:
        try:
            date.fromisoformat(table["since"])
        except ValueError:
            refuse("since", f"must be a date such as 2026-03-01, not {shown(table['since'])}")
    if "timezone" in table:
        try:
            zone(table["timezone"])
        except InputError as error:
            refuse("timezone", f"is an {error}")
    entry = Entry(name=name, stated_in=path, **table)
    if entry.remote and not re.match(r"https?://[^/\s]+/.*[^/\s]", entry.place):
        refuse("place", f"{shown(masked(entry.place))} is no address of a file, such as https://example.org/logs/site.swf.gz")
    if entry.place and not _can_be_a_file(entry):
        refuse("place", f"{shown(masked(entry.place))} is no place of a file")
    if (entry.format in MADE) == bool(entry.place):
        refuse("place", "is missing" if not entry.place else f"has no meaning for a {entry.format} workload")
    return entry


def _can_be_a_file(entry: Entry) -> bool:
    """Tell whether a path, or the name and port of an address, can be those of a file."""
    try:
        entry.path.exists()  # raises OSError for a name that is too long
        port = urlsplit(entry.place).port if entry.remote else None
    except (ValueError, RuntimeError, OSError):  # such as a port of eight digits, or the home of an unknown user
        return False
    return entry.place.isprintable() and entry.path.name not in ("", "..") and port != 0
