"""The decorators of compiled code: numba, cached on disk, without the interpreter lock.

Numba's own cache looks at the file of a function but not at the files of the functions it calls, so an edited callee would go on
running in its old form. Here one digest stands for all code that compiled functions can reach, docstrings and comments left out:
another digest is another cache, and a sentence rewritten compiles nothing anew.
"""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numba
from numba.core import config as numba_config
from numba.core.caching import _CacheLocator

from features.indexing import Compiler

config: Any = numba_config
_INLINED: dict[str, Any] = {"nogil": True, "forceinline": True, "_nrt": False, "pipeline_class": Compiler}
_HOUSE = Path(__file__).resolve().parents[1]
_PACKAGES = ("features", "models", "sim")
"""Where compiled functions call each other across files."""
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _place() -> Path:
    """The directory of all caches: what the site chose, else beside the code, else the user's."""
    if config.CACHE_DIR:
        return Path(config.CACHE_DIR)
    beside = Path(__file__).resolve().parent
    if os.access(beside, os.W_OK):
        return beside / "__pycache__"
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "queuecast"


def _digest(place: Path) -> str:
    """The digest of :func:`compiled_code`, from a note in ``place`` while no file of the packages was touched."""
    files = [file for package in _PACKAGES for file in sorted((_HOUSE / package).rglob("*.py"))]
    touched = hashlib.sha256(f"{_HOUSE} bounds checked: {config.BOUNDSCHECK}\n".encode())
    for file in files:
        status = file.stat()
        touched.update(f"{file.relative_to(_HOUSE)} {status.st_mtime_ns} {status.st_size}\n".encode())
    note = place / f"sources-{touched.hexdigest()[:16]}"
    try:
        return note.read_text(encoding="ascii")
    except OSError:
        found = f"bounds checked: {config.BOUNDSCHECK}\n{compiled_code(_HOUSE, files)}"
        digest = hashlib.sha256(found.encode()).hexdigest()[:12]
        try:
            place.mkdir(parents=True, exist_ok=True)
            for old in sorted(place.glob("sources-*"), key=lambda path: path.stat().st_mtime)[:-20]:
                old.unlink(missing_ok=True)
            note.with_suffix(f".{os.getpid()}").write_text(digest, encoding="ascii")
            note.with_suffix(f".{os.getpid()}").replace(note)
        except OSError:  # the note only saves time
            pass
        return digest


def compiled_code(house: Path, files: Iterable[Path]) -> str:
    """Return what compiled functions are made of, as one text: every file that imports this one, and all that those import.

    ``files`` lie under ``house``. Docstrings and comments are left out, so that only a change of code changes the text.
    """
    trees = {".".join(file.relative_to(house).with_suffix("").parts): ast.parse(file.read_bytes()) for file in files}
    imports = {name: {module for module in _imported(tree) if module in trees} for name, tree in trees.items()}
    reached: set[str] = set()
    waiting = [name for name, modules in imports.items() if "features.jit" in modules] + ["features.jit"]
    while waiting:
        name = waiting.pop()
        if name in trees and name not in reached:
            reached.add(name)
            waiting += imports[name]
    return "\n".join(f"{name} {ast.dump(_without_docstrings(trees[name]))}" for name in sorted(reached))


def _imported(tree: ast.Module) -> set[str]:
    """Every module that ``tree`` may import: of ``from a import b`` both a and a.b."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED):
            said = (ast.Expr, ast.Constant)
            node.body = [each for each in node.body if not (isinstance(each, said[0]) and isinstance(each.value, said[1]))]
    return tree


def _forget_old(directory: Path) -> None:
    """Before the first use of a new cache, remove all but the three caches used last; other processes may still run on those."""
    if directory.exists() or not directory.parent.is_dir():
        return
    caches = sorted(directory.parent.glob("kernels-*"), key=lambda path: path.stat().st_mtime, reverse=True)
    for cache in caches[3:]:
        shutil.rmtree(cache, ignore_errors=True)


_DIRECTORY = _place() / f"kernels-{_digest(_place())}"
if not config.CACHE_DIR:  # a place that the site chose may hold other installations' caches
    _forget_old(_DIRECTORY)


class Locator(_CacheLocator):
    """Where numba keeps a function of ours, and what tells that it is still the same: the digest in the directory's name."""

    def __init__(self, function: Any, file: str) -> None:
        self._function = function
        self._file = Path(file).resolve()

    @classmethod
    def from_function(cls, function: Any, file: str) -> Locator | None:
        """Return the locator of a function that is defined in ``file``, or None where nothing can be written."""
        locator = cls(function, file)
        try:
            locator.ensure_cache_path()
        except OSError:
            return None
        return locator

    def get_cache_path(self) -> str:
        """Return the directory of all compiled functions of this code."""
        return str(_DIRECTORY)

    def get_source_stamp(self) -> Any:
        """Return nothing for a function of the packages, which the directory stands for; else date and size of its file."""
        if self._in_packages():
            return ""
        status = self._file.stat()
        return status.st_mtime_ns, status.st_size

    def get_disambiguator(self) -> str:
        """Return what tells the function from others of its name: its module, else file and line."""
        if self._in_packages():
            return str(self._function.__module__)
        return f"{hashlib.sha256(str(self._file).encode()).hexdigest()[:12]}.{self._function.__code__.co_firstlineno}"

    def _in_packages(self) -> bool:
        return any(self._file.is_relative_to(_HOUSE / package) for package in _PACKAGES)


def njit(function: Callable[..., Any]) -> Any:
    """Compile ``function`` (arrays and numbers in, arrays and numbers out) on first call, or load it from the cache."""
    return _cached(numba.njit(nogil=True)(function))


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a small function that allocates nothing: inlined, and without reference counts.

    Handing arrays from function to function and counting references to them takes more time than the work itself (simulating
    KTH-SP2: nine times as long). A function that allocates fails to compile here, so the promise is checked.
    """
    return _cached(numba.njit(**_INLINED)(function))


def apart(function: Callable[..., Any]) -> Any:
    """Compile as :func:`kernel` does, but call and do not inline: for what is long and not always needed."""
    return _cached(numba.njit(**{**_INLINED, "forceinline": False})(function))


def _cached(dispatcher: Any) -> Any:
    chosen, config.CACHE_LOCATOR_CLASSES = config.CACHE_LOCATOR_CLASSES, f"{__name__}.{Locator.__name__}"
    try:
        dispatcher.enable_caching()
    except RuntimeError:  # nowhere to write: compiled anew in every process
        pass
    finally:
        config.CACHE_LOCATOR_CLASSES = chosen
    return dispatcher
