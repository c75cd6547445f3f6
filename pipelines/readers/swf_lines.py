"""The job lines of SWF, 18 numbers each, read by NumPy.

If a block has texts other than whole numbers, its lines are first rewritten with whole numbers in their place. MetaCentrum's logs
have three more columns: the 19th lists the node of each processor in braces, the 20th is the queue, the 21st a node specification
of TORQUE: ``8:ppn=8:x86_64:cl_zegox#excl`` are eight nodes with these properties, eight processors on each, no other job on them.
"""

import codecs
import io
import math
import re
from functools import cache
from typing import NamedTuple

import numpy as np

from features import limits
from features.errors import InputError, shown
from features.jobs.columns import Texts, present
from pipelines.readers.text import counted

_COLUMNS = 3
_PPN = re.compile(r"ppn=(\d{1,8})(\.\d+)?", re.ASCII)


class NodeSpec(NamedTuple):
    """A parsed node specification; ``nodes`` is -1 if the processors may be on any nodes."""

    nodes: int
    procs_per_node: int
    properties: str
    exclusive: int


UNREADABLE = NodeSpec(-1, -1, "", -1)


@cache
def node_spec(text: str) -> NodeSpec:
    """Parse a node specification of TORQUE; return UNREADABLE for any other text.

    Different kinds of nodes joined by ``+`` are read as processors of any nodes that have the properties of all. A host name is
    read as a property.
    """
    request, *flags = text.split("#")
    properties: dict[str, None] = {}
    shapes = []
    for part in request.split("+"):
        nodes, per_node = 1, 1
        for place, word in enumerate(part.split(":")):
            if match := _PPN.fullmatch(word):
                per_node = int(match[1])
            elif place == 0 and re.fullmatch(r"\d{1,7}", word, re.ASCII):
                nodes = int(word)
            elif name := "" if word.startswith("mem=") else word.removeprefix("host="):
                properties[name] = None
            elif not word:
                return UNREADABLE
        shapes.append((nodes, per_node))
    if min(map(min, shapes)) < 1:
        return UNREADABLE
    shape = shapes[0] if len(shapes) == 1 else (-1, -1)
    return NodeSpec(*shape, ":".join(properties), int("excl" in flags))


class NodeRequests:
    """The extra columns of a file's job lines; ``there`` if all lines so far have them."""

    def __init__(self) -> None:
        self.there = False
        self._jobs = 0
        self._codes: tuple[list[int], list[int]] = ([], [])
        self._texts: tuple[dict[str, int], dict[str, int]] = ({}, {})

    def take(self, jobs: int, lines: list[list[bytes]]) -> None:
        """Add a block of ``jobs`` jobs; ``lines`` has their fields if one has more than 18."""
        if jobs == 0:
            return
        first = self._jobs == 0
        self._jobs += jobs
        self.there = (
            (self.there or first)
            and bool(lines)
            and all(len(line) == 18 + _COLUMNS and line[18].startswith(b"{") for line in lines)
        )
        for line in lines if self.there else ():
            for word, codes, texts in zip(line[19:21], self._codes, self._texts, strict=True):
                codes.append(texts.setdefault(word.decode("utf-8", "replace"), len(texts)))

    def columns(self) -> dict[str, object]:
        """Return the columns of the jobs table."""
        specs = [node_spec(text) for text in self._texts[1]]
        codes = np.array(self._codes[1], np.int64)
        nodes, per_node, exclusive = (np.array([spec[place] for spec in specs], np.int64)[codes] for place in (0, 1, 3))
        return {
            "queue": Texts.of(list(self._texts[0]))[self._codes[0]],
            "nodes": present(nodes, nodes > 0),
            "procs_per_node": present(per_node, per_node > 0),
            "properties": Texts.of([spec.properties or None for spec in specs])[codes],
            "exclusive": present(exclusive, exclusive >= 0).astype(np.int8),
        }

    def notes(self) -> list[str]:
        """Return sentences about what was read."""
        specs = {text: node_spec(text) for text in self._texts[1]}
        counts = np.bincount(self._codes[1], minlength=len(specs))
        sentences = [
            "Columns 20 and 21 are read as queue and requested nodes, and the requested memory as bytes a job (as MetaCentrum writes)."
        ]
        for sentence, odd in (
            ("Requests of different kinds of nodes are read as processors of any nodes", ["+" in text for text in specs]),
            ("Memory in requests of nodes (mem=) is not read", ["mem=" in text for text in specs]),
            ("Requests of nodes that cannot be read are taken as missing", [spec == UNREADABLE for spec in specs.values()]),
        ):
            counted(sentences, sentence, counts[odd])
        return sentences


