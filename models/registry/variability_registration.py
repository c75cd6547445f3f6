"""The content of a version of ``variability-<system>``, and how to load it.

A version is self-contained: settings as JSON, plain arrays, and the code that walks them (``models.packed``).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, DataType, Schema, TensorSpec

from features.monitoring.samplers import WINDOW_S
from models.packed.variability_predictor import ARRAYS, read
from models.registry.packing import version_data
from models.registry.registration import Content, Kind, registered_version
from models.registry.tracking import Tracking
from models.variability.classifiers import CLASSIFIERS
from models.variability.compiled_classifiers import Arrays
from models.variability.model import VariabilityModel

_EXAMPLES = 2
_DESCRIPTION = f"""Tells whether a job of an application that the system knows would vary if it started now: run longer than it usually does, because of \
what else happens on the machine.

Inputs, a row a job, all doubles, missing ones NaN (counted as the median of the training part); a version's signature lists those it asks for:

* `<sampler>.<metric>.<min|max|mean>`: of the metric's rate a second (gauges: of its value) over all samples of the {WINDOW_S} s before the start, \
over the job's own nodes or over all nodes, as the tag `scope` says
* `probe.<send_s|recv_s|allreduce_s>.<min|max|mean>`: over the job's nodes, the seconds each waited in the blocking calls of the two MPI probes
* `type.<compute|network|io>`: 1 for the application's type, else 0
* `<sampler>.<metric>.newest`: the mean over all nodes of the newest sample's rate
* `job.<nodes|leaves|crossing>`, `running.<type>`, `beside.<type>`, `offered.<io|network>`: the job's nodes and leaf switches, the share of nodes that run \
applications of a type, of all and of those under the same leaf switches, and GB/s that running jobs and this one usually ask of the file system and the uplinks
* `application` (text, optional): only for `varies_above_s`

Outputs: `probability_<class>` (of as many classes as the tag `thresholds` has z that part them, and one; above 1.5 a run varied), `predicted_class` \
(the likeliest), `predicted_to_vary` (the probabilities of the classes of variation add up to their cutoff, of the tag `cutoffs`) and \
`varies_above_s` (runtime in seconds from which the run counts as varying).

`queuecast variability ask` makes the inputs from the counters that were ingested."""

KIND = "kind"
"""The one member of Arrays that is a plain number."""
VARIABILITY = Kind("variability", "system", "f1", "runs", "F1", CLASSIFIERS, "the one named first", _DESCRIPTION, "variability")


def variability_content(model: VariabilityModel, scope: str, thresholds: tuple[float, ...], features: pd.DataFrame) -> Content:
    """Return the content of a classifier of features of ``scope``: ``own`` or ``all`` nodes.

    Its labels are those of ``thresholds`` on z. ``features`` has at least one row, which is the example.
    """
    inputs: list[ColSpec | TensorSpec] = [ColSpec(DataType.double, name) for name in model.columns]
    inputs.append(ColSpec(DataType.string, "application", required=False))
    answers: list[ColSpec | TensorSpec] = [
        *(ColSpec(DataType.double, f"probability_{label}") for label in range(model.classes)),
        ColSpec(DataType.long, "predicted_class"),
        ColSpec(DataType.boolean, "predicted_to_vary"),
        ColSpec(DataType.double, "varies_above_s", required=False),
    ]

    def write(directory: Path) -> Mapping[str, object]:
        if model.arrays is None:
            raise ValueError(f"{model.classifier} can be compared, not registered")
        usual = model.baselines
        np.savez_compressed(directory / ARRAYS, **{name: part for name, part in model.arrays._asdict().items() if name != KIND})
        return {
            "classifier": model.classifier,
            "columns": list(model.columns),
            "classes": model.classes,
            "cutoffs": list(model.cutoffs),
            "cutoff_rows": model.cutoff_rows,
            "variation": model.variation,
            "thresholds": [float(threshold) for threshold in thresholds],
            "baselines": {
                "application": usual.index.tolist(),
                **{name: usual[name].tolist() for name in ("mean_s", "sigma_s", "runs")},
            },
            "missing": model.missing.tolist(),
            "importance": None if np.isnan(model.importance).any() else model.importance.tolist(),
            KIND: model.arrays.kind,
        }

    return Content(
        method=model.classifier,
        facts={
            "scope": scope,
            "thresholds": " ".join(map(str, thresholds)),
            "columns": str(len(model.columns)),
            "cutoffs": " ".join(map(repr, model.cutoffs)),
            "filled_values": str(int(model.missing.sum())),
        },
        signature=ModelSignature(inputs=Schema(inputs), outputs=Schema(answers)),
        example=lambda: features.loc[:, list(model.columns)].head(_EXAMPLES).astype(np.float64).reset_index(drop=True),
        write=write,
        numbers={"cutoff": model.cutoff},
    )


@dataclass(frozen=True)
class Registered:
    """A version of a registered classifier; ``scope`` names the nodes whose counters it reads."""

    name: str
    version: str
    model: VariabilityModel
    scope: str
    thresholds: tuple[float, ...]

    @property
    def uri(self) -> str:
        return f"models:/{self.name}/{self.version}"


def registered_classifier(tracking: Tracking, name: str, alias: str = "champion") -> Registered:
    """Read the classifier ``name`` at ``alias``; InputError if it is missing or unreadable.

    ``name`` is ``variability-<system>``.
    """
    entry = registered_version(tracking, name, alias)
    model = load_version(name, str(entry.version))
    thresholds = tuple(float(threshold) for threshold in entry.tags.get("thresholds", "").split())
    return Registered(name, str(entry.version), model, entry.tags.get("scope", "own"), thresholds)


def load_version(name: str, number: str) -> VariabilityModel:
    """Read a version by its number; InputError if this Queuecast cannot read it."""
    with version_data(name, number, VARIABILITY.name, "no variability model that this Queuecast reads") as directory:
        return from_directory(directory)


def from_directory(directory: Path) -> VariabilityModel:
    """Read the files that :func:`variability_content` wrote.

    Raises ValueError for another format, OSError for a missing file.
    """
    settings, stored = read(directory)
    usual = pd.DataFrame(settings["baselines"]).set_index("application")
    columns = settings["columns"]
    importance = settings["importance"]
    members: dict[str, Any] = {**stored, KIND: settings[KIND]}
    return VariabilityModel(
        classifier=settings["classifier"],
        columns=tuple(columns),
        classes=settings["classes"],
        arrays=Arrays(**{name: members[name] for name in Arrays._fields}),
        cutoffs=tuple(settings["cutoffs"]),
        baselines=usual,
        importance=np.full(len(columns), np.nan) if importance is None else np.array(importance, np.float64),
        missing=np.array(settings["missing"], np.int64),
        cutoff_rows=settings["cutoff_rows"],
        variation=settings["variation"],
    )
