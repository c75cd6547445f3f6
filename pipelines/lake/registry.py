"""The site's model registry, and registered models as predictors for the simulator."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from features.clock import local_clock_s
from features.errors import InputError, first_line, is_plain, masked
from features.jobs.cleaning import CleanTrace
from models.runtime.protocol import TablePredictor
from pipelines.lake.home import home, local_home

if TYPE_CHECKING:
    from models.registry.tracking import Tracking

EXPERIMENT = "runtime prediction"


def tracking(uri: str = "") -> Tracking:
    """Return the MLflow store at ``uri``; by default the site's, else the home directory's.

    The site's is $MLFLOW_TRACKING_URI, the home directory's ``mlflow.db`` and ``mlartifacts``. Artifacts of the store at ``uri``
    are in ``mlartifacts`` beside its SQLite file. Raises InputError if it cannot be opened.
    """
    from mlflow.exceptions import MlflowException

    from models.registry.tracking import ARTIFACTS, connect

    place = uri or f"sqlite:///{local_home() / 'mlflow.db'}"
    address = uri or os.environ.get("MLFLOW_TRACKING_URI", "")
    if not is_plain(address):
        raise InputError(
            "the registry's address (MLFLOW_TRACKING_URI) is neither a URL nor a path (it is not shown: it may hold a password)"
        )
    beside = Path(place.removeprefix("sqlite:///")).parent if place.startswith("sqlite:") else local_home()
    try:
        store = connect(place, str(beside / ARTIFACTS), EXPERIMENT, site=not uri)
    except (MlflowException, OSError, ValueError) as error:
        line = masked(first_line(error))
        raise InputError(f"registry {masked(address or place)}: {line}") from error
    if store.moved_from:
        print(
            f"registry {store.place}: was moved or copied from {store.moved_from}: the models beside it are used",
            file=sys.stderr,
        )
    return store


def pruned(store: Tracking, name: str, published: Collection[str] = ()) -> str:
    """Remove old versions of ``name`` that are not ``published``; return how many, in words.

    An error of the registry is in that phrase and does not stop the run.
    """
    from mlflow.exceptions import MlflowException

    from models.registry.versions import prune

    try:
        return f"{prune(store, name, published):,} old versions with their runs"
    except (MlflowException, OSError) as error:
        return f"incomplete, because the registry refused: {first_line(error)}"


def predict_registered(
    spec: str, submitted: pd.DataFrame, store: Tracking | None = None, place: Path | None = None
) -> pd.DataFrame:
    """Predict with the model ``NAME[@ALIAS]`` (champion by default) from submission columns.

    It is a model of ``store``, published in the home directory ``place``; by default of :func:`tracking` and :func:`home`.
    Returns ``predicted_s``, ``snapshot_age_s`` and ``user_known``. Raises InputError if the registry or model cannot be loaded,
    or the model refuses the submissions.
    """
    from mlflow.exceptions import MlflowException

    from models.registry.runtime_registration import load
    from pipelines.lake.publishing import check_registry, version_of
    from pipelines.lake.tables import Lake

    name, _, alias = spec.partition("@")
    try:
        store = store or tracking()
        lake, registry = Lake((place or home()) / "lake"), store
        check_registry(lake, registry, name)
        alias = alias or "champion"
        return load(registry, name, version_of(lake, registry, name, alias) or alias).predict(submitted)
    except (MlflowException, OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{name}@{alias or 'champion'}: {first_line(error)}") from error


def submissions(clean: CleanTrace) -> pd.DataFrame:
    """Return the raw submission columns of a cleaned trace.

    ``user group executable procs requested_s submit_time``, the time as the site's wall clock. Jobs without a known user get the
    user with the empty name, without history; ``group`` and ``executable`` are null if unknown.
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


PREFIX = "registry:"
"""Prefix of a registered model's name among predictor names."""
_NAME = re.compile(r"registry:([^@()]+)(?:@([^@()]+))?")


def registered_name(text: str) -> str:
    """Return NAME@ALIAS of ``registry:NAME[@ALIAS]``; raise InputError for another text."""
    match = _NAME.fullmatch(text)
    if match is None:
        raise InputError(f"predictor {text}: a registered model is named registry:NAME or registry:NAME@ALIAS")
    return f"{match[1]}@{match[2] or 'champion'}"


def registered_predictor(
    text: str, clean: CleanTrace, since_s: int | None = None, store: Tracking | None = None, place: Path | None = None
) -> TablePredictor:
    """Return ``registry:NAME[@ALIAS]`` as a predictor for a whole trace.

    ``store`` and ``place`` are those of :func:`predict_registered`. The model predicts from its one snapshot. Jobs submitted
    before ``since_s`` get their request as prediction. The model's quantiles, if any, serve for jobs that outlive their
    prediction. Raises InputError if its snapshot is later than a submission, so that it has learned from the replayed jobs.
    """
    from models.packed.methods import LEVELS, PREDICTED

    rows = np.ones(len(clean.jobs), bool) if since_s is None else clean.jobs["submit_s"].to_numpy(np.int64) >= since_s
    answers = predict_registered(registered_name(text), submissions(clean)[rows], store, place)
    earlier_jobs = int((answers["snapshot_age_s"] < 0).sum())
    if earlier_jobs:
        raise InputError(
            f"{text}: has learned from the replayed jobs: its history was taken after {earlier_jobs:,} of the {len(answers):,} submissions; "
            "queuecast run replays a model that learned before the jobs that it predicts"
        )
    request = clean.jobs["requested_s"].to_numpy(np.float64)
    seconds = replaced(request, rows, answers[PREDICTED])
    quantiles = quantile_table(request, rows, {level: answers[output] for output, level in LEVELS.items() if output in answers})
    return TablePredictor(text, lambda _: seconds, quantiles=lambda _: quantiles)


def replaced(request_s: np.ndarray, rows: np.ndarray, answers: pd.Series) -> np.ndarray:
    """Return requests with ``answers`` in place of those of ``rows``: seconds, float64 [jobs]."""
    seconds = request_s.copy()
    seconds[rows] = answers.to_numpy(np.float64)
    return seconds


def quantile_table(request_s: np.ndarray, rows: np.ndarray, answers: Mapping[float, pd.Series]) -> pd.DataFrame:
    """Return :func:`replaced` for each level: seconds, one row per job, one column per level."""
    return pd.DataFrame(
        {level: replaced(request_s, rows, seconds) for level, seconds in answers.items()}, index=range(len(request_s))
    )