FIELDS = (
    "job number",
    "submit time",
    "wait time",
    "run time",
    "allocated processors",
    "average CPU time",
    "used memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding job",
    "think time",
)
"""Names of the 18 fields of the Standard Workload Format (Chapin et al. 1999), in order."""

_TIMES, _UNREAD, _AMOUNTS = {1, 2, 3, 8, 17}, {5, 6}, {9}
"""Fields rounded to the second; fields only checked; fields rounded, or ``LARGE`` if too large. Others must be whole numbers."""
LARGE = 10**18
"""Value of an amount too large to be read: beyond all limits."""
_DIGITS = 18
_EXACT = 2.0**53  # numbers with an exponent are read as float64, which holds all whole numbers below this
_NUMBER = re.compile(rb"[+-]?0*(?=\.?\d|(?<=0))(\d*)(?:\.(\d*))?([eE][+-]?\d+)?")
_HEAD = re.compile(rb"(?:[ \t\v\f]*(?:;[^\r\n]*)?(?:\r\n|\r|\n|\Z))*+")  # possessive: millions of comments take no memory
_COMMENT = re.compile(rb"(?<![^ \t\v\f\r\n]);[^\r\n]*")
_COMMENT_LINE = re.compile(rb"(?<![^\r\n])[ \t\v\f]*;")
_CLOCK_LINE = re.compile(rb"(?<![^\r\n])[ \t]*;\s*UnixStartTime\s*:[ \t]*([^\r\n]*)")
_TO_LINES = bytes.maketrans(b"\v\f\r", b"  \n")
_PLAIN = b"-0123456789 \t\n"


