"""Tell whether what published versions and the registry's aliases need is whole.

A subject with a run or night at work is left alone. No file and no registered version is removed: the repair is the
version before, or the aliases as they were published.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from features.errors import InputError
from pipelines.lake.locks import Busy
from pipelines.lake.places import LAKE, local_home
from pipelines.lake.places import home as site_home
from pipelines.lake.publishing import aliases_of, alone, finish, lock_of
from pipelines.lake.tables import Lake
from pipelines.lake.version import Version
from pipelines.lake.versions import Versions

if TYPE_CHECKING:
    from models.registry.tracking import Tracking

BY_HAND = "by hand"
_RESTORE = f"{BY_HAND}: restore it from a backup"
_ANEW = f"{_RESTORE}, or let a run or night make it anew"


@dataclass(frozen=True)
class Finding:
    """A fault: ``part`` of the home, ``where``, ``what``, and how to ``mend`` it.

    ``repair`` mends it; without one, it must be mended by hand.
    """

    part: str
    where: str
    what: str
    mend: str
    repair: Callable[[], object] | None = None


def examine(home: Path, connect: Callable[[], Tracking]) -> Iterator[Finding]:
    """Yield everything found wrong in ``home``; ``connect`` opens its registry.

    A finding about a subject is yielded while its lock is held, so a repair before the next finding meets the same
    state.
    """
    shared = bool(os.environ.get(LAKE)) and str(home) == str(site_home())
    own = local_home() if shared else home
    store = None
    if (own / "mlflow.db").exists() or os.environ.get("MLFLOW_TRACKING_URI"):
        try:
            store = connect()
        except InputError as error:
            yield Finding("registry", "", str(error), _RESTORE)
    subjects = sorted({path.stem for path in (home / "lake" / "current").glob("[!.]*.json")})
    for subject in subjects:
        # a subject at which a run or night works is not looked at
        with suppress(Busy), alone(home, lock_of(subject)):
            yield from _subject(home, subject, store)


def repair(home: Path, connect: Callable[[], Tracking], tell: Callable[[Finding], object]) -> list[Finding]:
    """Repair the findings that have a repair, ``tell`` each, and return what is found then."""
    for finding in examine(home, connect):
        if finding.repair is not None:
            finding.repair()
            tell(finding)
    return [*examine(home, connect)]


def _subject(home: Path, subject: str, store: Tracking | None) -> Iterator[Finding]:
    """Find what is wrong with a subject's pointer, its files, or its models."""
    versions = Lake(home / "lake").versions(subject)
    try:
        current, before, *_ = [*versions.kept(), Version(), Version()]
    except InputError as error:
        yield Finding("lake", subject, str(error).split("; ")[0], _RESTORE)
        return
    try:
        versions.draft()
    except InputError as error:
        forget = partial(versions.put, versions.kept())
        yield Finding("lake", subject, str(error).split("; ")[0], "forget what was not published", forget)
    if lost := _lost(versions, current):
        what = f"missing or damaged in the current version: {lost}"
        whole = before.version and not _lost(versions, before)
        yield _back(versions, store, before, "lake", what) if whole else Finding("lake", subject, what, _ANEW)
    elif store is not None and subject.startswith(("runtime-", "variability-")):
        yield from _models(versions, store, current, before)


def _lost(versions: Versions, version: Version) -> str:
    return ", ".join(f"{entry} ({file})" for entry, file in version.files.items() if not versions.has_whole(file))


def _back(versions: Versions, store: Tracking | None, before: Version, part: str, what: str) -> Finding:
    """Return a finding whose repair makes the version before the current one, with its aliases."""

    def go_back() -> None:
        versions.put(versions.kept()[1:])
        if store is not None and before.models:
            finish(Lake(versions.root), store, versions.subject)

    return Finding(part, versions.subject, what, f"go back to the version before, {before.version}", go_back)


def _models(versions: Versions, store: Tracking, current: Version, before: Version) -> Iterator[Finding]:
    """Find published models that are not whole, and aliases that are not set."""
    from models.registry.tracking import aliases, all_versions  # imports MLflow, and a home may have no registry

    subject, named = versions.subject, aliases(store, versions.subject)
    published = {alias: number for alias, number in current.models.items() if number}
    if faults := [fault for number in published.values() if (fault := _fault(store, subject, number))]:
        champion = before.models.get("champion", "")
        what = "; ".join(faults)
        if not all_versions(store, subject):
            forget = partial(versions.put, [replace(current, models={})])
            yield Finding("registry", subject, what, f"{_RESTORE}; --repair begins anew without the champion", forget)
        elif champion and not _fault(store, subject, champion) and not _lost(versions, before):
            yield _back(versions, store, before, "registry", what)
        else:
            yield Finding("registry", subject, what, _ANEW)
        return
    # an alias that was moved by hand is trusted: a site went back to an earlier version
    moved = versions.follows
    if unset := [alias for alias, number in published.items() if alias not in named or not (moved or named[alias] == number)]:
        what = f"aliases that {current.made_by or 'a run'} published are not set: {', '.join(unset)}"

        def set_again() -> None:
            finish(Lake(versions.root), store, subject)
            aliases_of(store, subject)(current.models)

        yield Finding("registry", subject, what, "set them again", set_again)


def _fault(store: Tracking, name: str, number: str) -> str:
    """Return why a published version cannot serve, or ""."""
    from models.registry.packing import fault_of
    from models.registry.registration import version_at

    if version_at(store, name, number) is None:
        return f"the published version {number} was deleted"
    return fault_of(name, number)
