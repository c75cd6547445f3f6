"""Train, judge and register models of when jobs start, and keep their answers.

A run learns from the questions before its date and answers the later ones, calibrated each midnight. A night judges the
answers of the previous night's versions. Promotion is by the rule of all models (``models.registry.promotion``), on
ranked scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pandas as pd

from features.clock import DAY_S
from features.errors import InputError
from features.jobs.cleaning import CleanTrace
from features.jobs.schema import fingerprint
from models.packed.start_distribution import EDGES_S, at_waits, given_waiting
from models.packed.start_predictor import HAZARD, RECENT, StartModel, answers
from models.registry.promotion import FEWEST_JOBS, JUDGED_DAYS, Comparison, compare, served_evidence, user_days
from models.registry.registration import Candidate, Training, log_and_register, number_in
from models.registry.start_registration import START, load_version, start_content
from models.registry.tracking import Tracking, aliases
from models.starts.evaluation import WAITED_S, ranked_scores
from models.starts.model import SPARE_AT, Questions, Uncalibrated, best_kind, fit, predict, refresh, restricted, uncalibrated
from pipelines.lake.tables import Lake
from pipelines.report.table import instant
from pipelines.training.promote import (
    MADE_FROM,
    CandidateScore,
    Incumbent,
    Outdated,
    Promotion,
    PromotionVerdict,
    incumbent,
    made_from,
    promote,
)
from pipelines.training.queue_states import QueueQuestions, rows_by_number
from pipelines.training.work import Cutoff, Work

KEPT_DAYS = 120
"""Days of answers that the table ``starts`` keeps."""
_HELD_OUT = 0.2
"""Share of the questions, the last ones, that choose a first champion and calibrate a new model."""
_TOLD, _OTHER = ([f"{of}{edge:.0f}_s" for edge in EDGES_S] for of in ("by_", "challenger_by_"))
"""Columns of the answers of champion and challenger: chances to have started by each edge."""


@dataclass(frozen=True)
class StartComparison(Comparison):
    """A comparison of answers by their ranked scores."""

    measure: ClassVar[str] = "ranked score as served"
    things: ClassVar[str] = "answers"

    @property
    def too_few(self) -> str:
        few = self.jobs < FEWEST_JOBS
        return f"only {self.jobs:,} answers of the last {JUDGED_DAYS} days can be judged; {FEWEST_JOBS} are needed" if few else ""


@dataclass(frozen=True)
class StartJudge:
    """Judge of models of starts by ranked scores (:class:`pipelines.training.promote.Judge`).

    ``ledger`` is the table ``starts`` of the nights so far.
    """

    store: Tracking
    clean: CleanTrace
    asked: QueueQuestions
    date: Cutoff
    ledger: pd.DataFrame
    seed: int
    tags: Mapping[str, str]
    held_out: dict[str, tuple[Uncalibrated, Questions]] = field(default_factory=dict)
    instead: str = ""

    kind = START

    @property
    def subject(self) -> str:
        return self.clean.name

    @property
    def questions(self) -> Questions:
        """Return the questions before the date."""
        return self.asked.questions.take(self.asked.questions.at_s < self.date.until_s)

    @property
    def key(self) -> str:
        jobs, until_s = fingerprint(self.clean.jobs), self.date.until_s
        return made_from(
            "start",
            {"jobs": jobs, "until_s": until_s, "asked": len(self.questions), "ahead": self.asked.ahead, "seed": self.seed},
        )

    def _held_out(self, method: str) -> tuple[Uncalibrated, Questions]:
        """Train on the first questions; return the answers to the last ones, and these questions."""
        if method not in self.held_out:
            questions = self.questions
            split = int(len(questions) * (1 - _HELD_OUT))
            first, last = questions.take(np.arange(split)), questions.take(np.arange(split, len(questions)))
            model = fit(method, first, self.asked.start_s, int(last.at_s[0]), self.seed)
            self.held_out[method] = uncalibrated(model, last), last
        return self.held_out[method]

    def scores(self) -> dict[str, CandidateScore]:
        by_method = {}
        for method in START.order:
            distributions, last = self._held_out(method)
            waited, waits = last.waited(self.asked.start_s, self.date.until_s)
            _, scores = best_kind(distributions, waited, waits)
            by_method[method] = CandidateScore(float(scores.mean()) if len(scores) else float("nan"), len(scores))
        return by_method

    def against(self, present: Incumbent[StartModel]) -> PromotionVerdict:
        assert present.method is not None
        rows = self._held_out_rows(present.method) if self.ledger.empty else self.ledger
        mine = (rows["trained_version"] == present.trained_version) | self.ledger.empty
        rows = rows[mine & rows["score"].notna() & rows["challenger_score"].notna()]
        difference = (rows["challenger_score"] - rows["score"]).to_numpy(np.float64)
        started = (rows["at_s"] + rows["waited_s"]).to_numpy(np.int64)
        user, until_s = pd.factorize(rows["user"])[0], self.date.until_s
        readings = 2 if self.ledger.empty else 1  # held-out questions choose what is read, and judge it
        since_s = present.trained_until_s
        evidence = served_evidence(difference, user, started, since_s, until_s, readings, since_s)
        recent = started > until_s - JUDGED_DAYS * DAY_S
        cluster = user_days(user[recent], rows["at_s"].to_numpy(np.int64)[recent])
        theirs, ours = (rows[name].to_numpy(np.float64)[recent] for name in ("score", "challenger_score"))
        comparison = StartComparison(**vars(compare(ours, theirs, cluster, evidence)))
        return PromotionVerdict(HAZARD, CandidateScore(float(ours.mean()) if len(ours) else float("nan"), len(ours)), comparison)

    def _held_out_rows(self, champion: StartModel) -> pd.DataFrame:
        """Return scores of both on questions new to both, in place of a night's answers."""
        distributions, last = self._held_out(HAZARD)
        kind, _ = best_kind(distributions, *last.waited(self.asked.start_s, self.date.until_s))
        new = last.at_s >= champion.trained_s
        last = last.take(new)
        waited, waits = last.waited(self.asked.start_s, self.date.until_s)
        scores = {
            "score": ranked_scores(predict(champion, uncalibrated(champion, last)), waited),
            "challenger_score": ranked_scores(distributions[kind][new], waited),
        }
        users = {"user": self.clean.jobs["user"].astype("str").to_numpy()[last.row], "trained_version": ""}
        rows = pd.DataFrame({"at_s": last.at_s, "waited_s": waited, **users, **scores})
        return rows[~waits]

    def register(self, name: str, score: CandidateScore) -> Candidate:
        questions, until_s = self.questions, self.date.until_s
        distributions, last = self._held_out(name)
        model = fit(name, questions, self.asked.start_s, until_s, self.seed)
        model = restricted(model, best_kind(distributions, *last.waited(self.asked.start_s, until_s))[0])
        model = refresh(model, distributions, int(last.at_s[0]), last, self.asked.start_s, until_s)
        clean = self.clean
        model = replace(
            model, procs=clean.procs, origin_unix_s=clean.origin_unix_s, timezone=clean.timezone, ahead=self.asked.ahead
        )
        return self._logged(model, (score.value, score.judged), score.metrics)

    def _logged(self, model: StartModel, judged: tuple[float, int], metrics: Mapping[str, float], of: str = "") -> Candidate:
        questions = self.questions
        window = (int(questions.at_s[0]), int(model.trained_s))
        clean, until = self.clean, instant(window[1], self.clean.origin_unix_s)
        training = Training(self.subject, fingerprint(clean.jobs), len(questions), window, clean.generated, self.seed, until)
        tags = {**self.tags, MADE_FROM: self.key}
        return log_and_register(self.store, START, start_content(model, of), training, judged, metrics, tags=tags)

    def load_back(self, candidate: Candidate) -> None:
        back, questions = load_version(START.registered(self.subject), candidate.version), self.questions
        last = questions.take(np.arange(max(len(questions) - 50, 0), len(questions)))
        if not np.isfinite(back.chances(last.states, last.scenarios)).all():
            raise InputError(f"start-{self.subject}/{candidate.version} does not answer when it is loaded back")

    def refresh(self, present: Incumbent[StartModel], verdict: PromotionVerdict) -> Candidate | None:
        later = int(present.tags.get("snapshot_s", 0)) >= self.date.until_s  # a run of an earlier date
        if present.method is None or present.method.method == RECENT or later:
            return None
        distributions = uncalibrated(present.method, self.questions)
        since_s = present.method.trained_s
        model = refresh(present.method, distributions, since_s, self.questions, self.asked.start_s, self.date.until_s)
        tags = present.tags
        judged = number_in(tags, "judged_score"), int(tags.get("judged_jobs", 0))
        return self._logged(model, judged, {}, present.trained_version)


