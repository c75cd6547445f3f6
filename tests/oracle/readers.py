"""Second readers, in plain Python and from the formats' descriptions: slow, without arrays, knowing nothing of the product's.

Each returns what a file holds as lists of rows, or raises ValueError for what the format does not allow.
"""

from __future__ import annotations

import codecs
import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal

_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_SWF_TIMES = (1, 2, 3, 8, 17)
_SWF_UNREAD = (5, 6, 9)
_SWF_NAMES = {11: "user", 12: "group", 13: "executable", 14: "queue", 15: "partition"}
_SWF_COUNTS = {2: "wait_s", 3: "runtime_s", 4: "allocated_procs", 7: "procs", 8: "requested_s", 16: "preceding_job", 17: "think_s"}


def swf(content: bytes) -> list[dict[str, int | str | None]]:
    """Read the job lines of SWF: 18 numbers, -1 for unknown; a comment begins with ; anywhere in a line.

    A mark of the byte order before the first line is none of its fields.
    """
    jobs = []
    for line in re.split(rb"\r\n|\r|\n", content.removeprefix(b"\xef\xbb\xbf")):
        fields = [text.encode("latin-1") for text in line.decode("latin-1").partition(";")[0].split()]
        if not fields:
            continue
        if len(fields) < 18:
            raise ValueError(f"{len(fields)} fields")
        values = [_swf_number(text, place) for place, text in enumerate(fields[:18])]
        row: dict[str, int | str | None] = {"job_id": values[0], "submit_s": values[1]}
        row |= {name: values[place] if values[place] >= 0 else None for place, name in _SWF_COUNTS.items()}
        row |= {name: str(values[place]) if values[place] >= 0 else None for place, name in _SWF_NAMES.items()}
        row["status"] = values[10] if 0 <= values[10] <= 5 else None
        jobs.append(row)
    return jobs


def _swf_number(text: bytes, place: int) -> int:
    if place in _SWF_UNREAD:
        if math.isnan(float(text)):
            raise ValueError(f"{text!r}")
        return -1
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text!r}")
    number = Decimal(float(text)) if math.isfinite(float(text)) else Decimal(10) ** 400
    whole = int(number.quantize(Decimal(1), ROUND_HALF_UP)) if abs(number) < 10**20 else int(number)
    if abs(whole) >= 10**18 or (place not in _SWF_TIMES and whole != number):
        raise ValueError(f"{text!r}")
    return whole


_UNKNOWN = {"", "unknown", "none", "n/a"}


def accounting(content: bytes) -> tuple[list[str], list[list[str]], int]:
    """Return names of columns in lower case, the whole rows, and how many lines have another number of fields.

    A header that stands there again, as where files were joined, is no row.
    """
    text = "\n".join(map(_utf8_or_latin1, content.removeprefix(codecs.BOM_UTF8).split(b"\n")))
    lines = re.split(r"\r\n|\r|\n", text)
    first = next(place for place, line in enumerate(lines) if line.strip())
    delimiter = next((mark for mark in lines[first] if not re.match(r'[\w "./%()-]', mark)), ",")
    names = [name.strip(' "').lower() for name in lines[first].split(delimiter)]
    left = [line for line in lines[first + 1 :] if line.strip()]
    rows = []
    while left:
        taken = _lines_of_a_row(left, delimiter, len(names))
        text, left = "\n".join(left[:taken]), left[taken:]
        cells = _cells(text, delimiter) if delimiter in ",;\t" else []
        rows.append(cells if len(cells) == len(names) else text.split(delimiter))
    rows = [row for row in rows if [cell.strip(' "').lower() for cell in row] != names]
    whole = [[cell.strip() for cell in row] for row in rows if len(row) == len(names)]
    return names, whole, len(rows) - len(whole)


def _lines_of_a_row(lines: list[str], delimiter: str, width: int) -> int:
    """Return how many lines a quoted value joins, none of which could be a row by itself."""
    for taken in range(1, len(lines) + 1):
        if taken > 1 and lines[taken - 1].count(delimiter) >= width - 1:
            return 1
        text = "\n".join(lines[:taken])
        if delimiter not in ",;\t" or text.count('"') % 2 == 0:
            return taken if taken == 1 or len(_cells(text, delimiter)) == width else 1
    return 1