class JobLines:
    """The values of a file's job lines, collected block by block.

    ``jobs`` is their number, ``head`` the comments before the first, ``comments`` the number of later ones. ``rounded`` and
    ``negative`` (other than -1) count values by field; ``extra``: lines with extra columns, fewest and most such columns.
    ``clocks`` are the line numbers and values of UnixStartTime after the first job.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.jobs = self.comments = 0
        self.head = b""
        self.asked = NodeRequests()
        self.rounded, self.negative = np.zeros((2, len(FIELDS)), np.int64)
        self.extra = (0, 0, 0)
        self.clocks: list[tuple[int, str]] = []
        self._line = 0
        self._columns: list[list[np.ndarray]] = [[] for _ in FIELDS]

    def take(self, block: bytes) -> None:
        """Add a block of whole lines; raise InputError with file, line and what is wrong."""
        begin = 0
        if self._line == 0:
            block = block.removeprefix(codecs.BOM_UTF8)
        if self.jobs == 0 and (head := _HEAD.match(block)):
            begin = head.end()
            self.head += block[:begin]
            if len(self.head) > limits.LINE_BYTES:
                raise InputError(f"{self.path}: has comments of more than {limits.LINE_BYTES >> 20} MiB before its first job")
        text = block[begin:].translate(_TO_LINES)
        if b";" in text:
            self.comments += len(_COMMENT_LINE.findall(text))
            for clock in _CLOCK_LINE.finditer(block, begin):
                at_line = self._line + 1 + _line_ends(block[: clock.start()])
                self.clocks.append((at_line, clock[1].decode("utf-8", "replace").strip()))
            text = _COMMENT.sub(b"", text)
        columns, lines = _columns(text, LARGE - 1), list[list[bytes]]()
        if columns is None:
            for line in text.splitlines():
                if fields := line.split():
                    if len(fields) < len(FIELDS):
                        raise self._error(block)
                    lines.append(fields)
            columns = _columns(b"\n".join(b" ".join(self._whole(fields, block)) for fields in lines), LARGE)
        assert columns is not None
        jobs = len(columns[0])
        self._take_extra(jobs, lines)
        self.jobs += jobs
        if self.jobs > limits.JOBS:
            raise InputError(f"{self.path}: has more than the {limits.JOBS:,} jobs that a trace can have")
        self._line += _line_ends(block)
        for field, values in columns.items() if jobs else ():
            self.negative[field] += np.count_nonzero(values < -1)
            self._columns[field].append(_narrow(values))

    def column(self, field: int) -> np.ndarray:
        """Return a field of every job, int64 [jobs]."""
        return np.concatenate(self._columns[field], dtype=np.int64)

    def _whole(self, fields: list[bytes], block: bytes) -> list[bytes]:
        """Convert a job's fields to whole numbers and count rounded ones; or raise InputError."""
        texts = fields[: len(FIELDS)]
        for field, text in enumerate(texts):
            if not (text == b"-1" or (text.isdigit() and len(text) <= _DIGITS)):
                try:
                    number, rounded = _number(text, field)
                except ValueError:
                    raise self._error(block) from None
                self.rounded[field] += rounded
                texts[field] = b"%d" % number
        return texts

    def _take_extra(self, jobs: int, lines: list[list[bytes]]) -> None:
        if more := [len(fields) - len(FIELDS) for fields in lines if len(fields) > len(FIELDS)]:
            before, fewest, most = self.extra
            self.extra = before + len(more), min([*more, fewest] if before else more), max(*more, most)
        self.asked.take(jobs, lines if more else [])

    def _error(self, block: bytes) -> InputError:
        """Return the error for the first line that is not a valid job line."""
        for number, line in enumerate(re.split(rb"\r\n|\r|\n", block), start=self._line + 1):
            fields = _COMMENT.sub(b"", line).split()
            for field, text in enumerate(fields[: len(FIELDS)]):
                try:
                    _number(text, field)
                except ValueError as error:
                    excerpt = shown(text[:41].decode("utf-8", "replace"))
                    return InputError(f"{self.path}:{number}: field {field + 1} ({FIELDS[field]}) is {excerpt}, {error}")
            if 0 < len(fields) < len(FIELDS):
                return InputError(f"{self.path}:{number}: {len(fields)} fields, where SWF has {len(FIELDS)}")
        raise AssertionError("no line of the block is wrong")


def _line_ends(text: bytes) -> int:
    return text.count(b"\n") + text.count(b"\r") - text.count(b"\r\n")


def _columns(text: bytes, largest: int) -> dict[int, np.ndarray] | None:
    """Return fields, int64 [jobs]; None unless lines are 18 whole numbers up to ``largest``."""
    if text.translate(None, _PLAIN):
        return None
    table = np.zeros((0, len(FIELDS)), np.int64)
    if text.strip():
        try:
            table = np.loadtxt(io.BytesIO(text), np.int64, comments=None, ndmin=2)
        except ValueError:
            return None
    columns = {field: values for field, values in enumerate(np.ascontiguousarray(table.T)) if field not in _UNREAD}
    large = any((np.abs(values) > largest).any() for values in columns.values())
    return None if large or table.shape[1] != len(FIELDS) else columns


def _number(text: bytes, field: int) -> tuple[int, bool]:
    """Return a field's whole number, halves away from 0, and if it was rounded; or ValueError."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError("not a number")
    if field in _UNREAD:
        return 0, False
    digits, fraction, exponent = match.groups(default=b"")
    size = abs(float(text)) if exponent else 0.0
    if size >= _EXACT or len(digits) > _DIGITS:
        if field not in _AMOUNTS:
            raise ValueError("too large a number")
        number, rounded = LARGE, False
    elif exponent:
        number, rounded = math.floor(size + 0.5), size % 1 > 0
    else:
        number, rounded = int(digits or 0) + (fraction[:1] >= b"5"), fraction.strip(b"0") != b""
    if rounded and field not in _TIMES | _AMOUNTS:
        raise ValueError("not a whole number")
    return -number if text.startswith(b"-") else number, rounded


def _narrow(values: np.ndarray) -> np.ndarray:
    """Return a copy of the whole numbers in the narrowest type that holds them."""
    return values.astype(np.min_scalar_type(min(int(values.min()), -1 - int(values.max()))))
