"""Delimited text with a header line, read as columns with errors that name the line.

Each distinct text of a column is parsed once, so that millions of rows cost little. A line with too many or too few fields is an
error, unless the reader says how to mend such lines (:class:`Mending`).
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import combinations_with_replacement, islice
from math import comb
from typing import Any, NoReturn

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import csv as arrow_csv

from features import limits
from features.errors import InputError, one_line, shown
from pipelines.ingest.source import Source
from pipelines.ingest.text import BLOCK

MISSING = {"", "unknown", "none", "n/a"}
"""Slurm's texts for a missing value, in lower case."""
UNBOUNDED = {"unlimited", "partition_limit"}
"""Texts for time limits that are not numbers: missing too, but counted."""
NOWHERE = {"", "none assigned", "unknown", "none"}
"""Slurm's texts for a job without nodes, in lower case."""

_TIME = "%Y-%m-%d %H:%M:%S"
_MOST_WAYS = 1000  # max ways to split one line; a line with more counts as unreadable
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


def is_time(text: str) -> bool:
    """Tell whether ``text`` can be a value of :meth:`AccountingTable.times`."""
    try:
        return text.lower() in MISSING or (
            _WRITTEN_TIME.fullmatch(text) is not None and datetime.strptime(text.replace("T", " ", 1), _TIME).year in _YEARS
        )
    except ValueError:
        return False


def tells(parse: Callable[[str], float]) -> Callable[[str], bool]:
    """Return a test of whether :meth:`AccountingTable.numbers` with ``parse`` accepts a text."""

    def test(text: str) -> bool:
        try:
            return text.lower() in MISSING | UNBOUNDED or parse(text) >= 0
        except ValueError:
            return False

    return test


@dataclass(frozen=True)
class Mending:
    """Rules to read lines with the delimiter inside a value.

    ``free`` names the columns of free text, whose values may hold it. ``tests`` has, by column, a function that tells whether a
    text can be a value. Names are in lower case. A line is recovered if all splits that pass the tests agree on the columns that
    are read, else set aside.
    """

    free: frozenset[str]
    tests: Mapping[str, Callable[[str], object]] = field(default_factory=dict)


