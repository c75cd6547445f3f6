"""A registered model as MLflow runs it: models from code, under a private name.

That name holds the format and the SHA-256 of the content. So two versions in one process share code only if it is
identical, changed code is not run, and no code can be mistaken for a package ``models`` of the consumer. The model's
signature states its inputs and answers.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
from mlflow.exceptions import MlflowException
from mlflow.models import set_model
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE
from mlflow.pyfunc import PythonModel

_PREFIX = "_queuecast_model_"
_OLD_S = 7 * 86_400
"""Age of a snapshot from which answers come with a warning."""


def _predictor(directory: Path) -> Any:
    """Load the predictor of the kind that the settings in ``directory`` name, by the packed code.

    Raises ValueError for an unknown format and for damaged code, OSError for a missing file.
    """
    packages = sorted((Path(__file__).resolve().parent / "code").glob(f"{_PREFIX}*"))
    if len(packages) != 1:
        raise ValueError(
            f"{Path(__file__).parent / 'code'}: {len(packages)} packages {_PREFIX}* instead of one: the model is damaged"
        )
    name, home = packages[0].name, packages[0]
    if _content_hash(home) != name.rsplit("_", 1)[1]:
        raise ValueError(
            f"{home}: its code is not what was packed (the SHA-256 is in its name): the model is damaged or was tampered with"
        )
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, home / "__init__.py", submodule_search_locations=[str(home)])
        assert spec is not None
        sys.modules.setdefault(name, importlib.util.module_from_spec(spec))  # its __init__ is empty: nothing to execute
    sys.modules[name].__path__ = [str(home)]  # that of a version loaded before, with the same code, may be gone
    kind = importlib.import_module(f"{name}.settings").read_settings(directory)["model"]
    return getattr(importlib.import_module(f"{name}.{kind}_predictor"), f"{kind.capitalize()}Predictor")(directory)


def _content_hash(home: Path) -> str:
    digest = hashlib.sha256()
    for module in sorted(home.glob("*.py")):
        digest.update(module.name.encode() + b"\0" + module.read_bytes() + b"\0")
    return digest.hexdigest()


class RegisteredModel(PythonModel):
    """Answers with the predictor of the kind that the model's settings name."""

    def load_context(self, context: Any) -> None:
        (directory,) = context.artifacts.values()
        self._predictor = _predictor(Path(directory))

    def predict(self, context: Any, model_input: pd.DataFrame, params: dict[str, Any] | None = None) -> pd.DataFrame:
        try:
            answer = self._predictor.predict(model_input, **(params or {}))
        except ValueError as error:  # the scoring server hides the message of any other exception
            raise MlflowException(str(error), error_code=INVALID_PARAMETER_VALUE) from error
        if "snapshot_age_s" in answer and (oldest := answer["snapshot_age_s"].max()) > _OLD_S:
            warnings.warn(f"the model's snapshot is {oldest / 86_400:.0f} days old: load a newer version", stacklevel=2)
        return answer


set_model(RegisteredModel())
