"""The work of a run or night: where it reads and writes, and how it is published."""

from collections.abc import Callable
from dataclasses import dataclass

from models.registry.tracking import Tracking
from models.registry.versions import Keep
from pipelines.dated.champions import point_champion, point_start_champion
from pipelines.storage.lake import Lake
from pipelines.storage.publishing import finish, publish
from pipelines.storage.registry import kept_versions, pruned
from pipelines.storage.resolved import restored
from pipelines.storage.versions import Published


@dataclass(frozen=True)
class Work:
    """Where a run or night of ``subject`` reads and writes: a lake and a registry.

    ``night`` is the day of a night, "" for a run. ``run_id`` is the Dagster run that versions record, "" for a ``command``.
    """

    lake: Lake
    store: Tracking
    subject: str
    night: str = ""
    run_id: str = ""
    command: str = ""

    @property
    def name(self) -> str:
        """Return the trace or system."""
        return self.subject.partition("-")[2]

    @property
    def tags(self) -> dict[str, str]:
        """Return the tags that record on a version which run or night registered it."""
        tags = {"dagster_run_id": self.run_id, "night": self.night}
        return {name: value for name, value in tags.items() if value}

    @property
    def made_by(self) -> str:
        """Return the origin that a publication records: a command, a night or a run."""
        return self.command or (f"the night {self.night}" if self.night else f"run {self.run_id}")

    def begin(self) -> list[str]:
        """Set the aliases of what was published before, if they were lost; return a line for each.

        The caller must hold the lock of the subject.
        """
        line = finish(self.lake, self.store, self.subject)
        return [*([line] if line else []), *restored(self.lake, self.store, self.subject)]

    def publish(self, accepted: Callable[[str], bool] | None = None) -> Published:
        """Publish what this run or night, or all ``accepted`` makers, have made.

        The champions of learned orders and of models of starts then follow what was published. The caller must hold the lock of
        the subject.
        """
        published = publish(self.lake, self.subject, self.made_by, self.store, accepted)
        if self.subject.startswith("runtime-"):
            seen = self.lake.published().at_once(self.subject)
            point_champion(seen, self.name, self.store)
            point_start_champion(seen, self.name, self.store)
        return published

    def tidy(self, keep: Keep | None = None) -> str:
        """Remove registered versions that ``keep``, by default the site's, drops; list them.

        What the pointer's versions or the draft name stays, wherever a person moved the aliases.
        """
        versions = self.lake.versions(self.subject)
        models = [versions.draft().models, *(version.models for version in versions.kept())]
        named = {number for by_alias in models for number in by_alias.values()}
        return pruned(self.store, self.subject, keep or kept_versions(), named)
