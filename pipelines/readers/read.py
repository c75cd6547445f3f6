"""Read TRACE: a name of the catalogue, or a file whose kind is known by its content.

Traces that were run are remembered in the home directory, with place and options, for the nightly run. Readers that
import pandas or a simulator are imported for files of their kind alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomlkit

from features.errors import InputError, shown
from features.jobs.cleaning import CleanTrace, clean
from features.jobs.columns import changed
from features.jobs.schema import Trace
from features.jobs.usage import doubts, with_allocated
from pipelines.lake.places import home, is_url, local_home
from pipelines.readers.canonical import MAGIC, read_canonical
from pipelines.readers.catalogue import MADE, PACKAGED, Entry, catalogue_entry, load_catalogue, remembered
from pipelines.readers.delimited import SAID, delimiter_of
from pipelines.readers.localtime import zone
from pipelines.readers.swf import parse_swf
from pipelines.readers.text import Source, changing, load, opened, read_settings, trace_name

if TYPE_CHECKING:
    from sim.machine.description import Machine


def read_trace(
    spec: str | Path,
    *,
    procs: int | None = None,
    timezone: str | None = None,
    processors: str | None = None,
    cpus_per_node: int | None = None,
    procs_from: str | None = None,
    catalogue: Mapping[str, Entry] | None = None,
) -> Trace:
    """Read TRACE: a catalogue name or a file.

    A file is SWF (plain or gzip), canonical Parquet or Slurm accounting. ``procs`` and ``timezone`` (IANA name)
    override catalogue and file. ``processors`` (``cpus`` or ``nodes``) and ``cpus_per_node`` define a processor in
    Slurm accounting; other formats ignore both. ``procs_from`` is ``requested`` or ``allocated``: which of the two are
    a job's processors. ``catalogue`` is by default that of :func:`load_catalogue`. Names go before files: write
    ``./NAME``, or give a Path, for a file with an entry's name. Raises InputError.
    """
    if not isinstance(spec, (str, Path)):
        raise InputError(f"a {type(spec).__name__} is neither a name of the catalogue nor a path")
    entries = load_catalogue() if catalogue is None else catalogue
    entry = find_entry(spec, entries) if isinstance(spec, str) else _copy_of(entries, spec)
    if timezone is not None:
        zone(timezone)
    counted = {"processors": processors, "cpus_per_node": cpus_per_node}
    options: dict[str, Any] = {key: value for key, value in counted.items() if value is not None}
    if entry is None:
        trace = read_file(spec, timezone=timezone, **options)
    elif entry.format == "generated":
        trace = _generate(entry)
    elif entry.format == "simulated":
        trace = _simulated(entry)
    else:
        trace = changed(_read_entry(replace(entry, **options), timezone), name=entry.name)
    if (procs_from or (entry.procs_from if entry else "")) == "allocated":
        trace = with_allocated(trace)
    sizes = (procs, entry.procs if entry else None, trace.procs)
    size = next((number for number in sizes if number is not None), None)
    if size is None and entry is not None:
        size = _procs_of_site(entry)
    zones = (timezone, entry.timezone if entry else None, trace.timezone)
    return changed(
        trace,
        procs=size,
        timezone=next((name for name in zones if name is not None), None),
    )


def _procs_of_site(entry: Entry) -> int | None:
    """Return how many processors the Slurm site of an entry has, in its jobs' unit; None without a site."""
    if entry.site is None:
        return None
    from pipelines.readers.slurm.site import load_site

    site = load_site(entry.site)
    if entry.cpus_per_node or entry.processors == "nodes":
        return len(site.nodes) * (entry.cpus_per_node or 1)
    return site.procs


def cleaned_for(machine: Machine | None, trace: Trace, missing_request: str, procs: int | None = None) -> CleanTrace:
    """Return a trace cleaned for a ``machine`` of clusters, or for a pool if None.

    The pool has ``procs`` processors, or as many as the trace says.
    """
    if machine is None:
        return clean(trace, procs, missing_request)
    return changed(clean(trace, machine.procs, missing_request, machine.holds), machine=machine)


