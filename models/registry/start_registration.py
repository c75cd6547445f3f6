"""The content of a version of ``start-<trace>``, and how to register and load it."""

import numpy as np
import pandas as pd
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, DataType, Schema, TensorSpec

from features.clock import local_clock_s
from models.packed.start_predictor import CHANCES, HAZARD, QUANTILES, RECENT, StartModel
from models.packed.submitted import REQUIRED
from models.registry.packing import version_data
from models.registry.registration import Content, Kind, readable_version
from models.registry.tracking import REFRESHED_FROM, Tracking

_DESCRIPTION = """Predicts how long each waiting job of a queue goes on waiting, from the whole queue as squeue shows it.

Inputs, a row a job that runs or waits:

* `procs`: whole number of processors, from 1
* `requested_s`: whole number, the requested time in seconds, from 1
* `submit_time`: a timestamp, the site's wall clock without a time zone
* `start_time`: the same; null if the job waits, also where squeue guesses a start
* `user`, `queue`, `account` (optional): text, null where unknown; it matters only which jobs share them
* `reason` (optional): text, squeue's word for why a job waits; held jobs and those that wait for others or a time are ahead of none
* `priority` (optional): a number, the site's; waiting jobs of a higher one stand ahead, without it those submitted before
* `job_id` (optional): text, to refuse a job that is there twice
* `predicted_50_s` (optional): median of the runtime in seconds, as `runtime-<trace>` answers at the submission; left out or null, \
the request
* `at_time` (optional): a timestamp, the moment of the question, the same in all rows; left out, the latest time in the queue

Outputs, a row for each input row, null for jobs that run: `wait_05_s` to `wait_95_s`, quantiles in seconds from the question on; \
`chance_10m`, `chance_1h`, `chance_4h`, `chance_24h`, chances to have started by then. `snapshot_age_s` is the time since which answers \
that came true are not known.

Answers go by the state of the queue alone: the scenarios that `queuecast when` simulates are not simulated here. The champion is \
calibrated anew every night: load it by its alias, and anew each day."""
START = Kind(
    "start",
    "trace",
    "score",
    "jobs",
    "one minus the mean ranked probability score",
    (RECENT, HAZARD),
    "the simpler",
    _DESCRIPTION,
    "start prediction",
)
_ASKED = {
    "procs": DataType.long,
    "requested_s": DataType.long,
    "submit_time": DataType.datetime,
    "start_time": DataType.datetime,
    "job_id": DataType.string,
    "user": DataType.string,
    "queue": DataType.string,
    "account": DataType.string,
    "reason": DataType.string,
    "predicted_50_s": DataType.double,
    "priority": DataType.double,
    "at_time": DataType.datetime,
}


def start_content(model: StartModel, refreshed_from: str = "") -> Content:
    """Return the content of a model of starts.

    ``refreshed_from`` is the version that was trained, if it is another.
    """
    refreshed = {REFRESHED_FROM: refreshed_from} if refreshed_from else {}
    inputs: list[ColSpec | TensorSpec] = [ColSpec(kind, name, required=name in REQUIRED) for name, kind in _ASKED.items()]
    answers: list[ColSpec | TensorSpec] = [ColSpec(DataType.double, name) for name in (*QUANTILES, *CHANCES)]

    def example() -> pd.DataFrame:
        at_s = model.at_s - np.array([[7200, 0], [3600, 0]])
        submitted, started = local_clock_s(at_s, model.origin_unix_s, model.timezone).astype("datetime64[s]")
        queue = pd.DataFrame({"procs": np.array([1, 1], np.int64), "requested_s": np.array([9000, 600], np.int64)})
        queue = queue.assign(user=["a user", "another"], submit_time=submitted, start_time=started)
        return queue.assign(start_time=queue["start_time"].where(queue["requested_s"] > 600))

    return Content(
        method=model.method,
        facts={"snapshot_s": str(model.at_s), **refreshed},
        signature=ModelSignature(inputs=Schema(inputs), outputs=Schema([*answers, ColSpec(DataType.long, "snapshot_age_s")])),
        example=example,
        write=model.write,
        requirements=["tzdata"] if model.timezone else [],
    )


def load(tracking: Tracking, name: str, alias: str = "champion") -> StartModel:
    """Load the registered model ``name`` at ``alias`` as data.

    InputError if it is missing or unreadable.
    """
    return load_version(name, readable_version(tracking, name, alias))


def load_version(name: str, number: str) -> StartModel:
    """Load the data of the version ``number`` of ``name``; InputError if it does not load."""
    with version_data(name, number, START.name) as directory:
        return StartModel.read(directory)
