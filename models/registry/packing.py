"""Fills a directory with all that a registered runtime model is made of: its script, its code under a private name, its data."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from models.packed.methods import METHODS, Method
from models.packed.predictor import FORMAT, HISTORY, SETTINGS

_PACKED = Path(__file__).parents[1] / "packed"
_SCRIPT = "runtime_model.py"
_MODULES = ("__init__.py", "boosting.py", "forest.py", "methods.py", "predictor.py", "snapshot_inputs.py")


@dataclass(frozen=True)
class Assembled:
    """Where the parts lie: MLflow's ``python_model``, ``code_paths`` and ``artifacts``."""

    script: Path
    code: Path
    data: Path


def private_name() -> str:
    """Name of the packed package: format and SHA-256 of its content, which it is held against when it is loaded."""
    return f"_queuecast_runtime_model_{FORMAT}_{content_hash(_PACKED, _MODULES)}"


def content_hash(home: Path, modules: Sequence[str]) -> str:
    """SHA-256, in hex digits, of ``modules`` of the package at ``home``, in order of their names; the scripts of packed models make it too."""
    digest = hashlib.sha256()
    for module in sorted(modules):
        digest.update(module.encode() + b"\0" + (home / module).read_bytes() + b"\0")
    return digest.hexdigest()


def copy_code(directory: Path, home: Path, modules: Sequence[str], script: str, name: str) -> tuple[Path, Path]:
    """Copy ``modules`` of the package at ``home`` as the package ``name`` into ``directory``/code, and ``script`` beside: script and code."""
    code = directory / "code" / name
    code.mkdir(parents=True)
    for module in modules:
        shutil.copyfile(home / module, code / module)
    return Path(shutil.copyfile(home / script, directory / script)), code


def assemble(
    directory: Path,
    method: Method,
    snapshot: pd.DataFrame,
    snapshot_s: int,
    *,
    origin_unix_s: int | None = None,
    timezone: str | None = None,
) -> Assembled:
    """Fill the empty ``directory``; ``snapshot`` is ``features.jobs.snapshot.snapshot`` at ``snapshot_s`` seconds from the trace's origin.

    ``origin_unix_s`` and ``timezone`` are the trace's, as in ``features.clock``. Raises ValueError for a method that a loaded model would not know.
    """
    if method.name not in METHODS:
        raise ValueError(f"unknown method {method.name!r}: known are {', '.join(METHODS)}")
    script, code = copy_code(directory, _PACKED, _MODULES, _SCRIPT, private_name())
    data = directory / "runtime_model"
    data.mkdir()
    settings = {
        "format": FORMAT,
        "method": method.name,
        "snapshot_s": int(snapshot_s),
        "origin_unix_s": origin_unix_s,
        "timezone": timezone,
    }
    (data / SETTINGS).write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    snapshot.to_parquet(data / HISTORY, index=False)
    method.write(data)
    return Assembled(script, code, data)
