"""A registered runtime model: predicts from what a user says at submission, and from a dated snapshot of user history it brings along.

MLflow runs this file as it is (a model from code); beside it come, as files, its configuration, the snapshot, the trees, and the two
modules that make inputs. Those are loaded under names of their own, so that two models in one process never share code, and
nobody's modules are in the way. Needs mlflow, lightgbm, numpy and pandas.
"""

import hashlib
import importlib.util
import json
import sys
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from mlflow.models import set_model
from mlflow.pyfunc import PythonModel

FORMAT = 1
COLUMNS = ("user", "procs", "requested_s", "submit_time")


def load_module(path):
    """The module in the file ``path``, under a private name made of its content."""
    content = Path(path).read_bytes()
    name = f"_queuecast_{Path(path).stem}_{hashlib.sha256(content).hexdigest()[:12]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path}: is no Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


class RuntimeModel(PythonModel):
    """``requested``, ``last2`` or ``lightgbm``, as the configuration says."""

    def load_context(self, context):
        directory = Path(context.artifacts["model"])
        self.config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
        if self.config["format"] != FORMAT:
            made = f"a model of format {self.config['format']}, and this code reads format {FORMAT}"
            raise ValueError(f"{self.config['trace']}: {made}: register it anew with the version of Queuecast in use")
        snapshot = pd.read_csv(
            directory / "history.csv", dtype={"user": str}, keep_default_na=False, na_values=[""], float_precision="round_trip"
        )
        self.history = load_module(directory / "snapshot_inputs.py").History.from_frame(snapshot)
        self.boosting, self.booster = load_module(directory / "boosting.py"), None
        if self.config["method"] == "lightgbm":
            import lightgbm

            self.booster = lightgbm.Booster(model_file=str(directory / "trees.txt"))
        self.zone = ZoneInfo(self.config["timezone"]) if self.config["timezone"] else None

    def predict(self, context, model_input: pd.DataFrame, params=None) -> pd.DataFrame:
        """One row a submission: ``predicted_s``, and ``snapshot_age_s``, how long before the submission the history was taken (negative if after)."""
        jobs = pd.DataFrame(model_input).reset_index(drop=True)
        check(jobs)
        time = pd.to_datetime(jobs["submit_time"])
        local_s = time.to_numpy("datetime64[s]").astype(np.int64)
        submit_s = self.unix_s(local_s) - self.config["origin_unix_s"]
        submissions = jobs[["user", "procs", "requested_s"]].assign(submit_s=submit_s, local_s=local_s)
        inputs = self.history.inputs(submissions)
        requested = jobs["requested_s"].to_numpy(np.float64)
        if self.config["method"] == "requested":
            predicted = requested
        elif self.config["method"] == "last2":
            mean = np.floor(inputs["mean_last2_runtime_s"].to_numpy())
            predicted = np.where(np.isnan(mean), requested, np.minimum(mean, requested))
        else:
            predicted = self.boosting.predict(self.booster, inputs)
        return pd.DataFrame({"predicted_s": predicted, "snapshot_age_s": (submit_s - self.config["at_s"]).astype(np.float64)})

    def unix_s(self, local_s):
        """Unix time of local wall-clock seconds. An hour that the clock shows twice is taken as the first, one it skips as after the gap."""
        if self.zone is None:
            return local_s
        if len(local_s) < 50:
            epoch = datetime(1970, 1, 1)
            seconds = [(epoch + pd.Timedelta(seconds=int(value))).replace(tzinfo=self.zone).timestamp() for value in local_s]
            return np.array(seconds).astype(np.int64)
        local = pd.DatetimeIndex(local_s.astype("datetime64[s]"))
        first = np.ones(len(local), bool)
        utc = local.tz_localize(self.zone, ambiguous=first, nonexistent="shift_forward").tz_convert("UTC").tz_localize(None)
        return utc.to_numpy("datetime64[s]").astype(np.int64)


def check(jobs):
    """Raise ValueError naming row and column for what no scheduler would accept."""
    missing = [name for name in COLUMNS if name not in jobs.columns]
    if missing:
        raise ValueError(f"submissions lack {', '.join(missing)}; needed are {', '.join(COLUMNS)}")
    for name in ("procs", "requested_s"):
        wrong = ~(jobs[name].to_numpy(np.float64, na_value=np.nan) >= 1)
        if wrong.any():
            row = int(wrong.argmax())
            raise ValueError(f"row {row}: {name} is {jobs[name].iloc[row]}, and must be at least 1 ({int(wrong.sum())} such rows)")
    wrong = pd.to_datetime(jobs["submit_time"]).isna().to_numpy()
    if wrong.any():
        raise ValueError(f"row {int(wrong.argmax())}: submit_time is missing ({int(wrong.sum())} such rows)")


set_model(RuntimeModel())
