"""Fill a directory with all parts of a registered model: script, packed code, data."""

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from models.packed.settings import FORMAT, SETTINGS

_HOUSE = Path(__file__).parents[2]
_PACKED = _HOUSE / "models" / "packed"
_SHARED = (
    "features/arrays.py",
    "features/jobs/like_jobs.py",
    "features/jobs/user_history.py",
    "features/jobs/variability.py",
    "models/runtime/boosted_trees.py",
    "models/runtime/levels.py",
    "models/runtime/memory.py",
    "models/runtime/quantile_forest.py",
    "models/runtime/ratios.py",
    "models/trees.py",
)
"""Files that compute features and answers here and in a registered model. They import only each other, numpy and ``jit``."""
_IMPORT = re.compile(r"^from (?:features|models)\.(?:\w+\.)*(\w+) import", re.MULTILINE)
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


def content_hash(modules: Mapping[str, bytes]) -> str:
    """Return the SHA-256, in hex digits, of ``modules`` by file name, in order of the names.

    The script of a packed model computes it too.
    """
    digest = hashlib.sha256()
    for name in sorted(modules):
        digest.update(name.encode() + b"\0" + modules[name] + b"\0")
    return digest.hexdigest()


def assemble(directory: Path, kind: str, write: Callable[[Path], Mapping[str, object]]) -> Assembled:
    """Fill the empty ``directory`` for a model of ``kind``.

    ``write`` writes the model's data to a directory and returns its settings.
    """
    code = directory / "code" / private_name()
    code.mkdir(parents=True)
    for name, content in packed_modules().items():
        (code / name).write_bytes(content)
    data = directory / artifact(kind)
    data.mkdir()
    settings = {"format": FORMAT, "model": kind, **write(data)}
    (data / SETTINGS).write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    return Assembled(Path(shutil.copyfile(_PACKED / SCRIPT, directory / SCRIPT)), code, data)


def artifact(kind: str) -> str:
    """Return the name of the directory of a version's data among its artifacts."""
    return f"{kind}_model"


def packed_modules() -> dict[str, bytes]:
    """Return the content of the modules that are packed into a version, by file name.

    They lie side by side in one package, so each imports the others from there.
    """
    paths = [*(path for path in _PACKED.glob("*.py") if path.name != SCRIPT), *(_HOUSE / shared for shared in _SHARED)]
    return {path.name: _IMPORT.sub(r"from .\1 import", path.read_text(encoding="utf-8")).encode() for path in paths}


def modules_in(package: Path) -> dict[str, bytes]:
    """Return the content of the modules of a packed ``package``, by file name."""
    return {module.name: module.read_bytes() for module in package.glob("*.py")}
