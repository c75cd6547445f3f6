"""The site's model registry: models as predictors, learned policies as orders.

``POLICY(FILE.json)-EASY-SPF`` and ``POLICY(registry:NAME[@ALIAS])-EASY-SPF`` become the exact ``SCORE(...)-EASY-SPF``
here, before a simulation: tables, journals and logs have the formula.

MLflow takes a second to import, so only what asks the registry imports it, here and in all that a command imports
early.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from features.clock import local_clock_s
from features.errors import InputError, first_line, is_plain, masked, one_line, shown
from features.jobs.cleaning import CleanTrace
from models.policies import MOST_BYTES, Feature, PolicyFile, dumps, loads
from models.runtime.protocol import TablePredictor
from pipelines import code_version
from pipelines.lake.places import home, local_home, write
from pipelines.readers.text import opened
from sim.schedulers.names import scheduler
from sim.schedulers.scores import FEATURES, score

if TYPE_CHECKING:
    from models.registry.tracking import Tracking

EXPERIMENT = "runtime prediction"


def tracking(uri: str = "") -> Tracking:
    """Return the MLflow store at ``uri``; by default the site's, else the home directory's.

    The site's is $MLFLOW_TRACKING_URI, the home directory's ``mlflow.db`` and ``mlartifacts``. Artifacts of the store
    at ``uri`` are in ``mlartifacts`` beside its SQLite file. Raises InputError if it cannot be opened.
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

    from models.registry.tracking import prune

    try:
        return f"{prune(store, name, published):,} old versions with their runs"
    except (MlflowException, OSError) as error:
        return f"incomplete, because the registry refused: {first_line(error)}"


def predict_registered(
    spec: str, submitted: pd.DataFrame, store: Tracking | None = None, place: Path | None = None
) -> pd.DataFrame:
    """Predict with the model ``NAME[@ALIAS]`` (champion by default) from submission columns.

    It is a model of ``store``, published in the home directory ``place``; by default of :func:`tracking` and
    :func:`home`. Returns ``predicted_s``, ``snapshot_age_s`` and ``user_known``. Raises InputError if the registry or
    model cannot be loaded, or the model refuses the submissions.
    """
    from mlflow.exceptions import MlflowException

    from models.registry.runtime_registration import load
    from pipelines.lake.publishing import check_registry, version_of
    from pipelines.lake.tables import Lake

    name, _, alias = spec.partition("@")
    if not name.startswith("runtime-"):
        raise InputError(f"{spec}: is not the name of a model of runtimes, such as runtime-kth-sp2 or runtime-kth-sp2@challenger")
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

    ``user group executable procs requested_s submit_time``, the time as the site's wall clock. Jobs without a known
    user get the user with the empty name, without history; ``group`` and ``executable`` are null if unknown.
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

    ``store`` and ``place`` are those of :func:`predict_registered`. The model predicts from its one snapshot. Jobs
    submitted before ``since_s`` get their request as prediction. The model's quantiles, if any, serve for jobs that
    outlive their prediction. Raises InputError if its snapshot is later than a submission, so that it has learned from
    the replayed jobs.
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


def checked(policy: PolicyFile, where: str) -> PolicyFile:
    """Return a policy that can be simulated.

    Its formula is as tables write it, and all its features are described. Raises InputError, with ``where`` the policy
    is from, for an unknown feature, algorithm or order.
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
    return replace(policy, formula=order.formula, features=used)


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

    ALIAS may be a version's number. It is read as data from the registry that ``store`` opens. Raises InputError if it
    cannot be loaded.
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

    ``POLICY(...)`` alone also gets the algorithm and backfill order of its file. Raises InputError as
    :func:`policy_named` does.
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
    """Return ``text``, which may have pairs of brackets, up to the bracket that closes it."""
    depth = 1
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[:at]
    raise InputError(f"scheduler {shown(name, 80)}: a bracket is not closed: {_FORMS}")
