"""Choose champions in runs and nights, for all kinds of models.

A :class:`Judge` scores candidates on jobs or runs, and trains, registers, loads back and refreshes versions.
:func:`promote` decides by the rule of ``models.registry.promotion``. Nothing here moves an alias: a :class:`Promotion`
names the next champion and challenger, and its publication moves the aliases.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import pandas as pd

from features.errors import Damaged, InputError
from models.packed.settings import FORMAT
from models.registry.promotion import Comparison, decide
from models.registry.registration import Candidate, Kind, number_in, rank_candidates, trained_number, unrecorded, version_at
from models.registry.tracking import READS, Tracking, aliases, all_versions, why_of

SIMULATED = "simulated"
"""Alias of the version that is simulated if the champion cannot be, for example since it has learned from the same
jobs."""
MADE_FROM = "made_from"
"""Tag of a version: the fingerprint by :func:`made_from` of its data, settings and rule."""
RULES = {"runtime": "3", "variability": "1", "policy": "1", "start": "5"}
"""The version of how each kind of model is learned, judged and chosen.

It is raised by hand when that changes, here or in what it calls. The next run or night then registers candidates again.
"""
_NONE = "No champion"
"""Beginning of the note of a best candidate that is too weak."""
Method = TypeVar("Method")


class Outdated(Exception):
    """Raised for a version that can be neither judged nor refreshed, with the reason."""


@dataclass(frozen=True)
class Incumbent(Generic[Method]):
    """The champion before a retraining.

    ``version`` has the alias. It may be a refresh of ``trained_version``, whose training data end at
    ``trained_until_s`` and whose model is ``method``. ``method`` is None if the champion can be neither judged nor
    refreshed: ``note`` says why.
    """

    version: str
    trained_version: str
    trained_until_s: int
    method: Method | None
    tags: Mapping[str, str]
    note: str = ""


def incumbent(store: Tracking, kind: Kind, subject: str, read: Callable[[str], Method]) -> Incumbent[Method] | None:
    """Return the present champion of ``subject``, None if there is none.

    ``read`` returns the model of a version, or raises :class:`Outdated` if the present code cannot use it, or Damaged
    if it cannot be read. Raises InputError for a version that no run registered, or whose records were edited.
    """
    name = kind.registered(subject)
    present = version_at(store, name)
    if present is None:
        return None
    tags, number = dict(present.tags), str(present.version)
    if missing := unrecorded(tags, kind):
        raise InputError(
            f"{name}@champion: version {number} has no readable tag {missing}, so it cannot be judged: point the alias to a version that "
            "a run registered, or delete the alias"
        )
    trained = trained_number(store, present)
    try:
        if tags.get("queuecast_format") != str(FORMAT):
            raise Outdated(f"is of format {tags.get('queuecast_format')}, not {FORMAT}")
        method = read(trained)
    except (Outdated, Damaged) as error:
        why = f"cannot be read ({error})" if isinstance(error, Damaged) else str(error)
        note = f"The champion before, version {number}, {why}: it can be neither judged nor refreshed."
        return Incumbent(number, number, 0, None, tags, note=note)
    return Incumbent(number, trained, int(tags["training_window_s"].split("..")[1]), method, tags)


@dataclass(frozen=True)
class CandidateScore:
    """A candidate's score over ``judged`` jobs or runs.

    ``metrics`` and ``tags`` are recorded on its version. ``below`` says why it is too weak for a first champion, "" if
    it is not.
    """

    value: float
    judged: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    below: str = ""


@dataclass(frozen=True)
class PromotionVerdict:
    """A judge's challenger, its score, and its comparison with the champion.

    ``vetoes`` are further reasons against the challenger.
    """

    challenger: str
    score: CandidateScore
    comparison: Comparison
    vetoes: tuple[str, ...] = ()


class Judge(Protocol):
    """The part of promotion that each kind of model defines.

    ``key`` is a fingerprint of data, settings and rule: with the same key there is nothing new. If the champion has
    learned from the jobs to simulate, ``instead`` says why version ``{}`` is simulated in its place; else it is "".
    """

    @property
    def kind(self) -> Kind: ...
    @property
    def subject(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def instead(self) -> str: ...

    def scores(self) -> Mapping[str, CandidateScore]:
        """Score every candidate if there is no champion to compare with."""

    def against(self, present: Incumbent[Any]) -> PromotionVerdict:
        """Choose a challenger and compare it with the champion."""

    def register(self, name: str, score: CandidateScore) -> Candidate:
        """Train the candidate ``name`` on all data and register it."""

    def load_back(self, candidate: Candidate) -> None:
        """Load a new version from the registry and ask it; raise InputError if it does not answer."""

    def refresh(self, present: Incumbent[Any], verdict: PromotionVerdict) -> Candidate | None:
        """Register the champion's model with the data known by now, if that changes answers."""


