"""Publish a version of a trace or a system, with its registry aliases.

:mod:`pipelines.storage.versions` has the mechanism. A run's assets share a draft that has the run's id; ``published_trace``
or ``published_system``, which come after every blocking check, publish it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from features.errors import InputError
from pipelines.storage.lake import Lake
from pipelines.storage.locks import Busy, held
from pipelines.storage.places import at, write
from pipelines.storage.version import Draft, Version
from pipelines.storage.versions import SetAliases, Versions

if TYPE_CHECKING:
    from models.registry.tracking import Tracking

NIGHT, NIGHTS = "night-", "the night "
"""Prefixes, before the label: of the ids of drafts of nights in one process, and of ``made_by`` of any night's draft."""
RUN_WAITS_S = 600.0
"""Max seconds that a run waits for a night of its trace or system to finish with the registry."""
FINISHED = "a night or run before had died while it was published: that was finished"


@contextmanager
def alone(home: Path, trace: str, wait_s: float = 0.0) -> Iterator[None]:
    """Hold the lock of ``trace``: one night or run at a time moves its model's aliases.

    Raises InputError if another holds it for longer than ``wait_s`` seconds.
    """
    lock = home / "nights" / trace / ".lock"
    with ExitStack() as stack:
        try:
            stack.enter_context(held(lock, wait_s))
        except Busy as error:
            waited = f", and still is after {wait_s:g} s" if wait_s else ""
            raise InputError(f"another night or run of {trace} is running{waited}: try again when it is done") from error
        if at(lock).shared and not lock.exists():
            write(lock, "")  # shows, in a store without folders, that a night was begun
        yield


def aliases_of(store: Tracking, name: str) -> SetAliases:
    """Return a function that moves the aliases of the registered model ``name``.

    The champion's moves last. If the registry fails half way, the others are restored as far as it still answers.
    """
    from models.registry import registration
    from models.registry.versions import aliases

    def point(models: Mapping[str, str]) -> None:
        before = aliases(store, name)
        others = [alias for alias in models if alias not in ("champion", "challenger")]
        try:
            for alias in others:
                if models[alias]:
                    store.client.set_registered_model_alias(name, alias, models[alias])
            if models.get("champion"):
                registration.set_aliases(store, name, models["champion"], models.get("challenger", ""))
            for alias in [each for each, number in models.items() if not number and each in before]:
                store.client.delete_registered_model_alias(name, alias)
        except Exception:
            with suppress(Exception):  # the first error is raised
                for alias in ("challenger", *others):
                    if before.get(alias):
                        store.client.set_registered_model_alias(name, alias, before[alias])
            raise

    return point


def finish(lake: Lake, store: Tracking, name: str) -> bool:
    """Repair aliases and pages of ``name`` after a process died; return whether one had.

    They follow the published version. Call it within :func:`alone`. Raises InputError as :func:`check_registry` does.
    """
    check_registry(lake, store, name)
    return lake.versions(name).follow(aliases_of(store, name))


def check_registry(lake: Lake, store: Tracking, name: str) -> None:
    """Raise InputError for a registry without the published champion: damaged or another one."""
    from models.registry.registration import version_at

    number = lake.versions(name).current().models.get("champion")
    if number and version_at(store, name) is None and version_at(store, name, number) is None:
        raise InputError(
            f"registry {store.place}: has no version {number} of {name}, the champion that was published: it is damaged or another one; "
            "restore it from a backup, or queuecast doctor --repair begins anew without the champion"
        )


def finish_for_reader(home: Path, store: Tracking, name: str) -> None:
    """Call :func:`finish` for a reader, unless a night or run is publishing the model now."""
    if not name.startswith(("runtime-", "variability-")):
        return
    check_registry(Lake(home / "lake"), store, name)
    if Lake(home / "lake").versions(name).under_way:
        with suppress(InputError), alone(home, lock_of(name)):
            finish(Lake(home / "lake"), store, name)


def lock_of(name: str) -> str:
    """Return the lock name for a registered model: a runtime model's trace, else its name."""
    return name.removeprefix("runtime-")


def begin_night(lake: Lake, store: Tracking, name: str) -> list[str]:
    """Finish or discard what dead processes left; return a line for each.

    Finishes the work of a process that died while it published. Discards other nights that died, with the versions they
    registered. Call it within :func:`alone`.
    """
    from models.registry.versions import take_back

    notes, versions = [FINISHED] if finish(lake, store, name) else [], lake.versions(name)
    for dead in left_behind(versions):
        if dead.id != lake.draft:
            notes.append(f"{dead.made_by} had died while {dead.stage}: nothing of it was kept")
            take_back(store, name, {*dead.models.values()} - {*dead.base.models.values()})
            versions.discard(dead.id)
    return notes


@contextmanager
def discarded_on_error(lake: Lake, name: str) -> Iterator[None]:
    """Discard the draft of ``lake`` and its files if the body raises."""
    try:
        yield
    except Exception:
        with suppress(OSError):  # the first error is raised; the next night discards what is left
            lake.versions(name).discard(lake.draft)
        raise


def left_behind(versions: Versions) -> list[Draft]:
    """Return the drafts of nights that died; call it while no night is running."""
    return [draft for draft in versions.drafts() if draft.made_by.startswith(NIGHTS)]


def publish(lake: Lake, name: str, made_by: str, store: Tracking) -> Version:
    """Publish the draft of ``lake``; call it within :func:`alone`.

    Raises InputError if another version came first.
    """
    versions = lake.versions(name)
    check_registry(lake, store, name)
    versions.note(lake.draft, made_by=made_by)
    return versions.publish(lake.draft, aliases_of(store, name))
