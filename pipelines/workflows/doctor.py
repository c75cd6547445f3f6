"""The health of a home directory: what kills and damage left, and how each is mended.

A check looks and changes nothing; it returns a :class:`Finding` for everything that is wrong. A subject at which a run or night is
working is left alone. Nothing that a reader may use is removed: not the files of the current version or the one before, and no
registered version that an alias or the pointer names.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from filelock import FileLock, Timeout

from features.errors import InputError, one_line
from pipelines.sources.systems import systems
from pipelines.storage.atomic import removed, seen
from pipelines.storage.home import LAKE, local_home
from pipelines.storage.home import home as site_home
from pipelines.storage.lake import Lake
from pipelines.storage.permissions import TRUSTED, umask
from pipelines.storage.places import at, being_written
from pipelines.storage.publishing import NIGHT, alone, lock_of
from pipelines.storage.version import GROWING, PAGES, Draft, Version
from pipelines.storage.versions import Versions
from pipelines.workflows.doctor_counters import anew, counters
from pipelines.workflows.doctor_databases import databases
from pipelines.workflows.doctor_registry import (
    BY_HAND,
    Finding,
    aliases_follow,
    left_versions,
    run_state,
    runs_of_dagster,
    runs_of_the_registry,
)

if TYPE_CHECKING:
    from models.registry.tracking import Tracking

_T = TypeVar("_T")
_ROUNDS = 5
"""Max rounds of checks and repairs: a repair may uncover what lay behind."""
_AGED_S = 3600.0
"""Age from which a file without a known process counts as left behind."""


def examine(home: Path, connect: Callable[[], Tracking]) -> list[Finding]:
    """Return everything found wrong in ``home``; ``connect`` opens its registry.

    Where it is what machines share, this machine's own home directory is looked at, too.
    """
    own = _own(home)
    found = [*databases(own), *_settings(home)]
    runs_known = not any(each.part == "dagster" for each in found)
    if runs_known:
        try:
            found += runs_of_dagster(home)
        except Exception as error:  # whatever Dagster says of what it cannot read, the other checks go on
            runs_known = False
            found.append(
                Finding(
                    "dagster",
                    "runs",
                    one_line(f"cannot be read: {error}", 200),
                    f"{BY_HAND}: restore its folder from a backup, or move it away",
                )
            )
    store = None
    if not any(each.part == "registry" for each in found) and _has_registry(own):
        try:
            store = connect()
        except InputError as error:
            found.append(Finding("registry", "", str(error), BY_HAND))
    for subject in _subjects(home):
        of_it = _at_rest(home, subject, lambda subject=subject: [*_subject(home, subject, store, runs_known)]) or []  # type: ignore[misc]
        found += [
            replace(each, repair=partial(_still, home, subject, store, runs_known, each)) if each.repair else each for each in of_it
        ]
    if store is not None:
        found += runs_of_the_registry(home, store)
    found += counters(home)
    for each in [own] + [home] * (home != own and not at(home).shared):
        found += [*_leftovers(each), *_permissions(each)]
    return found


def _own(home: Path) -> Path:
    """Return this machine's home directory where ``home`` is the site's shared place, else ``home``."""
    shared = bool(os.environ.get(LAKE)) and str(home) == str(site_home())
    return local_home() if shared else home


def repair(home: Path, connect: Callable[[], Tracking], tell: Callable[[Finding], object]) -> list[Finding]:
    """Repair what can be, tell of each repair, and return what is left."""
    for _ in range(_ROUNDS):
        found = examine(home, connect)
        mended = [each for each in found if each.repair is not None]
        if not mended:
            return found
        for each in mended:
            assert each.repair is not None
            if each.repair() is not False:
                tell(each)
    return examine(home, connect)


def _at_rest(home: Path, subject: str, look: Callable[[], _T]) -> _T | None:
    """Return what ``look`` does with the lock of ``subject``; None where a run or night has it."""
    try:
        with alone(home, lock_of(subject)):
            return look()
    except InputError as error:
        if "is running" not in str(error):
            raise
        return None


def _still(home: Path, subject: str, store: Tracking | None, runs_known: bool, finding: Finding) -> bool:
    """Repair what was found, if it still is so and no run or night is at work; return whether it was repaired."""

    def mend() -> bool:
        for each in _subject(home, subject, store, runs_known):
            if each.repair is not None and (each.what, each.mend) == (finding.what, finding.mend):
                each.repair()
                return True
        return False

    return bool(_at_rest(home, subject, mend))


def _has_registry(own: Path) -> bool:
    return (own / "mlflow.db").exists() or bool(os.environ.get("MLFLOW_TRACKING_URI"))


# the settings


def _settings(home: Path) -> Iterator[Finding]:
    from pipelines.sources.catalogue import read_catalogue

    for name, read in (("systems.toml", lambda: systems(home)), ("traces.toml", lambda: read_catalogue(home / "traces.toml"))):
        if (home / name).exists():
            try:
                read()
            except InputError as error:
                yield Finding("settings", name, str(error), BY_HAND)


# a subject: its pointer, tables, pages, drafts and aliases


def _subjects(home: Path) -> list[str]:
    lake = home / "lake"
    named = {path.stem for ending in ("json", "followed") for path in (lake / "current").glob(f"*.{ending}") if path.name[0] != "."}
    return sorted(named | {path.name for path in (lake / "drafts").glob("*") if path.is_dir()})


def _subject(home: Path, subject: str, store: Tracking | None, runs_known: bool) -> Iterator[Finding]:
    versions = Lake(home / "lake").versions(subject)
    try:
        current, before = versions.kept()
    except InputError as error:
        copy = versions.pointer.copied()
        mend = (
            f"{BY_HAND}: restore it from a backup"
            if copy is None
            else f"put back the version {copy[0].version}, which was followed last"
        )
        yield Finding("lake", subject, str(error).split("; ")[0], mend, None if copy is None else partial(versions.put, *copy))
        return
    with versions.reading():
        current, before = versions.kept()
        broken = [*_broken(versions, subject, current, before)]
    yield from broken
    yield from _drafts(home, versions, subject, runs_known)
    if unlisted := versions.unlisted():
        what = f"{len(unlisted):,} files that no version or draft lists: {_some(unlisted, home)}"
        yield Finding("lake", subject, what, "remove them", versions.sweep)
    of_models = subject.startswith(("runtime-", "variability-"))
    if not broken and not of_models and versions.under_way:
        yield Finding("lake", subject, "its copy is of the version before", "copy it", partial(versions.follow, None))
    if not broken and of_models and store is not None:
        yield from aliases_follow(home, versions, subject, store, current)
        yield from left_versions(home, versions, subject, store, current)
    if not broken and not versions.under_way:
        hidden = [
            entry
            for entry, file in current.files.items()
            if entry.startswith(PAGES) and not _same(home / entry, versions.root / file)
        ]
        if hidden:
            yield Finding("pages", subject, f"{', '.join(hidden)} not as published", "show what was published", versions.show)


def _broken(versions: Versions, subject: str, current: Version, before: Version) -> Iterator[Finding]:
    """Find the files of the versions that are missing or not what their names say."""
    now, then = ({entry: file for entry, file in each.files.items() if not versions.has_whole(file)} for each in (current, before))
    if now:
        named = ", ".join(f"{entry} ({file})" for entry, file in now.items())
        if subject.partition("-")[0] in GROWING and (then or not before.version):
            mend = f"{BY_HAND}: {anew(versions)}"
            yield Finding("lake", subject, f"missing or damaged: {named}", mend)
            return
        pages = all(entry.startswith(PAGES) for entry in now)
        if before.version and not then and not pages:
            mend, put = f"go back to the version before, {before.version}", (before, Version())
        else:
            kept = {entry: file for entry, file in current.files.items() if entry not in now}
            mend, put = (
                "leave them out of the version, so that they are made anew",
                (replace(current, files=kept), Version() if then else before),
            )
        yield Finding("lake", subject, f"missing or damaged in the current version: {named}", mend, partial(versions.put, *put))
    elif then:
        what = f"missing or damaged in the version before: {', '.join(then.values())}"
        yield Finding("lake", subject, what, "forget the version before", partial(versions.put, current, Version()))


def _same(one: Path, other: Path) -> bool:
    shown = seen(one).content
    return shown is not None and shown == seen(other).content


def _drafts(home: Path, versions: Versions, subject: str, runs_known: bool) -> Iterator[Finding]:
    """Find the drafts of processes that died: no night is at work, and the run is finished or unknown.

    Runs that cannot be looked up keep theirs.
    """
    for path in versions.damaged_drafts():
        yield Finding("lake", subject, f"the draft {path.stem} is damaged", "remove it", partial(removed, path))
    for draft in versions.drafts():
        if draft.id.startswith(NIGHT) or (runs_known and _dead(home, draft, versions)):
            what = f"{draft.made_by or 'the draft ' + draft.id} died{f' while {draft.stage}' if draft.stage else ''}; nothing of it was published"
            yield Finding("lake", subject, what, "discard its draft", partial(versions.discard, draft.id))


def _dead(home: Path, draft: Draft, versions: Versions) -> bool:
    age_s = _age_s(versions.root / "drafts" / versions.subject / f"{draft.id}.json")
    if draft.id.count("-") != 4:  # a table written by itself
        return age_s > _AGED_S
    status = run_state(home, draft.id)
    return age_s > _AGED_S if status == "" else status in ("FAILURE", "CANCELED") or status == "gone"


# what is left of writes, permissions


def _leftovers(home: Path) -> Iterator[Finding]:
    """Find temporary files whose process is gone, and folders that were never moved into their place."""
    others = {home / "mlartifacts", home / "dagster", home / "lake" / "counters"}
    left = []
    for folder, folders, files in os.walk(home):
        place = Path(folder)
        folders[:] = [name for name in folders if place / name not in others]
        if place.parent.parent == home / "lake" and place.parent.name not in ("current", "drafts", "pages"):
            continue  # tables, which are told with their subject
        left += [
            place / name for name in files if name.startswith(".") and name.endswith(".tmp") and not being_written(place / name)
        ]
    for name, lock in (("mlflow.db.new", "mlflow.db.lock"), ("simulated/congested-small.new", "simulated/congested-small.lock")):
        if (home / name).exists() and _free(home / lock):
            left.append(home / name)
    if left:
        what = f"{len(left):,} unfinished files of processes that are gone: {_some(left, home)}"
        yield Finding("files", "", what, "remove them", partial(_each, _clear, left))


def _each(do: Callable[[Path], None], paths: list[Path]) -> None:
    for path in paths:
        do(path)


def _clear(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        removed(path)


def _free(lock: Path) -> bool:
    try:
        with FileLock(lock, timeout=0):
            return True
    except Timeout:
        return False


def _permissions(home: Path) -> Iterator[Finding]:
    """Find files that others may read or that belong to another user."""
    stats: dict[Path, os.stat_result] = {}
    for path in [home, *(Path(folder) / name for folder, folders, files in os.walk(home) for name in (*folders, *files))]:
        with suppress(FileNotFoundError):  # commands at work move and remove files
            if not stat.S_ISLNK((found := path.lstat()).st_mode):
                stats[path] = found
    foreign = [path for path, found in stats.items() if found.st_uid != os.geteuid()]
    if foreign and os.environ.get(TRUSTED) != "1":
        yield Finding(
            "permissions", "", f"{len(foreign):,} files of another user: {_some(foreign, home)}", f"{BY_HAND}: chown them"
        )
    open_ = [path for path, found in stats.items() if found.st_mode & umask() and found.st_uid == os.geteuid()]
    if open_:
        what = f"{len(open_):,} files and folders that other users may read: {_some(open_, home)}"
        yield Finding("permissions", "", what, f"take that away (umask {umask():03o})", partial(_each, _close, open_))


def _close(path: Path) -> None:
    with suppress(FileNotFoundError):
        path.chmod(stat.S_IMODE(path.stat().st_mode) & ~umask())


def _some(paths: list[Path], home: Path) -> str:
    named = [str(path.relative_to(home)) if path != home else str(home) for path in paths[:3]]
    return ", ".join(named) + (", ..." if len(paths) > 3 else "")


def _age_s(path: Path) -> float:
    with suppress(FileNotFoundError):
        return time.time() - path.stat().st_mtime
    return 0.0
