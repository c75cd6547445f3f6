"""Code that runs on a Dask worker: load the shared function, compute pieces, send results.

Everything is sent as bytes, so that the scheduler relays it without loading it, and a worker of another version can refuse it.
"""

import hashlib
import platform
import threading
import time
import traceback
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle

_COMPUTE = ("numpy", "numba", "pandas", "scipy", "scikit-learn", "lightgbm")
_ROOMS = ("features", "models", "sim")
_KEPT = 2
"""Functions that a worker keeps loaded: those of the last campaigns."""

Versions = tuple[tuple[str, str], ...]
"""Pairs of the name of software and its version."""


class Computed(NamedTuple):
    """Outcome of a task: results of its first pieces, and the error that stopped it, if any.

    ``seconds`` is its duration; ``first`` tells whether it had to load, or compile, what later tasks reuse.
    """

    results: list[Any]
    error: BaseException | None
    seconds: float
    first: bool


class Refused(NamedTuple):
    """How the versions of a worker on ``host`` differ from those asked for, in words."""

    host: str
    differences: str


class Failed(NamedTuple):
    """An error of a task outside its function: its message, and its traceback as text."""

    words: str
    trace: str


@cache
def versions() -> Versions:
    """Return the versions of all that can change a number: Python, packages, our own code."""
    version_of = {"Python": platform.python_version(), "processor": platform.machine(), "Queuecast": version("queuecast")}
    for name in _COMPUTE:
        try:
            version_of[name] = version(name)
        except PackageNotFoundError:
            version_of[name] = "missing"
    return (*version_of.items(), ("code", _code()))


def _code() -> str:
    """Return a digest of the source files that simulate and predict."""
    house, digest = Path(__file__).resolve().parents[2], hashlib.sha256()
    for room in _ROOMS:
        for file in sorted((house / room).rglob("*.py")):
            digest.update(f"{file.relative_to(house)}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:10]


def shared(content: bytes) -> bytes:
    """Return ``content``; as a task, Dask makes it again if all workers that hold it are lost."""
    return content


def compute(content: bytes, digest: str, asked: Versions, pieces: bytes) -> bytes:
    """Apply the function in ``content`` to each of ``pieces``.

    Returns :class:`Computed`, :class:`Refused` or :class:`Failed`, as bytes. Raises nothing, as an error that cannot be sent
    would never arrive. ``digest`` identifies the content; ``asked`` are the versions that the worker must have.
    """
    try:
        return _computed(content, digest, asked, pieces)
    except BaseException as error:
        return cloudpickle.dumps(Failed(_words(error), "".join(traceback.format_tb(error.__traceback__))))


def _computed(content: bytes, digest: str, asked: Versions, pieces: bytes) -> bytes:
    began = time.perf_counter()
    if asked != versions():
        mine = dict(versions())
        differences = [f"{name} {mine.get(name, 'missing')}, here {theirs}" for name, theirs in asked if mine.get(name) != theirs]
        return cloudpickle.dumps(Refused(platform.node(), "; ".join(differences)))
    results: list[Any] = []
    error: BaseException | None = None
    function, first = _loaded(content, digest)
    try:
        for piece in cloudpickle.loads(pieces):
            results.append(function(piece))
    except Exception as raised:
        error = _sendable(raised)
    computed = Computed(results, error, time.perf_counter() - began, first)
    try:
        return cloudpickle.dumps(computed)
    except Exception as unsent:
        error = _sendable(RuntimeError(f"what was computed cannot be sent back from a worker: {_words(unsent)}"))
        return cloudpickle.dumps(computed._replace(results=[], error=error))


def _words(error: BaseException) -> str:
    """Return the type and the message of an error, even if its message cannot be made."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return f"{type(error).__name__}, which does not say what happened"


def _sendable(error: Exception) -> Exception:
    """Return an error with traceback, cause and notes, or a RuntimeError if it cannot be sent."""
    from tblib import pickling_support

    pickling_support.install(error, *(each for each in error.args if isinstance(each, BaseException)))
    try:
        cloudpickle.loads(cloudpickle.dumps(error))
        return error
    except Exception:
        substitute = RuntimeError(_words(error)).with_traceback(error.__traceback__)
        for note in getattr(error, "__notes__", []):
            substitute.add_note(note)
        pickling_support.install(substitute)
        return substitute


_functions: dict[str, Callable[[Any], Any]] = {}
_lock = threading.Lock()


def _loaded(content: bytes, digest: str) -> tuple[Callable[[Any], Any], bool]:
    """Return the function in ``content``, one object for all tasks, and if it was loaded now."""
    with _lock:
        first = digest not in _functions
        if first:
            _functions[digest] = cloudpickle.loads(content)
            for old in list(_functions)[:-_KEPT]:
                del _functions[old]
        return _functions[digest], first
