"""Decorators of compiled code: numba, cached on disk, without the interpreter lock.

Numba's own cache watches the file of a function but not the files of the functions it calls, so an edited callee would
keep running in its old form. Here one digest stands for all code that compiled functions can reach, without docstrings
and comments. A changed digest means a new cache; edited docstrings recompile nothing.
"""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from numba.core import config as numba_config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.runtime import rtsys

from features.linking import Function, Kernel

config: Any = numba_config
os.environ.setdefault("NUMBA_OPT", "1")  # level 3 takes a sixth more time to compile, and no simulation was measurably slower at 1
config.reload_config()
_HOUSE = Path(__file__).resolve().parents[1]
_PACKAGES = ("features", "models", "sim")
"""Packages whose compiled functions call each other across files."""
COMPILED = not config.DISABLE_JIT
"""Whether the decorators compile: they return functions as they are if numba is switched off, and in registered
models."""
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _place() -> Path:
    """Return the directory of all caches: configured, else beside the code, else the user's."""
    if config.CACHE_DIR:
        return Path(config.CACHE_DIR)
    beside = Path(__file__).resolve().parent
    if os.access(beside, os.W_OK):
        return beside / "__pycache__"
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "queuecast"


def _digest(place: Path) -> str:
    """Return the digest of :func:`compiled_code`, cached in ``place`` until a file is touched."""
    files = [file for package in _PACKAGES for file in sorted((_HOUSE / package).rglob("*.py"))]
    touched = hashlib.sha256(f"{_HOUSE} bounds checked: {config.BOUNDSCHECK}\n".encode())
    for file in files:
        status = file.stat()
        touched.update(f"{file.relative_to(_HOUSE)} {status.st_mtime_ns} {status.st_size}\n".encode())
    note = place / f"sources-{touched.hexdigest()[:16]}"
    try:
        return note.read_text(encoding="ascii")
    except OSError:
        code = f"bounds checked: {config.BOUNDSCHECK}\n{compiled_code(_HOUSE, files)}"
        digest = hashlib.sha256(code.encode()).hexdigest()[:12]
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
    """Return the code of all compiled functions as one text.

    It holds every file of ``files`` (under ``house``) that imports this module, and all files that those import,
    without docstrings and comments, so that only a change of code changes the text.
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
    """Return every module that ``tree`` may import: of ``from a import b`` both a and a.b."""
    modules: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return modules


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED):
            kinds = (ast.Expr, ast.Constant)
            node.body = [
                statement
                for statement in node.body
                if not (isinstance(statement, kinds[0]) and isinstance(statement.value, kinds[1]))
            ]
    return tree


def _forget_old(directory: Path) -> None:
    """Remove all but the three caches used last, before the first use of a new cache.

    Other processes may still run on those three.
    """
    if directory.exists() or not directory.parent.is_dir():
        return
    caches = sorted(directory.parent.glob("kernels-*"), key=lambda path: path.stat().st_mtime, reverse=True)
    for cache in caches[3:]:
        shutil.rmtree(cache, ignore_errors=True)


_DIRECTORY = _place() / f"kernels-{_digest(_place())}"
if not config.CACHE_DIR:  # a configured directory may hold other installations' caches
    _forget_old(_DIRECTORY)


class Locator(_CacheLocator):
    """Where numba keeps compiled functions; the digest in the directory's name is the version."""

    def __init__(self, function: Any, file: str) -> None:
        self._function = function
        self._file = Path(file).resolve()

    @classmethod
    def from_function(cls, function: Any, file: str) -> Locator | None:
        """Return the locator of a function in ``file``, or None without a writable directory."""
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
        """Return "" for a function of the packages, else the date and size of its file.

        The digest in the directory's name already covers the packages.
        """
        if self._in_packages():
            return ""
        status = self._file.stat()
        return status.st_mtime_ns, status.st_size

    def get_disambiguator(self) -> str:
        """Return what tells functions of one name apart: the module, else file and line."""
        if self._in_packages():
            return str(self._function.__module__)
        return f"{hashlib.sha256(str(self._file).encode()).hexdigest()[:12]}.{self._function.__code__.co_firstlineno}"

    def _in_packages(self) -> bool:
        return any(self._file.is_relative_to(_HOUSE / package) for package in _PACKAGES)


class _Place(CompileResultCacheImpl):
    _locator_classes = [Locator]  # type: ignore[bad-override]  # noqa: RUF012  numba's own attribute


class Cache(FunctionCache):
    """Numba's cache of a function, written by one process at a time.

    To add a form of a function, numba reads the index of its forms and writes it with one more. Of two processes that
    do so at once, one would lose its form, or store it under the other's name.
    """

    _impl_class = _Place
    allocates = True
    """Whether the function needs numba's allocator, which is compiled in each process that uses it."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load a compiled form, or return None.

        Numba would first load what it needs to compile, scipy's linear algebra among it. That takes longer than the
        rest, and the compiler loads it anyway. Loaded code needs at most numba's allocator.
        """
        if self.allocates:
            rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store a compiled form when no other process stores any."""
        from filelock import FileLock

        with FileLock(Path(self.cache_path) / "saving.lock"):
            super().save_overload(sig, data)


def njit(function: Callable[..., Any]) -> Any:
    """Compile ``function`` (arrays and numbers in and out) on first call, or load it."""
    options = {"nopython": True, "boundscheck": None, "nogil": True}
    return function if not COMPILED else _cached(Function(function, targetoptions=options))


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a small function that allocates nothing: inlined, without reference counts.

    Passing arrays between functions and counting references takes more time than the work itself (simulating KTH-SP2:
    nine times as long). A function that allocates fails to compile here.
    """
    return _kernel(function, inline=True)


def apart(function: Callable[..., Any]) -> Any:
    """Compile like :func:`kernel` but do not inline: for long code that is not always run."""
    return _kernel(function, inline=False)


def _kernel(function: Callable[..., Any], *, inline: bool) -> Any:
    return function if not COMPILED else Kernel(function, inline=inline, cached=_cached)


def _cached(dispatcher: Function) -> Function:
    with suppress(RuntimeError):  # no writable cache: every process compiles anew
        dispatcher.enable_caching(Cache)
    return dispatcher
