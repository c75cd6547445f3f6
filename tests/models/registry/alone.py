"""Ask registered models in a process that can import neither Queuecast nor the libraries that it learns with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd

_ALONE = """
import sys
blocked = {"features", "models", "sim", "pipelines", "numba", "lightgbm", "scipy", "sklearn"}
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in blocked:
            raise ModuleNotFoundError(f"{name} is not installed here", name=name)
sys.meta_path.insert(0, Absent())
import mlflow, pandas as pd
for place, path in zip(sys.argv[1::2], sys.argv[2::2]):
    model, asked = mlflow.pyfunc.load_model(place), pd.read_parquet(path)
    print(model.predict(asked).to_json(double_precision=15))
    needed = model.metadata.get_input_schema().required_input_names()[-1]
    for wrong in (asked.drop(columns=needed), asked.assign(**{needed: "much"})):
        try:
            model.predict(wrong)
        except mlflow.exceptions.MlflowException as error:
            assert needed in str(error).splitlines()[-1], error
        else:
            raise AssertionError(f"{place} takes {wrong}")
assert not blocked & set(sys.modules)
"""


def answers_alone(questions: list[tuple[Path, pd.DataFrame]], folder: Path) -> list[pd.DataFrame]:
    """Return what each model answers there to its question; ``folder`` is for the process's own use.

    Asserts that each refuses a question without the last of the columns it needs, or with another type, in a line that names it.
    """
    command: list[str | Path] = [sys.executable, "-c", _ALONE]
    for number, (model, asked) in enumerate(questions):
        asked.to_parquet(folder / f"asked{number}.parquet")
        command += [model, folder / f"asked{number}.parquet"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return [pd.DataFrame(json.loads(line)) for line in done.stdout.splitlines()[-len(questions) :]]
