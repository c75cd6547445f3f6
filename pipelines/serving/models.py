"""The models that a service has loaded, and how they follow the registry's aliases.

A new version is loaded and checked while the old one answers, then replaces it by one assignment: a request takes the reference
once and keeps it. If the registry does not answer, or names a version that does not load, the loaded version stays.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event

from features.errors import InputError, one_line
from models.packed.runtime_predictor import RuntimePredictor
from models.registry.unregistered import unregistered
from pipelines.serving.loaded import Loaded, LoadedVersion
from pipelines.serving.site_registry import SiteRegistry
from pipelines.serving.starts import LoadedStarts


@dataclass
class Served:
    """A model that is served at an alias: its loaded version, and its problem.

    ``trained_unix_s`` is when the model was registered after its training, 0 if that is not known. ``problem`` says in one line why it
    does not follow the registry, ``since_s`` since which Unix time; empty and 0 if it does. ``missing`` is true if the registry
    answers and has no such model.
    """

    name: str
    alias: str
    loaded: LoadedVersion | None = None
    trained_unix_s: float = 0.0
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
