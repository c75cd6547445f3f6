"""The models that a service has loaded, and how they follow the registry's aliases.

A new version is loaded and checked while the old one answers, then replaces it by one assignment: a request takes the
reference once and keeps it. If the registry does not answer, or names a version that does not load, the loaded version
stays.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import Event
from typing import TYPE_CHECKING

from features.errors import InputError, first_line, masked, one_line
from models.packed.runtime_predictor import RuntimePredictor
from models.packed.site_names import check_key
from models.packed.start_predictor import StartModel
from models.registry.unregistered import unregistered
from pipelines.lake.places import home
from pipelines.lake.publishing import version_of
from pipelines.lake.registry import tracking
from pipelines.lake.tables import Lake
from pipelines.serving.loaded import Loaded, LoadedVersion
from pipelines.serving.starts import LoadedStarts

if TYPE_CHECKING:
    from models.registry.tracking import Tracking

RUNTIMES, STARTS = "runtime-", "start-"
"""Beginnings of the names of registered models, by what they predict."""


class SiteRegistry:
    """The site's registry, opened when it is first read.

    It is that of :func:`pipelines.lake.registry.tracking`. A server that does not answer is given up after seconds, not
    after MLflow's minutes of retries.
    """

    def __init__(self) -> None:
        for name, value in (("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1"), ("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")):
            os.environ.setdefault(name, value)

    @cached_property
    def _store(self) -> Tracking:
        return tracking()

    def version(self, name: str, alias: str) -> str:
        """Return the version at ``alias``, "" if there is none."""
        from mlflow.exceptions import MlflowException  # a service is described without MLflow

        store = self._store
        try:
            return version_of(Lake(home() / "lake"), store, name, alias)
        except (MlflowException, OSError) as error:
            why = first_line(error)
            raise InputError(f"registry {masked(store.uri)}: {masked(why)}") from error

    def alternatives(self, name: str) -> str:
        """Return the aliases of a model or, if it is missing, the names like it; else ""."""
        from models.registry.registration import alternatives

        return alternatives(self._store, name)

    def trained_unix_s(self, name: str, number: str) -> float:
        """Return when the model of a version was registered.

        Nights renew its history in versions of their own, without training it.
        """
        from models.registry.registration import trained_number

        store = self._store
        trained = trained_number(store, store.client.get_model_version(name, number))
        return float(store.client.get_model_version(name, trained).creation_timestamp) / 1000.0

    def judged(self, name: str) -> Mapping[str, float]:
        """Return how good published answers about starts of 30 days were.

        Empty for a model of runtimes, and without a published table.
        """
        from models.starts.evaluation import MONTH_S, quality

        trace, lake = name.removeprefix(STARTS), Lake(home() / "lake").at_once(f"{RUNTIMES}{name.removeprefix(STARTS)}")
        if not name.startswith(STARTS) or not lake.has("starts", trace):
            return {}
        answers = lake.read("starts", trace)[0]
        return quality(answers[answers["at_s"] > answers["at_s"].max() - MONTH_S])

    def load(self, name: str, number: str) -> RuntimePredictor | StartModel:
        """Load a version; raise InputError also if names are hashed with a key that is not set."""
        if name.startswith(STARTS):
            from models.registry.start_registration import load as load_starts

            return load_starts(self._store, name, number)
        from models.registry.runtime_registration import load

        predictor = load(self._store, name, number)
        try:
            check_key(predictor.hashed_with, f"version {number} of {name}", required=True)
        except ValueError as error:
            raise InputError(str(error)) from error
        return predictor


@dataclass
class Served:
    """A model that is served at an alias: its loaded version, and its problem.

    ``trained_unix_s`` is when the model was registered after its training, 0 if that is not known, and ``judged`` the
    quality of its answers when the version was loaded. ``problem`` says in one line why it does not follow the
    registry, ``since_s`` since which Unix time; empty and 0 if it does. ``missing`` is true if the registry answers and
    has no such model.
    """

    name: str
    alias: str
    loaded: LoadedVersion | None = None
    trained_unix_s: float = 0.0
    judged: Mapping[str, float] = field(default_factory=dict)
    problem: str = ""
    since_s: float = 0.0
    missing: bool = False

    def follow(self, registry: SiteRegistry, clock: Callable[[], float] = time.time) -> bool:
        """Load the version that the alias points to; return whether one was loaded.

        None is loaded if it answers already.
        """
        before, problem = self.loaded, ""
        try:
            number = registry.version(self.name, self.alias)
            self.missing = not number
            if self.missing:
                raise unregistered(self.name, self.alias)
            if before is None or before.number != number:
                loaded = loaded_version(self.name, self.alias, number, registry)
                loaded.check(clock())
                self.trained_unix_s = registry.trained_unix_s(self.name, number)
                self.judged = registry.judged(self.name)
                self.loaded = loaded  # from here on it answers
        except Exception as error:  # whatever a registry or a damaged version raises, the loaded version stays
            problem = one_line(str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}", 300)
        self.since_s = 0.0 if not problem else self.since_s if self.problem else clock()
        self.problem = problem
        return self.loaded is not before


def loaded_version(name: str, alias: str, number: str, registry: SiteRegistry) -> LoadedVersion:
    """Load a version of a model of runtimes or of starts."""
    model = registry.load(name, number)
    if isinstance(model, RuntimePredictor):
        return Loaded(name, alias, number, model)
    return LoadedStarts(name, alias, number, model)


def follow_registry(
    models: Sequence[Served], registry: SiteRegistry, every_s: float, over: Event, tell: Callable[[Served, bool], None]
) -> None:
    """Follow ``registry`` every ``every_s`` seconds until ``over``.

    ``tell(model, loaded)`` is called for a model that loaded a version, or whose problem changed.
    """
    while not over.wait(every_s):
        for model in models:
            before = model.problem
            loaded = model.follow(registry)
            if loaded or model.problem != before:
                tell(model, loaded)
