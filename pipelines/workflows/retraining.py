"""One retraining: candidates are trained and judged as served, registered, and one of them promoted or the champion's snapshot refreshed.

Nothing here moves an alias: :class:`Retrained` says which versions are to be champion and challenger, and the caller decides when.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from features.jobs.cleaning import CleanTrace
from features.jobs.schema import fingerprint
from models.packed.methods import Method
from models.registry.accounting import Accounting
from models.registry.as_served import Models
from models.registry.candidates import TRAINERS, carried_on, outdated, train
from models.registry.judged_window import judged_window
from models.registry.promotion import FEWEST_JOBS, Duel, Mean, clustered_mean, decide
from models.registry.versions import aliases
from models.runtime.evaluation import accuracy, evaluate_predictions
from pipelines.workflows.judging import Schedules, clusters, judge, mean_accuracy
from pipelines.workflows.loaded_back import verified
from pipelines.workflows.nothing_new import MADE_FROM, made_from, nothing_new, serving

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion

    from models.registry.registration import Candidate, Training
    from models.registry.runtime_registration import Snapshot
    from models.registry.tracking import Tracking

MEASURES = {"accuracy": "judged_accuracy", "judged_jobs": "judged_jobs"}
"""Measures of the table of versions, by the tags that record them."""


@dataclass(frozen=True)
class Incumbent:
    """The champion as a retraining finds it.

    ``version`` is what the alias points to, ``trained_version`` the one whose training it is, ``trained_until_s`` the instant up to which that
    had ended what it learned from, and ``method`` is as it was then. It is None for one that can neither be judged nor refreshed: ``stays`` says
    whether somebody chose it by hand, so that it keeps its place, and ``note`` why.
    """

    version: str
    trained_version: str
    trained_until_s: int
    method: Method | None
    tags: Mapping[str, str]
    stays: bool = False
    note: str = ""


def incumbent(store: Tracking, trace: str) -> Incumbent | None:
    """The present champion of ``runtime-<trace>``, None if there is none. InputError if what it learned cannot be read."""
    from models.packed.settings import FORMAT
    from models.registry.registration import version_at
    from models.registry.runtime_registration import RUNTIME, trained_method

    present = version_at(store, RUNTIME.registered(trace))
    if present is None:
        return None
    tags, number = dict(present.tags), str(present.version)
    if not {"method", "judged_accuracy", "training_window_s"} <= tags.keys():
        note = f"The champion, version {number}, records no accuracy, so somebody chose it by hand, and it stays."
        return Incumbent(number, number, 0, None, tags, stays=True, note=note)
    if tags.get("queuecast_format") != str(FORMAT):
        note = f"The champion before, version {number}, is of format {tags.get('queuecast_format')}, not {FORMAT}: it can be neither judged nor refreshed."
        return Incumbent(number, number, 0, None, tags, note=note)
    trained = tags.get("refreshed_from", number)
    until = int(tags["training_window_s"].split("..")[1])
    method = trained_method(store, trace, trained)
    if outdated(method):
        note = f"The champion before, version {number}, was grown by another Queuecast: it can be neither judged nor refreshed."
        return Incumbent(number, number, 0, None, tags, note=note)
    return Incumbent(number, trained, until, method, tags)


def served_by(present: Incumbent | None, submit_s: np.ndarray, before: Mapping[int, tuple[str, Method]] | None = None):
    """Who answered: the incumbent what was submitted after it was trained, else whoever was champion after the night (``before``, by instant)."""

    def answered(at_s: int, rows: np.ndarray) -> Iterable[tuple[np.ndarray, str, Method]]:
        now = np.zeros(len(rows), bool)
        if present is not None and present.method is not None:
            now = submit_s[rows] > present.trained_until_s
            yield now, present.trained_version, present.method
        if at_s in (before or {}):
            version, method = (before or {})[at_s]
            yield ~now, version, method

    return answered


@dataclass(frozen=True)
class Retrained:
    """What came of it.

    Where there was ``nothing_new`` no version was made, and ``registered`` lists those that serve.
    ``champion`` and ``challenger`` are the versions the aliases are to point to (the challenger empty if there is none); ``trained_version`` is the
    one whose training the champion is, ``method`` its method's name (empty if chosen by hand). ``registered`` lists the new versions: ``model version method
    alias accuracy judged_jobs why``. ``found`` is the duel, None for a first champion; ``accuracies`` are of the judged window.
    """

    champion: str
    challenger: str
    trained_version: str
    method: str
    challenger_method: str
    promoted: bool
    why: str
    registered: pd.DataFrame
    found: Duel | None
    checks: Mapping[str, bool]
    accuracies: Mapping[str, float]
    judged_jobs: int
    served_now: Mapping[str, Mean]
    served_then: Mapping[str, Mean]
    trained: Mapping[str, Method]
    nothing_new: bool = False


def versions_of_before(
    store: Tracking, clean: CleanTrace, known: Accounting, present: Incumbent | None, seed: int
) -> list[ModelVersion]:
    """The versions made from these jobs by this code, and those that serve; none where there is something new to learn or nothing serves."""
    if present is None or (present.method is None and not present.stays):
        return []
    return nothing_new(store, f"runtime-{clean.name}", _key(clean, known, seed))


def _key(clean: CleanTrace, known: Accounting, seed: int) -> str:
    starts = hashlib.sha256(known.start_s.astype(np.int64).tobytes()).hexdigest()
    facts = {
        "jobs": fingerprint(clean.jobs),
        "starts": starts,
        "origin_unix_s": clean.origin_unix_s,
        "timezone": clean.timezone,
        "seed": seed,
    }
    return made_from({**facts, "parameters": {name: dict(trainer.parameters(seed)) for name, trainer in TRAINERS.items()}})


def retrain(
    clean: CleanTrace,
    known: Accounting,
    served: pd.DataFrame,
    present: Incumbent | None,
    store: Tracking,
    *,
    seed: int = 0,
    models: Models | None = None,
    tags: Mapping[str, str] | None = None,
    metrics: Mapping[str, Mapping[str, float]] | None = None,
    schedules: Schedules | None = None,
) -> Retrained:
    """Train every candidate on all of ``known``, choose a challenger by what was ``served``
    (:func:`models.registry.as_served.predict_served`), register, decide.

    Where the champion or the challenger was made from the same already, nothing is trained or registered. ``models`` takes what is trained. ``tags`` go to
    every version and ``metrics`` to the version of the method they are named by. ``schedules`` may keep a challenger from promotion
    (:func:`pipelines.workflows.judging.judge`). InputError for a damaged version (:func:`pipelines.workflows.loaded_back.verified`).
    """
    from models.registry.registration import Training, describe, log_and_register, rank_candidates
    from models.registry.runtime_registration import RUNTIME, RuntimeContent, Snapshot

    until = known.until_s
    judging = judged_window(known.jobs["submit_s"].to_numpy(np.int64), known.end_s)
    window = served[judging.jobs(served["end_s"].to_numpy()) & (served["end_s"] <= until)]
    before = versions_of_before(store, clean, known, present, seed)
    if present is not None and before:
        return _unchanged(store, clean, present, before, window)
    tags = {**(tags or {}), MADE_FROM: _key(clean, known, seed)}
    trained: dict[str, Method] = {}
    for name in TRAINERS:
        trained[name] = (models or {}).get((name, until)) or train(name, known, until, seed)
        if models is not None:
            models[name, until] = trained[name]
    data = fingerprint(clean.jobs)
    window_s = (int(clean.jobs["submit_s"].iloc[0]), until)
    training = Training(clean.name, data, len(clean.jobs), window_s, clean.generated, seed)
    snapshot = Snapshot(known.snapshot(until), until, clean.origin_unix_s, clean.timezone, data)
    accuracies = _accuracies(window)

    def register(name: str, judged: pd.DataFrame, why: str = "", record: Mapping[str, str] | None = None) -> Candidate:
        score = (mean_accuracy(judged, name), len(judged))
        numbers = {**window_metrics(window, name), **(metrics or {}).get(name, {})}
        return log_and_register(
            store,
            RUNTIME,
            RuntimeContent(trained[name], snapshot),
            training,
            score,
            numbers,
            why=why,
            parameters=TRAINERS[name].parameters(seed),
            tags={**tags, **_recorded(judged, name), **(record or {})},
        )

    if present is None or (present.method is None and not present.stays):
        made = {name: register(name, window) for name in TRAINERS}
        ranked, basis = rank_candidates(list(made.values()), RUNTIME)
        basis += f" {present.note}" if present else ""
        for each, title in zip(ranked, ("First champion", "Challenger", *["Candidate"] * len(ranked)), strict=False):
            describe(store, f"runtime-{clean.name}", each.version, f"{title} by {basis}")
        champion, challenger = ranked[0].version, ranked[1].version if len(ranked) > 1 else ""
        by_version = {each.version: name for name, each in made.items()}
        name = by_version[champion]
        checks = {each: verified(store, clean, known, made[each], trained[each]) for each in made}[name]
        return _retrained(
            store,
            clean,
            list(made.values()),
            champion,
            challenger,
            trained_version=champion,
            method=name,
            challenger_method=by_version.get(challenger, ""),
            promoted=True,
            why=store.client.get_model_version(f"runtime-{clean.name}", champion).description or "",
            found=None,
            checks=checks,
            accuracies=accuracies,
            judged_jobs=len(window),
            served_now=served_means(window, name),
            served_then={},
            trained=trained,
        )

    names = [name for name, trainer in TRAINERS.items() if trainer.learns or present.tags.get("method") != name]
    judged = window[window["champion_version"] == present.trained_version] if present.method else window.iloc[:0]
    verdict = judge(served, window, names, (present.trained_version, present.trained_until_s), until, schedules)
    challenger_name, found = verdict.challenger, verdict.found
    new = register(challenger_name, judged if len(judged) else window)
    checks = verified(store, clean, known, new, trained[challenger_name])
    promoted, why = (False, present.note) if present.stays else decide(found, checks, verdict.vetoes)
    made_now = [new]
    if promoted:
        why = f"Promoted over version {present.version} ({present.tags.get('method')}): {why}."
        champion, runner_up, trained_version, method = new.version, present.version, new.version, challenger_name
    elif present.method is None:
        champion, runner_up, trained_version, method = present.version, new.version, present.version, ""
    else:
        why = f"Not promoted over version {present.version} ({present.tags.get('method')}): {why}."
        carried = carried_on(present.method, known, until)
        refreshed = _refresh(store, training, snapshot, present, carried, found, window, tags)
        verified(store, clean, known, refreshed, carried)
        made_now.append(refreshed)
        champion, runner_up, trained_version, method = refreshed.version, new.version, present.trained_version, present.method.name
    store.client.update_model_version(f"runtime-{clean.name}", new.version, description=why)
    return _retrained(
        store,
        clean,
        made_now,
        champion,
        runner_up,
        trained_version=trained_version,
        method=method,
        challenger_method=challenger_name,
        promoted=promoted,
        why=why,
        found=found,
        checks=checks,
        accuracies=accuracies,
        judged_jobs=len(judged),
        served_now=served_means(judged, "champion"),
        served_then=recorded_means(present.tags),
        trained=trained,
    )


def _refresh(
    store: Tracking,
    training: Training,
    snapshot: Snapshot,
    present: Incumbent,
    method: Method,
    found: Duel,
    window: pd.DataFrame,
    tags: Mapping[str, str] | None,
) -> Candidate:
    """A version with the champion's model, ``method``, as of tonight, and tonight's snapshot; it keeps the record of the training and of the promotion."""
    from models.registry.registration import log_and_register
    from models.registry.runtime_registration import RUNTIME, RuntimeContent

    first, until = (int(each) for each in present.tags["training_window_s"].split(".."))
    old = replace(
        training,
        fingerprint=present.tags["data_fingerprint"],
        things=int(present.tags["training_jobs"]),
        window_s=(first, until),
        seed=int(present.tags.get("seed", 0)),
    )
    taken = instant(snapshot.at_s, snapshot.origin_unix_s)
    kept = {name: value for name, value in present.tags.items() if name.startswith("recorded_")}
    return log_and_register(
        store,
        RUNTIME,
        RuntimeContent(method, snapshot, present.trained_version),
        old,
        (found.champion.value, found.jobs)
        if found.jobs
        else (float(present.tags["judged_accuracy"]), int(present.tags["judged_jobs"])),
        window_metrics(window[window["champion_version"] == present.trained_version], "champion"),
        why=f"The model of version {present.trained_version} with the histories up to {taken}; before, version {present.version}.",
        tags={**(tags or {}), **kept},
    )


def instant(at_s: int, origin_unix_s: int | None) -> str:
    """A second of the trace as people say it."""
    if origin_unix_s is None:
        return f"second {at_s:,} of the trace"
    return f"{datetime.fromtimestamp(origin_unix_s + at_s, UTC):%Y-%m-%d %H:%M} UTC"


def _retrained(store: Tracking, clean: CleanTrace, made: Sequence[Candidate], champion: str, challenger: str, **rest) -> Retrained:
    """The result; a champion that stays as it is is listed with the new versions."""
    name = f"runtime-{clean.name}"
    titles = {champion: "champion", challenger: "challenger"}
    numbers = dict.fromkeys([*(each.version for each in made), champion])
    versions = [store.client.get_model_version(name, number) for number in numbers]
    registered = serving(store, name, versions, MEASURES)
    registered["alias"] = [titles.get(number, "") for number in numbers]
    return Retrained(champion=champion, challenger=challenger, registered=registered, **rest)


def _unchanged(
    store: Tracking, clean: CleanTrace, present: Incumbent, before: Sequence[ModelVersion], window: pd.DataFrame
) -> Retrained:
    """What a retraining tells that has nothing to learn: the versions ``before`` and the aliases as they are."""
    name = f"runtime-{clean.name}"
    challenger = aliases(store, name).get("challenger", "")
    methods = {str(each.version): each.tags.get("method", "") for each in before}
    answered = window[window["champion_version"] == present.trained_version]
    return Retrained(
        champion=present.version,
        challenger=challenger,
        trained_version=present.trained_version,
        method=present.method.name if present.method else "",
        challenger_method=methods.get(challenger, ""),
        promoted=False,
        why="Nothing new: champion or challenger was made from the same jobs by the same code, so nothing was registered.",
        registered=serving(store, name, list(before), MEASURES),
        found=None,
        checks={},
        accuracies=_accuracies(window),
        judged_jobs=len(answered),
        served_now=served_means(answered, "champion"),
        served_then=recorded_means(present.tags),
        trained={},
        nothing_new=True,
    )


def _accuracies(window: pd.DataFrame) -> dict[str, float]:
    """Mean accuracy in the window of every column of predictions, all on the same jobs: those a champion answered, once there are ``FEWEST_JOBS``
    of them; before, on all, and of the champion NaN."""
    answered = window[window["champion"].notna()]
    enough = len(answered) >= FEWEST_JOBS
    columns = ["requested", *(each for name in TRAINERS for each in (name, f"{name}_now"))]
    found = {name: mean_accuracy(answered if enough else window, name) for name in columns}
    return found | {"champion": mean_accuracy(answered, "champion") if enough else float("nan")}


def served_means(rows: pd.DataFrame, name: str) -> dict[str, Mean]:
    """Accuracy and under-prediction rate of a column of ``served``, with their clustered errors."""
    seconds, runtime, cluster = rows[name].to_numpy(), rows["runtime_s"].to_numpy(np.float64), clusters(rows)
    return {
        "accuracy": clustered_mean(accuracy(seconds, runtime), cluster),
        "underprediction_rate": clustered_mean((seconds < runtime).astype(np.float64), cluster),
    }


def _recorded(rows: pd.DataFrame, name: str) -> dict[str, str]:
    """Tags that tell the drift check what to compare with later."""
    if not len(rows):
        return {}
    return {
        f"recorded_{measure}": f"{mean.value!r} {mean.error!r} {mean.clusters}"
        for measure, mean in served_means(rows, name).items()
    }


def recorded_means(tags: Mapping[str, str]) -> dict[str, Mean]:
    """The inverse of what a version recorded when it was judged."""
    found = {}
    for measure in ("accuracy", "underprediction_rate"):
        if f"recorded_{measure}" in tags:
            value, error, clusters = tags[f"recorded_{measure}"].split()
            found[measure] = Mean(float(value), float(error), int(clusters))
    return found


def window_metrics(window: pd.DataFrame, name: str) -> dict[str, float]:
    """MLflow metrics of a column of ``served``: ``served_*`` from nightly snapshots and, of a method, ``up_to_second_*`` beside it."""
    if not len(window):
        return {}
    runtime = window["runtime_s"].to_numpy(np.float64)
    found: dict[str, float] = {}
    for prefix, column in (("served", name), ("up_to_second", f"{name}_now")):
        if column in window:
            row = evaluate_predictions(window[column].to_numpy(), runtime)
            found |= {f"{prefix}_{measure}": float(value) for measure, value in row.items()}
    return found