@dataclass(frozen=True)
class Promotion:
    """The result of :func:`promote`: the next champion and challenger of ``name``, and why.

    Champion and challenger are "" if there is none. ``simulated`` is the version to simulate; if that is not the
    champion's model, ``instead`` says why. ``versions`` are the numbers of the new versions and of those that serve.
    ``challenger_method`` is the method that was judged, over ``judged`` jobs or runs. ``comparison`` is None for a
    first champion. With ``nothing_new``, no version was made.
    """

    name: str
    champion: str
    challenger: str
    challenger_method: str
    promoted: bool
    why: str
    simulated: str
    versions: tuple[str, ...]
    comparison: Comparison | None
    judged: int
    instead: str = ""
    nothing_new: bool = False

    @property
    def serves(self) -> dict[str, str]:
        """Return the versions that are to serve, by alias."""
        return {"champion": self.champion, "challenger": self.challenger}

    def beside(self, store: Tracking) -> dict[str, str]:
        """Return the alias of the version that is simulated instead of a champion's model.

        It keeps a version that has no other alias.
        """
        if self.instead:
            return {SIMULATED: self.simulated}
        return {SIMULATED: ""} if SIMULATED in aliases(store, self.name) else {}

    def serving(self, champion: str) -> Promotion:
        """Return the promotion with another version of the champion's model to serve."""
        return replace(self, champion=champion, versions=tuple(dict.fromkeys([*self.versions, champion])))

    def table(self, store: Tracking, kind: Kind) -> pd.DataFrame:
        """Return a row per version: ``model version method alias``, score, count, ``why``."""
        titles = {self.champion: "champion", self.challenger: "challenger"}
        rows = []
        for number in self.versions:
            version = store.client.get_model_version(self.name, number)
            measures = {column: number_in(version.tags, tag) for column, tag in kind.measures.items()}
            facts = {"method": version.tags.get("method", "unknown"), "alias": titles.get(number, "")}
            reads = {READS: version.tags[READS]} if READS in version.tags else {}
            rows.append({"model": self.name, "version": int(number), **facts, **measures, **reads, "why": why_of(version)})
        return pd.DataFrame(rows)


def promote(store: Tracking, judge: Judge, present: Incumbent[Any] | None) -> Promotion:
    """Judge the candidates, register new versions, and choose the versions to serve.

    Without a champion, all candidates are registered, and the best becomes champion; if it is too weak, it is only
    simulated. With a champion, the best candidate is registered as challenger, and promoted by the rule. A champion
    that has learned from the jobs to simulate stays; the best candidate is simulated in its place. If champion or
    challenger has the same ``key``, nothing is done. Raises InputError if a new version does not answer when it is
    loaded back.
    """
    name = judge.kind.registered(judge.subject)
    if present is not None and judge.instead:
        return _beside(store, judge, name, present)
    if present is None or present.method is None:
        return _first(store, judge, name, present.note if present else "")
    if same := _made_from_the_same(store, name, judge.key):
        return _nothing_new(store, judge, name, present, same)
    verdict = judge.against(present)
    new = judge.register(verdict.challenger, verdict.score)
    judge.load_back(new)
    champion, challenger, simulated = present.version, new.version, present.trained_version
    versions = {present.version, new.version}
    promoted, reasons = decide(verdict.comparison, verdict.vetoes)
    verb = "Promoted over" if promoted else "Not promoted over"
    why = f"{verb} version {present.version} ({present.tags.get('method')}): {reasons}."
    if promoted:
        champion, challenger, simulated = new.version, present.version, new.version
    elif (refreshed := judge.refresh(present, verdict)) is not None:
        champion = refreshed.version
        versions = {new.version, champion}
    _describe(store, name, new.version, why)
    kept = tuple(sorted(versions, key=int))
    count = verdict.comparison.jobs
    return Promotion(name, champion, challenger, verdict.challenger, promoted, why, simulated, kept, verdict.comparison, count)


def _describe(store: Tracking, name: str, number: str, why: str) -> None:
    """Put ``why`` before the last paragraph of a version's description, which says what it is."""
    what = (store.client.get_model_version(name, number).description or "").rpartition("\n\n")[2]
    store.client.update_model_version(name, number, description=f"{why}\n\n{what}".strip())


