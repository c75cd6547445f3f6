"""The job lines of SWF, 18 numbers each, read by NumPy.

A block of lines of several widths, or with texts, is split line by line. MetaCentrum's logs have three more columns:
the 19th lists the node of each processor in braces, the 20th is the queue, the 21st a node specification of TORQUE:
``8:ppn=8:x86_64:cl_zegox#excl`` are eight nodes with these properties, eight processors on each, no other job on them.
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

    Different kinds of nodes joined by ``+`` are read as processors of any nodes that have the properties of all. A host
    name is read as a property.
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


def node_requests(words: list[tuple[bytes, bytes]]) -> tuple[dict[str, object], list[str]]:
    """Return columns of the jobs table, and notes, from each job's queue and node request."""
    queue, request = (Texts.of([word.decode("utf-8", "replace") for word in column]) for column in zip(*words, strict=True))
    specs, codes = [node_spec(text) for text in request.names], request.codes
    nodes, per_node, exclusive = (np.array([spec[place] for spec in specs], np.int64)[codes] for place in (0, 1, 3))
    columns: dict[str, object] = {
        "queue": queue,
        "nodes": present(nodes, nodes > 0),
        "procs_per_node": present(per_node, per_node > 0),
        "properties": Texts.of([spec.properties or None for spec in specs])[codes],
        "exclusive": present(exclusive, exclusive >= 0).astype(np.int8),
    }
    sentences = [
        "Columns 20 and 21 are read as queue and requested nodes, and the requested memory as bytes a job (as MetaCentrum writes)."
    ]
    for sentence, odd in (
        ("Requests of different kinds of nodes are read as processors of any nodes", ["+" in text for text in request.names]),
        ("Requests of nodes that cannot be read are taken as missing", [spec == UNREADABLE for spec in specs]),
    ):
        counted(sentences, sentence, np.array(odd)[codes])
    return columns, sentences


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


_TIMES, _UNREAD, _AMOUNTS = [1, 2, 3, 8, 17], [5, 6], [9]
"""Fields rounded to the second; fields only checked; fields rounded, or ``LARGE`` if too large. Others must be whole
numbers."""
LARGE = 10**18
"""Value of an amount too large to be read: beyond all limits."""
_EXACT = 2.0**53
"""Below it float64 holds all whole numbers."""
_HEAD = re.compile(rb"(?:[ \t\v\f]*(?:;[^\r\n]*)?(?:\r\n|\r|\n|\Z))*+")  # possessive: millions of comments take no memory
_COMMENT_LINE = re.compile(rb"(?<![^\r\n])[ \t\v\f]*;")
_JOB_LINE = re.compile(rb"(?<![^\r\n])[ \t\v\f]*[^;\s]")
_CLOCK_LINE = re.compile(rb"(?<![^\r\n])[ \t]*;\s*UnixStartTime\s*:[ \t]*([^\r\n]*)")


