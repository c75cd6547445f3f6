"""Learned policies: files and registered versions, by their names in scheduler names.

``POLICY(FILE.json)-EASY-SPF`` and ``POLICY(registry:NAME[@ALIAS])-EASY-SPF`` become the exact ``SCORE(...)-EASY-SPF`` here,
before a simulation: tables, journals and logs have the formula.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from features.errors import InputError, first_line, one_line, shown
from models.policies import MOST_BYTES, Feature, PolicyFile, dumps, loads
from pipelines.lake.places import write
from pipelines.lake.provenance import code_version
from pipelines.lake.registry import PREFIX, tracking
from pipelines.readers.text import opened
from sim.schedulers.names import scheduler
from sim.schedulers.scores import FEATURES, score

if TYPE_CHECKING:
    from models.registry.tracking import Tracking

UNITS = {
    **dict.fromkeys(("n", "free", "procs"), "processors"),
    **dict.fromkeys(("r", "requested", "submit", "wait"), "s"),
    "queue": "jobs",
    "demand": "processor s",
    "hour": "h",
}
"""The unit of each feature of :data:`sim.schedulers.scores.FEATURES`."""
SCORE = "SCORE("
_BEGIN = re.compile(r"(?<!\w)POLICY\(", re.IGNORECASE)
_REGISTERED = re.compile(rf"{PREFIX}(?P<name>[^@()]+)(?:@(?P<alias>[^@()]+))?")
_FORMS = "POLICY(FILE.json), POLICY(registry:NAME) and POLICY(registry:NAME@ALIAS) are policies"


def make_policy(name: str, text: str, **facts: Any) -> PolicyFile:
    """Return the policy of a score such as ``r**a*n; a=2``, with its features described.

    ``facts`` are other fields of :class:`models.policies.PolicyFile`. Raises InputError for an invalid score.
    """
    order = score(text)
    parameters = dict(zip(order.parameters, order.values, strict=True))
    policy = PolicyFile(name, order.formula, parameters, made_by=f"queuecast {code_version()}", **facts)
    return loads(dumps(checked(policy, name)), name)


def policy_of(name: str, scheduler_name: str, **facts: Any) -> PolicyFile:
    """Return the policy of a scheduler such as ``SCORE(r*n)-EASY-SPF``.

    ``facts`` and errors are those of :func:`make_policy`.
    """
    text = _in_brackets(scheduler_name[len(SCORE) :], scheduler_name)
    algorithm, _, backfill = scheduler_name[len(SCORE) + len(text) + 1 :].removeprefix("-").partition("-")
    meant = {"algorithm": algorithm, "backfill": backfill} if algorithm else {}
    return make_policy(name, text, **meant, **facts)


def checked(policy: PolicyFile, where: str) -> PolicyFile:
    """Return a policy that can be simulated.

    Its formula is as tables write it, and all its features are described. Raises InputError, with ``where`` the policy is from,
    for an unknown feature, algorithm or order, and for a feature in another unit.
    """
    try:
        order = score(policy.score)
    except InputError as error:
        raise InputError(one_line(f"{where}: {error}")) from error
    try:
        plain = scheduler(f"SCORE(n){policy.behind}").rush is None
    except InputError:
        plain = False
    if not plain or "-" in policy.algorithm or not policy.algorithm:
        problem = f"algorithm {shown(policy.algorithm)} with backfill {shown(policy.backfill)} cannot serve a queue in this order"
        raise InputError(f"{where}: {problem}: EASY with SPF can, and JustBF with an empty backfill")
    used = {name: Feature(UNITS[name], FEATURES[name][1]) for name in order.features()}
    for name, feature in policy.features.items():
        if name not in used:
            raise InputError(
                f"{where}: features.{one_line(name, 40)} is not in the formula {shown(order.formula)}, which uses {', '.join(used)}"
            )
        if feature.unit != used[name].unit:
            raise InputError(f"{where}: features.{name}: unit must be {used[name].unit!r}, not {shown(feature.unit)}")
    if policy.features and (absent := used.keys() - policy.features.keys()):
        raise InputError(f"{where}: features lacks {min(absent)}, which the formula uses")
    return replace(policy, formula=order.formula, features=policy.features or used)


def read_policy(path: str | Path) -> PolicyFile:
    """Read a policy file; raise InputError of one line if it cannot be simulated."""
    with opened(path) as file:
        content = file.read(MOST_BYTES + 1)
    return checked(loads(content, str(path)), str(path))


def write_policy(path: Path, policy: PolicyFile) -> None:
    """Write a policy file, whole or not at all."""
    write(path, dumps(policy))


def registered_policy(text: str, store: Callable[[], Tracking] = tracking) -> PolicyFile:
    """Return the policy ``registry:NAME[@ALIAS]``, by default the champion.

    ALIAS may be a version's number. It is read as data from the registry that ``store`` opens. Raises InputError if it cannot be loaded.
    """
    from mlflow.exceptions import MlflowException

    from models.registry.policy_registration import load

    registered = _REGISTERED.fullmatch(text)
    if registered is None:
        raise InputError(f"POLICY({text}): {_FORMS}")
    name, alias = registered["name"], registered["alias"] or "champion"
    try:
        return checked(load(store(), name, alias), f"{name}@{alias}")
    except MlflowException as error:
        raise InputError(f"{name}@{alias}: {first_line(error)}") from error


def policy_named(text: str, store: Callable[[], Tracking] = tracking) -> PolicyFile:
    """Return the policy FILE.json or ``registry:NAME[@ALIAS]``. Raises InputError."""
    if text.lower().startswith(PREFIX):
        return registered_policy(PREFIX + text[len(PREFIX) :], store)
    if not text.strip():
        raise InputError(f"POLICY({text}): {_FORMS}")
    return read_policy(text)


@dataclass(frozen=True)
class Resolved:
    """A scheduler's name without POLICY(...), and its policies by the text in the brackets."""

    scheduler: str
    policies: dict[str, PolicyFile]


