"""The site's model registry, and registered models as predictors for the simulator."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from features.clock import local_clock_s
from features.errors import InputError
from features.jobs.cleaning import CleanTrace
from models.runtime.protocol import TablePredictor
from pipelines.sources.catalogue import site_registry
from pipelines.storage.home import home

if TYPE_CHECKING:
    from models.registry.tracking import Tracking
    from models.registry.versions import Keep

EXPERIMENT = "runtime prediction"


def tracking() -> Tracking:
    """Return the site's MLflow store ($MLFLOW_TRACKING_URI), or the one in the home directory.

    The latter is ``mlflow.db`` and ``mlartifacts``. InputError if it cannot be opened.
    """
    from mlflow.exceptions import MlflowException

    from models.registry.tracking import connect

    place = f"sqlite:///{home() / 'mlflow.db'}"
    try:
        return connect(place, str(home() / "mlartifacts"), EXPERIMENT)
    except (MlflowException, OSError, ValueError) as error:
        uri = os.environ.get("MLFLOW_TRACKING_URI") or place
        raise InputError(f"registry {uri}: {str(error).strip().splitlines()[0]}") from error


def kept_versions() -> Keep:
    """Return how many versions of a model the site keeps.

    ``keep_versions`` and ``keep_days`` of [registry] in its ``queuecast.toml``, or the default. $QUEUECAST_KEEP_VERSIONS and
    $QUEUECAST_KEEP_DAYS come before the file. InputError for an invalid value.
    """
    from models.registry.versions import Keep

    stated = site_registry()
    found: dict[str, float] = {}
    for key, variable in (("versions", "QUEUECAST_KEEP_VERSIONS"), ("days", "QUEUECAST_KEEP_DAYS")):
        given = os.environ.get(variable) or stated.get(f"keep_{key}", getattr(Keep, key))
        place = f"${variable}" if os.environ.get(variable) else f"keep_{key} of [registry] in the site's catalogue"
        least = 1 if key == "versions" else 0
        try:
            found[key] = int(str(given)) if key == "versions" else float(str(given))
        except ValueError:
            found[key] = -1
        if not least <= found[key] < 1e6:
            raise InputError(f"{place}: {given} is not a {'whole ' if key == 'versions' else ''}number from {least}")
    return Keep(int(found["versions"]), found["days"])


def pruned(store: Tracking, name: str, keep: Keep) -> str:
    """Remove versions of ``name`` that ``keep`` does not keep; say in words what went.

    A registry that refuses is reported and does not stop the run.
    """
    from mlflow.exceptions import MlflowException

    from models.registry.versions import prune

    try:
        return str(prune(store, name, keep))
    except (MlflowException, OSError) as error:
        return f"not to the end, the registry refused: {str(error).strip().splitlines()[0]}"


def predict_registered(spec: str, submitted: pd.DataFrame) -> pd.DataFrame:
    """Ask the model ``NAME[@ALIAS]`` (champion by default) for raw submission columns.

    Returns ``predicted_s``, ``snapshot_age_s`` and ``user_known``. InputError if the registry or model cannot be loaded, or the
    model refuses the submissions.
    """
    from mlflow.exceptions import MlflowException

    from models.registry.runtime_registration import ask, load
    from pipelines.storage.publishing import finish_for_reader

    name, _, alias = spec.partition("@")
    try:
        store = tracking()
        finish_for_reader(home(), store, name)
        model = load(store, name, alias or "champion")
        return ask(model, submitted)
    except (MlflowException, OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{name}@{alias or 'champion'}: {str(error).strip().splitlines()[0]}") from error


def submissions(clean: CleanTrace) -> pd.DataFrame:
    """Return the raw submission columns of a cleaned trace.

    ``user group executable procs requested_s submit_time``, the time as the site's wall clock. Jobs without a known user get the
    user with the empty name, without history; ``group`` and ``executable`` are null where they are unknown.
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
    """Return a registered model's predictions for a whole trace.

    A note tells how many jobs were submitted before its snapshot: it knows their future.
    """
    answers = predict_registered(spec, submissions(clean))
    known = int((answers["snapshot_age_s"] < 0).sum())
    if known:
        print(
            f"registry:{spec}: {known:,} of {len(answers):,} jobs were submitted before the model's history was taken; it may have learned from them",
            file=sys.stderr,
        )
    seconds = answers["predicted_s"].to_numpy(np.float64)
    return TablePredictor(f"registry:{spec}", lambda jobs: seconds)
