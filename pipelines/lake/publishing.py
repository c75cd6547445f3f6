"""Publish the tables, pages and registered models of a trace or a system.

:mod:`pipelines.lake.versions` has the mechanism. ``published_trace`` or ``published_system``, which come after every blocking
check, publish what a run has made.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from features.errors import InputError
from pipelines.lake.locks import Busy, held
from pipelines.lake.tables import Lake
from pipelines.lake.versions import Published, SetAliases

if TYPE_CHECKING:
    from models.registry.tracking import Tracking


RUN_WAITS_S = 600.0
"""Max seconds that a run waits for a night or another run of its trace or system."""
FINISHED = "finished setting the aliases that an earlier night or run had published"


@contextmanager
def alone(home: Path, trace: str, wait_s: float = 0.0) -> Iterator[None]:
    """Hold the lock of ``trace``: one night or run of it at a time.

    Raises Busy if another holds it for longer than ``wait_s`` seconds.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(held(home / "nights" / trace / ".lock", wait_s))
        except Busy as error:
            raise Busy(f"another night or run of {trace} is running: try again when it is done") from error
        yield


def aliases_of(store: Tracking, name: str) -> SetAliases:
    """Return a function that moves the aliases of the registered model ``name``.

    The champion's moves last. It may be repeated, where the registry failed half way.
    """
    from models.registry.tracking import aliases  # imports MLflow, and a lake may have no registry

    def point(models: Mapping[str, str]) -> None:
        before = aliases(store, name)
        for alias in sorted(models, key=lambda alias: alias == "champion"):
            if models[alias]:
                store.client.set_registered_model_alias(name, alias, models[alias])
            elif alias in before:
                store.client.delete_registered_model_alias(name, alias)

    return point


def finish(lake: Lake, store: Tracking, name: str) -> list[str]:
    """Bring pages and aliases up to what was published; return a line if they were not.

    Call it within :func:`alone`. Raises InputError as :func:`check_registry` does.
    """
    check_registry(lake, store, name)
    versions = lake.versions(name)
    if versions.follows:
        return []
    problem = versions.follow(aliases_of(store, name))
    return [f"the aliases that an earlier night or run published cannot be set: {problem}" if problem else FINISHED]


def check_registry(lake: Lake, store: Tracking, name: str) -> None:
    """Raise InputError for a registry without any version of a published model: another one."""
    from models.registry.tracking import all_versions

    number = lake.published().models(name).get("champion")
    if number and not all_versions(store, name):
        raise InputError(
            f"registry {store.place}: has no version of {name}, although version {number} was published: it is damaged or a different registry; "
            "restore it from a backup, or begin anew without the champion by queuecast doctor --repair"
        )


def lock_of(name: str) -> str:
    """Return the lock name for a registered model: a runtime model's trace, else its name."""
    return name.removeprefix("runtime-")


def publish(lake: Lake, name: str, made_by: str, store: Tracking, accepted: Callable[[str], bool] | None = None) -> Published:
    """Publish what the maker of ``lake``, or all ``accepted`` makers, have made.

    Call it within :func:`alone`.
    """
    check_registry(lake, store, name)
    published = lake.versions(name).publish(made_by, aliases_of(store, name), accepted or (lambda maker: maker == lake.maker))
    if published.problem:
        print(
            f"{name}: is published, but its aliases or pages could not be updated ({published.problem}): "
            "the next run or night, or queuecast doctor --repair, updates them",
            file=sys.stderr,
        )
    return published


PUBLISHED_KINDS = ("runtime-", "variability-")
"""Beginnings of the names of registered models that have a pointer."""


def version_of(lake: Lake, store: Tracking, name: str, alias: str = "champion") -> str:
    """Return the version's number of ``name`` at ``alias``; "" if there is none.

    ``alias`` may be a number itself. The version is that of the registry's alias, which a person may have moved. Until
    the aliases follow a publication, it is the published version.
    """
    from models.registry.tracking import aliases

    if alias.isdecimal():
        return alias
    published = ""
    if name.startswith(PUBLISHED_KINDS) and not (versions := lake.versions(name)).follows:
        published = versions.current().models.get(alias, "")
    return published or aliases(store, name).get(alias, "")
