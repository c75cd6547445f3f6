"""Registered models from the pipeline's side: where the registry is, and a registered model as a predictor for the simulator."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd

from features.cleaning import CleanTrace
from features.clock import local_clock_s
from features.errors import InputError
from models.protocol import TablePredictor
from models.tracking import Tracking
from pipelines.home import home


def tracking() -> Tracking:
    """The site's MLflow server, or the store in the home directory."""
    return Tracking.under(home())


def predict_registered(spec: str, submitted: pd.DataFrame) -> pd.DataFrame:
    """Ask the model ``NAME[@ALIAS]`` (champion by default) for raw submission columns: ``predicted_s`` and ``snapshot_age_s``.

    InputError where the registry or the model cannot be had, or the submissions make no sense to the model.
    """
    import mlflow
    from mlflow.exceptions import MlflowException

    name, _, alias = spec.partition("@")
    place = tracking()
    try:
        place.connect()
        model = mlflow.pyfunc.load_model(f"models:/{name}@{alias or 'champion'}")
    except (MlflowException, ImportError, OSError) as error:
        cause = str(error).strip().splitlines()[0]
        raise InputError(f"registry {place.uri}: cannot load {name}@{alias or 'champion'}: {cause}") from error
    try:
        return pd.DataFrame(model.predict(submitted))
    except (MlflowException, ValueError) as error:
        raise InputError(f"{name}@{alias or 'champion'}: {str(error).strip().splitlines()[0]}") from error


def submissions(clean: CleanTrace) -> pd.DataFrame:
    """The raw submission columns of a cleaned trace: ``user procs requested_s submit_time``, the time as the site's wall clock."""
    jobs = clean.jobs
    local = local_clock_s(jobs["submit_s"].to_numpy(np.int64), clean.origin_unix_s, clean.timezone)
    return pd.DataFrame(
        {
            "user": jobs["user"].astype("object").where(jobs["user"].notna(), None),
            "procs": jobs["procs"].to_numpy(np.int64),
            "requested_s": jobs["requested_s"].to_numpy(np.int64),
            "submit_time": local.astype("datetime64[s]").astype("datetime64[ns]"),
        }
    )


def registered_predictor(spec: str, clean: CleanTrace) -> TablePredictor:
    """A registered model's predictions for a whole trace. Says how many jobs were submitted before its snapshot: it knows their future."""
    answers = predict_registered(spec, submissions(clean))
    known = int((answers["snapshot_age_s"] < 0).sum())
    if known:
        print(
            f"registry:{spec}: {known:,} of {len(answers):,} jobs were submitted before the model's history was taken; it may have learned from them",
            file=sys.stderr,
        )
    seconds = answers["predicted_s"].to_numpy(np.float64)
    return TablePredictor(f"registry:{spec}", lambda jobs: seconds)