def resolve(name: str, store: Callable[[], Tracking] = tracking) -> Resolved:
    """Replace each ``POLICY(...)`` in a scheduler's name by its exact ``SCORE(...)``.

    ``POLICY(...)`` alone also gets the algorithm and backfill order of its file. Raises InputError as :func:`policy_named` does.
    """
    done, rest, policies = "", name, {}
    while begin := _BEGIN.search(rest):
        text = _in_brackets(rest[begin.end() :], name)
        policy = policies[text] = policy_named(text, store)
        before, rest = done + rest[: begin.start()], rest[begin.end() + len(text) + 1 :]
        alone = not before and (not rest or rest.startswith("+"))
        done = f"{before}SCORE({policy.score})" + (policy.behind if alone else "")
    return Resolved(done + rest, policies)


def resolved(name: str, store: Callable[[], Tracking] = tracking) -> str:
    """Return a scheduler's name as the simulator takes it: ``POLICY(...)`` as ``SCORE(...)``.

    Other names are returned unchanged. Raises InputError as :func:`resolve` does, and for a name that is not text.
    """
    if not isinstance(name, str):
        raise InputError(f"a scheduler is a name, not {shown(name)}: give a policy to decide")
    return resolve(name, store).scheduler


def _in_brackets(text: str, name: str) -> str:
    """Return ``text`` up to the bracket that closes it.

    It may have pairs of brackets; the name of an existing file may have any.
    """
    depth, closing = 1, [at for at, letter in enumerate(text) if letter == ")"]
    if not text.lower().startswith(PREFIX):
        for at in closing:
            if os.path.isfile(text[:at]):
                return text[:at]
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[:at]
    raise InputError(f"scheduler {shown(name, 80)}: a bracket is not closed: {_FORMS}")
