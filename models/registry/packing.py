"""Fill a directory with all parts of a registered model: script, packed code, data."""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from models.packed.settings import FORMAT, SETTINGS

_PACKED = Path(__file__).parents[1] / "packed"
SCRIPT = "registered_model.py"
"""The file of a version that MLflow runs."""


@dataclass(frozen=True)
class Assembled:
    """Paths of the parts: MLflow's ``python_model``, ``code_paths`` and ``artifacts``."""

    script: Path
    code: Path
    data: Path


def private_name() -> str:
    """Return the packed package's name: format and SHA-256 of its content, checked on loading."""
    return f"_queuecast_model_{FORMAT}_{content_hash(packed_modules())}"


def content_hash(modules: Iterable[Path]) -> str:
    """Return the SHA-256, in hex digits, of ``modules`` in order of their names.

    The script of a packed model computes it too.
    """
    digest = hashlib.sha256()
    for module in sorted(modules):
        digest.update(module.name.encode() + b"\0" + module.read_bytes() + b"\0")
    return digest.hexdigest()


def assemble(directory: Path, kind: str, write: Callable[[Path], Mapping[str, object]]) -> Assembled:
    """Fill the empty ``directory`` for a model of ``kind``.

    ``write`` writes the model's data to a directory and returns its settings.
    """
    code = directory / "code" / private_name()
    code.mkdir(parents=True)
    for module in packed_modules():
        shutil.copyfile(module, code / module.name)
    data = directory / artifact(kind)
    data.mkdir()
    settings = {"format": FORMAT, "model": kind, **write(data)}
    (data / SETTINGS).write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    return Assembled(Path(shutil.copyfile(packed_script(), directory / SCRIPT)), code, data)


def artifact(kind: str) -> str:
    """Return the name of the directory of a version's data among its artifacts."""
    return f"{kind}_model"


def packed_modules() -> list[Path]:
    """Return the modules that are packed into a version."""
    return sorted(path for path in _PACKED.glob("*.py") if path.name != SCRIPT)


def packed_script() -> Path:
    """Return the script beside them."""
    return _PACKED / SCRIPT
