"""A policy as a file: its score, the meaning of its features, its training, its gain.

JSON of format 1, which a site can put into its own scheduler: the job with the smallest score starts first, ties by
submission. This module reads and writes text only; :mod:`pipelines.lake.registry`, which knows the score language,
checks the formula.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Annotated, Any, NoReturn

from pydantic import Strict

from features import limits
from features.clock import WEEK_S
from features.errors import InputError, check_name, one_line, shown
from features.validation import validated

FORMAT = 1
ORDER = "smallest first"
ARITHMETIC = (
    "log is natural, of at least 1e-9; sqrt is of at least 0; comparisons are 1 or 0; where(c, a, b) is a unless c is 0; a division by 0 and what is not a "
    "number is 0; ties go by submission"
)
"""Rules for a formula's operations beyond usual arithmetic."""
MOST_BYTES = 1 << 20
"""Max bytes of a policy file."""
MOST_PARAMETERS = 1000
Weeks = Annotated[tuple[int, ...], Strict(False)]
_PARAMETER = re.compile(r"[a-z_][a-z_0-9]*")
LARGEST = 1e100
"""Bound of the absolute value of every number."""


@dataclass(frozen=True)
class Feature:
    """The meaning of a name in the formula.

    Its value enters the formula in this unit, not scaled.
    """

    unit: str
    meaning: str


@dataclass(frozen=True)
class Trained:
    """How a policy was learned.

    ``weeks`` are numbers of the trace's weeks, ``objective`` is in words, ``trials`` counts the policies that were
    tried. ``fingerprint`` is that of the jobs.
    """

    trace: str
    weeks: Weeks
    objective: str
    tau_s: float = 10.0
    seed: int = 0
    trials: int = 0
    fingerprint: str = ""


@dataclass(frozen=True)
class PolicyEvidence:
    """What a policy gained on weeks that were not used for learning.

    ``relative`` is the change of the sum of weekly mean bounded slowdowns against the baseline's (-0.1: a tenth less),
    ``low`` and ``high`` its interval over weeks and ``replicates`` with shaken submissions. The max waits are in
    seconds.
    """

    against: str
    relative: float
    low: float
    high: float
    weeks: Weeks
    replicates: int = 1
    confidence: float = 0.95
    max_wait_s: float | None = None
    baseline_max_wait_s: float | None = None

    @property
    def clear(self) -> bool:
        """Tell whether the whole interval is on the better side of the baseline."""
        return self.high < 0


@dataclass(frozen=True)
class PolicyFile:
    """A score and all that is known about it; docs/how-to/policies.md explains it.

    It was learned with ``algorithm``, such as ``EASY(plans=requested)``, the order ``backfill`` behind it (empty if the
    algorithm takes none), the threshold ``starvation_s`` and ``predictor`` as the source of ``r``.
    """

    name: str
    formula: str
    parameters: Mapping[str, float] = field(default_factory=dict)
    features: Mapping[str, Feature] = field(default_factory=dict)
    algorithm: str = "EASY"
    backfill: str = "SPF"
    starvation_s: int | None = None
    predictor: str = "requested"
    trained: Trained | None = None
    evidence: PolicyEvidence | None = None
    made_by: str = ""

    @property
    def score(self) -> str:
        """Return ``FORMULA;a=1.5``, the text in the brackets of ``SCORE(...)``."""
        return ";".join((self.formula, *(f"{name}={value!r}" for name, value in self.parameters.items())))

    @property
    def behind(self) -> str:
        """Return the part behind the order in a scheduler's name: ``-EASY-SPF``."""
        return "".join(f"-{part}" for part in (self.algorithm, self.backfill) if part)