def keep_start_model(work: Work, clean: CleanTrace, asked: QueueQuestions, date: Cutoff, seed: int = 0) -> Promotion:
    """Train, judge and register models of starts; write the tables; no alias moves.

    The tables are ``start_model`` and ``starts``. :func:`pipelines.training.work.point_champions` moves the
    aliases once the tables are published.
    """
    lake, store = work.lake, work.store
    name = START.registered(clean.name)

    def read(number: str) -> StartModel:
        model = load_version(name, number)
        if model.ahead != asked.ahead and model.trained_s <= date.until_s:
            raise Outdated("was trained with simulations of another scheduler")
        return model

    present = incumbent(store, START, clean.name, read)
    ledger = _ledger(lake, clean, asked, date, present, _challenger(store, name)) if date.night else _no_rows()
    seen = present is not None and not date.night and present.trained_until_s > date.until_s
    instead = "The champion has learned from what follows the date; version {} answers that." if seen else ""
    judge = StartJudge(store, clean, asked, date, ledger, seed, work.tags, instead=instead)
    result = promote(store, judge, present)
    if not date.night:
        ledger = _what_follows(clean, asked, date, load_version(name, result.simulated), result.simulated)
    table = result.table(store, START)
    lake.write_for(clean, "start_model", table, {"serves": result.serves, "why": result.why, "dated": date.marks["dated"]})
    lake.write_for(clean, "starts", ledger, {"dated": date.marks["dated"]})
    return result


