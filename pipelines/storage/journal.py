"""Journals of the finished pieces of long work, beside its output, so that it can resume.

A journal has one line per finished piece, written when that is finished: the CRC-32 of its JSON as eight hexadecimal digits, a
space, the JSON. Its first line, JSON alone, identifies the work. A process that dies loses no piece, a power loss those of the
last seconds. A piece whose line fails the checksum is done again. When all pieces are done, the results are written and the
journal is removed, so a finished output has none.
"""

import fcntl
import json
import os
import sys
import time
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, NamedTuple, Self, TypeVar

from features.errors import InputError
from models.registry.syncing import sync
from pipelines.storage.places import made_folder, regular, writing

K = TypeVar("K")
V = TypeVar("V")

SYNC_S = 2.0
"""Max seconds of finished pieces that a power loss costs."""


class JournalKind(NamedTuple, Generic[K, V]):
    """The ``name`` of journalled work, and functions that encode and decode finished pieces."""

    name: str
    encoded: Callable[[K, V], dict[str, Any]]
    decoded: Callable[[dict[str, Any]], tuple[K, V]]


class Journal(Generic[K, V]):
    """The journal beside ``out``, open and locked as a context.

    ``done`` maps the finished pieces to their results.
    """

    def __init__(self, out: Path, kind: JournalKind[K, V], identity: Mapping[str, Any], restart: bool = False) -> None:
        self.path = out.with_name(f"{out.name}.journal")
        self.done: dict[K, V] = {}
        self._kind, self._identity, self._synced = kind, dict(identity), -SYNC_S
        with writing(self.path):
            made_folder(self.path.parent)
            self._file = regular(self.path).open("a+b")
            sync(self.path.parent)
        try:
            self._lock()
            self._take_up(restart)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self.done:
            self.path.unlink(missing_ok=True)  # there is nothing to resume
        self._file.close()

    def write(self, key: K, value: V) -> None:
        """Record a piece as done; a process that dies later does not lose it."""
        content = json.dumps(self._kind.encoded(key, value)).encode()
        self._append(_checksum(content) + b" " + content + b"\n")
        self.done[key] = value

    def remove(self) -> None:
        """Remove the journal of finished work."""
        self.path.unlink(missing_ok=True)

    def _append(self, line: bytes) -> None:
        with writing(self.path):
            self._file.write(line)
            self._file.flush()
            if time.monotonic() - self._synced >= SYNC_S:
                os.fsync(self._file.fileno())
                self._synced = time.monotonic()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            busy = isinstance(error, BlockingIOError)
            why = f"another process is running this {self._kind.name}" if busy else f"cannot be locked: {error.strerror}"
            raise InputError(f"{self.path}: {why}") from error

    def _take_up(self, restart: bool) -> None:
        """Read the finished pieces and cut off a half-written line; without pieces, begin anew."""
        self._file.seek(0)
        content, head = self._file.read(), f'{{"{self._kind.name}": '.encode()
        first = head + json.dumps(self._identity).encode() + b"}\n"
        not_begun = content.count(b"\n") <= 1 and (content.startswith(head) or head.startswith(content))
        if restart or not_begun:  # no piece of it is done
            self._file.truncate(0)
            self._append(first)
            return
        if not content.startswith(first):
            raise InputError(f"{self.path}: {self._difference(content)}; give --restart to throw it away, or another --out")
        whole = content[: content.rindex(b"\n") + 1]
        self._file.truncate(len(whole))
        damaged = []
        for number, line in enumerate(whole.split(b"\n")[1:-1], 2):
            checksum, _, piece = line.partition(b" ")
            if checksum == _checksum(piece):
                key, value = self._kind.decoded(json.loads(piece))
                self.done[key] = value
            else:
                damaged.append(number)
        if damaged:
            where = ", ".join(map(str, damaged[:3])) + ", ..." * (len(damaged) > 3)
            what = (
                f"{len(damaged):,} of {len(damaged) + len(self.done):,} lines damaged (line {where}): what they held is done again"
            )
            print(f"{self.path}: {what}", file=sys.stderr)

    def _difference(self, content: bytes) -> str:
        """Return why a journal is of other work, with the names of what differs."""
        work = self._kind.name
        try:
            theirs = json.loads(content.split(b"\n", 1)[0])[work]
            names = [name for name in dict.fromkeys([*self._identity, *theirs]) if self._identity.get(name) != theirs.get(name)]
        except (ValueError, KeyError, TypeError, AttributeError):
            return f"is not the journal of a {work}"
        return f"is the journal of another {work} (of other {', '.join(names)})"


def _checksum(piece: bytes) -> bytes:
    return b"%08x" % zlib.crc32(piece)