class JobLines:
    """The values of a file's job lines, collected block by block.

    ``jobs`` is their number, ``head`` the comments before the first, ``comments`` the number of later ones. ``rounded``
    and ``negative`` (other than -1) count values by field; ``extra`` counts lines with more columns, of which ``words``
    are the 20th and 21st if all lines have MetaCentrum's, else None. ``clocks`` has the line and value of each
    UnixStartTime in a later header.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.jobs = 0
        self.comments = 0
        self.head = b""
        self.words: list[tuple[bytes, bytes]] | None = []
        self.rounded, self.negative = np.zeros((2, len(FIELDS)), np.int64)
        self.extra = 0
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
        text = block[begin:].replace(b"\r", b"\n")  # NumPy ends a comment at \n alone
        if b";" in text:
            self.comments += len(_COMMENT_LINE.findall(text))
            for clock in _CLOCK_LINE.finditer(block, begin):
                at_line = self._line + 1 + _line_ends(block[: clock.start()])
                self.clocks.append((at_line, clock[1].decode("utf-8", "replace").strip()))
        if jobs := self._numbers(text, block):
            self.jobs += jobs
        if self.jobs > limits.JOBS:
            raise InputError(f"{self.path}: has more than the {limits.JOBS:,} jobs that a trace can have")
        self._line += _line_ends(block)

    def column(self, field: int) -> np.ndarray:
        """Return a field of every job, int64 [jobs]."""
        return np.concatenate(self._columns[field], dtype=np.int64)

    def _numbers(self, text: bytes, block: bytes) -> int:
        """Add the jobs of a text; return their number."""
        if not _JOB_LINE.search(text):
            return 0
        try:
            table = np.loadtxt(io.BytesIO(text), np.float64, comments=";", ndmin=2, encoding="latin-1")
            self.extra += len(table) if table.shape[1] > len(FIELDS) else 0
            self.words = None
        except ValueError:
            table = self._split(text, block)
        if table.shape[1] < len(FIELDS) or _wrong(table).any():
            raise self._error(block)
        for field in range(len(FIELDS)):
            if field in _UNREAD:
                continue
            part, whole = np.modf(np.clip(table[:, field], -LARGE, LARGE))
            # halves away from 0; a half more would round numbers near 2^53 up
            whole = (whole + np.sign(part) * (np.abs(part) >= 0.5)).astype(np.int64)
            self.rounded[field] += np.count_nonzero(part)
            self.negative[field] += np.count_nonzero(whole < -1)
            self._columns[field].append(_narrow(whole))
        return len(table)

    def _split(self, text: bytes, block: bytes) -> np.ndarray:
        """Return the numbers of lines of several widths, or with texts behind the 18th number."""
        lines = [fields for line in text.splitlines() if (fields := line.partition(b";")[0].split())]
        words = [(fields[19], fields[20]) for fields in lines if len(fields) == 21 and fields[18].startswith(b"{")]
        self.words = self.words + words if self.words is not None and len(words) == len(lines) else None
        self.extra += sum(len(fields) > len(FIELDS) for fields in lines)
        try:
            return np.array([[_float(field) for field in fields[: len(FIELDS)]] for fields in lines], np.float64, ndmin=2)
        except ValueError:
            raise self._error(block) from None

    def _error(self, block: bytes) -> InputError:
        """Return the error for the first line that is not a valid job line."""
        for number, line in enumerate(re.split(rb"\r\n|\r|\n", block), start=self._line + 1):
            fields = line.partition(b";")[0].split()
            for field, text in enumerate(fields[: len(FIELDS)]):
                if what := _complaint(field, text):
                    excerpt = shown(text[:41].decode("utf-8", "replace"))
                    return InputError(f"{self.path}:{number}: field {field + 1} ({FIELDS[field]}) is {excerpt}, {what}")
            if 0 < len(fields) < len(FIELDS):
                return InputError(f"{self.path}:{number}: {len(fields)} fields, where SWF has {len(FIELDS)}")
        raise AssertionError("no line of the block is wrong")


def _float(text: bytes) -> float:
    """Return the number that a text writes; ValueError for others, and for Python's own 1_000."""
    if b"_" in text:
        raise ValueError("a number has no underscore")
    return float(text)


def _line_ends(text: bytes) -> int:
    return text.count(b"\n") + text.count(b"\r") - text.count(b"\r\n")


def _wrong(table: np.ndarray) -> np.ndarray:
    """Tell which numbers cannot be read: bool [jobs, 18]."""
    numbers = table[:, : len(FIELDS)]
    wrong = ~(np.abs(numbers) < _EXACT)
    wrong[:, _AMOUNTS + _UNREAD] = np.isnan(numbers[:, _AMOUNTS + _UNREAD])
    counts = [field for field in range(len(FIELDS)) if field not in _TIMES + _AMOUNTS + _UNREAD]
    wrong[:, counts] |= np.nan_to_num(numbers[:, counts]) % 1 != 0
    return wrong


def _complaint(field: int, text: bytes) -> str:
    """Return what is wrong with the text of a field, "" for a number that can be read."""
    try:
        number = _float(text)
    except ValueError:
        number = math.nan
    if math.isnan(number):
        return "not a number"
    row = np.zeros((1, len(FIELDS)))
    row[0, field] = number
    if not _wrong(row).any():
        return ""
    return "not a whole number" if abs(number) < _EXACT else "too large a number"


def _narrow(values: np.ndarray) -> np.ndarray:
    """Return a copy of the whole numbers in the narrowest type that holds them."""
    return values.astype(np.min_scalar_type(min(int(values.min()), -1 - int(values.max()))))
