"""Say how a page of figures was made, and keep tables that only the same code uses again.

A page names its command and the commit of its code. A table is kept under a hash of the code, of the
benchmark that made it and of its settings; when any of them changes, it is made anew. Tables are Parquet
files; nothing is pickled.
"""

from __future__ import annotations

import hashlib
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pandas as pd

from pipelines.lake.places import replacing

HOUSE = Path(__file__).resolve().parents[2]
STUDIES = HOUSE / "docs" / "studies"
"""Where the pages, their pictures and ``data/`` with all their rows are."""
SHARED = HOUSE.parent / "shared"
ROOMS = ("features", "models", "sim", "pipelines", "benchmarks")
"""Folders whose files can change a figure."""
PLACES = ("--shared", "--pages", "--traces", "--keep", "--home", "--workers", "--threads", "--on", "--out", "--figures")
"""Options that say where something is or how many threads work at it: they change no figure, and are left out of a page."""


def made_by(name: str, argv: Sequence[str] | None = None) -> str:
    """Say in one sentence how a page was made: the command and the commit of its code.

    ``name`` is the benchmark's module under ``benchmarks``, as ``studies.picture``, ``argv`` its arguments, by default those of this process.
    """
    words = ["python", "-m", f"benchmarks.{name}", *_without_places(sys.argv[1:] if argv is None else argv)]
    return f"Made by `{shlex.join(words)}` at {LOADED}."


def commit(house: Path = HOUSE) -> str:
    """Name the commit of the code, and say where files of it were changed since."""
    try:
        name = _git(house, "rev-parse", "--short=10", "HEAD")
        changed = _git(house, "status", "--porcelain", "--", *(room for room in ROOMS if (house / room).exists()))
    except (OSError, subprocess.SubprocessError):
        return "an unknown commit (not a git checkout)"
    return f"commit {name}" + (" with changes that were not committed" if changed else "")


def kept(folder: Path, name: str, settings: Sequence[object], make: Callable[[], pd.DataFrame]) -> pd.DataFrame:
    """Return the table that ``make`` gives, from ``folder`` if it was made before.

    It is used again only by the same code with the same ``settings``.
    ``name`` is the benchmark's module under ``benchmarks``, as ``studies.picture``; ``settings`` are told apart by their ``repr``.
    """
    path = folder / f"{key(name, settings)}.parquet"
    if not path.exists():
        table = make()
        with replacing(path) as unfinished:
            table.to_parquet(unfinished)
    return pd.read_parquet(path)


def key(name: str, settings: Sequence[object]) -> str:
    """Return the name under which results are kept: 32 digits of a hash of settings and code."""
    own = (HOUSE / "benchmarks" / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8")
    return hashlib.sha256("\n".join((code(), own, *map(repr, settings))).encode()).hexdigest()[:32]


@cache
def code() -> str:
    """A hash of everything that decides what a simulation or a model says."""
    files = sorted(path for room in ("features", "models", "sim") for path in (HOUSE / room).rglob("*.py"))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()


def _without_places(argv: Sequence[str]) -> list[str]:
    kept_words, skip = [], False
    for word in argv:
        if not skip and word.split("=")[0] not in PLACES:
            kept_words.append(word)
        skip = word in PLACES
    return kept_words


def _git(house: Path, *asked: str) -> str:
    done = subprocess.run(["git", "-C", str(house), *asked], capture_output=True, text=True, timeout=10, check=True)
    return done.stdout.strip()


LOADED = commit()
"""The commit whose code this process runs: named as it begins, as a long run may outlast a commit."""
