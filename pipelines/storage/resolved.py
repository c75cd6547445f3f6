"""Find the version that answers for a registered model, whatever was changed by hand.

Versions, aliases, runs and tags may be edited in MLflow at any time. An alias that was moved is believed, one that was deleted is
what was published; for a version that is deleted, damaged or foreign, an earlier published one answers, and a line says so.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from features.errors import Damaged
from pipelines.storage.lake import Lake

if TYPE_CHECKING:
    from models.registry.tracking import Tracking

PUBLISHED_KINDS = ("runtime-", "variability-")
"""Beginnings of the names of registered models that have a pointer."""
Model = TypeVar("Model")


def candidates(lake: Lake, store: Tracking, name: str, alias: str = "champion") -> list[str]:
    """Return the versions that may answer for ``name`` at ``alias``, the best first.

    They are the one of the registry's alias, and those that were published; only ones that exist. A number is its own candidate.
    """
    from models.registry.versions import aliases, all_versions

    if alias.isdecimal():
        return [alias]
    existing = {str(version.version) for version in all_versions(store, name)}
    numbers = [aliases(store, name).get(alias, "")]
    if name.startswith(PUBLISHED_KINDS):
        versions = lake.versions(name)
        published = [version.models.get(alias, "") for version in versions.kept()]
        # aliases that were not set since the last publication are those of the version before
        numbers = [*numbers, *published] if versions.follows else [*published, *numbers]
    return [number for number in dict.fromkeys(numbers) if number in existing]


def loaded(lake: Lake, store: Tracking, name: str, alias: str, load: Callable[[str], Model]) -> Model:
    """Return the result of ``load`` for the first whole candidate.

    A line says which it is, if it is not the first. ``load`` gets a number, or ``alias`` if there is no candidate, and raises Damaged
    for a version that cannot be used.
    """
    numbers = candidates(lake, store, name, alias)
    problem = ""
    for number in numbers[:-1]:
        try:
            model = load(number)
        except Damaged as error:
            problem = problem or str(error)
            continue
        _say(name, alias, number, problem)
        return model
    model = load(numbers[-1] if numbers else alias)
    _say(name, alias, numbers[-1] if numbers else "", problem)
    return model


def restored(lake: Lake, store: Tracking, name: str) -> list[str]:
    """Set the published aliases that the registry has lost; return a line for each.

    Call it while no other night or run of the subject works.
    """
    from models.registry.versions import aliases

    lines, named = [], aliases(store, name)
    for alias, number in lake.versions(name).current().models.items():
        if not number or alias in named:
            continue
        numbers = candidates(lake, store, name, alias)
        lost = f"{name}: " + ("its alias" if number in numbers else f"version {number}, the published") + f" {alias} was deleted"
        if numbers:
            store.client.set_registered_model_alias(name, alias, numbers[0])
            lines.append(f"{lost}: {alias} is version {numbers[0]}")
        else:
            lines.append(f"{lost}, and no version published before is left: what follows begins without it")
    for line in lines:
        print(line, file=sys.stderr)
    return lines


def _say(name: str, alias: str, number: str, problem: str) -> None:
    if problem:
        print(f"{problem}; version {number} of {name} answers in place of its {alias}: queuecast doctor", file=sys.stderr)
