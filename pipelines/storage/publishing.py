"""Who may publish a version of a trace or a system, and what its registry aliases do then (:mod:`pipelines.storage.versions` says how).

A run's assets share a draft that is called like the run; ``published_trace`` or ``published_system``, which come after every blocking check, publish it.
A night is one step and has a draft of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from features.errors import InputError
from pipelines.storage.lake import Lake
from pipelines.storage.versions import Draft, SetAliases, Version, Versions

if TYPE_CHECKING:
    from models.registry.tracking import Tracking

NIGHT = "night-"
"""Drafts of nights are called so, and by the night's label."""
RUN_WAITS_S = 600.0
"""Seconds that a run waits for a night of its trace or system to be done with the registry."""
FINISHED = "a night or run before had died while it was published: that was finished"


@contextmanager
def alone(home: Path, trace: str, wait_s: float = 0.0) -> Iterator[None]:
    """One night or run of ``trace`` at a time: only what is in here moves the aliases of its registered model.

    InputError if another is there and stays longer than ``wait_s`` seconds.
    """
    folder = home / "nights" / trace
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock", timeout=wait_s)
    try:
        lock.acquire()
    except Timeout as error:
        waited = f", and still is after {wait_s:g} s" if wait_s else ""
        raise InputError(f"another night or run of {trace} is running{waited}: try again when it is done") from error
    try:
        yield
    finally:
        lock.release()


def aliases_of(store: Tracking, name: str) -> SetAliases:
    """What moves the aliases of the registered model ``name``; if the registry fails half way, the challenger's is put back as far as it still answers."""
    from models.registry import registration
    from models.registry.versions import aliases

    def point(models: Mapping[str, str]) -> None:
        before = aliases(store, name)
        try:
            if models.get("champion"):
                registration.set_aliases(store, name, models["champion"], models.get("challenger", ""))
            for alias in [each for each, number in models.items() if not number and each in before]:
                store.client.delete_registered_model_alias(name, alias)
        except Exception:
            with suppress(Exception):  # what matters is the error that is already under way
                if before.get("challenger"):
                    store.client.set_registered_model_alias(name, "challenger", before["challenger"])
            raise

    return point


def finish(lake: Lake, store: Tracking, name: str) -> bool:
    """Have aliases and pages of ``name`` follow what was published, where a process died before they did; returns whether one had. Call it ``alone``."""
    return lake.versions(name).follow(aliases_of(store, name))


def finish_for_reader(home: Path, store: Tracking, name: str) -> None:
    """:func:`finish`, for a reader of the registry; nothing where a night or run of the model is publishing at this moment."""
    if not name.startswith(("runtime-", "variability-")):
        return
    if Lake(home / "lake").versions(name).under_way:
        with suppress(InputError), alone(home, lock_of(name)):
            finish(Lake(home / "lake"), store, name)


def lock_of(name: str) -> str:
    """What :func:`alone` is told for a registered model: the trace of a runtime model, the whole name of another."""
    return name.removeprefix("runtime-")


def begin_night(lake: Lake, store: Tracking, name: str) -> list[str]:
    """Finish what a process published that died then, and forget what nights left that died before; says what, a line each. Call it ``alone``."""
    told, versions = [FINISHED] if finish(lake, store, name) else [], lake.versions(name)
    for dead in left_behind(versions):
        told.append(f"the night {dead.made_by} had died while {dead.stage}: nothing of it was kept")
        versions.discard(dead.id)
    return told


@contextmanager
def discarded_on_error(lake: Lake, name: str) -> Iterator[None]:
    """Forget the draft of ``lake`` and its files if the body raises."""
    try:
        yield
    except Exception:
        lake.versions(name).discard(lake.draft)
        raise


def left_behind(versions: Versions) -> list[Draft]:
    """The drafts of nights that died, to be called where no night is running."""
    return [draft for draft in versions.drafts() if draft.id.startswith(NIGHT)]


def publish(home: Path, lake: Lake, name: str, made_by: str, store: Tracking, wait_s: float) -> Version:
    """Publish the draft of ``lake`` that a run made of ``name``, as soon as no night of it is running. InputError where another version came first."""
    with alone(home, lock_of(name), wait_s):
        versions = lake.versions(name)
        versions.note(lake.draft, made_by=made_by)
        return versions.publish(lake.draft, aliases_of(store, name))
