"""Reading versions as data, by Queuecast's own code.

A version contains code for consumers without Queuecast. Code from a registry may have any origin: this process never runs it.
"""

import hashlib
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zipfile import BadZipFile

import mlflow.artifacts
import yaml
from mlflow.exceptions import MlflowException
from mlflow.models import Model

from features.errors import Damaged, InputError, first_line
from models.registry.packing import artifact, content_hash, modules_in

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

    It is the directory that ``packing.assemble`` filled for a model of ``kind``. Raises Damaged with the text ``wrong`` if data or
    code differ from what was packed, a file is missing, or the body of the ``with`` fails on the data, and InputError if MLflow
    or the artifact store does not answer.
    """
    try:
        with _fetched(name, number, kind) as home:
            yield home / "artifacts" / artifact(kind)
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, OSError, MlflowException, BadZipFile, zlib.error, yaml.YAMLError) as error:
        reason = first_line(error)
        unanswered = isinstance(error, (OSError, MlflowException)) and not _is_missing(error)
        raise (InputError if unanswered else Damaged)(f"models:/{name}/{number}: {wrong}: {reason}") from error


def _is_missing(error: Exception) -> bool:
    return isinstance(error, FileNotFoundError) or getattr(error, "error_code", "") == "RESOURCE_DOES_NOT_EXIST"


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
