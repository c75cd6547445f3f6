"""Candidates for ``runtime-<trace>``: scored as served, trained, registered, refreshed.

Which of them becomes champion is decided in ``pipelines.training.promote``.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from features.errors import InputError, first_line
from features.jobs.cleaning import CleanTrace
from features.jobs.schema import fingerprint
from models.packed.methods import METHODS, Method
from models.packed.settings import FORMAT
from models.registry.as_served import Models, answer_columns, by_column, judged_window, predict_served, record, serve
from models.registry.candidates import TRAINERS, Accounting, fit, outdated, refresh
from models.registry.registration import Candidate, Kind, Training, log_and_register, trained_number
from models.registry.runtime_registration import RUNTIME, Snapshot, load_version, runtime_content, trained_method
from models.registry.tracking import Tracking, all_versions, run_of
from models.runtime.evaluation import evaluate_predictions
from pipelines.lake.registry import submissions
from pipelines.report.table import instant
from pipelines.studies.progress import progress_reporter
from pipelines.training import promote
from pipelines.training.judge import instants_of_nights, job_keys, judge, judging_instants, mean_accuracy
from pipelines.training.ledger import Ledger
from pipelines.training.promote import MADE_FROM, CandidateScore, Outdated, PromotionVerdict, made_from
from pipelines.training.work import Cutoff, date_of

Incumbent = promote.Incumbent[Method]
ASKED_BACK = 200
"""Number of last submissions that a new version is asked about."""


def incumbent(store: Tracking, trace: str) -> Incumbent | None:
    """Return the present champion of ``runtime-<trace>``, None if there is none.

    Raises InputError if the registry does not answer.
    """

    def read(number: str) -> Method:
        learner = store.client.get_model_version(RUNTIME.registered(trace), number).tags.get("method")
        if learner is not None and learner not in METHODS:
            raise Outdated(f"is of the method {learner}, which this Queuecast does not train")
        method = trained_method(store, trace, number)
        if outdated(method):
            raise Outdated("was trained by another version of Queuecast")
        return method

    return promote.incumbent(store, RUNTIME, trace, read)


@dataclass(frozen=True)
class TraceJudge:
    """Judge of methods by accuracy as served (:class:`pipelines.training.promote.Judge`).

    ``whole`` is the trace; ``clean`` and ``records`` have the jobs that had ended by the date. ``present`` is the
    champion, and ``ledger`` has the earlier nights with the answers served. ``models`` caches candidates by name and
    instant of training.
    """

    store: Tracking
    date: Cutoff
    whole: CleanTrace
    clean: CleanTrace
    records: Accounting
    present: Incumbent | None
    ledger: Ledger
    seed: int = 0
    tags: Mapping[str, str] = field(default_factory=dict)
    models: Models = field(default_factory=dict)

    @property
    def kind(self) -> Kind:
        return RUNTIME

    @property
    def subject(self) -> str:
        return self.clean.name

    @cached_property
    def key(self) -> str:
        starts = hashlib.sha256(self.records.start_s.astype(np.int64).tobytes()).hexdigest()
        facts = {
            "jobs": fingerprint(self.clean.jobs),
            "starts": starts,
            "origin_unix_s": self.clean.origin_unix_s,
            "timezone": self.clean.timezone,
            "seed": self.seed,
        }
        return made_from(
            "runtime", {**facts, "parameters": {name: dict(trainer.get_params(self.seed)) for name, trainer in TRAINERS.items()}}
        )

    @property
    def instead(self) -> str:
        present, date = self.present, self.date
        if present is None or present.method is None or not date.follows or present.trained_until_s <= date.until_s:
            return ""
        return (
            f"The champion, version {present.version}, has learned from jobs up to {date_of(self.whole, present.trained_until_s)}, which are "
            f"simulated: version {{}}, the best of those trained up to {date_of(self.whole, date.until_s)}, is simulated in its place."
        )

    @cached_property
    def rival(self) -> Incumbent | None:
        """Return the champion if candidates compete with it, None if only with each other."""
        present = self.present
        return None if self.instead or present is None or present.method is None else present

    @cached_property
    def served(self) -> pd.DataFrame:
        """Return the answers that nights before the date served or would have served."""
        rival, records = self.rival, self.records
        submit = records.jobs["submit_s"].to_numpy(np.int64)
        if self.date.follows:
            learned_s = rival.trained_until_s if rival is not None else None
            instants = judging_instants(judged_window(submit, records.end_s), learned_s)
        else:
            instants = instants_of_nights(submit, records.end_s, self.ledger.until_s, records.until_s)
        rows, before = np.flatnonzero(submit >= instants[0]), self.ledger.served
        if not set(answer_columns()) <= set(before.columns):  # a new candidate or answer: answer all jobs again
            before = before.iloc[:0]
        if len(before):
            keys, answered = job_keys(records.jobs.iloc[rows].assign(end_s=records.end_s[rows])), job_keys(before)
            before = before[answered.isin(keys)]  # changed jobs are answered again
            rows = rows[~keys.isin(answered)]
        once = self.date.follows and rival is None
        answers = predict_served(
            records,
            rows,
            instants,
            names=() if once else tuple(TRAINERS),
            models=self.models,
            champion=served_by(rival, submit, self._champions(submit[rows])),
            seed=self.seed,
            progress=progress_reporter("predict as served"),
        )
        for name in TRAINERS if once else ():
            answers = answers.assign(**by_column(name, self._trained_weekly(name, rows, instants)))
        return pd.concat([before, answers], ignore_index=True) if len(before) else answers

    def _trained_weekly(self, name: str, rows: np.ndarray, instants: Sequence[int]) -> pd.DataFrame:
        """Return the answers of a candidate trained each week and refreshed each night.

        A run simulates such a candidate. There is one row for each of ``rows``, one column per output, in seconds.
        """
        submit, parts = self.records.jobs["submit_s"].to_numpy(np.int64)[rows], []
        for nights in (instants[first : first + 7] for first in range(0, len(instants), 7)):
            after = int(np.searchsorted(instants, nights[-1], side="right"))
            end_s = instants[after] if after < len(instants) else np.inf
            rows_of_model = np.flatnonzero((submit >= nights[0]) & (submit < end_s))
            method = fit(name, self.records, nights[0], self.seed)
            parts.append(serve(method, self.records, rows[rows_of_model], nights).set_index(rows_of_model))
        return pd.concat(parts).sort_index()

    def _champions(self, submit_s: np.ndarray) -> dict[int, tuple[str, Method]]:
        """Return by night the champions that answered jobs submitted at ``submit_s``."""
        learned_s = self.rival.trained_until_s if self.rival is not None else 2**62
        nights = self.ledger.nights
        every = all_versions(self.store, self.kind.registered(self.subject)) if len(nights) else []
        readable = {str(version.version) for version in every if version.tags.get("queuecast_format") == str(FORMAT)}
        trained, champions = dict[str, Method](), dict[int, tuple[str, Method]]()
        for at_s, number, method in zip(nights["until_s"], nights["trained_version"], nights["method"], strict=True):
            # a pruned version, or one of an older format, cannot answer
            if method in METHODS and str(number) in readable and ((submit_s > at_s) & (submit_s <= learned_s)).any():
                if number not in trained:
                    trained[number] = trained_method(self.store, self.subject, number)
                champions[int(at_s)] = number, trained[number]
        return champions

    @cached_property
    def window(self) -> pd.DataFrame:
        """Return the rows of ``served`` on which candidates are judged."""
        judging = judged_window(self.records.jobs["submit_s"].to_numpy(np.int64), self.records.end_s)
        return self.served[judging.jobs(self.served["end_s"].to_numpy()) & (self.served["end_s"] <= self.records.until_s)]

    @property
    def answered(self) -> pd.DataFrame:
        """Return the rows of ``window`` that the champion answered."""
        if self.rival is None:
            return self.window.iloc[:0]
        return self.window[self.window["champion_version"] == self.rival.trained_version]

    @cached_property
    def trained(self) -> dict[str, Method]:
        """Return every candidate, trained on all jobs that had ended by the date."""
        until, models = self.records.until_s, self.models
        for name in TRAINERS:
            if (name, until) not in models:
                models[name, until] = fit(name, self.records, until, self.seed)
        return {name: models[name, until] for name in TRAINERS}

    def method_of(self, number: str) -> str:
        """Return the name of the method of a version."""
        return self.store.client.get_model_version(self.kind.registered(self.subject), number).tags["method"]

    @cached_property
    def training(self) -> Training:
        window_s = (int(self.clean.jobs["submit_s"].iloc[0]), self.records.until_s)
        count, generated = len(self.clean.jobs), self.clean.generated
        until = instant(window_s[1], self.clean.origin_unix_s)
        return Training(self.clean.name, fingerprint(self.clean.jobs), count, window_s, generated, self.seed, until)

    def _score(self, name: str, rows: pd.DataFrame) -> CandidateScore:
        metrics = {**window_metrics(self.window, name), "judged_requested_accuracy": mean_accuracy(rows, "requested")}
        return CandidateScore(mean_accuracy(rows, name), len(rows), metrics, record(rows, name))

    def scores(self) -> dict[str, CandidateScore]:
        return {name: self._score(name, self.window) for name in TRAINERS}

    def against(self, present: Incumbent) -> PromotionVerdict:
        names = [name for name, trainer in TRAINERS.items() if trainer.learns or present.tags.get("method") != name]
        trained = (present.trained_version, present.trained_until_s)
        challenger, duel, vetoes = judge(self.served, self.window, names, trained, self.records.until_s)
        rows = self.answered
        score = self._score(challenger, rows if len(rows) else self.window)
        return PromotionVerdict(challenger, score, duel, vetoes)

    def register(self, name: str, score: CandidateScore) -> Candidate:
        content, judged = runtime_content(self.trained[name], snapshot_of(self.clean, self.records)), (score.value, score.judged)
        tags, parameters = {**self.tags, MADE_FROM: self.key, **score.tags}, TRAINERS[name].get_params(self.seed)
        return log_and_register(
            self.store, self.kind, content, self.training, judged, score.metrics, parameters=parameters, tags=tags
        )

    def load_back(self, candidate: Candidate) -> None:
        load_back(self.clean, candidate)

    def refresh(self, present: Incumbent, verdict: PromotionVerdict) -> Candidate | None:
        assert present.method is not None
        judged = (verdict.comparison.champion.value, verdict.comparison.jobs) if verdict.comparison.jobs else None
        numbers = window_metrics(self.answered, "champion")
        tags = {**self.tags, MADE_FROM: self.key}
        return refreshed(self.store, self.clean, self.records, present.version, present.method, tags, judged, numbers)

    def up_to_date(self, records: Accounting, champion: str) -> str:
        """Return the version of a champion that has the histories of all ``records``.

        It is ``champion`` itself, or a new version of the same model.
        """
        version = self.store.client.get_model_version(self.kind.registered(self.subject), champion)
        tags = dict(version.tags)
        data = fingerprint(self.whole.jobs)
        current = tags.get("snapshot_s") == str(records.until_s) and tags.get("snapshot_fingerprint") == data
        if current:
            return champion
        method = trained_method(self.store, self.subject, trained_number(self.store, version))
        own_tags = {**self.tags, **{name: value for name, value in tags.items() if name == MADE_FROM}}
        return refreshed(self.store, self.whole, records, champion, method, own_tags).version


def served_by(present: Incumbent | None, submit_s: np.ndarray, before: Mapping[int, tuple[str, Method]]):
    """Return a function that tells which champion answered which jobs after a night.

    The incumbent answered jobs submitted after its training, the champion of the night (``before``, by instant) the
    others.
    """

    def answered(at_s: int, rows: np.ndarray) -> Iterable[tuple[np.ndarray, str, Method]]:
        now = np.zeros(len(rows), bool)
        if present is not None and present.method is not None:
            now = submit_s[rows] > present.trained_until_s
            yield now, present.trained_version, present.method
        if at_s in before:
            version, method = before[at_s]
            yield ~now, version, method

    return answered


def snapshot_of(clean: CleanTrace, records: Accounting) -> Snapshot:
    """Return the present histories as the snapshot of a version."""
    until = records.until_s
    return Snapshot(records.snapshot(until), until, clean.origin_unix_s, clean.timezone, fingerprint(clean.jobs), clean.hashed_with)


def refreshed(
    store: Tracking,
    clean: CleanTrace,
    records: Accounting,
    number: str,
    method: Method,
    tags: Mapping[str, str],
    judged: tuple[float, int] | None = None,
    metrics: Mapping[str, float] | None = None,
) -> Candidate:
    """Register the model of version ``number`` with the present histories.

    ``method`` is that model. ``tags`` and ``metrics`` are for the new version. Records of training and promotion stay,
    and those of judgement if ``judged`` is None. Raises InputError if the version does not answer when it is loaded
    back.
    """
    version = store.client.get_model_version(f"runtime-{clean.name}", number)
    before, run = dict(version.tags), run_of(store, version)
    recorded = run.data.metrics if run is not None else {}
    trained, data = trained_number(store, version), before.get("data_fingerprint", "")
    first, learned = (int(second) for second in before["training_window_s"].split(".."))
    jobs, seed = int(before.get("training_jobs", 0)), int(before.get("seed", 0))
    current, taken = refresh(method, records, records.until_s), instant(records.until_s, clean.origin_unix_s)
    (accuracy, count), numbers = (
        judged or (float(before["judged_accuracy"]), int(before.get("judged_jobs", 0))),
        metrics or recorded,
    )
    against = f", that of the requests {numbers['requested_accuracy']:.1%}" if "requested_accuracy" in numbers else ""
    candidate = log_and_register(
        store,
        RUNTIME,
        runtime_content(current, snapshot_of(clean, records), trained),
        Training(clean.name, data, jobs, (first, learned), clean.generated, seed),
        (accuracy, count),
        numbers,
        tags={**tags, **{name: value for name, value in before.items() if name.startswith("recorded_")}},
        why=f"{method.name}: the model of version {trained}, which learned up to {instant(learned, clean.origin_unix_s)}, with the "
        f"histories up to {taken}. It replaces version {number}. Accuracy as served {accuracy:.1%} over {count:,} jobs{against}.",
    )
    load_back(clean, candidate)
    return candidate


def load_back(clean: CleanTrace, candidate: Candidate) -> None:
    """Load a version, and ask it about the last submissions.

    Raises InputError if it is damaged, does not answer, or answers otherwise than by finite seconds in 1..request.
    """
    name, last = RUNTIME.registered(clean.name), submissions(clean).tail(ASKED_BACK).reset_index(drop=True)
    try:
        seconds = load_version(name, candidate.version).predict(last).filter(like="predicted_").to_numpy(np.float64)
    except ValueError as error:  # an InputError is one, too
        raise InputError(
            f"{name}/{candidate.version} ({candidate.method}) does not answer when it is loaded back: {first_line(error)}"
        ) from error
    request = last["requested_s"].to_numpy(np.float64)[:, None]
    if not (np.isfinite(seconds) & (seconds >= 1) & (seconds <= request)).all():
        raise InputError(f"{name}/{candidate.version} ({candidate.method}) predicts runtimes that are not in 1..request")


def window_metrics(window: pd.DataFrame, name: str) -> dict[str, float]:
    """Return MLflow metrics of a column of ``served``.

    ``served_*`` are its measures, ``requested_accuracy`` is that of the requests of the same jobs.
    """
    if not len(window):
        return {}
    runtime = window["runtime_s"].to_numpy(np.float64)
    metrics = {"requested_accuracy": mean_accuracy(window, "requested")}
    row = evaluate_predictions(window[name].to_numpy(), runtime)
    return metrics | {f"served_{measure}": float(value) for measure, value in row.items()}