def find_entry(spec: str, catalogue: Mapping[str, Entry] | None = None) -> Entry | None:
    """Return the catalogue's entry for TRACE, or None if TRACE is a file.

    Raises InputError with the known names if it is neither. A file with the name of an entry to fetch is that entry's
    trace unless its checksum is another: the entry is then returned with the file as its place.
    """
    entries = load_catalogue() if catalogue is None else catalogue
    entry = entries.get(spec) or entries.get(spec.lower())
    if entry is None and not Path(spec).exists():
        if re.search(r"[/\\]|\.(swf|gz|csv|txt|parquet)$", spec.lower()):
            raise InputError(f"{spec}: no such file")
        alike = sorted(name for name in entries if spec.lower() in name)
        hint = f"did you mean {' or '.join(alike)}? " if alike else ""
        raise InputError(f"{spec}: no such file and no trace of the catalogue; {hint}known: {', '.join(sorted(entries))}")
    return _copy_of(entries, spec) if entry is None else entry


def _copy_of(entries: Mapping[str, Entry], spec: str | Path) -> Entry | None:
    """Return the entry that the file's name and checksum match, with the file as its place."""
    try:
        entry = entries.get(trace_name(spec))
        if entry is None or not (entry.checked or entry.remote):
            return None
        entry.check(load(spec))
    except InputError:
        return None  # another file: its errors are reported when it is read
    return replace(entry, place=str(Path(spec).absolute()))


def read_file(
    path: str | Path, *, timezone: str | None = None, processors: str = "cpus", cpus_per_node: int | None = None
) -> Trace:
    """Read one file by its content. Raises InputError.

    Options are those of :func:`pipelines.readers.slurm.sacct.parse_sacct`.
    """
    if _is_parquet(path):
        return read_canonical(path)
    return _parse(load(path), "", timezone, processors, cpus_per_node)


def is_accounting(path: str | Path) -> bool:
    """Tell whether a file begins like Slurm accounting; False for an unreadable one."""
    try:
        return _kind(Source(str(path))) == "slurm"
    except InputError:
        return False


def check_kind(source: Source) -> None:
    """Raise InputError if the beginning of a file is not that of any kind of trace."""
    if not _is_parquet(source.path):
        _kind(source)


def _is_parquet(path: str | Path) -> bool:
    with opened(path) as file:
        return file.read(len(MAGIC)) == MAGIC


def _parse(source: Source, format: str, timezone: str | None, processors: str, cpus_per_node: int | None) -> Trace:
    kind = format or _kind(source)
    if kind == "slurm":
        from pipelines.readers.slurm.sacct import parse_sacct

        return parse_sacct(source, timezone, processors, cpus_per_node)
    return parse_swf(source)


_NO_HEADER = rb"\d.*\d{4}-\d\d-\d\d[T ]\d\d:|\d[\d_.+]*[|,;]"


def _kind(source: Source) -> str:
    """Return the format by the first line that is not blank, and not of sacct's messages.

    SWF begins with a comment or a number. Slurm accounting begins with a JSON object, or with column names, one of them
    a job's id or submission, between any delimiter.
    """
    lines = re.finditer(rb"[^\s][^\r\n]*", source.head().removeprefix(b"\xef\xbb\xbf"))
    texts = (line[0] for line in lines)
    text = next((text for text in texts if not SAID.match(text.decode("latin-1"))), b"")
    if text.startswith(b"{"):
        return "slurm"
    if re.match(_NO_HEADER, text):
        raise InputError(f"{source.path}:1: has no header line that names the columns: run sacct without --noheader")
    if re.match(rb"[;+\-.\d]", text):
        return "swf"
    if re.search(rb"job_?id|submit", text.lower()):
        if delimiter_of(text.decode("latin-1")):
            return "slurm"
        raise InputError(f"{source.path}:1: is a table aligned by spaces, which cuts values short: run sacct with --parsable2")
    raise InputError(
        f"{source.path}: is not a trace: neither SWF (numbers, ; before comments), nor Slurm accounting (a header line with | or another "
        "delimiter between names, or JSON), nor canonical Parquet"
    )