def _first(store: Tracking, judge: Judge, name: str, note: str) -> Promotion:
    if old := _weak_of_the_same(store, judge, name):
        return old
    scores = judge.scores()
    new = [judge.register(method, score) for method, score in scores.items()]
    ranked, basis = rank_candidates(new, judge.kind)
    weak = scores[ranked[0].method].below
    titles = [f"{_NONE}: {weak}. First" if weak else "First champion", "Challenger", *["Candidate"] * len(ranked)]
    notes = [f"{title} by {basis}{note and ' ' + note}" for title, _ in zip(titles, ranked, strict=False)]
    for candidate, text in zip(ranked, notes, strict=True):
        _describe(store, name, candidate.version, text)
    first, second = ranked[0], ranked[1] if len(ranked) > 1 else None
    for candidate in new:
        judge.load_back(candidate)
    versions = tuple(sorted((candidate.version for candidate in new), key=int))
    if weak:
        return _without(name, first.version, notes[0], versions, first.judged)
    challenger, method = (second.version, second.method) if second else ("", "")
    return Promotion(name, first.version, challenger, method, True, notes[0], first.version, versions, None, first.judged)


def _weak_of_the_same(store: Tracking, judge: Judge, name: str) -> Promotion | None:
    """Return the previous promotion if its best was too weak and has the same ``key``."""
    best = aliases(store, name).get(SIMULATED, "")
    same = [version for version in all_versions(store, name) if version.tags.get(MADE_FROM) == judge.key]
    for version in same:
        if str(version.version) == best and why_of(version).startswith(_NONE):
            judged = _count(version.tags, judge.kind)
            result = _without(name, best, why_of(version), tuple(str(one.version) for one in same), judged)
            return replace(result, nothing_new=True)
    return None


def _without(name: str, best: str, why: str, versions: tuple[str, ...], judged: int) -> Promotion:
    return Promotion(name, "", "", "", False, why, best, versions, None, judged, why)


def _beside(store: Tracking, judge: Judge, name: str, present: Incumbent[Any]) -> Promotion:
    """Choose a candidate only to simulate; the champion, which has seen those jobs, stays."""
    named = aliases(store, name)
    challenger, old = named.get("challenger", ""), named.get(SIMULATED)
    same = [str(version.version) for version in all_versions(store, name) if version.tags.get(MADE_FROM) == judge.key]
    if old in same:
        why = judge.instead.format(old)
        return Promotion(name, present.version, challenger, "", False, why, old, tuple(same), None, 0, why, nothing_new=True)
    first = _first(store, judge, name, "")
    why = judge.instead.format(first.champion)
    _describe(store, name, first.champion, why)
    return replace(first, champion=present.version, challenger=challenger, promoted=False, why=why, instead=why)


def _nothing_new(store: Tracking, judge: Judge, name: str, present: Incumbent[Any], same: Sequence[Any]) -> Promotion:
    challenger = aliases(store, name).get("challenger", "")
    method = next((version.tags.get("method", "") for version in same if str(version.version) == challenger), "")
    why = "Nothing new: champion or challenger was made from the same data by the same rule, so nothing was registered."
    count = _count(present.tags, judge.kind)
    versions = tuple(str(version.version) for version in same)
    return Promotion(
        name, present.version, challenger, method, False, why, present.trained_version, versions, None, count, nothing_new=True
    )


def _count(tags: Mapping[str, str], kind: Kind) -> int:
    """Return the recorded number of jobs or runs that judged a version, 0 if unknown."""
    return int(np.nan_to_num(number_in(tags, f"judged_{kind.things}")))


def _made_from_the_same(store: Tracking, name: str, key: str) -> list[Any]:
    """Return the versions of ``name`` with ``key`` or an alias, if one has both; else none."""
    named = set(aliases(store, name).values())
    every = all_versions(store, name)
    if not any(version.tags.get(MADE_FROM) == key and str(version.version) in named for version in every):
        return []
    same = [version for version in every if version.tags.get(MADE_FROM) == key or str(version.version) in named]
    return sorted(same, key=lambda version: int(version.version))


def made_from(kind: str, facts: Mapping[str, object]) -> str:
    """Return a fingerprint of ``facts`` with the rule of a ``kind`` of model.

    ``facts`` are data and settings: anything JSON can hold.
    """
    text = json.dumps([RULES[kind], dict(facts)], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
