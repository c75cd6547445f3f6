"""The content of a version of ``runtime-<trace>``, and how to load it and predict with it.

A version holds a method, trained once, and the snapshot of one night: what was known of users and of groups of like
jobs. A refreshed version has the model of an older one, named by the tag ``refreshed_from``, and a new snapshot.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, DataType, ParamSchema, ParamSpec, Schema, TensorSpec

from features.clock import local_clock_s
from features.jobs.runtime_features import States
from models.packed.methods import METHODS, Method
from models.packed.runtime_predictor import RuntimePredictor, read_method
from models.packed.site_names import HASHED
from models.packed.snapshot import GROUPS, USERS
from models.registry.packing import version_data
from models.registry.registration import Content, Kind, readable_version
from models.registry.tracking import READS, REFRESHED_FROM, Tracking

_DESCRIPTION = """Predicts how long a job will run, from what is known when it is submitted and from what its user ran before.

Inputs, a row a job:

* `procs`: whole number of processors, from 1
* `requested_s`: whole number, the requested time in seconds, from 1
* `user`, `group`, `executable` (optional): text as the site writes it, null where unknown
* `submit_time` (optional): a timestamp, the site's wall clock without a time zone; left out, the time of the snapshot
* `elapsed_s` (optional): whole number, the seconds that the job has run, at most its request; answers are given that

The parameter `quantiles` asks for further levels, between 0 and 1.

Outputs, seconds in 1..`requested_s`:

* `predicted_s` orders jobs, as shortest first: its ratio to the runtime is expected to be closest to 1. It is no median, and may \
lie far from it, on either side
* `predicted_05_s` to `predicted_95_s`, of a method with quantiles: so many percent of such jobs run at most as long. `predicted_50_s` is the \
median, `predicted_80_s` is to plan by
* `snapshot_age_s`, the age of the users' histories at the submission, and `user_known`, whether they list the user

The champion is refreshed with new histories every night: load it by its alias, and anew each day."""
RUNTIME = Kind("runtime", "trace", "accuracy", "jobs", "mean accuracy as served", tuple(METHODS), "the simpler", _DESCRIPTION)
_ASKED = {
    "procs": DataType.long,
    "requested_s": DataType.long,
    "user": DataType.string,
    "group": DataType.string,
    "executable": DataType.string,
    "submit_time": DataType.datetime,
    "elapsed_s": DataType.long,
}
_REQUIRED = ("procs", "requested_s")


@dataclass(frozen=True)
class Snapshot:
    """Users and groups of like jobs at ``at_s`` seconds from the trace's origin.

    ``fingerprint`` is that of its data. ``origin_unix_s`` and ``timezone`` are as in ``features.clock``.
    ``hashed_with`` is the check value of the key with which names are hashed.
    """

    states: States
    at_s: int
    origin_unix_s: int | None = None
    timezone: str | None = None
    fingerprint: str = ""
    hashed_with: str = ""


def runtime_content(trained: Method, snapshot: Snapshot, refreshed_from: str = "") -> Content:
    """Return the content of a method and the snapshot that it predicts from.

    ``refreshed_from`` is the version that was trained, if it is another.
    """
    names = {HASHED: snapshot.hashed_with} if snapshot.hashed_with else {}
    facts = {"snapshot_s": str(snapshot.at_s), "snapshot_fingerprint": snapshot.fingerprint, READS: " ".join(trained.columns)}
    if refreshed_from:
        facts[REFRESHED_FROM] = refreshed_from

    def example() -> pd.DataFrame:
        users = snapshot.states.users["user"].tolist()
        local = local_clock_s(np.full(2, snapshot.at_s), snapshot.origin_unix_s, snapshot.timezone)
        return pd.DataFrame(
            {
                "user": [users[0] if users else "a user", "a user without history"],
                "procs": np.array([4, 1], np.int64),
                "requested_s": np.array([3600, 600], np.int64),
                "submit_time": local.astype("datetime64[s]"),
            }
        )

    def write(directory: Path) -> Mapping[str, object]:
        snapshot.states.users.to_parquet(directory / USERS, index=False)
        snapshot.states.groups.to_parquet(directory / GROUPS, index=False)
        trained.write(directory)
        clock = {"origin_unix_s": snapshot.origin_unix_s, "timezone": snapshot.timezone}
        return {"method": trained.name, "snapshot_s": int(snapshot.at_s), **clock, **names}

    return Content(
        method=trained.name,
        facts={**facts, **names},
        signature=signature(trained.outputs),
        example=example,
        write=write,
        requirements=["pyarrow", *(["tzdata"] if snapshot.timezone else [])],
    )


def signature(outputs: Sequence[str]) -> ModelSignature:
    """Return the signature of a version.

    Outputs are ``outputs`` (seconds), the snapshot's age and whether the user is known. MLflow checks the types of
    input columns, the model their values (``models.packed.submitted``). The parameter ``quantiles`` asks for further
    levels.
    """
    answers: list[ColSpec | TensorSpec] = [
        *(ColSpec(DataType.double, name) for name in outputs),
        ColSpec(DataType.long, "snapshot_age_s"),
        ColSpec(DataType.boolean, "user_known"),
    ]
    inputs: list[ColSpec | TensorSpec] = [ColSpec(kind, name, required=name in _REQUIRED) for name, kind in _ASKED.items()]
    levels = ParamSchema([ParamSpec("quantiles", DataType.double, [], (-1,))])
    return ModelSignature(inputs=Schema(inputs), outputs=Schema(answers), params=levels)


def trained_method(tracking: Tracking, trace: str, number: str) -> Method:
    """Read the method of a version, without its snapshot, to predict or to be refreshed.

    Raises InputError for a version of another format or code.
    """
    with version_data(RUNTIME.registered(trace), number, RUNTIME.name, "cannot be read by this Queuecast") as directory:
        return read_method(directory)


def load(tracking: Tracking, name: str, alias: str = "champion") -> RuntimePredictor:
    """Load the registered model ``name`` at ``alias``; InputError if missing or unreadable."""
    return load_version(name, readable_version(tracking, name, alias))


def load_version(name: str, number: str) -> RuntimePredictor:
    """Load the data of the version ``number`` of ``name``; InputError if it does not load.

    It predicts by Queuecast's own code; none of the version's code is run.
    """
    with version_data(name, number, RUNTIME.name) as directory:
        return RuntimePredictor(directory)
