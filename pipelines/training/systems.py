"""Classifiers of variation of a system: judged, registered and promoted.

The rule is in ``models.registry.variability_promotion``, the workflow in ``pipelines.training.promote``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from features.clock import DAY_S
from features.errors import InputError
from features.jobs.schema import fingerprint
from features.monitoring.labels import baselines, labels, z_scores
from models.registry.promotion import Evidence
from models.registry.registration import Candidate, Kind, Training, log_and_register, number_in
from models.registry.tracking import Tracking
from models.registry.variability_promotion import JUDGED_DAYS, compare_classifiers, f1_evidence, f1_scores
from models.registry.variability_registration import VARIABILITY, load_version, variability_content
from models.variability.classifiers import OPTIONS
from models.variability.evaluation import ClassifierTraining, forward, measured, predictions
from models.variability.model import VariabilityModel, times_of
from pipelines.studies.monitored import MODEL_TABLE, TrainingTable
from pipelines.studies.progress import progress_reporter
from pipelines.training.promote import (
    MADE_FROM,
    CandidateScore,
    Incumbent,
    Promotion,
    PromotionVerdict,
    incumbent,
    made_from,
    promote,
)
from pipelines.training.work import Work

_ASKED_BACK = 200
"""Number of last runs that a version loaded back from the registry is asked about."""
_STRETCHES = 20
"""Min number of stretches of time into which the record is cut to judge a first champion."""
_NO_F1 = 0.5
"""The F1 of a champion without a record."""


def train(work: Work, table: TrainingTable, scope: str, learning: ClassifierTraining) -> Promotion:
    """Train, judge and register classifiers, and name the versions to serve; no alias moves.

    Writes ``variability_model``. Errors: :func:`retrain`.
    """
    begun = work.begin()
    result = retrain(table, scope, work.store, learning, tags=work.tags)
    marks = {"generated": table.generated, "why": result.why, "promoted": result.promoted, "notes": begun}
    work.lake.write(MODEL_TABLE, table.system, result.table(work.store, VARIABILITY), marks)
    work.lake.name_models(work.subject, {**result.beside(work.store), **result.serves})
    return result


def retrain(
    table: TrainingTable, scope: str, store: Tracking, learning: ClassifierTraining, *, tags: Mapping[str, str] | None = None
) -> Promotion:
    """Train candidates on the features of ``scope``; judge and register them.

    Without a champion, all classifiers are registered and judged by cross-validation in blocks of time; the best
    becomes champion if its F1 is surely above that of warning of every run. With a champion, it and the candidates are
    judged on the runs that began after all runs of its training had ended
    (:func:`models.variability.evaluation.forward`); the best candidate is registered. Raises InputError for a champion
    of another scope.
    """
    judge, name = ClassifierJudge(store, table, scope, learning, tags or {}), VARIABILITY.registered(table.system)
    present = incumbent(store, VARIABILITY, table.system, lambda number: load_version(name, number))
    if present is not None and present.tags.get("scope", scope) != scope:
        raise InputError(f"{name}@champion reads {present.tags['scope']} nodes, not {scope}: retrain that scope")
    return promote(store, judge, present)


@dataclass(frozen=True)
class ClassifierJudge:
    """Judge of classifiers by F1 (:class:`pipelines.training.promote.Judge`)."""

    store: Tracking
    table: TrainingTable
    scope: str
    learning: ClassifierTraining
    tags: Mapping[str, str]
    instead = ""

    @property
    def kind(self) -> Kind:
        return VARIABILITY

    @property
    def subject(self) -> str:
        return self.table.system

    @property
    def features(self) -> pd.DataFrame:
        return self.table.features[self.scope]

    @cached_property
    def fingerprint(self) -> str:
        runs = self.table.runs[["application", "start_s", "runtime_s"]].reset_index(drop=True)
        return fingerprint(pd.concat([runs, self.features.reset_index(drop=True)], axis=1))

    @cached_property
    def key(self) -> str:
        return made_from("variability", {"runs": self.fingerprint, "scope": self.scope, **vars(self.learning)})

    def scores(self) -> dict[str, CandidateScore]:
        progress = progress_reporter("judge classifiers")
        answers = predictions({self.scope: self.features}, self.table.runs, self.learning, progress=progress)
        scores = {}
        for name in self.learning.names:
            rows = answers[answers["classifier"] == name]
            numbers = {f"blocked_{measure}": value for measure, value in measured(rows).items()}
            f1 = float(f1_scores(rows["varies"].to_numpy(bool), rows["varied"].to_numpy(bool)).mean())
            scores[name] = CandidateScore(f1, len(rows), numbers, below=self._below(rows))
        return scores

    def _below(self, rows: pd.DataFrame) -> str:
        """Return why predictions are too weak for a first champion, "" if they are not.

        Their F1 must surely be above that of warning of every run, the highest F1 without counters. ``rows`` come from
        :func:`predictions`; rows of one stretch of time, a day or a part of a short record, err together.
        """
        start = rows["start_s"].to_numpy(np.int64)
        stretch = (start - start.min()) // max(min(DAY_S, int(np.ptp(start)) // _STRETCHES), 1)
        varies, varied = (rows[name].to_numpy(bool) for name in ("varies", "varied"))
        against = compare_classifiers(varies, np.ones(len(rows), bool), varied, stretch, Evidence(), len(self.learning.names))
        if against.low > 0:
            return ""
        return (
            f"F1 {against.challenger.value:.3f} is not surely above {against.champion.value:.3f}, which warning of every run reaches "
            f"(difference {against.difference.value:+.3f} [{against.low:+.3f}, {against.high:+.3f}])"
        )

    def against(self, present: Incumbent[VariabilityModel]) -> PromotionVerdict:
        names = self.learning.names
        assert present.method is not None
        judged = forward(self.features, self.table.runs, present.trained_until_s, self.learning)
        theirs = present.method.varies(self.features.iloc[judged["row"].to_numpy(np.intp)])
        evidence = {name: self._evidence(judged, name, theirs, present) for name in names}
        recent = (judged["start_s"] > self._last_s - JUDGED_DAYS * DAY_S).to_numpy(bool)
        judged, theirs = judged[recent], theirs[recent]
        varied, day = judged["varied"].to_numpy(bool), judged["start_s"].to_numpy(np.int64) // DAY_S
        varies = {name: judged[name].to_numpy(bool) for name in names}
        f1 = {name: float(f1_scores(varies[name], varied).mean()) if len(judged) else float("nan") for name in names}
        sure = [name for name in names if evidence[name].enough] or names
        best = max(sure, key=lambda learner: (np.nan_to_num(f1[learner], nan=-1.0), -names.index(learner)))
        comparison = compare_classifiers(varies[best], theirs, varied, day, evidence[best], len(names))
        metrics = {f"forward_f1_{name}": score for name, score in f1.items()}
        return PromotionVerdict(best, CandidateScore(f1[best], len(judged), metrics), comparison)

    @property
    def _last_s(self) -> int:
        return int(self.table.runs["start_s"].max())

    def _evidence(self, judged: pd.DataFrame, name: str, theirs: np.ndarray, present: Incumbent[VariabilityModel]) -> Evidence:
        recorded = number_in(present.tags, "judged_f1")
        return f1_evidence(
            judged[name].to_numpy(bool),
            theirs,
            judged["varied"].to_numpy(bool),
            judged["start_s"].to_numpy(np.int64),
            since_s=present.trained_until_s,
            last_s=self._last_s,
            recorded_f1=recorded if np.isfinite(recorded) else _NO_F1,
            candidates=len(self.learning.names),
        )

    def register(self, name: str, score: CandidateScore) -> Candidate:
        (rows, label, usual), learning = self._taught, self.learning
        model = learning.fit(name, self.features.iloc[rows], label, times_of(self.table.runs).take(rows), usual)
        start, runtime = (self.table.runs[column].to_numpy(np.float64) for column in ("start_s", "runtime_s"))
        window_s = (int(start.min()), int(np.ceil((start + runtime).max())))
        own = {"elimination": learning.elimination, "columns": len(model.columns)}
        return log_and_register(
            self.store,
            self.kind,
            variability_content(model, self.scope, tuple(learning.thresholds), self.features),
            Training(self.subject, self.fingerprint, len(rows), window_s, self.table.generated, learning.seed),
            (score.value, score.judged),
            score.metrics,
            parameters={**OPTIONS[name], **learning.options.get(name, {}), **own},
            tags={**self.tags, MADE_FROM: self.key},
        )

    def load_back(self, candidate: Candidate) -> None:
        loaded = load_version(self.kind.registered(self.subject), candidate.version)
        probabilities = loaded.predict_proba(self.features.tail(_ASKED_BACK).loc[:, list(loaded.columns)])
        if not np.isclose(probabilities.sum(axis=1), 1.0, rtol=0, atol=1e-9).all():
            raise InputError(f"{self.subject}: version {candidate.version} ({candidate.method}) predicts no probabilities")

    def refresh(self, present: Incumbent[VariabilityModel], verdict: PromotionVerdict) -> None:
        """Do nothing: a classifier keeps no histories to refresh."""

    @cached_property
    def _taught(self) -> tuple[np.ndarray, np.ndarray, pd.DataFrame]:
        """Return rows and labels of the training runs, int64 [runs], and the baselines."""
        application, runtime = self.table.runs["application"].to_numpy(object), self.table.runs["runtime_s"].to_numpy(np.float64)
        usual = baselines(application, runtime)
        z = z_scores(application, runtime, usual)
        rows = np.flatnonzero(~np.isnan(z))
        return rows, labels(z[rows], self.learning.thresholds), usual
