"""Registered models from the pipeline's side: where the registry is, and a registered model as a predictor for the simulator."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from features.cleaning import CleanTrace
from features.clock import local_clock_s
from features.errors import InputError
from models.protocol import TablePredictor
from pipelines.home import home

if TYPE_CHECKING:
    from models.tracking import Tracking

EXPERIMENT = "runtime prediction"


def tracking() -> Tracking:
    """The site's MLflow store ($MLFLOW_TRACKING_URI), or the one in the home directory: ``mlflow.db`` and ``mlartifacts``.

    InputError if it cannot be opened.
    """
    from mlflow.exceptions import MlflowException

    from models.tracking import connect

    place = f"sqlite:///{home() / 'mlflow.db'}"
    try:
        return connect(place, str(home() / "mlartifacts"), EXPERIMENT)
    except (MlflowException, OSError, ValueError) as error:
        uri = os.environ.get("MLFLOW_TRACKING_URI") or place
        raise InputError(f"registry {uri}: {str(error).strip().splitlines()[0]}") from error


def predict_registered(spec: str, submitted: pd.DataFrame) -> pd.DataFrame:
    """Ask the model ``NAME[@ALIAS]`` (champion by default) for raw submission columns: ``predicted_s`` and ``snapshot_age_s``.

    InputError where the registry or the model cannot be had, or the submissions make no sense to the model.
    """
    from mlflow.exceptions import MlflowException

    from models.registration import ask, load

    name, _, alias = spec.partition("@")
    try:
        model = load(tracking(), name, alias or "champion")
        return ask(model, submitted)
    except (MlflowException, OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{name}@{alias or 'champion'}: {str(error).strip().splitlines()[0]}") from error


def submissions(clean: CleanTrace) -> pd.DataFrame:
    """The raw submission columns of a cleaned trace: ``user group executable procs requested_s submit_time``, the time as the site's wall clock.

    Jobs of no known user are of the user with the empty name, who has no history; ``group`` and ``executable`` are null where they are unknown.
    """
    jobs = clean.jobs
    local = local_clock_s(jobs["submit_s"].to_numpy(np.int64), clean.origin_unix_s, clean.timezone)
    return pd.DataFrame(
        {
            "user": jobs["user"].astype("str").fillna(""),
            "group": jobs["group"].astype("str"),
            "executable": jobs["executable"].astype("str"),
            "procs": jobs["procs"].to_numpy(np.int64),
            "requested_s": jobs["requested_s"].to_numpy(np.int64),
            "submit_time": local.astype("datetime64[s]"),
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
