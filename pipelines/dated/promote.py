"""Promotion: judge and register candidates; promote one, or keep the champion.

One workflow for runs and nights, for runtime models and for classifiers of variation. A :class:`Judge` says what is scored on
which jobs or runs, and how a version is trained, registered, checked and refreshed; the rule is ``models.registry.promotion``.
Nothing here moves an alias: a :class:`Promotion` says which versions are to be champion and challenger, and the caller decides
when.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import pandas as pd

from features.errors import InputError
from models.packed.settings import FORMAT
from models.registry.promotion import Comparison, decide
from models.registry.versions import REFRESHED_FROM, aliases
from pipelines.dated.nothing_new import nothing_new, serving

if TYPE_CHECKING:
    from models.registry.registration import Candidate, Kind
    from models.registry.tracking import Tracking


Method = TypeVar("Method")


class Outdated(Exception):
    """A version that can be neither judged nor refreshed, because of ``str(self)``."""


@dataclass(frozen=True)
class Incumbent(Generic[Method]):
    """The champion as a retraining finds it.

    ``version`` is what the alias points to, ``trained_version`` the one whose training it is, ``trained_until_s`` the end of its
    training data, and ``method`` what it learned. ``method`` is None for one that can neither be judged nor refreshed: ``stays``
    says whether it was chosen by hand, so that it keeps its place, and ``note`` why.
    """

    version: str
    trained_version: str
    trained_until_s: int
    method: Method | None
    tags: Mapping[str, str]
    stays: bool = False
    note: str = ""

    @property
    def serves(self) -> bool:
        """Tell whether it can be compared with, or stays without."""
        return self.method is not None or self.stays


def incumbent(store: Tracking, kind: Kind, subject: str, read: Callable[[str], Method]) -> Incumbent[Method] | None:
    """Return the present champion of ``subject``, None if there is none.

    ``read`` returns what a version learned; it raises :class:`Outdated` for one that the present code cannot use.
    """
    from models.registry.registration import version_at

    present = version_at(store, kind.registered(subject))
    if present is None:
        return None
    tags, number = dict(present.tags), str(present.version)
    if not {"method", f"judged_{kind.score}", "training_window_s"} <= tags.keys():
        note = (
            f"The champion, version {number}, does not record how it was trained and judged: it was chosen by hand, and it stays."
        )
        return Incumbent(number, number, 0, None, tags, stays=True, note=note)
    trained = tags.get(REFRESHED_FROM, number)
    try:
        if tags.get("queuecast_format") != str(FORMAT):
            raise Outdated(f"is of format {tags.get('queuecast_format')}, not {FORMAT}")
        method = read(trained)
    except Outdated as error:
        note = f"The champion before, version {number}, {error}: it can be neither judged nor refreshed."
        return Incumbent(number, number, 0, None, tags, note=note)
    return Incumbent(number, trained, int(tags["training_window_s"].split("..")[1]), method, tags)


@dataclass(frozen=True)
class Score:
    """A candidate's score over ``judged`` jobs or runs.

    ``metrics`` and ``tags`` are recorded on its version.
    """

    value: float
    judged: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Verdict:
    """A judge's challenger, its score, and its comparison with the champion.

    None for a champion chosen by hand.
    """

    challenger: str
    score: Score
    found: Comparison | None
    vetoes: tuple[str, ...] = ()


class Judge(Protocol):
    """What a kind of model defines for its promotion.

    ``key`` is a fingerprint of data, settings and code: with the same key there is nothing new.
    """

    @property
    def kind(self) -> Kind: ...
    @property
    def subject(self) -> str: ...
    @property
    def key(self) -> str: ...

    def scores(self) -> Mapping[str, Score]:
        """Score every candidate where there is no champion to compare with."""

    def against(self, present: Incumbent[Any]) -> Verdict:
        """Choose a challenger and compare it with the champion."""

    def register(self, name: str, score: Score) -> Candidate:
        """Train the candidate ``name`` on everything and register it."""

    def checks(self, made: Candidate) -> Mapping[str, bool]:
        """Check the version ``made``, loaded back from the registry: claims that must hold."""

    def refresh(self, present: Incumbent[Any], verdict: Verdict) -> Candidate | None:
        """Register the champion's model with what is known by now, if that makes a difference."""


