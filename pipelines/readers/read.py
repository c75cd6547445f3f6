"""Read TRACE: a name of the catalogue, or a file whose kind is known by its content."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from features.errors import InputError
from features.jobs.cleaning import CleanTrace, clean
from features.jobs.columns import changed
from features.jobs.schema import Trace
from features.jobs.usage import with_allocated
from pipelines.readers.canonical import MAGIC, read_canonical
from pipelines.readers.catalogue import Entry, load_catalogue
from pipelines.readers.delimited import SAID, delimiter_of
from pipelines.readers.localtime import zone
from pipelines.readers.source import Source, load, trace_name
from pipelines.readers.swf import parse_swf
from pipelines.readers.text import opened

if TYPE_CHECKING:
    from sim.machine.description import Machine


def read_trace(
    spec: str | Path,
    *,
    procs: int | None = None,
    timezone: str | None = None,
    processors: str | None = None,
    cpus_per_node: int | None = None,
    cluster: str | None = None,
    procs_from: str | None = None,
    catalogue: Mapping[str, Entry] | None = None,
) -> Trace:
    """Read TRACE: a catalogue name or a file.

    A file is SWF (plain or gzip), canonical Parquet or Slurm accounting. ``procs`` and ``timezone`` (IANA name) override catalogue
    and file. ``processors`` (``cpus`` or ``nodes``) and ``cpus_per_node`` define a processor in Slurm accounting, ``cluster`` is
    the one to read; other formats ignore all three. ``procs_from`` is ``requested`` or ``allocated``: which of the two are a job's
    processors. ``catalogue`` is by default that of :func:`load_catalogue`. Names go before files: write ``./NAME``, or give a Path, for a
    file with an entry's name. Raises InputError.
    """
    if not isinstance(spec, (str, Path)):
        raise InputError(f"a {type(spec).__name__} is neither a name of the catalogue nor a path")
    entries = load_catalogue() if catalogue is None else catalogue
    entry = find_entry(spec, entries) if isinstance(spec, str) else _copy_of(entries, spec)
    if timezone is not None:
        zone(timezone)
    counted = {"processors": processors, "cpus_per_node": cpus_per_node, "cluster": cluster}
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
    from pipelines.readers.slurm.site import is_site, load_site

    if not entry.machine or not is_site(entry.machine_path):
        return None
    site = load_site(entry.machine_path)
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
    path: str | Path, *, timezone: str | None = None, processors: str = "cpus", cpus_per_node: int | None = None, cluster: str = ""
) -> Trace:
    """Read one file by its content. Raises InputError.

    Options are those of :func:`pipelines.readers.slurm.sacct.parse_sacct`.
    """
    if _is_parquet(path):
        return read_canonical(path)
    return _parse(load(path), "", timezone, processors, cpus_per_node, cluster)


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


def _parse(source: Source, format: str, timezone: str | None, processors: str, cpus_per_node: int | None, cluster: str) -> Trace:
    kind = format or _kind(source)
    if kind == "slurm":
        from pipelines.readers.slurm.sacct import parse_sacct

        return parse_sacct(source, timezone, processors, cpus_per_node, cluster)
    return parse_swf(source)


_NO_HEADER = rb"\d.*\d{4}-\d\d-\d\d[T ]\d\d:|\d[\d_.+]*[|,;]"


def _kind(source: Source) -> str:
    """Return the format by the first line that is not blank, and not of sacct's messages.

    SWF begins with a comment or a number. Slurm accounting begins with a JSON object, or with column names, one of them a job's id
    or submission, between any delimiter.
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
    return _parse(source, entry.format, timezone or entry.timezone, entry.processors, entry.cpus_per_node, entry.cluster)


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
    from pipelines.lake.home import home
    from pipelines.readers.simulated_site import accounting_file, simulate_site
    from pipelines.readers.slurm.sacct import parse_sacct

    simulate_site(home())
    trace = parse_sacct(load(accounting_file(home())), entry.timezone)
    note = "This workload is simulated, not recorded: users of our own on a simulated cluster, where jobs slow each other down."
    return replace(trace, name=entry.name, generated=True, notes=(note, *trace.notes))