def _read_entry(entry: Entry, timezone: str | None) -> Trace:
    if entry.remote and not entry.path.exists():
        raise InputError(f"{entry.name}: not fetched yet: run `queuecast fetch {entry.name}`")
    parquet = entry.format == "parquet" or (not entry.format and _is_parquet(entry.path))
    if not parquet or entry.checked:
        source = load(entry.path)
        entry.check(source)
    if parquet:
        return read_canonical(entry.path)
    return _parse(source, entry.format, timezone or entry.timezone, entry.processors, entry.cpus_per_node)


def _generate(entry: Entry) -> Trace:
    from sim.workloads.workload import Workload, generate

    options = [option.name for option in fields(Workload)]
    if unknown := [key for key in entry.options if key not in options]:
        raise InputError(f"{entry.stated_in}: traces.{entry.name}: options.{unknown[0]} is unknown; known: {', '.join(options)}")
    try:
        config = Workload(**entry.options)
    except InputError as error:
        raise InputError(f"{entry.stated_in}: traces.{entry.name}: {error}") from error
    return replace(generate(config), name=entry.name)


def _simulated(entry: Entry) -> Trace:
    """Return the accounting of the simulated cluster, which is simulated first if it is not there."""
    from pipelines.readers.simulated_site import accounting_file, simulate_site
    from pipelines.readers.slurm.sacct import parse_sacct

    simulate_site(home())
    trace = parse_sacct(load(accounting_file(home())), entry.timezone)
    note = "This workload is simulated, not recorded: users of our own on a simulated cluster, where jobs slow each other down."
    return replace(trace, name=entry.name, generated=True, notes=(note, *trace.notes))


TRACES = "traces"
"""Dagster's name of the partitions by trace."""


def remember(spec: str, note: Callable[[str], object] = lambda text: None, **options: Any) -> str:
    """Keep TRACE's place and the given options in the home directory; return its name.

    ``note`` gets each doubt about simulating it. ``options`` are keys of a catalogue entry:
    ``procs timezone missing_request processors cpus_per_node procs_from grows starts``; None means not given. The trace
    is read and cleaned first, so that nothing is kept on which the nightly run would fail; nor is anything of a trace
    that the site's catalogue states. Raises InputError for a trace that cannot be used, for an option that differs from
    what the site's catalogue states, and if the name of a file already belongs to another trace, whose results would be
    replaced.
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
            own = catalogue[name]
            if other := [key for key, value in {**given, "place": entry.place}.items() if value != getattr(own, key)]:
                raise InputError(
                    f"{name}: the run asks for another {other[0]} than {own.stated_in} states, "
                    f"{getattr(own, other[0]) or 'which is none'}: change it there"
                )
            return name
        if not given and entry is catalogue[name]:
            return name  # otherwise spec is a copy of the archive's file: the trace's place from now on
        row = read_settings(PACKAGED if entry.stated_in == PACKAGED else remembered(), "catalogue")["traces"][name]
        # a place relative to the packaged catalogue would be lost
        place = {"place": entry.place if entry.remote else _from_home(entry.path)} if entry.place else {}
        table = {**row, **place, **given}
    table.setdefault("since", f"{datetime.now(UTC):%Y-%m-%d}")
    new_entry = catalogue_entry(name, table, remembered())
    cleaned = cleaned_for(new_entry.described, read_trace(name, catalogue={name: new_entry}), new_entry.missing_request)
    for doubt in doubts(cleaned.jobs, cleaned.procs, cleaned.rejected_jobs):
        note(f"{name}: WARNING: {doubt}")
    with changing(remembered()) as document:
        document.setdefault("traces", tomlkit.table(is_super_table=True))[name] = table
    return name


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

    It is $QUEUECAST_NIGHTS_SINCE, else the earliest of ``since`` in the catalogue and the first use of the home
    directory, else today (UTC).
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


def _from_home(path: Path) -> str:
    """Return a path as a file of the home names it: the home may be moved with what lies in it."""
    home = remembered().parent
    own = not is_url(home) and path.is_relative_to(home)
    return str(path.relative_to(home) if own else path)