def dumps(policy: PolicyFile) -> str:
    """Return the JSON text of a policy, with a line end."""
    settings = asdict(policy)
    head = {
        "format": FORMAT,
        "name": settings.pop("name"),
        "formula": settings.pop("formula"),
        "parameters": settings.pop("parameters"),
    }
    document = {**head, "order": ORDER, "arithmetic": ARITHMETIC, **settings}
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def loads(text: str | bytes, where: str) -> PolicyFile:
    """Return the policy in a JSON text.

    Raises InputError of one line: the source ``where`` and what is wrong. The formula is not parsed.
    """
    document = _parsed(text, where)
    if document.get("format") != FORMAT or isinstance(document.get("format"), bool):
        problem = f"has format {shown(document['format'])}" if "format" in document else "states no format"
        raise InputError(f"{where}: {problem}: this Queuecast reads policies of format {FORMAT}")
    if document.get("order", ORDER) != ORDER:
        raise InputError(f"{where}: order must be {ORDER!r}, not {shown(document['order'])}")
    if not isinstance(document.get("arithmetic", ""), str):
        raise InputError(f"{where}: arithmetic must be a string, not {shown(document['arithmetic'])}")
    shapes = {"trained": Trained, "evidence": PolicyEvidence}
    known_keys = ["format", "order", "arithmetic", *(part.name for part in fields(PolicyFile))]
    for key in document.keys() - set(known_keys):
        raise InputError(f"{where}: {shown(key)} is unknown; known: {', '.join(known_keys)}")
    plain = {key: value for key, value in document.items() if key not in ("format", "order", "arithmetic", "features", *shapes)}
    whole = validated(PolicyFile, plain, where, left_out=("features", *shapes))
    described = document.get("features", {})
    if not isinstance(described, dict):
        raise InputError(f"{where}: features must be a table, not {shown(described)}")
    whole["features"] = {
        name: Feature(**validated(Feature, table, f"{where}: features.{one_line(name, 40)}", left_out=()))
        for name, table in described.items()
    }
    for key, shape in shapes.items():
        if document.get(key) is not None:
            whole[key] = shape(**validated(shape, document[key], f"{where}: {key}", left_out=()))
    policy = PolicyFile(**whole)
    _check(policy, where)
    return policy


def _parsed(text: str | bytes, where: str) -> dict[str, Any]:
    """Return the table in a JSON text; InputError if it is none, or repeats a key."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        for key, count in Counter(key for key, _ in pairs).items():
            if count > 1:
                raise InputError(f"{where}: states {shown(key)} {count} times")
        return dict(pairs)

    def refuse(number: str) -> NoReturn:
        raise InputError(f"{where}: {number} is not a finite number")

    if len(text) > MOST_BYTES:
        raise InputError(f"{where}: has more than {MOST_BYTES >> 20} MiB: it is not a policy")
    try:
        document = json.loads(text, object_pairs_hook=once, parse_constant=refuse)
    except InputError:
        raise
    except json.JSONDecodeError as error:
        raise InputError(f"{where}: is not JSON: line {error.lineno}, column {error.colno}: {error.msg}") from error
    except RecursionError as error:
        raise InputError(f"{where}: tables are nested too deeply") from error
    except ValueError as error:  # bytes that are no text, and numbers of thousands of digits
        raise InputError(f"{where}: is not JSON: {one_line(str(error), 120)}") from error
    if not isinstance(document, dict):
        raise InputError(f"{where}: must be a table such as {{...}}, not {shown(document)}")
    return document


def _check(policy: PolicyFile, where: str) -> None:
    """Raise InputError for invalid values."""
    check_name(policy.name, f"{where}: name")
    if not policy.formula.strip() or not policy.formula.isprintable() or ";" in policy.formula:
        raise InputError(
            f"{where}: formula must be one such as r*n, not {shown(policy.formula)}; state parameters in a table of their own"
        )
    if len(policy.parameters) > MOST_PARAMETERS:
        raise InputError(f"{where}: has {len(policy.parameters):,} parameters; a policy has at most {MOST_PARAMETERS:,}")
    for name in policy.parameters:
        if not _PARAMETER.fullmatch(name):
            raise InputError(f"{where}: parameters.{one_line(name, 40)} is not a name: lower-case letters, digits and _")
    if policy.starvation_s is not None and not 0 <= policy.starvation_s <= limits.SECONDS:
        raise InputError(f"{where}: starvation_s must be 0 to {limits.SECONDS:,}, not {shown(policy.starvation_s)}")
    numbers = {f"parameters.{name}": value for name, value in policy.parameters.items()}
    for part, shape in (("trained", policy.trained), ("evidence", policy.evidence)):
        if shape is not None:
            entries = asdict(shape).items()
            numbers |= {f"{part}.{key}": value for key, value in entries if isinstance(value, int | float)}
            if not all(0 <= week <= limits.SECONDS // WEEK_S for week in shape.weeks):
                raise InputError(f"{where}: {part}.weeks must be numbers of weeks, counted from 0 at the first submission")
    for key, value in numbers.items():
        if not abs(value) < LARGEST or not math.isfinite(value):
            raise InputError(f"{where}: {key} must be a finite number, not {shown(value)}")
    if policy.trained is not None:
        check_name(policy.trained.trace, f"{where}: trained.trace")
    if policy.evidence is not None and not policy.evidence.low <= policy.evidence.relative <= policy.evidence.high:
        raise InputError(f"{where}: evidence.relative {policy.evidence.relative:g} is not between low and high")
