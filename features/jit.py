"""The decorators of compiled code: numba, cached on disk, without the interpreter lock.

Numba's own cache looks at the file of a function but not at the files of the functions it calls, so an edited callee would go on
running in its old form. Here the cache lies in a directory named by the state of our sources: any edit of them starts a new one.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import config as numba_config

from features.indexing import Compiler

config: Any = numba_config
_INLINED: dict[str, Any] = {"nogil": True, "forceinline": True, "_nrt": False, "pipeline_class": Compiler}
_PACKAGES = ("features", "models", "sim")
"""Where compiled functions call each other across files."""


def _cache_directory() -> Path:
    house = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256(f"bounds checked: {config.BOUNDSCHECK}\n".encode())
    for package in _PACKAGES:
        for file in sorted((house / package).rglob("*.py")):
            status = file.stat()
            digest.update(f"{file.relative_to(house)} {status.st_mtime_ns} {status.st_size}\n".encode())
    return Path(__file__).resolve().parent / "__pycache__" / f"kernels-{digest.hexdigest()[:12]}"


def _forget_old(directory: Path) -> None:
    """Before the first use of a new cache, remove all but the three caches used last; other processes may still run on those."""
    if directory.exists() or not directory.parent.is_dir():
        return
    caches = sorted(directory.parent.glob("kernels-*"), key=lambda path: path.stat().st_mtime, reverse=True)
    for cache in caches[3:]:
        shutil.rmtree(cache, ignore_errors=True)


_DIRECTORY = _cache_directory()
_forget_old(_DIRECTORY)


def njit(function: Callable[..., Any]) -> Any:
    """Compile ``function`` (arrays and numbers in, arrays and numbers out) on first call, or load it from the cache."""
    return _cached(numba.njit(nogil=True)(function))


def kernel(function: Callable[..., Any]) -> Any:
    """Like :func:`njit`, for small functions that allocate nothing and call each other: inlined, and without reference counts.

    Handing arrays from function to function and counting references to them takes more time than the work itself (simulating
    KTH-SP2: nine times as long). A function that allocates fails to compile here, so the promise is checked.
    """
    return _cached(numba.njit(**_INLINED)(function))


def apart(function: Callable[..., Any]) -> Any:
    """Like :func:`kernel`, but called and not inlined: for what is long and not always needed, lest those who do without pay for it."""
    return _cached(numba.njit(**{**_INLINED, "forceinline": False})(function))


def _cached(dispatcher: Any) -> Any:
    if config.CACHE_DIR:  # the site has chosen a place of its own
        dispatcher.enable_caching()
        return dispatcher
    try:
        config.CACHE_DIR = str(_DIRECTORY)
        dispatcher.enable_caching()
    except (OSError, RuntimeError):  # an installation that cannot be written to: numba's default, a directory of the user's
        config.CACHE_DIR = ""
        dispatcher.enable_caching()
    finally:
        config.CACHE_DIR = ""
    return dispatcher
