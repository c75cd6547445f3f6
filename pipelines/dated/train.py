"""Runtime models: judge and register candidates; promote one or refresh the champion.

The workflow is in ``pipelines.dated.promote``; :class:`_RuntimeJudge` defines what is scored and registered. Nothing here
moves an alias.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from features.jobs.cleaning import CleanTrace
from features.jobs.schema import fingerprint
from models.packed.methods import METHODS, Method
from models.registry.accounting import Accounting
from models.registry.as_served import Models
from models.registry.candidates import TRAINERS, carried_on, outdated, train
from models.registry.judged_window import judged_window
from models.registry.promotion import FEWEST_JOBS, Duel, Mean, clustered_mean
from models.registry.versions import REFRESHED_FROM
from models.runtime.evaluation import accuracy, evaluate_predictions
from pipelines.dated import promote
from pipelines.dated.judge import Schedules, clusters, judge, mean_accuracy
from pipelines.dated.loaded_back import verified
from pipelines.dated.nothing_new import MADE_FROM, made_from
from pipelines.dated.promote import Outdated, Promotion, Score, Verdict, propose
from pipelines.report.wording import instant

if TYPE_CHECKING:
    from models.registry.registration import Candidate, Kind, Training
    from models.registry.runtime_registration import Snapshot
    from models.registry.tracking import Tracking

Incumbent = promote.Incumbent[Method]


def incumbent(store: Tracking, trace: str) -> Incumbent | None:
    """Return the present champion of ``runtime-<trace>``, None if there is none.

    InputError if what it learned cannot be read.
    """
    from models.registry.runtime_registration import RUNTIME, trained_method

    def read(number: str) -> Method:
        learner = store.client.get_model_version(RUNTIME.registered(trace), number).tags["method"]
        if learner not in METHODS:
            raise Outdated(f"is of the method {learner}, which this Queuecast does not train")
        method = trained_method(store, trace, number)
        if outdated(method):
            raise Outdated("was grown by another Queuecast")
        return method

    return promote.incumbent(store, RUNTIME, trace, read)


def served_by(present: Incumbent | None, submit_s: np.ndarray, before: Mapping[int, tuple[str, Method]] | None = None):
    """Say which champion answered which jobs.

    The incumbent answered what was submitted after it was trained, else the champion after the night (``before``, by instant).
    """

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
class Retrained(Promotion):
    """The result of a retraining.

    ``trained_version`` is the version whose training the champion is, ``method`` its method's name (empty if chosen by hand),
    ``trained`` the trained methods. ``accuracies`` are of the judged window; ``served_now`` is the champion's accuracy and
    under-prediction in it, and ``served_then`` the record of them at its promotion.
    """

    found: Duel | None
    trained_version: str = field(kw_only=True)
    method: str = field(kw_only=True)
    accuracies: Mapping[str, float] = field(kw_only=True)
    served_now: Mapping[str, Mean] = field(kw_only=True)
    served_then: Mapping[str, Mean] = field(kw_only=True)
    trained: Mapping[str, Method] = field(kw_only=True)

    @property
    def judged_jobs(self) -> int:
        return self.judged


def learning_key(clean: CleanTrace, known: Accounting, seed: int) -> str:
    """Return the tag :data:`MADE_FROM` of versions made from these jobs by this code."""
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
    """Train every candidate on all of ``known``, choose a challenger, register, decide.

    The challenger is chosen by what was ``served`` (:func:`models.registry.as_served.predict_served`). ``models`` receives the
    trained methods. ``tags`` go to every version and ``metrics`` to the version of the method they are named by. ``schedules``
    may keep a challenger from promotion (:func:`pipelines.dated.judge.judge`). InputError for a damaged version
    (:func:`pipelines.dated.loaded_back.verified`).
    """
    from models.registry.runtime_registration import RUNTIME

    work = _RuntimeJudge(
        store, RUNTIME, clean, known, served, seed, {} if models is None else models, tags or {}, metrics or {}, schedules
    )
    made = propose(store, work, present)
    rows, version, method = work.window, made.champion, ""
    if made.promoted:
        method = str(made.registered.set_index("alias")["method"]["champion"])
    elif present is not None:
        version, method = present.trained_version, present.method.name if present.method else ""
    compared = present is not None and present.serves
    if present is not None and compared:
        rows = work.answered(present)
    return Retrained(
        **{**vars(made), "judged": len(rows)},
        trained_version=version,
        method=method,
        accuracies=_accuracies(work.window),
        served_now=served_means(rows, "champion" if compared else method),
        served_then=recorded_means(present.tags) if present is not None and compared else {},
        trained={} if made.nothing_new else work.trained,
    )


@dataclass(frozen=True)
class _RuntimeJudge:
    """Judge of methods by accuracy as served (:class:`pipelines.dated.promote.Judge`)."""

    store: Tracking
    kind: Kind
    clean: CleanTrace
    known: Accounting
    served: pd.DataFrame
    seed: int
    models: Models
    tags: Mapping[str, str]
    metrics: Mapping[str, Mapping[str, float]]
    schedules: Schedules | None

    @property
    def subject(self) -> str:
        return self.clean.name

    @cached_property
    def key(self) -> str:
        return learning_key(self.clean, self.known, self.seed)

    @cached_property
    def window(self) -> pd.DataFrame:
        """Return the rows of ``served`` that judge."""
        judging = judged_window(self.known.jobs["submit_s"].to_numpy(np.int64), self.known.end_s)
        return self.served[judging.jobs(self.served["end_s"].to_numpy()) & (self.served["end_s"] <= self.known.until_s)]

    def answered(self, present: Incumbent) -> pd.DataFrame:
        """Return those of ``window`` that the champion answered."""
        if present.method is None:
            return self.window.iloc[:0]
        return self.window[self.window["champion_version"] == present.trained_version]

    @cached_property
    def trained(self) -> dict[str, Method]:
        """Return every candidate, trained on everything."""
        until = self.known.until_s
        for name in TRAINERS:
            if (name, until) not in self.models:
                self.models[name, until] = train(name, self.known, until, self.seed)
        return {name: self.models[name, until] for name in TRAINERS}

    @cached_property
    def training(self) -> Training:
        from models.registry.registration import Training

        window_s = (int(self.clean.jobs["submit_s"].iloc[0]), self.known.until_s)
        count, generated = len(self.clean.jobs), self.clean.generated
        return Training(self.clean.name, fingerprint(self.clean.jobs), count, window_s, generated, self.seed)

    def _score(self, name: str, rows: pd.DataFrame) -> Score:
        numbers = {**window_metrics(self.window, name), **self.metrics.get(name, {})}
        return Score(mean_accuracy(rows, name), len(rows), numbers, _recorded(rows, name))

    def scores(self) -> dict[str, Score]:
        return {name: self._score(name, self.window) for name in TRAINERS}

    def against(self, present: Incumbent) -> Verdict:
        names = [name for name, trainer in TRAINERS.items() if trainer.learns or present.tags.get("method") != name]
        trained = (present.trained_version, present.trained_until_s)
        found = judge(self.served, self.window, names, trained, self.known.until_s, self.schedules)
        rows = self.answered(present)
        score = self._score(found.challenger, rows if len(rows) else self.window)
        return Verdict(found.challenger, score, found.found, found.vetoes)

    def register(self, name: str, score: Score) -> Candidate:
        from models.registry.registration import log_and_register
        from models.registry.runtime_registration import RuntimeContent

        content, judged = RuntimeContent(self.trained[name], snapshot_of(self.clean, self.known)), (score.value, score.judged)
        tags, parameters = {**self.tags, MADE_FROM: self.key, **score.tags}, TRAINERS[name].parameters(self.seed)
        return log_and_register(
            self.store, self.kind, content, self.training, judged, score.metrics, parameters=parameters, tags=tags
        )

    def checks(self, made: Candidate) -> dict[str, bool]:
        return verified(self.store, self.clean, self.known, made, self.trained[made.method])

    def refresh(self, present: Incumbent, verdict: Verdict) -> Candidate | None:
        if present.method is None or verdict.found is None:
            return None
        judged = (verdict.found.champion.value, verdict.found.jobs) if verdict.found.jobs else None
        numbers = window_metrics(self.answered(present), "champion")
        tags = {**self.tags, MADE_FROM: self.key}
        return brought_up_to_date(self.store, self.clean, self.known, present.version, present.method, tags, judged, numbers)


def snapshot_of(clean: CleanTrace, known: Accounting) -> Snapshot:
    """Return the histories of the present, for a version to bring."""
    from models.registry.runtime_registration import Snapshot

    until = known.until_s
    return Snapshot(known.snapshot(until), until, clean.origin_unix_s, clean.timezone, fingerprint(clean.jobs), clean.hashed_with)


def brought_up_to_date(
    store: Tracking,
    clean: CleanTrace,
    known: Accounting,
    number: str,
    method: Method,
    tags: Mapping[str, str],
    judged: tuple[float, int] | None = None,
    metrics: Mapping[str, float] | None = None,
) -> Candidate:
    """Register the model of version ``number`` with the histories of the present.

    ``method`` is what it learned. ``tags`` and ``metrics`` are the new version's; records of training and promotion stay, and those
    of its judgement where none is given by ``judged``. InputError for a version that does not answer when it is loaded back.
    """
    from models.registry.registration import Training, log_and_register
    from models.registry.runtime_registration import RUNTIME, RuntimeContent

    before = dict(store.client.get_model_version(f"runtime-{clean.name}", number).tags)
    trained, data = before.get(REFRESHED_FROM, number), before["data_fingerprint"]
    first, learned = (int(each) for each in before["training_window_s"].split(".."))
    jobs, seed = int(before["training_jobs"]), int(before.get("seed", 0))
    carried, taken = carried_on(method, known, known.until_s), instant(known.until_s, clean.origin_unix_s)
    made = log_and_register(
        store,
        RUNTIME,
        RuntimeContent(carried, snapshot_of(clean, known), trained),
        Training(clean.name, data, jobs, (first, learned), clean.generated, seed),
        judged or (float(before["judged_accuracy"]), int(before["judged_jobs"])),
        metrics or {},
        tags={**tags, **{name: value for name, value in before.items() if name.startswith("recorded_")}},
        why=f"The model of version {trained}, which learned up to {instant(learned, clean.origin_unix_s)}, with the histories up to "
        f"{taken}; before, version {number}.",
    )
    verified(store, clean, known, made, carried)
    return made


def _accuracies(window: pd.DataFrame) -> dict[str, float]:
    """Return the mean accuracy in the window of every column of predictions.

    All are on the same jobs: those a champion answered, once there are ``FEWEST_JOBS`` of them; before, on all, and of the
    champion NaN.
    """
    answered = window[window["champion"].notna()]
    enough = len(answered) >= FEWEST_JOBS
    columns = ["requested", *(each for name in TRAINERS for each in (name, f"{name}_now"))]
    found = {name: mean_accuracy(answered if enough else window, name) for name in columns}
    return found | {"champion": mean_accuracy(answered, "champion") if enough else float("nan")}


def served_means(rows: pd.DataFrame, name: str) -> dict[str, Mean]:
    """Return accuracy and under-prediction rate of a column of ``served``, with errors.

    Errors are clustered.
    """
    seconds, runtime, cluster = rows[name].to_numpy(), rows["runtime_s"].to_numpy(np.float64), clusters(rows)
    return {
        "accuracy": clustered_mean(accuracy(seconds, runtime), cluster),
        "underprediction_rate": clustered_mean((seconds < runtime).astype(np.float64), cluster),
    }


def _recorded(rows: pd.DataFrame, name: str) -> dict[str, str]:
    """Return tags of the means that the drift check compares with later."""
    if not len(rows):
        return {}
    return {
        f"recorded_{measure}": f"{mean.value!r} {mean.error!r} {mean.clusters}"
        for measure, mean in served_means(rows, name).items()
    }


def recorded_means(tags: Mapping[str, str]) -> dict[str, Mean]:
    """Return the means that a version recorded when it was judged."""
    found = {}
    for measure in ("accuracy", "underprediction_rate"):
        if f"recorded_{measure}" in tags:
            value, error, clusters = tags[f"recorded_{measure}"].split()
            found[measure] = Mean(float(value), float(error), int(clusters))
    return found


def window_metrics(window: pd.DataFrame, name: str) -> dict[str, float]:
    """Return MLflow metrics of a column of ``served``.

    ``served_*`` from nightly snapshots and, of a method, ``up_to_second_*`` beside it.
    """
    if not len(window):
        return {}
    runtime = window["runtime_s"].to_numpy(np.float64)
    found: dict[str, float] = {}
    for prefix, column in (("served", name), ("up_to_second", f"{name}_now")):
        if column in window:
            row = evaluate_predictions(window[column].to_numpy(), runtime)
            found |= {f"{prefix}_{measure}": float(value) for measure, value in row.items()}
    return found
