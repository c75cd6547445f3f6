"""Stop a child process before each system call that changes files: go on, make it fail, or kill it there.

Linux tells a supervisor of such calls (seccomp's user notification), whatever makes them: Python, SQLite or Arrow. A file system
that is looked at while the process waits is what a kill at that moment would leave. Works without privileges on Linux for x86-64.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import select
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.patience import GIVEN_S

KILL = -1
"""Answer to a call: the process is killed before it."""
Answer = Callable[["Call"], int]
"""Decides on a call: 0 lets it happen, an errno makes it fail, :data:`KILL` kills the process."""

_AT, _ONE, _TWO, _FD = "at", "path", "two paths", "descriptor"
_CALLS = {  # number on x86-64 -> name, kind of its arguments
    1: ("write", _FD),
    18: ("write", _FD),
    20: ("write", _FD),
    296: ("write", _FD),
    40: ("write", _FD),  # sendfile, as shutil uses it
    326: ("copy", _FD),
    285: ("write", _FD),  # fallocate
    77: ("truncate", _FD),
    76: ("truncate", _ONE),
    74: ("fsync", _FD),
    75: ("fsync", _FD),
    82: ("rename", _TWO),
    264: ("rename", _AT),
    316: ("rename", _AT),
    86: ("link", _TWO),
    265: ("link", _AT),
    88: ("link", _TWO),
    83: ("mkdir", _ONE),
    258: ("mkdir", _AT),
    84: ("rmdir", _ONE),
    87: ("unlink", _ONE),
    263: ("unlink", _AT),
    257: ("open", _AT),  # only where it may create or cut a file
}
_OPENAT, _CREATES = 257, 0o1000 | 0o100
_NOTIFY, _ALLOW = 0x7FC00000, 0x7FFF0000
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_CONTINUE = 1
_SECCOMP, _FILTER, _LISTENER = 317, 1, 8


@dataclass(frozen=True)
class Call:
    """A call about to happen: its name, the file or directory, the new name of a rename."""

    name: str
    path: str
    target: str = ""

    @property
    def touched(self) -> str:
        """Return the path that the call makes or changes."""
        return self.target or self.path


@dataclass(frozen=True)
class Ended:
    """The end of a watched process: exit code (-9 if killed), output, calls, hung or not."""

    code: int
    output: str
    calls: int
    hung: bool = False

    @property
    def how(self) -> str:
        """Return how it ended, with the end of its output."""
        return f"{'hangs' if self.hung else f'ends with {self.code}'}: {' '.join(self.output.strip()[-300:].split())}"


def available() -> bool:
    """Tell whether this system can watch calls."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    return watched(lambda: 0, Path("/nowhere"), lambda call: 0).code == 0


def watched(body: Callable[[], int], root: Path, answer: Answer | None, *, seconds: float = GIVEN_S) -> Ended:
    """Run ``body`` in a fork; ask ``answer`` before each call that changes something below ``root``.

    ``body`` returns the exit code. Without an ``answer`` no call is stopped. A process that takes more than ``seconds`` is
    killed and reported as hung.
    """
    if answer is None:
        return together([body], seconds=seconds)[0]
    ours, theirs = socket.socketpair()
    child, log = _started(body, theirs)
    theirs.close()
    calls, hung = 0, False
    process = os.pidfd_open(child)
    try:
        _, listeners, _, _ = socket.recv_fds(ours, 1, 1)
        if listeners:
            ours.send(b"g")
            calls, hung = _supervise(child, process, listeners[0], str(root.resolve()), answer, time.monotonic() + seconds)
            os.close(listeners[0])
        if hung:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    except BaseException:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    finally:
        os.close(process)
        ours.close()
    return Ended(os.waitstatus_to_exitcode(status), _text_of(log), calls, hung)


def together(bodies: Sequence[Callable[[], int]], *, seconds: float = GIVEN_S) -> list[Ended]:
    """Run all ``bodies`` at once, each in a fork; no call is stopped. When they hang (as in :func:`watched`) they are killed."""
    started = [_started(body) for body in bodies]
    living = {child: os.pidfd_open(child) for child, _ in started}
    last, ended = time.monotonic() + seconds, {}
    while living:
        ready, _, _ = select.select(list(living.values()), [], [], max(last - time.monotonic(), 0))
        for child, log in started:
            if child not in living or (ready and living[child] not in ready):
                continue
            if not ready:
                os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            os.close(living.pop(child))
            ended[child] = Ended(os.waitstatus_to_exitcode(status), _text_of(log), 0, not ready)
    return [ended[child] for child, _ in started]