@dataclass(frozen=True)
class Promotion:
    """The result: which versions of ``name`` are to be champion and challenger, and why.

    The challenger is "" if there is none. ``registered`` lists the new versions and those that serve: ``model version method
    alias``, the score, over how many it was judged, ``why``. ``challenger_method`` is the method that was judged. ``found`` is
    None for a first champion. Where there was ``nothing_new`` no version was made.
    """

    name: str
    champion: str
    challenger: str
    challenger_method: str
    promoted: bool
    why: str
    registered: pd.DataFrame
    found: Comparison | None
    judged: int
    checks: Mapping[str, bool]
    nothing_new: bool = False


def propose(store: Tracking, judge: Judge, present: Incumbent[Any] | None) -> Promotion:
    """Judge the candidates, register what is new, and say which versions are to serve.

    A first champion is the best of all candidates, which are all registered; else the best is registered as challenger, and promoted by the
    rule. A champion chosen by hand stays. Where champion or challenger was made from the same, nothing is done. InputError for a first
    champion that fails a check.
    """
    name = judge.kind.registered(judge.subject)
    if present is None or not present.serves:
        return _first(store, judge, name, present.note if present else "")
    if before := nothing_new(store, name, judge.key):
        titles = aliases(store, name)
        challenger = titles.get("challenger", "")
        method = next((each.tags.get("method", "") for each in before if str(each.version) == challenger), "")
        why = "Nothing new: champion or challenger was made from the same by the same code, so nothing was registered."
        listed = serving(store, name, before, judge.kind.measures)
        count = int(present.tags.get(f"judged_{judge.kind.things}", 0))
        return Promotion(name, present.version, challenger, method, False, why, listed, None, count, {}, nothing_new=True)
    verdict = judge.against(present)
    new = judge.register(verdict.challenger, verdict.score)
    checks = judge.checks(new)
    made, champion, challenger = [new], present.version, new.version
    promoted, why = False, present.note
    if verdict.found is not None and not present.stays:
        promoted, reasons = decide(verdict.found, checks, verdict.vetoes)
        verb = "Promoted over" if promoted else "Not promoted over"
        why = f"{verb} version {present.version} ({present.tags.get('method')}): {reasons}."
        if promoted:
            champion, challenger = new.version, present.version
        elif (refreshed := judge.refresh(present, verdict)) is not None:
            made.append(refreshed)
            champion = refreshed.version
    store.client.update_model_version(name, new.version, description=why)
    listed = _listed(store, judge.kind, name, made, champion, challenger)
    count = verdict.found.jobs if verdict.found is not None else verdict.score.judged
    return Promotion(name, champion, challenger, verdict.challenger, promoted, why, listed, verdict.found, count, checks)


def _first(store: Tracking, judge: Judge, name: str, note: str) -> Promotion:
    from models.registry.registration import rank_candidates

    made = [judge.register(method, score) for method, score in judge.scores().items()]
    ranked, basis = rank_candidates(made, judge.kind)
    titles = ["First champion", "Challenger", *["Candidate"] * len(ranked)]
    notes = [f"{title} by {basis}{note and ' ' + note}" for title, _ in zip(titles, ranked, strict=False)]
    for each, text in zip(ranked, notes, strict=True):
        store.client.update_model_version(name, each.version, description=text)
    first, second = ranked[0], ranked[1] if len(ranked) > 1 else None
    checks = {each.version: judge.checks(each) for each in made}[first.version]
    if failed := [check for check, passed in checks.items() if not passed]:
        raise InputError(f"{name}/{first.version} ({first.method}) cannot become champion: {', '.join(failed)}: does not hold")
    challenger, method = (second.version, second.method) if second else ("", "")
    listed = _listed(store, judge.kind, name, made, first.version, challenger)
    return Promotion(name, first.version, challenger, method, True, notes[0], listed, None, first.judged, checks)


def _listed(store: Tracking, kind: Kind, name: str, made: Sequence[Candidate], champion: str, challenger: str) -> pd.DataFrame:
    """List the versions made and those that are to serve, with their future aliases."""
    titles = {champion: "champion", challenger: "challenger"}
    numbers = {each for each in (*(one.version for one in made), champion, challenger) if each}
    versions = [store.client.get_model_version(name, number) for number in sorted(numbers, key=int)]
    listed = serving(store, name, versions, kind.measures)
    return listed.assign(alias=[titles.get(str(each), "") for each in listed["version"]])
