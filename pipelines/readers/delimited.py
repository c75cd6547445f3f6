"""Delimited text with a header line, read as columns with errors that name the line.

The delimiter is the character behind the first name of the header. sacct quotes nothing and escapes nothing; text
between commas, semicolons or tabs may be quoted. Each distinct text of a column is parsed once, so that millions of
rows cost little.
"""

from __future__ import annotations

import csv
import io
import re
from array import array
from collections.abc import Callable, Iterator, Sequence, Set
from itertools import islice
from typing import BinaryIO

import numpy as np

from features import limits
from features.deferred import pa, pd
from features.errors import InputError, one_line, shown
from pipelines.readers.text import Source, whole_lines

MISSING = {"", "unknown", "none", "n/a"}
"""Slurm's texts for a missing value, in lower case."""
UNBOUNDED = {"unlimited", "partition_limit"}
"""Texts for time limits that are not numbers: missing too, but counted."""
NOWHERE = {"", "none assigned", "unknown", "none"}
"""Slurm's texts for a job without nodes, in lower case."""
QUOTING = {",", ";", "\t"}
"""Delimiters of exports that may quote values."""
SAID = re.compile(r"sacct: |[\w.-]+: (error|warning|fatal|info|debug\d?): ", re.ASCII)
"""What sacct writes to standard error begins like this."""

_NAME_AND_DELIMITER = re.compile(r'"?[A-Za-z][\w ./%()-]*"?([^\w\s"]|\t)', re.ASCII)
_ROWS = 10_000  # rows split at a time
_TIME = "%Y-%m-%d %H:%M:%S"
_DURATION = re.compile(r"(?:(?:(\d{1,15})-)?(\d{1,15}):)?([0-5]?\d):([0-5]\d)", re.ASCII)
_WRITTEN_TIME = re.compile(r"\d{4}-\d\d?-\d\d?[ T]\d\d?:\d\d?:[0-5]?\d", re.ASCII)  # pandas takes second 60 for the next minute
_YEARS = range(1970, 2262)
BEYOND = 10**18
"""Value that replaces any larger number. It exceeds all limits, so cleaning drops its row."""


def seconds(text: str) -> float:
    """Parse seconds or a count: a plain decimal number."""
    if not re.fullmatch(r"\d{1,15}(\.\d*)?", text, re.ASCII):
        raise ValueError("a number")
    return float(text)


def whole(text: str) -> float:
    """Parse a count: a whole number, which an export may have written as 4.0."""
    if not re.fullmatch(r"\d{1,15}(\.0*)?", text, re.ASCII):
        raise ValueError("a whole number")
    return float(text)


def minutes(text: str) -> float:
    """Parse a whole number of minutes (TimelimitRaw) to seconds."""
    return 60 * whole(text)


