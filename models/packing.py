"""Fills a directory with all that a registered runtime model is made of: its script, its code under a private name, its data."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import lightgbm
import pandas as pd

from models.packed.predictor import FORMAT, HISTORY, METHODS, SETTINGS, TREES

_PACKED = Path(__file__).parent / "packed"
_SCRIPT = "runtime_model.py"
_MODULES = ("__init__.py", "boosting.py", "predictor.py", "snapshot_inputs.py")


@dataclass(frozen=True)
class Assembled:
    """Where the parts lie: MLflow's ``python_model``, ``code_paths`` and ``artifacts["runtime_model"]``."""

    script: Path
    code: Path
    data: Path


def private_name() -> str:
    """Name of the packed package: format and the first 8 hex digits of its content's SHA-256."""
    digest = hashlib.sha256()
    for module in _MODULES:
        digest.update(module.encode() + b"\0" + (_PACKED / module).read_bytes() + b"\0")
    return f"_queuecast_runtime_model_{FORMAT}_{digest.hexdigest()[:8]}"


def assemble(
    directory: Path,
    method: str,
    snapshot: pd.DataFrame,
    snapshot_s: int,
    *,
    booster: lightgbm.Booster | None = None,
    origin_unix_s: int | None = None,
    timezone: str | None = None,
) -> Assembled:
    """Fill the empty ``directory``; ``snapshot`` is ``features.snapshot.snapshot`` at ``snapshot_s`` seconds from the trace's origin.

    ``origin_unix_s`` and ``timezone`` are the trace's, as in ``features.clock``. Raises ValueError for an unknown method and for
    a booster that is missing or not wanted.
    """
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}: known are {', '.join(METHODS)}")
    if (booster is not None) != (method == "lightgbm"):
        raise ValueError(f"method {method} {'needs a' if booster is None else 'takes no'} booster")
    code = directory / "code" / private_name()
    code.mkdir(parents=True)
    for module in _MODULES:
        shutil.copyfile(_PACKED / module, code / module)
    shutil.copyfile(_PACKED / _SCRIPT, directory / _SCRIPT)

    data = directory / "runtime_model"
    data.mkdir()
    settings = {
        "format": FORMAT,
        "method": method,
        "snapshot_s": int(snapshot_s),
        "origin_unix_s": origin_unix_s,
        "timezone": timezone,
    }
    (data / SETTINGS).write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    snapshot.to_parquet(data / HISTORY, index=False)
    if booster is not None:
        (data / TREES).write_text(booster.model_to_string(), encoding="utf-8")
    return Assembled(directory / _SCRIPT, code, data)
