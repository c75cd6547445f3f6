"""Fill a directory with the parts of a registered model; read its data again.

The parts are a script, packed code and data. The code is for consumers without Queuecast. Code from a registry may have
any origin: this process never runs it.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import mlflow.artifacts
import yaml
from mlflow.exceptions import MlflowException
from mlflow.models import Model

from features.errors import Damaged, InputError, first_line
from models.packed.settings import FORMAT, SETTINGS

_HOUSE = Path(__file__).parents[2]
_PACKED = _HOUSE / "models" / "packed"
_SHARED = (
    "features/jobs/like_jobs.py",
    "models/runtime/levels.py",
    "models/runtime/memory.py",
    "models/runtime/quantile_forest.py",
    "models/trees.py",
)
"""Files that compute features and answers here and in a registered model. They import only each other, numpy and
``jit``."""
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


CONTENT = "content_sha256"
"""Entry of a version's MLflow metadata: :func:`data_hash` of its data when it was made."""


def data_hash(directory: Path) -> str:
    """Return the SHA-256, in hex digits, of names and contents of the files in ``directory``."""
    digest = hashlib.sha256()
    for file in sorted(directory.iterdir()):
        digest.update(f"{file.name}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\0".encode())
    return digest.hexdigest()


@contextmanager
def version_data(name: str, number: str, kind: str, wrong: str = "does not load") -> Iterator[Path]:
    """Yield the directory of a version's data; none of its code runs.

    It is the directory that ``packing.assemble`` filled for a model of ``kind``. Raises Damaged with the text ``wrong``
    if data or code differ from what was packed, a file is missing, or the body of the ``with`` fails on the data, and
    InputError if MLflow or the artifact store does not answer.
    """
    try:
        with _fetched(name, number, kind) as home:
            yield home / "artifacts" / artifact(kind)
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, OSError, MlflowException, BadZipFile, zlib.error, yaml.YAMLError) as error:
        reason = first_line(error)
        missing = isinstance(error, FileNotFoundError) or getattr(error, "error_code", "") == "RESOURCE_DOES_NOT_EXIST"
        unanswered = isinstance(error, (OSError, MlflowException)) and not missing
        raise (InputError if unanswered else Damaged)(f"models:/{name}/{number}: {wrong}: {reason}") from error


def fault_of(name: str, number: str) -> str:
    """Return why a version of ``<kind>-<subject>`` cannot be used, "" if it is whole."""
    try:
        with version_data(name, number, name.partition("-")[0]):
            return ""
    except Damaged as error:
        return str(error)


@contextmanager
def _fetched(name: str, number: str, kind: str) -> Iterator[Path]:
    """Yield a verified copy of all files of a version, without compiled modules."""
    with tempfile.TemporaryDirectory(prefix="queuecast-") as directory:
        home = Path(mlflow.artifacts.download_artifacts(f"models:/{name}/{number}", dst_path=directory))
        if not (home / "MLmodel").is_file():
            raise FileNotFoundError("its files are missing")
        for compiled in [*home.rglob("__pycache__")]:
            shutil.rmtree(compiled)
        packages = [content_hash(modules_in(package)) == package.name.rpartition("_")[2] for package in (home / "code").glob("*/")]
        if not packages:
            raise FileNotFoundError("its code is missing")
        if not all(packages):
            raise ValueError("its code is not what was packed (the SHA-256 is in its name): it is damaged or was tampered with")
        metadata = Model.load(home / "MLmodel").metadata or {}
        if CONTENT in metadata and metadata[CONTENT] != data_hash(home / "artifacts" / artifact(kind)):
            raise ValueError("its data are not what was packed: it is damaged or was tampered with")
        yield home
