"""Traces that have been run, by name with place and options, for the nightly run."""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import tomlkit

from features.errors import InputError, shown
from features.jobs.cleaning import CleanTrace
from features.jobs.usage import doubts
from pipelines.lake.home import local_home
from pipelines.lake.places import is_url
from pipelines.readers.catalogue import MADE, PACKAGED, Entry, catalogue_entry, load_catalogue, remembered
from pipelines.readers.read import cleaned_for, find_entry, is_accounting, read_trace
from pipelines.readers.settings import changing
from pipelines.readers.source import trace_name

TRACES = "traces"
"""Dagster's name of the partitions by trace."""
_MOVED = ("name", "place", "machine", "queues", "stated_in")
"""Fields of an entry that are not copied unchanged to its table in another file."""


def remember(spec: str, note: Callable[[str], object] = lambda text: None, **options: Any) -> str:
    """Keep TRACE's place and the given options in the home directory; return its name.

    ``note`` gets each doubt about simulating it. ``options`` are keys of a catalogue entry: ``procs timezone missing_request
    processors cpus_per_node procs_from cluster grows starts``; None means not given. The trace is read and cleaned first, so that
    nothing is kept on which the nightly run would fail; nor is anything of a trace that the site's catalogue states. Raises InputError
    for a trace that cannot be used, for an option that differs from what the site's catalogue states, and if the name of a file
    already belongs to another trace, whose results would be replaced.
    """
    catalogue = load_catalogue()
    given = {key: value for key, value in options.items() if value is not None}
    path = Path(spec).absolute()
    entry = find_entry(spec, catalogue) or _of_file(path, catalogue)
    if entry is None:
        name, table = trace_name(spec), {**given, "place": _from_home(path)}
    else:
        name = entry.name
        if entry.format in MADE and "procs" in given:
            raise InputError(f"{name}: its machine is generated with it, too: list a workload of your own in queuecast.toml")
        if entry.stated_in not in (PACKAGED, remembered()):
            _check_agrees(catalogue[name], {**given, "place": entry.place})
            return name
        if not given and entry is catalogue[name]:
            return name  # otherwise spec is a copy of the archive's file: the trace's place from now on
        table = {**_as_table(entry), **given}
    table.setdefault("since", f"{datetime.now(UTC):%Y-%m-%d}")
    new_entry = catalogue_entry(name, table, remembered())
    cleaned = cleaned_for(new_entry.described, read_trace(name, catalogue={name: new_entry}), new_entry.missing_request)
    for doubt in doubts(cleaned.jobs, cleaned.procs, cleaned.rejected_jobs):
        note(f"{name}: WARNING: {doubt}")
    _change(lambda tables: tables.update({name: table}))
    return name


def _check_agrees(entry: Entry, wanted: Mapping[str, Any]) -> None:
    """Raise InputError if a run asks for other options than its trace's entry in the site's catalogue has."""
    for key, value in wanted.items():
        own = getattr(entry, key)
        if value != own:
            raise InputError(
                f"{entry.name}: {key} is {own or 'not stated'} in {entry.stated_in}, and the run asks for {value}: change it there"
            )


def _of_file(path: Path, catalogue: Mapping[str, Entry]) -> Entry | None:
    """Return the entry of the file ``path``, under the name that the file gives; None if it has none.

    Raises InputError if that name already belongs to another trace.
    """
    entry = catalogue.get(trace_name(path))
    if entry is None or (entry.place and entry.path.absolute() == path):
        return entry
    if entry.stated_in != remembered():
        other = " with other content" if entry.checked else ""
        raise InputError(
            f"{path}: would be called {entry.name}, which is a trace of {entry.stated_in.name}{other}: name that trace, or rename the file"
        )
    if entry.path.exists():
        raise InputError(f"{path}: would be called {entry.name}, which is {entry.path}, run before: rename one of the files")
    return replace(entry, place=str(path))


def read_known(name: str) -> CleanTrace:
    """Return the trace ``name``, cleaned as its catalogue's entry says. Raises InputError."""
    catalogue = load_catalogue()
    if name not in catalogue:
        raise InputError(f"{name}: no longer in the catalogue; run it once more with `queuecast run --trace`")
    entry = catalogue[name]
    return cleaned_for(entry.described, read_trace(name, catalogue=catalogue), entry.missing_request)


def simulated_on(clean: CleanTrace) -> dict[str, Any]:
    """Return the arguments of each simulation of a trace: machine, name and clock."""
    return {
        "procs": clean.procs,
        "machine": clean.machine,
        "trace": clean.name,
        "generated": clean.generated,
        "clock": clean.clock,
    }


def grows(entry: Entry) -> bool:
    """Tell whether the trace grows, so that it is retrained every night.

    The entry's ``grows`` decides; without it, whether its days arrive one a night, or its file is Slurm accounting.
    """
    if entry.grows is not None:
        return entry.grows
    if entry.arrives_days:
        return True
    if entry.format or entry.remote or entry.checked:
        return entry.format == "slurm"
    return is_accounting(entry.path)


def first_night() -> date:
    """Return the first day on which a nightly run is expected of any trace.

    It is $QUEUECAST_NIGHTS_SINCE, else the earliest of ``since`` in the catalogue and the first use of the home directory, else today (UTC).
    """
    if text := os.environ.get("QUEUECAST_NIGHTS_SINCE"):
        try:
            return date.fromisoformat(text)
        except ValueError:
            raise InputError(f"$QUEUECAST_NIGHTS_SINCE is {shown(text)}, and must be a date such as 2026-03-01") from None
    days = []
    with suppress(InputError):  # an invalid catalogue is reported when a trace is read
        days = [date.fromisoformat(entry.since) for entry in load_catalogue().values() if entry.since]
    if (used := local_home() / "dagster" / ".ready").exists():
        days.append(datetime.fromtimestamp(used.stat().st_mtime, UTC).date())
    return min(days, default=datetime.now(UTC).date())


def _as_table(entry: Entry) -> dict[str, Any]:
    """Return an entry as its TOML table, whose places are relative in the home and absolute elsewhere.

    The table moves to another file, so places relative to the former one would be lost.
    """
    table = {field.name: getattr(entry, field.name) for field in fields(entry) if field.name not in _MOVED}
    table = {key: value for key, value in table.items() if value not in (None, "", {})}
    places = {
        "place": entry.place if entry.remote else _from_home(entry.path),
        "machine": _from_home(entry.machine_path),
        "queues": _from_home(entry.queues_path),
    }
    return table | {key: place for key, place in places.items() if getattr(entry, key)}


def _from_home(path: Path) -> str:
    """Return a path as a file of the home names it: the home may be moved with what lies in it."""
    home = remembered().parent
    own = not is_url(home) and path.is_relative_to(home)
    return str(path.relative_to(home) if own else path)


def _change(change: Callable[[Any], object]) -> None:
    """Change the tables of remembered traces."""
    with changing(remembered()) as document:
        change(document.setdefault("traces", tomlkit.table(is_super_table=True)))
