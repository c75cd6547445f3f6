"""Register what a run learned by its date, choose a champion, bring it up to date.

Candidates learn from what had ended by the date, and one of them is chosen. The choice uses nothing that happened after the date
(:mod:`pipelines.dated.dated`), so the simulations of what was submitted from then on may judge the chosen model. Consumers
get the same model with the histories of the present: its snapshot is refreshed to the end of the data, as a night does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from features.jobs.cleaning import CleanTrace
from features.jobs.inputs import model_inputs
from features.jobs.schema import fingerprint
from models.registry.accounting import Accounting, accounting
from models.registry.as_served import predict_served
from models.registry.candidates import TRAINERS
from models.registry.judged_window import judged_window
from models.registry.versions import REFRESHED_FROM
from pipelines.dated.dated import Split, date_of, split
from pipelines.dated.judge import judging_instants
from pipelines.dated.nothing_new import MADE_FROM, nothing_new, serving
from pipelines.dated.stages import History
from pipelines.dated.train import (
    Incumbent,
    Retrained,
    brought_up_to_date,
    incumbent,
    learning_key,
    retrain,
    served_by,
)
from pipelines.storage.lake import Lake
from pipelines.storage.publishing import RUN_WAITS_S, alone, finish

if TYPE_CHECKING:
    from models.registry.tracking import Tracking

SIMULATED = "simulated"
"""Alias of the version that a run simulates where the champion has learned from what it simulates."""


@dataclass(frozen=True)
class Registered:
    """What a run left in the registry.

    ``date`` divides the trace. ``simulated`` is the version that is to be simulated after it; ``models`` are those to be champion and
    challenger once the run is published, and the champion has the simulated model unless ``why`` says otherwise. ``versions`` are the new ones
    or, where there was ``nothing_new``, those that serve: ``model version method alias accuracy judged_jobs why``.
    """

    date: Split
    simulated: str
    why: str
    versions: pd.DataFrame
    nothing_new: bool
    models: Mapping[str, str]

    @property
    def marks(self) -> dict[str, object]:
        """Return the metadata of the table ``runtime_model``: what the stages after it must know."""
        date = {"until_s": self.date.at_s, "until_note": self.date.note}
        return {"nothing_new": self.nothing_new, **date, "simulated": self.simulated, "why": self.why}


@dataclass(frozen=True)
class _Chosen:
    """The versions that a run chose: to be simulated, and to be champion and challenger."""

    simulated: str
    champion: str
    challenger: str
    versions: Sequence[str]
    nothing_new: bool = False
    why: str = ""


@dataclass(frozen=True)
class _Work:
    """A trace as a run learns from it: whole, and as accounting had it at the date."""

    clean: CleanTrace
    known: Accounting
    then_clean: CleanTrace
    then: Accounting
    store: Tracking
    tags: Mapping[str, str]
    seed: int

    @property
    def model(self) -> str:
        return f"runtime-{self.clean.name}"


def whole_accounting(clean: CleanTrace, history: History) -> Accounting:
    """Return the whole accounting of a trace, with the history that the features stage made."""
    inputs = model_inputs(clean.jobs, history.table)
    return Accounting(clean.jobs, history.start_s, inputs, clean.origin_unix_s, clean.timezone)


def as_of(clean: CleanTrace, known: Accounting, date: Split) -> tuple[CleanTrace, Accounting]:
    """Return the trace and its accounting as of ``date``: jobs that had ended, and no others."""
    rows = date.before(known.end_s)
    jobs = clean.jobs.iloc[rows].reset_index(drop=True)
    for name in jobs.select_dtypes("category"):
        jobs[name] = jobs[name].cat.remove_unused_categories()
    return replace(clean, jobs=jobs), accounting(jobs, known.start_s[rows], known.origin_unix_s, known.timezone)


def register_predictors(
    clean: CleanTrace, history: History, store: Tracking, home: Path, run_id: str, *, until: str = "", seed: int = 0
) -> Registered:
    """Train and register candidates on what had ended by the date; no alias moves.

    The date is ``until`` (:func:`pipelines.dated.dated.split`). Candidates of ``runtime-<trace>`` are judged as served before it
    (:mod:`pipelines.dated.train`), and the champion's snapshot is brought up to date.
    Registers nothing over unchanged jobs and code, and leaves nothing in the registry if it fails. Nights of the trace in ``home`` wait, and are
    waited for. Raises InputError where one takes too long, and for a version that does not answer when it is loaded back.
    """
    from models.registry.runtime_registration import RUNTIME
    from models.registry.versions import aliases, all_or_nothing

    known = whole_accounting(clean, history)
    date = split(clean, known.end_s, until)
    tags = {"dagster_run_id": run_id, "history_starts": history.source}
    work = _Work(clean, known, *as_of(clean, known, date), store, tags, seed)
    with alone(home, clean.name, RUN_WAITS_S):
        finish(Lake(home / "lake"), store, work.model)
        with all_or_nothing(store):
            chosen = _choose(work, date)
            champion = _brought_up_to_date(work, chosen)
        # the alias keeps a version that nothing else points to, and moves when the run is published
        kept = {SIMULATED: chosen.simulated if chosen.why else ""} if chosen.why or SIMULATED in aliases(store, work.model) else {}
    told = {number: store.client.get_model_version(work.model, number) for number in dict.fromkeys([*chosen.versions, champion])}
    versions = serving(store, work.model, list(told.values()), RUNTIME.measures)
    versions["alias"] = [{champion: "champion", chosen.challenger: "challenger"}.get(number, "") for number in told]
    models = {"champion": champion, "challenger": chosen.challenger, **kept}
    return Registered(date, chosen.simulated, chosen.why, versions, chosen.nothing_new, models)


def last_answers(clean: CleanTrace, known: Accounting, champion: str, store: Tracking) -> pd.DataFrame:
    """Return the last submissions with what a version, loaded back, says (``predicted_s``).

    Beside what it says in this process (``expected_s``, null for a champion chosen by hand).
    """
    from models.packed.methods import PREDICTED
    from models.registry.runtime_registration import ask, load_version, trained_method
    from pipelines.storage.registry import submissions

    last, model = submissions(clean).tail(20).reset_index(drop=True), f"runtime-{clean.name}"
    said, expected = ask(load_version(model, champion), last)[PREDICTED], np.full(len(last), np.nan)
    if store.client.get_model_version(model, champion).tags.get("snapshot_s") == str(known.until_s):
        method = trained_method(store, clean.name, champion)
        rows = np.arange(len(clean.jobs) - len(last), len(clean.jobs))
        expected = method.answer(known.served_inputs(rows, known.until_s), known.asked(rows))[PREDICTED]
    return last.assign(predicted_s=said, expected_s=expected)


def _choose(work: _Work, date: Split) -> _Chosen:
    """Let the date's candidates compete with the champion, or only with each other.

    Only with each other where the champion has learned what came later.
    """
    from models.registry.versions import aliases

    store, present = work.store, incumbent(work.store, work.clean.name)
    named = aliases(store, work.model)
    if present is not None and present.method is not None and present.trained_until_s > date.at_s:
        return _choose_beside(work, date, present)
    key = learning_key(work.then_clean, work.then, work.seed)
    if present is not None and present.serves and (before := nothing_new(store, work.model, key)):
        numbers = [str(each.version) for each in before]
        mine = present.trained_version if present.method is not None else named.get("challenger", present.version)
        return _Chosen(mine, present.version, named.get("challenger", ""), numbers, nothing_new=True)
    made = _retrained(work, present)
    numbers = [str(each) for each in made.registered["version"]]
    if not made.method:  # a champion chosen by hand stays, and cannot be carried on
        why = f"The champion, version {made.champion}, was chosen by hand and cannot be simulated as served; version {made.challenger} is."
        return _Chosen(made.challenger, made.champion, made.challenger, numbers, why=why)
    return _Chosen(made.trained_version, made.champion, made.challenger, numbers)


def _choose_beside(work: _Work, date: Split, present: Incumbent) -> _Chosen:
    """Choose among candidates of the date for the simulation alone; the champion stays.

    It has learned from what is simulated.
    """
    from models.registry.versions import aliases, all_versions

    store, named = work.store, aliases(work.store, work.model)
    learned = date_of(work.clean, present.trained_until_s)
    why = (
        f"The champion, version {present.version}, has learned from jobs up to {learned}, which are simulated: version {{}}, the best of "
        f"those trained up to {date_of(work.clean, date.at_s)}, is simulated in its place."
    )
    key = learning_key(work.then_clean, work.then, work.seed)
    there = {str(each.version): each for each in all_versions(store, work.model)}
    if (old := named.get(SIMULATED)) in there and there[old].tags.get(MADE_FROM) == key:
        numbers = [number for number, each in there.items() if each.tags.get(MADE_FROM) == key]
        return _Chosen(old, present.version, named.get("challenger", ""), numbers, nothing_new=True, why=why.format(old))
    made = _retrained(work, None)
    why = why.format(made.champion)
    store.client.update_model_version(work.model, made.champion, description=why)
    numbers = [str(each) for each in made.registered["version"]]
    return _Chosen(made.champion, present.version, named.get("challenger", ""), numbers, why=why)


def _retrained(work: _Work, present: Incumbent | None) -> Retrained:
    """Retrain once, with the last weeks before the date predicted as served.

    See :func:`pipelines.dated.train.retrain`.
    """
    from pipelines.dated.night_schedules import against_the_champion

    then, submit = work.then, work.then.jobs["submit_s"].to_numpy(np.int64)
    trained_until_s = present.trained_until_s if present is not None and present.method is not None else None
    instants = judging_instants(judged_window(submit, then.end_s), trained_until_s)
    rows = np.flatnonzero(submit >= instants[0])
    served = predict_served(then, rows, instants, names=tuple(TRAINERS), champion=served_by(present, submit), seed=work.seed)
    schedules = against_the_champion(work.then_clean, then, served, present.trained_until_s if present else 0)
    return retrain(work.then_clean, then, served, present, work.store, seed=work.seed, schedules=schedules, tags=work.tags)


def _brought_up_to_date(work: _Work, chosen: _Chosen) -> str:
    """Return the version of the chosen champion that has the histories of the present.

    It is itself, or a new one of the same model.
    """
    from models.packed.settings import FORMAT
    from models.registry.runtime_registration import trained_method

    store, until, data = work.store, work.known.until_s, fingerprint(work.clean.jobs)
    tags = dict(store.client.get_model_version(work.model, chosen.champion).tags)
    current = tags.get("snapshot_s") == str(until) and tags.get("snapshot_fingerprint") == data
    ours = {"judged_accuracy", "training_window_s"} <= tags.keys() and tags.get("queuecast_format") == str(FORMAT)
    if current or not ours:
        return chosen.champion
    method = trained_method(store, work.clean.name, tags.get(REFRESHED_FROM, chosen.champion))
    mine = {**work.tags, **{name: value for name, value in tags.items() if name == MADE_FROM}}
    return brought_up_to_date(store, work.clean, work.known, chosen.champion, method, mine).version
