"""The content of a version of ``start-<trace>``, and how to register and load it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, DataType, Schema

from features.errors import Damaged
from models.packed.settings import FORMAT
from models.packed.start_predictor import CHANCES, HAZARD, QUANTILES, RECENT, STARTS, StartModel
from models.registry.loading import version_data
from models.registry.registration import Content, Kind, registered_version
from models.registry.tracking import Tracking
from models.registry.versions import REFRESHED_FROM

_DESCRIPTION = """Predicts how long a job waits from the moment of the question on.

Inputs, a row a question: the state of the queue as `models.starts.states` describes it, `at_s` (the trace's second), and optionally the job's start \
in 16 scenarios, `scenario_00_s` to `scenario_15_s`, ascending.

Outputs: `wait_05_s` to `wait_95_s`, quantiles in seconds; `chance_10m`, `chance_1h`, `chance_4h`, `chance_24h`, chances to have started; `snapshot_age_s`, \
since when answers that came true are not known. The champion is calibrated anew every night: load it by its alias, and anew each day."""
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


@dataclass(frozen=True)
class StartContent(Content):
    """A model of starts, with questions as an example.

    The example has states, ``at_s`` and starts in scenarios. ``refreshed_from`` is the version that was trained, if it is
    another.
    """

    model: StartModel
    asked: pd.DataFrame
    refreshed_from: str = ""

    @property
    def method(self) -> str:
        return self.model.method

    @property
    def facts(self) -> Mapping[str, str]:
        refreshed = {REFRESHED_FROM: self.refreshed_from} if self.refreshed_from else {}
        return {"snapshot_s": str(self.model.at_s), **refreshed}

    @property
    def signature(self) -> ModelSignature:
        needed = [ColSpec(DataType.double, name) for name in (*self.model.columns, "at_s")]
        optional = [ColSpec(DataType.double, name, required=False) for name in STARTS]
        answers = [ColSpec(DataType.double, name) for name in (*QUANTILES, *CHANCES)]
        inputs, outputs = Schema([*needed, *optional]), Schema([*answers, ColSpec(DataType.long, "snapshot_age_s")])
        return ModelSignature(inputs=inputs, outputs=outputs)

    @property
    def example(self) -> pd.DataFrame:
        return self.asked

    def write(self, directory: Path) -> Mapping[str, object]:
        return self.model.write(directory)


def load(tracking: Tracking, name: str, alias: str = "champion") -> StartModel:
    """Load the registered model ``name`` at ``alias`` as data.

    InputError if it is missing or unreadable.
    """
    entry = registered_version(tracking, name, alias)
    if entry.tags.get("queuecast_format") != str(FORMAT):
        raise Damaged(f"{name}@{alias}: has format {entry.tags.get('queuecast_format')}, not {FORMAT}: register it again")
    return load_version(name, str(entry.version))


def load_version(name: str, number: str) -> StartModel:
    """Load the data of the version ``number`` of ``name``; InputError if it does not load."""
    with version_data(name, number, START.name) as directory:
        return StartModel.read(directory)