def _challenger(store: Tracking, name: str) -> StartModel | None:
    number = aliases(store, name).get("challenger", "")
    try:
        return load_version(name, number) if number else None
    except InputError:
        return None


def _no_rows() -> pd.DataFrame:
    return pd.DataFrame({"job_id": np.arange(0), "at_s": np.arange(0)})


def _rows(clean: CleanTrace, questions: Questions, distributions: np.ndarray, version: str, learned: str) -> pd.DataFrame:
    """Return answers as rows of the table ``starts``, without outcomes."""
    jobs = clean.jobs.iloc[questions.row]
    return pd.DataFrame(
        {
            "job_id": jobs["job_id"].to_numpy(),
            "at_s": questions.at_s,
            "user": jobs["user"].astype("str").to_numpy(),
            "age_s": questions.at_s - jobs["submit_s"].to_numpy(np.int64),
            "version": version,
            "trained_version": learned,
            "fits": questions.states[:, SPARE_AT] >= 0,
            "plan_s": questions.plan_s,
            **answers(distributions),
            **dict(zip(_TOLD, distributions.T, strict=True)),
        }
    )


def _came_true(rows: pd.DataFrame, clean: CleanTrace, start_s: np.ndarray, until_s: int) -> pd.DataFrame:
    """Add outcomes by ``until_s``: waited_s place score challenger_score; NaN if a job waits."""
    place = rows_by_number(clean.jobs).reindex(rows["job_id"], fill_value=-1).to_numpy()
    start = np.where(place >= 0, start_s[place], np.nan)
    began = start <= until_s  # false for jobs that are gone from accounting
    waited = np.where(began, start - rows["at_s"].to_numpy(np.float64), 0.0)
    distributions, theirs = (rows.reindex(columns=names).to_numpy(np.float64) for names in (_TOLD, _OTHER))
    place = at_waits(given_waiting(distributions), waited)
    outcomes = {
        "waited_s": waited,
        "place": np.where(waited > WAITED_S, place, np.nan),
        "score": ranked_scores(distributions, waited),
    }
    outcomes["challenger_score"] = ranked_scores(theirs, waited)
    return rows.assign(**{name: np.where(began, values, np.nan) for name, values in outcomes.items()})


def _what_follows(clean: CleanTrace, asked: QueueQuestions, date: Cutoff, model: StartModel, version: str) -> pd.DataFrame:
    """Return a run's answers after its date, calibrated at each midnight on earlier ones."""
    later, parts = asked.questions.take(asked.questions.at_s >= date.until_s), [_no_rows()]
    day, distributions = later.at_s // DAY_S, uncalibrated(model, later)
    for number in np.unique(day):
        here, midnight = day == number, int(number) * DAY_S
        own = refresh(model, distributions, model.trained_s, later, asked.start_s, midnight) if midnight > date.until_s else model
        today = own if own.calibrations else replace(own, calibrations=model.calibrations)
        answers_here = predict(today, {kind: each[here] for kind, each in distributions.items()})
        parts.append(_rows(clean, later.take(here), answers_here, version, version))
    return _came_true(pd.concat(parts, ignore_index=True), clean, asked.start_s, int(asked.start_s.max()))


def _ledger(
    lake: Lake,
    clean: CleanTrace,
    asked: QueueQuestions,
    date: Cutoff,
    present: Incumbent[StartModel] | None,
    challenger: StartModel | None,
) -> pd.DataFrame:
    """Return the answers of all nights and since the last one, with their outcomes.

    Questions since the champion's training that are not in the table are answered by the versions that served until
    tonight. They include jobs that were not in accounting the night before, since they still ran.
    """
    published = lake.published()
    before = published.read("starts", clean.name)[0] if published.has("starts", clean.name) else _no_rows()
    if not set(_OTHER) <= set(before.columns):
        before = _no_rows()  # a run's table, with the answers of one version
    before = before[before["at_s"] >= date.until_s - KEPT_DAYS * DAY_S]
    if present is None or present.method is None:
        return _came_true(before, clean, asked.start_s, date.until_s) if len(before) else before
    questions = asked.questions.take((asked.questions.at_s >= present.trained_until_s) & (asked.questions.at_s < date.until_s))
    index = pd.MultiIndex.from_arrays([clean.jobs["job_id"].to_numpy()[questions.row], questions.at_s])
    new = questions.take(~index.isin(pd.MultiIndex.from_frame(before[["job_id", "at_s"]])))
    rows = _rows(clean, new, predict(present.method, uncalibrated(present.method, new)), present.version, present.trained_version)
    theirs = np.full((len(new), len(EDGES_S)), np.nan) if challenger is None else predict(challenger, uncalibrated(challenger, new))
    rows = rows.assign(**dict(zip(_OTHER, theirs.T, strict=True)))
    return _came_true(pd.concat([before, rows], ignore_index=True), clean, asked.start_s, date.until_s)