def _started(body: Callable[[], int], supervisor: socket.socket | None = None) -> tuple[int, int]:
    """Start ``body`` in a fork; return its process and what its output goes to."""
    log = os.memfd_create("output")
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _child(body, log, supervisor)
    return child, log


def _text_of(output: int) -> str:
    os.lseek(output, 0, os.SEEK_SET)
    with open(output, encoding="utf-8", errors="replace") as file:
        return file.read()


def _child(body: Callable[[], int], log: int, supervisor: socket.socket | None = None) -> None:
    code = 125
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.set_inheritable(1, True)
        if supervisor is not None:
            listener = _install()
            socket.send_fds(supervisor, [b"l"], [listener])
            os.close(listener)
            supervisor.recv(1)
        code = body()
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 0 if left.code is None else 1
    except BaseException:
        code = 124
        traceback.print_exc()
    finally:
        with suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _install() -> int:
    """Install the filter for this process; return the descriptor that tells of calls."""
    load, equal, has_bits, give = 0x20, 0x15, 0x45, 0x06
    plain = [number for number in _CALLS if number != _OPENAT]
    program = [(load, 0, 0, 0)]
    program += [(equal, len(plain) - place + 2, 0, number) for place, number in enumerate(plain)]
    program += [(equal, 0, 3, _OPENAT), (load, 0, 0, 16 + 8 * 2), (has_bits, 0, 1, _CREATES)]
    program += [(give, 0, 0, _NOTIFY), (give, 0, 0, _ALLOW)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in program))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(38, 1, 0, 0, 0)  # no new privileges
    asked = Program(len(program), ctypes.addressof(code))
    listener = int(libc.syscall(_SECCOMP, _FILTER, _LISTENER, ctypes.byref(asked)))
    if listener < 0:
        raise OSError(ctypes.get_errno(), "the system does not let calls be watched")
    return listener


def _supervise(child: int, process: int, listener: int, root: str, answer: Answer, last: float) -> tuple[int, bool]:
    poll, calls = select.poll(), 0
    poll.register(listener, select.POLLIN)
    poll.register(process, select.POLLIN)
    while time.monotonic() < last:
        ready = dict(poll.poll(1000))
        if not ready.get(listener, 0) & select.POLLIN:
            if process in ready:
                return calls, False
            continue
        request = bytearray(80)
        try:
            fcntl.ioctl(listener, _RECEIVE, request)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR):
                continue
            raise
        number, thread = struct.unpack_from("QI", request)
        call = _call(thread, struct.unpack_from("i", request, 16)[0], struct.unpack_from("6Q", request, 32))
        failed = 0
        if call is not None and (call.touched.startswith(root) or call.path.startswith(root)):
            calls += 1
            failed = answer(call)
            if failed == KILL:
                os.kill(child, signal.SIGKILL)
                select.select([process], [], [])
                return calls, False
        with suppress(FileNotFoundError):  # the thread has ended
            fcntl.ioctl(listener, _SEND, bytearray(struct.pack("QqiI", number, 0, -failed, 0 if failed else _CONTINUE)))
    return calls, True


def _call(thread: int, number: int, given: tuple[int, ...]) -> Call | None:
    """Read a call's arguments from the waiting thread; None where it is gone or has no file."""
    name, kind = _CALLS[number]
    try:
        if kind == _FD:
            place = 2 if name == "copy" else 0
            return Call("write" if name == "copy" else name, os.readlink(f"/proc/{thread}/fd/{given[place] & 0x7FFFFFFF}"))
        if kind == _ONE:
            return Call(name, _path(thread, -100, given[0]))
        if kind == _TWO:
            return Call(name, _path(thread, -100, given[0]), _path(thread, -100, given[1]))
        first = _path(thread, _signed(given[0]), given[1])
        if name in ("rename", "link"):
            return Call(name, first, _path(thread, _signed(given[2]), given[3]))
        return Call("rmdir" if name == "unlink" and given[2] & 0x200 else name, first)
    except OSError:
        return None


def _signed(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def _path(thread: int, directory: int, address: int) -> str:
    with open(f"/proc/{thread}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        text = b""
        while b"\0" not in text and len(text) < 4096:
            piece = memory.read(4096 - (address + len(text)) % 4096)
            if not piece:
                break
            text += piece
    path = os.fsdecode(text.split(b"\0", 1)[0])
    if path.startswith("/"):
        return os.path.normpath(path)
    base = os.readlink(f"/proc/{thread}/cwd" if directory == -100 else f"/proc/{thread}/fd/{directory}")
    return os.path.normpath(os.path.join(base, path))