def duration(text: str) -> float:
    """Parse ``[D-]HH:MM:SS`` or ``MM:SS`` to seconds."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError("a duration [D-]HH:MM:SS")
    days, hours, mins, secs = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + mins) * 60 + secs)


_COMMAND = re.compile(r"((\S*/)?(sbatch|srun|salloc|scrun|scrontab)\b.*)?", re.DOTALL)
"""The form of SubmitLine, which begins with a command of Slurm: a rest of another column before it does not."""


class AccountingTable:
    """The columns of ``wanted`` (names in lower case) that the file has, as strings.

    ``titles`` are all columns as the file writes them, ``lines`` the number of each row's line, int64 [rows]; ``what``
    names a row in errors, ``before_header`` are numbers of lines of sacct's messages, ``repeated`` of further lines
    like the header. With ``free``, names of columns of free text, ``latin1`` has the numbers of lines that are not
    UTF-8 and were read as Latin-1, and ``set_aside`` numbers and text of lines of a wrong width. If the last column is
    one of these, surplus delimiters of a line stand in it: it is the only one, or SubmitLine, which must then be a
    command. Raises InputError for such lines without ``free``, and if there is no other row.
    """

    def __init__(self, source: Source, wanted: set[str], what: str = "job", free: Set[str] | None = None) -> None:
        self.path = source.path
        self.before_header: list[int] = []
        self.repeated: list[int] = []
        self.latin1: list[int] = []
        self.set_aside: list[tuple[int, str]] = []
        self._free = free
        self._what = what
        csv.field_size_limit(limits.LINE_BYTES)
        with source.open() as text:
            lines = self._lines(text)
            self._read_header(lines)
            kept = sorted(self._place[name] for name in wanted & self._place.keys()) or [0]
            self._columns, self.lines = self._read(lines, kept)
        self.rows = len(self.lines)

    def __contains__(self, name: str) -> bool:
        return name in self._place

    def title(self, name: str) -> str:
        """Return a column's name as the file writes it."""
        return self.titles[self._place[name]]

    def place(self, name: str) -> int:
        """Return the number of columns before a column."""
        return self._place[name]

    def find(self, *names: str) -> str | None:
        """Return the first of ``names`` that is a column."""
        return next((name for name in names if name in self), None)

    def column(self, *names: str, title: str = "") -> str:
        """Return the first of ``names`` that is a column.

        Raises InputError if none is; ``title`` is the column's name in the message.
        """
        name = self.find(*names)
        if name is None:
            titles = one_line(", ".join(self.titles), 160)
            raise InputError(f"{self.path}: the header line has no column {title or ' or '.join(names)}, only {titles}")
        return name

    def texts(self, name: str) -> tuple[np.ndarray, list[str]]:
        """Return a column as codes int64 [rows] into a list of distinct stripped texts."""
        column = self._columns[self._place[name]]
        codes, distinct = pd.factorize(np.array([text.strip() for text in column.dictionary.to_pylist()], object))
        return codes[column.indices.to_numpy()], list(distinct)

    def strings(self, name: str) -> np.ndarray:
        """Return the stripped texts of a column, object [rows]."""
        codes, distinct = self.texts(name)
        return np.array(distinct, object)[codes]

    def mapped(self, name: str, convert: Callable[[list[str]], np.ndarray]) -> np.ndarray:
        """Convert the stripped texts of a column [rows], each distinct one once."""
        codes, distinct = self.texts(name)
        return convert(distinct)[codes]

    def matches(self, name: str, test: Callable[[str], bool]) -> np.ndarray:
        """Tell where ``test`` holds for the text of a column: bool [rows]."""
        return self.mapped(name, lambda texts: np.array([test(text) for text in texts], bool))

    def numbers(self, name: str, parse: Callable[[str], float]) -> np.ndarray:
        """Return a column as float64 [rows], NaN for missing values.

        ``parse`` raises ValueError with what it expected; this method then raises InputError with the line.
        """

        def parsed(texts: list[str]) -> np.ndarray:
            numbers = np.full(len(texts), np.nan)
            for place, text in enumerate(texts):
                if text.lower() not in MISSING and text.lower() not in UNBOUNDED:
                    try:
                        numbers[place] = min(parse(text), BEYOND)
                    except ValueError as error:
                        raise self._error_at(name, text, f"is not {error}") from error
            return numbers

        return self.mapped(name, parsed)

    def times(self, name: str) -> np.ndarray:
        """Return a column of ``YYYY-MM-DD[ T]HH:MM:SS`` as datetime64[s] [rows], NaT if missing."""

        def parsed(texts: list[str]) -> np.ndarray:
            # pandas takes the words now and today for times
            written = [text.replace("T", " ", 1) if _WRITTEN_TIME.fullmatch(text) else None for text in texts]
            times = (
                pd.to_datetime(pd.Series(written, dtype="str"), format=_TIME, errors="coerce").to_numpy().astype("datetime64[s]")
            )
            for place in np.flatnonzero(np.isnat(times)):
                if texts[place].lower() not in MISSING:
                    kind = "is in Unix seconds" if texts[place].isdecimal() else "is not a time YYYY-MM-DDTHH:MM:SS"
                    raise self._error_at(name, texts[place], f"{kind}: run sacct with SLURM_TIME_FORMAT=standard")
            years = times.astype("datetime64[Y]").astype(np.int64) + 1970
            for place in np.flatnonzero(~np.isnat(times) & ((years < _YEARS[0]) | (years > _YEARS[-1]))):
                raise self._error_at(name, texts[place], f"is not of the years {_YEARS[0]} to {_YEARS[-1]}")
            return times

        return self.mapped(name, parsed)

    def category(self, name: str, rows: np.ndarray) -> pd.Categorical:
        """Return the texts of the rows chosen by a mask as sorted categories; empty ones are null."""
        codes, distinct = self.texts(name)
        texts = np.array([text or None for text in distinct], object)[codes[rows]]
        return pd.Categorical(pd.array(texts, dtype="str"))

    def line(self, row: int) -> int:
        """Return the number of the line of ``row``, the last one if it has several."""
        return int(self.lines[row])

    def text(self, name: str, row: int) -> str:
        """Return the stripped text of a column in ``row``."""
        return self._columns[self._place[name]][row].as_py().strip()

    def describe(self, row: int, names: Sequence[str]) -> str:
        """Return the texts of columns in ``row`` with their titles."""
        return ", ".join(f"{self.title(name)} {self.text(name, row)}" for name in names)

    def error(self, name: str, row: int, what: str) -> InputError:
        """Return an error about a column's value in ``row`` (from 0, without the header)."""
        return InputError(f"{self.path}:{self.line(row)}: {self.title(name)} {shown(self.text(name, row))} {what}")

    def refuse(self, name: str, wrong: np.ndarray, what: str) -> None:
        """Raise :meth:`error` for the first row where ``wrong``, bool [rows], is true, if any."""
        if wrong.any():
            raise self.error(name, int(np.argmax(wrong)), what)

    def refuse_repeated(self, name: str) -> None:
        """Raise InputError for the first row whose text in the column repeats an earlier one."""
        self.refuse(name, pd.Series(self.strings(name)).duplicated().to_numpy(), "is on an earlier line too")

    def _error_at(self, name: str, text: str, what: str) -> InputError:
        """Return an error about the first row with that text."""
        return self.error(name, int(np.argmax(self.matches(name, lambda other: other == text))), what)

    def _lines(self, text: BinaryIO) -> Iterator[tuple[int, str]]:
        """Yield number and text of each line that is not blank, without its end."""
        number = 0
        for block in whole_lines(text):
            for line in block.splitlines():
                number += 1
                if line and not line.isspace():
                    yield number, self._decoded(line, number)

    def _decoded(self, line: bytes, number: int) -> str:
        try:
            return line.decode()
        except UnicodeDecodeError as error:
            if self._free is None:
                raise InputError(f"{self.path}:{number}: is not UTF-8 text (byte 0x{line[error.start]:02x})") from error
            self.latin1.append(number)
            return line.decode("latin-1")

    def _read_header(self, lines: Iterator[tuple[int, str]]) -> None:
        """Find the header line, and with it delimiter and titles."""
        header = ""
        for number, line in lines:
            header = line.removeprefix("\ufeff")
            if not SAID.match(header):
                break
            self.before_header.append(number)
            header = ""
        if not header:
            raise InputError(f"{self.path}: holds no {self._what}, only an empty line")
        self._header = header
        self.delimiter = delimiter_of(header) or ","
        self._quotes = self.delimiter in QUOTING
        # sacct --parsable writes a delimiter behind the last column, too
        self._ended = header.endswith(self.delimiter)
        self.titles = [title.strip().strip('"').strip() for title in header.removesuffix(self.delimiter).split(self.delimiter)]
        self._place = {title.lower(): place for place, title in reversed(list(enumerate(self.titles))) if title}
        last = self.titles[-1].lower()
        others = (self._free or set()) & self._place.keys() - {last}
        self._ends_in_text = self._free is not None and last in self._free and (not others or last == "submitline")
        self._must_be_command = bool(others)

    def _fields(self, line: str) -> list[str] | None:
        """Return the values of a row, or None if they are not as many as the header's."""
        width = len(self.titles)
        line = line.removesuffix(self.delimiter) if self._ended else line
        if self._quotes and '"' in line:
            fields = _unquoted(line, self.delimiter)
            if len(fields) == width:
                return fields
        fields = line.split(self.delimiter, width - 1 if self._ends_in_text else -1)
        if len(fields) != width:
            return None
        more = self._ends_in_text and self.delimiter in fields[-1]
        return None if more and self._must_be_command and not _COMMAND.fullmatch(fields[-1].strip()) else fields

    def _read(self, lines: Iterator[tuple[int, str]], kept: list[int]) -> tuple[dict[int, pa.DictionaryArray], np.ndarray]:
        """Return the ``kept`` columns of all rows as dictionaries, and the numbers of their lines."""
        chunks: dict[int, list[pa.Array]] = {place: [] for place in kept}
        numbers = array("q")
        while block := list(islice(lines, _ROWS)):
            rows = []
            for number, line in block:
                if line == self._header:  # exports one behind the other
                    self.repeated.append(number)
                    continue
                fields = self._fields(line)
                if fields is not None:
                    rows.append(fields)
                    numbers.append(number)
                elif line.strip(self.delimiter + " "):
                    if self._free is None:
                        raise self._wrong_width(number, line)
                    self.set_aside.append((number, line))
            if len(numbers) > limits.JOBS:
                raise InputError(f"{self.path}: has more than {limits.JOBS:,} lines")
            columns = list(zip(*rows, strict=True))
            for place, arrays in chunks.items() if rows else ():
                arrays.append(pa.array(columns[place], pa.string()).dictionary_encode())
        if not numbers:
            if self.set_aside:
                raise self._wrong_width(*self.set_aside[0])
            raise InputError(f"{self.path}: holds no {self._what}, only a header line")
        return {place: pa.chunked_array(arrays).combine_chunks() for place, arrays in chunks.items()}, np.array(numbers)

    def _wrong_width(self, number: int, line: str) -> InputError:
        width = len(self.titles)
        count = len(line.split(self.delimiter))
        hint = "; is there one in a job's name?" if count > width else ""
        return InputError(f"{self.path}:{number}: {count} fields between {self.delimiter!r}, where the header has {width}{hint}")


def delimiter_of(header: str) -> str:
    """Return the character between the names of a header line, "" if there is none."""
    match = _NAME_AND_DELIMITER.match(header)
    return match[1] if match else ""


def _unquoted(line: str, delimiter: str) -> list[str]:
    """Return the fields of a line of quoted CSV, none if it is not that."""
    try:
        return next(csv.reader(io.StringIO(line, newline=""), delimiter=delimiter, strict=True))
    except csv.Error:
        return []
