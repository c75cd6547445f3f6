"""Reader of the Standard Workload Format, plain or gzip (Chapin et al. 1999).

The format of the Parallel Workloads Archive: 18 numbers per line, ``;`` before a comment, ``; Key: value`` lines as a
header, -1 for an unknown value. Findings that are not errors (extra columns, rounded or negative values, a guessed
origin) are in the trace's notes. Three extra columns that begin with a list of nodes in braces are those of
MetaCentrum's logs (:mod:`pipelines.readers.swf_lines`).
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

import numpy as np

from features import limits
from features.errors import InputError, shown
from features.jobs.columns import TableColumns, Texts, present
from features.jobs.schema import Trace, canonical
from pipelines.readers.swf_lines import FIELDS, LARGE, JobLines, node_requests
from pipelines.readers.text import Source, counted, load, whole_lines

UNIX_SUBMIT_S = 100_000_000
"""Submissions later than this (three years) are Unix times if the header states no origin, or one before them."""
_UNIX_SUBMIT_MS = range(10**11, 10**13)
"""Milliseconds from 1973 to 2286; as seconds, more than three thousand years."""
_FEW = 50
"""One in so many of the first submissions does not tell what all are."""

_JOB, _SUBMIT, _MEMORY, _STATUS, _PRECEDING = 0, 1, 9, 10, 16
_LAST_STATUS = 5
_NUMBERS = {  # canonical column: SWF field, counted from 0
    "wait_s": 2,
    "runtime_s": 3,
    "procs": 7,
    "allocated_procs": 4,
    "requested_s": 8,
    "preceding_job": 16,
    "think_s": 17,
}
_IDENTITIES = {"user": 11, "group": 12, "executable": 13, "queue": 14, "partition": 15}
_READ = "MaxProcs|MaxNodes|UnixStartTime|TimeZone|TimeZoneString"
_KEY = re.compile(rf"(\s*)((?:{_READ})(?=\s*:)|[A-Za-z][\w-]*(?=\s*:(?:\s|$)))\s*:\s*(.*)$")
"""A key of the header: only those that are read need no blank after their colon, which may be that of a time or an
address."""


def read_swf(path: str | Path) -> Trace:
    """Read one SWF file, plain or gzip by its content.

    Times are seconds; fractions are rounded (halves up). Negative values are null, except the submission, which the
    cleaning rules judge. Identities become categories of strings (``"12"``) in numeric order. The requested memory is
    in KiB per processor, as the format defines it, or in bytes per job with MetaCentrum's three extra columns. Other
    columns after the 18th are not read. Raises InputError with file, line and what is wrong.
    """
    return parse_swf(load(path))


def parse_swf(source: Source) -> Trace:
    """Parse a file as :func:`read_swf` does, one block of text in memory at a time."""
    lines = JobLines(source.path)
    with source.open() as text:
        for block in whole_lines(text):
            lines.take(block)
    if lines.jobs == 0:
        raise InputError(f"{source.path}: holds no job, only comments and blank lines")

    requested, notes = node_requests(lines.words) if lines.words else ({}, [])
    notes += _value_notes(lines)
    header = _Header(source.path, lines.head.decode("utf-8", "replace"), notes)
    header.check_one_clock(lines.clocks)
    return Trace(
        name=source.name,
        procs=_procs(header, notes),
        origin_unix_s=_origin(header, lines.column(_SUBMIT), notes),
        timezone=_timezone(header.values, notes),
        source=source.path,
        sha256=source.sha256,
        header=header.values,
        notes=tuple(notes),
        jobs=_table(lines, requested),  # type: ignore[bad-argument-type]
        summaries=True,
    )


def _table(lines: JobLines, requested: dict[str, object]) -> TableColumns:
    columns: dict[str, object] = {"job_id": lines.column(_JOB), "submit_s": lines.column(_SUBMIT)}
    for name, field in _NUMBERS.items():
        values = lines.column(field)
        columns[name] = present(values, values >= 0)
    status = lines.column(_STATUS)
    columns["status"] = present(status, (status >= 0) & (status <= _LAST_STATUS)).astype(np.int8)
    for name, field in _IDENTITIES.items():
        columns[name] = _identity(lines.column(field))
    memory = lines.column(_MEMORY)
    if (memory > 0).any():
        columns["memory_kib"] = _memory(memory, lines)
    return canonical(columns | requested, lines.jobs)


def _memory(memory: np.ndarray, lines: JobLines) -> object:
    """Convert the file's memory values [jobs] to KiB per job; 0 and less is missing."""
    if lines.words:
        kib = -(-memory // 1024)
    else:
        procs = np.where(lines.column(7) > 0, lines.column(7), lines.column(4))
        kib = np.minimum(memory * np.maximum(procs, 0).astype(np.float64), LARGE).astype(np.int64)
    return present(kib, kib > 0)


def _identity(numbers: np.ndarray) -> Texts:
    ids, codes = np.unique(np.maximum(numbers, -1), return_inverse=True)
    missing = int(ids[0] == -1)
    return Texts(codes - missing, [str(number) for number in ids[missing:]])


def _value_notes(lines: JobLines) -> list[str]:
    jobs = lines.jobs
    notes: list[str] = []
    if not lines.words:
        counted(notes, "Job lines of which columns after the 18th are not read", lines.extra)
    counted(notes, "Comment lines between jobs are not read as header", lines.comments)
    rounded = lines.rounded.copy()
    counted(notes, "Fractional memory is rounded to a whole number", rounded[_MEMORY])
    rounded[_MEMORY] = 0
    if rounded.any():
        notes.append(f"Fractional times are rounded to the second: {_by_field(rounded)}.")
    negative = lines.negative.copy()
    negative[[_JOB, _SUBMIT]] = 0  # a job's number is only a name, and the cleaning rules judge its submission
    if negative.any():
        notes.append(f"Negative values other than -1 are taken as missing: {_by_field(negative)}.")
    counted(notes, f"Statuses other than 0 to {_LAST_STATUS} are taken as missing", lines.column(_STATUS) > _LAST_STATUS)
    numbers = lines.column(_JOB)
    if (np.diff(numbers) <= 0).any():
        counted(notes, "Job numbers that an earlier line has too", jobs - len(np.unique(numbers)))
    preceding = lines.column(_PRECEDING)
    if jobs > 1 and preceding[0] >= 0 and (preceding == preceding[0]).all():
        notes.append(f"The preceding job is {preceding[0]} on all {jobs:,} lines: it means nothing.")
    return notes


def _by_field(counts: np.ndarray) -> str:
    return ", ".join(f"{FIELDS[field]} ({counts[field]:,})" for field in np.flatnonzero(counts))


class _Header:
    """The lines ``; Key: value`` of a file, as ``values`` by key.

    A repeated key, and lines indented deeper than their key, continue its value on a new line. ``notes`` gets those on
    numbers.
    """

    def __init__(self, path: str, head: str, notes: list[str]) -> None:
        self.path, self._notes = path, notes
        header: dict[str, list[str]] = {}
        key, depth = "", 0
        for line in re.split(r"\r\n|[\r\n]", head):
            comment = re.match(r"[ \t]*;(.*)", line, re.DOTALL)
            if comment is None:
                continue
            text = comment[1].rstrip()
            match = _KEY.match(text)
            if not text:
                key = ""
            elif match and (not key or len(match[1]) <= depth):
                key, depth = match[2], len(match[1])
                header.setdefault(key, []).append(match[3] or "")
            else:
                header.setdefault(key or "Comment", []).append(text.strip())
        self.values = {key: "\n".join(lines) for key, lines in header.items()}

    def number(self, key: str, largest: int) -> int | None:
        """Return a value that is a whole number up to ``largest``, else None."""
        value = self.values.get(key, "")
        if re.fullmatch("[0-9]{1,20}", value) and int(value) <= largest:
            return int(value)
        if value:
            self._notes.append(f"The header's {key} says {shown(value)}, which is not a whole number up to {largest:,}: not used.")
        return None

    def clock(self) -> int | None:
        """Return UnixStartTime; InputError if there are several."""
        text = self.values.get("UnixStartTime", "")
        if len({line for line in text.split("\n") if line.isdecimal()}) > 1:
            raise InputError(f"{self.path}: the header states several UnixStartTime, {shown(text)}: keep the right one")
        return self.number("UnixStartTime", limits.SECONDS)

    def check_one_clock(self, later: Sequence[tuple[int, str]]) -> None:
        """Raise InputError if a later header, with its line and UnixStartTime, has another clock."""
        first = self.values.get("UnixStartTime", "")
        for line, value in later:
            if value != first:
                raise InputError(
                    f"{self.path}:{line}: a second header with UnixStartTime {shown(value)}, where the first has {first or 'none'}: its "
                    "jobs count from another second; split the file at this header"
                )


def _procs(header: _Header, notes: list[str]) -> int | None:
    for key in ("MaxProcs", "MaxNodes"):
        number = header.number(key, limits.PROCESSORS)
        if not number:
            continue
        if key == "MaxNodes":
            notes.append(f"The header has no MaxProcs: MaxNodes, {number}, is taken as the number of processors.")
        return number
    return None


def _origin(header: _Header, submit: np.ndarray, notes: list[str]) -> int | None:
    start_unix_s = header.clock()
    few = len(submit) // _FEW
    early = int(np.partition(submit, few)[few])
    if early in _UNIX_SUBMIT_MS:
        raise InputError(f"{header.path}: field 2 (submit time) is {early}: these are Unix milliseconds, but SWF counts seconds")
    if start_unix_s and not UNIX_SUBMIT_S < start_unix_s <= early:
        return start_unix_s
    if early <= UNIX_SUBMIT_S:
        return None
    start = "no UnixStartTime" if start_unix_s is None else f"UnixStartTime {start_unix_s}"
    notes.append(f"The header states {start} and submissions look like Unix times: second 0 is taken as Unix time 0.")
    return 0


def _timezone(header: Mapping[str, str], notes: list[str]) -> str | None:
    name = header.get("TimeZoneString", "").strip()
    if name:
        try:
            return ZoneInfo(name).key
        except (ZoneInfoNotFoundError, ValueError, OSError):
            notes.append(f"The header's TimeZoneString {shown(name)} is not a zone of the IANA database: not used.")
    text = header.get("TimeZone", "").strip()
    if text in available_timezones():
        notes.append(f"The header's TimeZone, {text}, is taken as the name of the time zone.")
        return text
    if not text:
        return None
    hours, rest = divmod(int(text), 3600) if re.fullmatch(r"[+-]?[0-9]{1,6}", text) else (0, 1)
    if rest or not -12 <= hours <= 14:
        notes.append(f"The header's TimeZone {shown(text)} is not a whole number of hours: not used.")
        return None
    zone = f"Etc/GMT{-hours:+d}" if hours else "Etc/UTC"  # the sign of these names is the reverse of the usual one
    notes.append(f"The header names no time zone: its TimeZone, {text} s, is taken as {zone}, without daylight saving.")
    return zone
