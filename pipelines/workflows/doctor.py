"""Find what kills and damage left in a home directory, and mend it.

It looks for faults that no later run or night mends: drafts, files and versions of dead processes go with the next night,
publication or pruning. A subject with a run or night at work is left alone. Nothing that a reader may use is removed: no file of
the current version or the one before, and no registered version.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from features.errors import InputError
from pipelines.storage.home import LAKE, local_home
from pipelines.storage.home import home as site_home
from pipelines.storage.lake import Lake
from pipelines.storage.publishing import aliases_of, alone, finish, lock_of
from pipelines.storage.version import GROWING, PAGES, Version
from pipelines.storage.versions import Versions
from pipelines.workflows.doctor_counters import anew, counters
from pipelines.workflows.doctor_databases import BY_HAND, Finding, databases, runs_of_dagster

if TYPE_CHECKING:
    from models.registry.tracking import Tracking

_ROUNDS = 5
"""Max number of rounds of checks and repairs: a repair may uncover another fault."""


def examine(home: Path, connect: Callable[[], Tracking]) -> Iterator[Finding]:
    """Yield everything found wrong in ``home``; ``connect`` opens its registry.

    A finding about a subject is yielded while its lock is held, so a repair before the next finding meets the same state.
    If machines share ``home``, this machine's own databases are checked.
    """
    shared = bool(os.environ.get(LAKE)) and str(home) == str(site_home())
    own = local_home() if shared else home
    damaged = [*databases(own)]
    yield from damaged
    if not any(each.part == "dagster" for each in damaged):
        yield from runs_of_dagster(home)
    store = None
    if not any(each.part == "registry" for each in damaged) and (
        (own / "mlflow.db").exists() or os.environ.get("MLFLOW_TRACKING_URI")
    ):
        try:
            store = connect()
        except InputError as error:
            yield Finding("registry", "", str(error), BY_HAND)
    for subject in sorted({path.stem for path in (home / "lake" / "current").glob("[!.]*.json")}):
        try:
            with alone(home, lock_of(subject)):
                yield from _subject(home, subject, store)
        except InputError as error:
            if "is running" not in str(error):
                raise
    yield from counters(home)


def repair(home: Path, connect: Callable[[], Tracking], tell: Callable[[Finding], object]) -> list[Finding]:
    """Repair the findings that have a repair, ``tell`` each, and return the other findings."""
    for _ in range(_ROUNDS):
        left, repaired = [], False
        for finding in examine(home, connect):
            if finding.repair is None:
                left.append(finding)
            else:
                finding.repair()
                tell(finding)
                repaired = True
        if not repaired:
            return left
    return [*examine(home, connect)]


def _subject(home: Path, subject: str, store: Tracking | None) -> Iterator[Finding]:
    """Find a fault of a subject's pointer, tables, pages or aliases; stop at the first one."""
    versions = Lake(home / "lake").versions(subject)
    try:
        versions.kept()
    except InputError as error:
        yield Finding("lake", subject, str(error).split("; ")[0], f"{BY_HAND}: restore it from a backup")
        return
    try:
        versions.draft()
    except InputError as error:
        forget = partial(versions.put, versions.kept())
        yield Finding("lake", subject, str(error).split("; ")[0], "forget what was not published", forget)
    current, before = [*versions.kept(), Version()][:2]
    broken = _broken(versions, current, before)
    if broken is not None:
        yield broken
    elif store is not None and subject.startswith(("runtime-", "variability-")):
        yield from _aliases(versions, store, current)


def _broken(versions: Versions, current: Version, before: Version) -> Finding | None:
    """Find files of the versions that are missing, or whose content does not fit their name."""
    now, then = ({entry: file for entry, file in each.files.items() if not versions.has_whole(file)} for each in (current, before))
    finding = partial(Finding, "lake", versions.subject)
    if not now:
        what = f"missing or damaged in the version before: {', '.join(then.values())}"
        return finding(what, "forget the version before", partial(versions.put, [current])) if then else None
    what = "missing or damaged in the current version: " + ", ".join(f"{entry} ({file})" for entry, file in now.items())
    if versions.subject.partition("-")[0] in GROWING and (then or not before.version):
        return finding(what, f"{BY_HAND}: {anew(versions)}")
    if before.version and not then and not all(entry.startswith(PAGES) for entry in now):
        return finding(what, f"go back to the version before, {before.version}", partial(versions.put, versions.kept()[1:]))
    kept = replace(current, files={entry: file for entry, file in current.files.items() if entry not in now})
    return finding(
        what,
        "leave them out of the version, so that they are made anew",
        partial(versions.put, [kept] if then else [kept, before]),
    )


def _aliases(versions: Versions, store: Tracking, current: Version) -> Iterator[Finding]:
    """Find a registry that does not have, or does not serve, the published versions."""
    from models.registry.registration import version_at
    from models.registry.versions import aliases

    subject, champion = versions.subject, current.models.get("champion", "")
    if champion and version_at(store, subject, champion) is None:
        if version_at(store, subject) is None:
            what = f"the registry has no version {champion}, the champion that was published; a backup brings it back"
            anew = partial(versions.put, [replace(current, models={})])
            yield Finding("registry", subject, what, "begin anew without a champion", anew)
    elif not versions.follows:
        what = f"{current.made_by or 'a run'} died while it was published"
        yield Finding(
            "registry", subject, what, "let aliases and pages follow it", partial(finish, Lake(versions.root), store, subject)
        )
    elif champion and "champion" not in aliases(store, subject):
        what = f"no alias champion, though version {champion} was published"
        yield Finding("registry", subject, what, "set the aliases again", partial(aliases_of(store, subject), current.models))
