"""The content of a version of ``policy-<trace>``, and how to register and load it.

A version holds the policy's file, byte for byte, and what consumers need to score jobs without Queuecast. Here it is
read as data.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, DataType, Schema

from features.clock import WEEK_S
from features.errors import one_line
from models.policies import PolicyFile, dumps, loads
from models.registry.packing import version_data
from models.registry.registration import Candidate, Content, Kind, Training, log_and_register, readable_version
from models.registry.tracking import Tracking

FILE = "policy.json"
POLICY = Kind(
    "policy",
    "trace",
    "relative",
    "weeks",
    "change of the sum of weekly mean bounded slowdowns",
    ("policy",),
    "the first",
    "Orders waiting jobs: the one with the smallest `score` starts first, ties by submission. Inputs are the features of the version's formula, a row a "
    "job, in the units that its policy.json states.",
    "learned policies",
)
_LONGEST_TAG = 4000


def policy_content(policy: PolicyFile) -> Content:
    """Return the content of a policy with a checked formula and described features."""
    facts = {"policy": policy.name, "score": policy.score, "behind": policy.behind.removeprefix("-"), "predictor": policy.predictor}
    inputs = [ColSpec(DataType.double, name) for name in policy.features]

    def write(directory: Path) -> Mapping[str, object]:
        (directory / FILE).write_text(dumps(policy), encoding="utf-8")
        units = {name: feature.unit for name, feature in policy.features.items()}
        return {"formula": policy.formula, "parameters": dict(policy.parameters), "features": units}

    return Content(
        method=POLICY.name,
        facts={key: one_line(value, _LONGEST_TAG) for key, value in facts.items()},
        signature=ModelSignature(inputs=Schema(inputs), outputs=Schema([ColSpec(DataType.double, "score")])),  # type: ignore[arg-type]
        example=lambda: pd.DataFrame({name: [1.0, 2.0] for name in policy.features}),
        write=write,
    )


def spans(weeks: Sequence[int]) -> str:
    """Return numbers as ranges: ``1-22 25``."""
    ranges: list[list[int]] = []
    for week in sorted(set(weeks)):
        if ranges and week == ranges[-1][-1] + 1:
            ranges[-1][1:] = [week]
        else:
            ranges.append([week])
    return " ".join("-".join(map(str, weeks)) for weeks in ranges)


def register(tracking: Tracking, policy: PolicyFile, trace: str, *, tags: Mapping[str, str] | None = None) -> Candidate:
    """Register a checked policy as the next version of ``policy-<trace>``; move no alias.

    Raises InputError if ``trace`` is not a valid name, and MLflow's own errors.
    """
    trained, evidence = policy.trained, policy.evidence
    weeks = trained.weeks if trained is not None else ()
    training = Training(
        trace,
        trained.fingerprint if trained is not None else "",
        len(weeks),
        (min(weeks) * WEEK_S, (max(weeks) + 1) * WEEK_S) if weeks else (0, 0),
        seed=trained.seed if trained is not None else 0,
    )
    judged = (evidence.relative, len(evidence.weeks)) if evidence is not None else (math.nan, 0)
    why = f"{policy.name}: SCORE({policy.score}); {gain(policy)}"
    return log_and_register(
        tracking, POLICY, policy_content(policy), training, judged, {}, tags=tags, why=one_line(why, _LONGEST_TAG)
    )


def gain(policy: PolicyFile) -> str:
    """Return in words what a policy gained on weeks that it did not learn from."""
    evidence = policy.evidence
    if evidence is None:
        return "nothing says what it gains"
    interval = f"{evidence.low:+.1%} to {evidence.high:+.1%}, {evidence.confidence:.0%}"
    text = f"slowdown {evidence.relative:+.1%} ({interval}) against {evidence.against} on weeks {spans(evidence.weeks)}; less is better"
    return text if evidence.clear else f"{text}, which may be chance"


def load(tracking: Tracking, name: str, alias: str = "champion") -> PolicyFile:
    """Read the policy ``name`` at ``alias``; InputError if it is missing or unreadable.

    ``name`` is ``policy-<trace>``, ``alias`` may be a version's number. The version's code is not run; its hashes are
    verified.
    """
    number = readable_version(tracking, name, alias)
    with version_data(name, number, POLICY.name, "is no policy that this Queuecast reads") as directory:
        return loads((directory / FILE).read_bytes(), f"models:/{name}/{number}")