class AccountingTable:
    """The columns of ``wanted`` (names in lower case) that the file has, as strings.

    ``titles`` are all columns as the file writes them; ``what`` names a row in errors. With ``mending``, ``latin1`` has the
    numbers of lines that are not UTF-8 and were read as Latin-1; lines of a wrong width are ``recovered`` (a count) or
    ``set_aside`` (numbers and fields). Raises InputError for such lines without ``mending``, and if there is no other row.
    """

    def __init__(self, source: Source, wanted: set[str], what: str = "job", mending: Mending | None = None) -> None:
        self.path = source.path
        self.recovered = 0
        self.set_aside: list[tuple[int, list[str]]] = []
        self._source = source
        self._what = what
        self._mending = mending
        self._passed_over: set[int] = set()  # numbers of lines that are not rows
        csv.field_size_limit(limits.LINE_BYTES)
        header, lines = self._header()
        self.delimiter = "|" if b"|" in header else ","
        self.titles = [title.strip() for title in self._split_header(header)]
        self._place = {title.lower(): place for place, title in reversed(list(enumerate(self.titles))) if title}
        kept = sorted(self._place[name] for name in wanted & self._place.keys()) or [0]
        self.latin1 = self._read_as_utf8()
        self._table = self._read(lines, [str(place) for place in kept])
        self.rows = self._table.num_rows

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
        column = self._table.column(str(self._place[name])).combine_chunks()
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
        codes = codes[rows]
        used = sorted({distinct[code] for code in np.unique(codes)} - {""})
        rank = {text: place for place, text in enumerate(used)}
        ranks = np.array([rank.get(text, -1) for text in distinct], np.int64)
        return pd.Categorical.from_codes(ranks[codes], categories=pd.Index(used, dtype="str"))

    def error(self, name: str, row: int, what: str) -> InputError:
        """Return an error about a column's value in ``row`` (from 0, without the header)."""
        text = self._table.column(str(self._place[name]))[row].as_py().strip()
        rows = ((line, fields) for line, fields in self._lines() if line not in self._passed_over)
        for position, (line, _) in enumerate(rows):
            if position == row + 1:
                return InputError(f"{self.path}:{line}: {self.title(name)} {shown(text)} {what}")
        return InputError(f"{self.path}: {self.title(name)} {shown(text)} {what}")

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

    def _header(self) -> tuple[bytes, int]:
        """Return the first line that is not blank, and the number of lines up to it."""
        head = self._source.head(limits.LINE_BYTES).removeprefix(b"\xef\xbb\xbf")
        match = re.search(rb"[^\s][^\r\n]*", head)
        more = match is not None and (head[match.end() :].strip() or len(head) > limits.LINE_BYTES // 2)
        if match is None or not more:
            raise InputError(f"{self.path}: holds no {self._what}, only {'a header' if match else 'an empty'} line")
        return match[0], 1 + len(re.findall(rb"\r\n|\r|\n", head[: match.start()]))

    def _read_as_utf8(self) -> list[int]:
        """Convert lines that are not UTF-8 from Latin-1; return their line numbers.

        Every byte is valid in Latin-1. Raises InputError for the first such line if there is no ``mending``.
        """
        line_numbers = []
        with self._source.open() as text:
            for number, line in enumerate(text, start=1):
                try:
                    line.decode()
                except UnicodeDecodeError as error:
                    if self._mending is None:
                        raise InputError(f"{self.path}:{number}: is not UTF-8 text (byte 0x{line[error.start]:02x})") from error
                    line_numbers.append(number)
        if line_numbers:
            odd = set(line_numbers)
            with self._source.open() as text:
                lines = [line.decode("latin-1").encode() if number in odd else line for number, line in enumerate(text, start=1)]
            self._source = replace(self._source, content=b"".join(lines))
        return line_numbers

    def _split_header(self, header: bytes) -> list[str]:
        try:
            return next(csv.reader([header.decode()], **self._dialect()))
        except (UnicodeDecodeError, csv.Error) as error:
            raise InputError(f"{self.path}: its header line is no UTF-8 text with {self.delimiter!r} between names") from error

    def _dialect(self) -> dict[str, Any]:
        if self.delimiter == "|":  # sacct does not quote: a " is part of a job's name
            return {"delimiter": "|", "quoting": csv.QUOTE_NONE}
        return {"delimiter": ","}

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        """Yield (number of its last line, fields) of the header and each row, without blank lines."""
        with self._source.open() as text:
            reader = csv.reader(io.TextIOWrapper(text, "utf-8-sig", newline=""), **self._dialect())
            try:
                yield from ((reader.line_num, fields) for fields in reader if fields)
            except csv.Error as error:
                raise InputError(f"{self.path}:{reader.line_num + 1}: {error}") from error

    def _read(self, lines: int, kept: list[str]) -> pa.Table:
        width = len(self.titles)
        quoted = self.delimiter == ","
        skipped = False

        def skip(_: object) -> str:
            nonlocal skipped
            skipped = True
            return "skip"

        texts = pa.dictionary(pa.int32(), pa.string())
        try:
            with (
                self._source.open() as text,
                arrow_csv.open_csv(
                    pa.PythonFile(text, mode="r"),
                    read_options=arrow_csv.ReadOptions(
                        column_names=[str(place) for place in range(width)], skip_rows=lines, block_size=BLOCK, use_threads=False
                    ),
                    parse_options=arrow_csv.ParseOptions(
                        delimiter=self.delimiter,
                        quote_char='"' if quoted else False,
                        newlines_in_values=quoted,
                        invalid_row_handler=skip if self._mending else None,
                    ),
                    convert_options=arrow_csv.ConvertOptions(include_columns=kept, column_types=dict.fromkeys(kept, texts)),
                ) as batches,
            ):
                table = batches.read_all()
        except pa.ArrowInvalid as error:
            self._complain(error)
        if table.num_rows > limits.JOBS:
            raise InputError(f"{self.path}: has more than {limits.JOBS:,} lines")
        if skipped and self._mending:
            table = self._mend(table, kept, self._mending)
        if not table.num_rows:
            self._complain()
        return table

    def _complain(self, error: Exception | None = None) -> NoReturn:
        width = len(self.titles)
        for line, fields in self._lines():
            if len(fields) != width:
                hint = "; is there one in a job's name?" if len(fields) > width else ""
                raise InputError(
                    f"{self.path}:{line}: {len(fields)} fields between {self.delimiter!r}, where the header has {width}{hint}"
                ) from error
        raise InputError(f"{self.path}: {' '.join(str(error or f'holds no {self._what}').split())}") from error

    def _mend(self, sound: pa.Table, kept: list[str], mending: Mending) -> pa.Table:
        """Return ``sound`` with recovered lines in their places; other broken lines are set aside."""
        mended: list[tuple[str, ...]] = []
        before: list[int] = []  # number of sound rows before each recovered one
        rows = 0
        for line, fields in islice(self._lines(), 1, None):
            if len(fields) == len(self.titles):
                rows += 1
            elif split := self._split(fields, kept, mending):
                mended.append(split)
                before.append(rows)
            else:
                self._passed_over.add(line)
                if "".join(fields).strip():
                    self.set_aside.append((line, fields))
        if rows != sound.num_rows:
            raise InputError(f"{self.path}: {rows:,} lines have as many fields as the header, and {sound.num_rows:,} can be read")
        self.recovered = len(mended)
        order = np.insert(np.arange(rows), before, rows + np.arange(len(mended)))
        columns = {}
        for number, place in enumerate(kept):
            texts = [*sound.column(place).cast(pa.string()).chunks, pa.array([split[number] for split in mended], pa.string())]
            columns[place] = pa.chunked_array(texts).take(order).dictionary_encode()
        return pa.table(columns)

    def _split(self, fields: list[str], kept: list[str], mending: Mending) -> tuple[str, ...] | None:
        """Join surplus fields of a line into free text; return its ``kept`` columns.

        Returns None if no way is valid, or if the valid ways differ in these columns.
        """
        extra = len(fields) - len(self.titles)
        free = sorted(self._place[name] for name in mending.free & self._place.keys())
        if extra < 1 or not free or comb(extra + len(free) - 1, extra) > _MOST_WAYS:
            return None
        ways = set[tuple[str, ...]]()
        for chosen in combinations_with_replacement(free, extra):
            joined, left, at = Counter(chosen), [], 0
            for place in range(len(self.titles)):
                left.append(self.delimiter.join(fields[at : at + 1 + joined[place]]))
                at += 1 + joined[place]
            if all(test(left[self._place[name]].strip()) for name, test in mending.tests.items() if name in self):
                ways.add(tuple(left[int(place)] for place in kept))
        return ways.pop() if len(ways) == 1 else None