def _cells(text: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except csv.Error:
        return []


def _utf8_or_latin1(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("latin-1")


def _keeping_ends(text: str) -> list[str]:
    return re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$", text.lstrip())


def sacct(content: bytes) -> tuple[list[dict[str, int | str | None]], int]:
    """Read finished and other jobs of Slurm accounting in UTC; also return how many lines are no rows.

    Only what can be said of a row by itself: submission (Unix seconds), processors, request, status, names.
    """
    names, rows, other = accounting(content)
    at = {name: place for place, name in reversed(list(enumerate(names))) if name}
    jobs = []
    for row in rows:
        cells = {name: row[place] for name, place in at.items()}
        if any("." in cells.get(name, "").rpartition("]")[2] for name in ("jobid", "jobidraw")):
            continue
        job: dict[str, int | str | None] = {"submit": _local(_first(cells, "submit", "submit_time"))}
        job["procs"] = _count(_first(cells, "reqcpus", "processors_req"))
        job["allocated_procs"] = _count(_first(cells, "alloccpus", "ncpus"))
        if "timelimitraw" in cells:
            minutes = _count(cells["timelimitraw"])
            job["requested_s"] = None if minutes is None else 60 * minutes
        elif "timelimit" in cells:
            job["requested_s"] = _lasting(cells["timelimit"])
        else:
            job["requested_s"] = _count(cells.get("wallclock_req", ""))
        job["user"] = _first(cells, "user", "uid") or None
        job["partition"] = cells.get("partition") or None
        jobs.append(job)
    return jobs, other


def _first(cells: Mapping[str, str], *names: str) -> str:
    return next((cells[name] for name in names if name in cells), "")


def _local(text: str) -> int:
    if not re.fullmatch(r"[0-9]{4}(-[0-9]{1,2}){2}[ T]([0-9]{1,2}:){2}[0-9]{1,2}", text):
        raise ValueError(f"submitted at {text!r}")
    return int(datetime.strptime(text.replace("T", " "), "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp())


def _count(text: str) -> int | None:
    if text.lower() in _UNKNOWN | {"unlimited", "partition_limit"}:
        return None
    if not re.fullmatch(r"[0-9]+(\.[0-9]*)?", text):
        raise ValueError(f"{text!r} is not a count")
    return math.floor(float(text) + 0.5)  # such numbers are float64: 0.49999999999999999999 is a half


def _lasting(text: str) -> int | None:
    if text.lower() in _UNKNOWN | {"unlimited", "partition_limit"}:
        return None
    days, _, clock = text.rpartition("-")
    parts = [int(part) for part in clock.split(":") if part.isascii()]
    if not 2 <= len(parts) <= 3 or parts[-1] > 59 or parts[-2] > 59:
        raise ValueError(f"{text!r} is not a duration")
    hours = parts[0] if len(parts) == 3 else 0
    return ((int(days or 0) * 24 + hours) * 60 + parts[-2]) * 60 + parts[-1]


def table(content: bytes) -> list[dict[str, str]]:
    """Read CSV with a header line as rows of text by column; a line of blanks is no row."""
    lines = [line for line in _keeping_ends(content.decode("utf-8-sig")) if line.strip()]
    return list(csv.DictReader(lines, strict=True))


def ldms_rows(
    content: bytes, columns: int, time: int, node: int, microseconds: int | None, metrics: Sequence[int]
) -> list[tuple[int, str, tuple[float, ...]]]:
    """Read whole lines of LDMS CSV below their one header, whose columns lie at the places given.

    Each row is its time in microseconds, its node and its metrics, NaN for none.
    """
    rows = []
    for line in content.decode("utf-8", "surrogateescape").split("\n")[:-1]:
        fields = [cell.strip(" \t\r") for cell in _quoted(line.removeprefix("\ufeff"))]
        if (
            fields == [""]
            or line.removeprefix("\ufeff").lstrip().startswith("#")
            or any(cell.lower() in ("time", "timestamp") for cell in fields)
        ):
            continue
        if len(fields) != columns:
            raise ValueError(f"{len(fields)} fields")
        fields = [cell[1:-1] if len(cell) > 1 and cell[0] == cell[-1] == '"' else cell for cell in fields]
        if "_" in "".join(fields[place] for place in metrics):
            raise ValueError(line)
        micro = round(Decimal(fields[time]) * 10**6)
        if microseconds is not None and micro % 10**6 == 0:
            micro += int(fields[microseconds] or 0)
        values = tuple(float(fields[place] or "nan") for place in metrics)
        if any(math.isinf(value) for value in values):
            raise ValueError(line)
        rows.append((micro, fields[node], values))
    return rows


def _quoted(line: str) -> list[str]:
    """Split at commas that are not between quotes, where a field begins with one."""
    return [match[0] for match in re.finditer(r'(?:^|(?<=,))[ \t]*(?:"[^"]*("|$))?[^,]*', line)]
