"""The work of a run or night: where it reads and writes, and how it is published."""

import sys
from collections.abc import Callable
from dataclasses import dataclass

from models.registry.policy_registration import POLICY
from models.registry.start_registration import START
from models.registry.tracking import Tracking
from models.registry.versions import aliases
from pipelines.lake.publishing import finish, publish
from pipelines.lake.registry import pruned
from pipelines.lake.tables import Lake
from pipelines.lake.versions import Published


@dataclass(frozen=True)
class Work:
    """Where a run or night of ``subject`` reads and writes: a lake and a registry.

    ``night`` is the day of a night, "" for a run. ``run_id`` is the Dagster run that versions record.
    """

    lake: Lake
    store: Tracking
    subject: str
    night: str = ""
    run_id: str = ""

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
        """Return the origin that a publication records: a night or a run."""
        return f"the night {self.night}" if self.night else f"run {self.run_id}"

    def begin(self) -> list[str]:
        """Set the aliases of what was published before, if they were lost; return a line for each.

        The caller must hold the lock of the subject.
        """
        lines = finish(self.lake, self.store, self.subject)
        for line in lines:
            print(line, file=sys.stderr)
        return lines

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

    def tidy(self) -> str:
        """Remove old registered versions; return how many, in words.

        What the pointer's versions or the draft name stays, wherever a person moved the aliases.
        """
        versions = self.lake.versions(self.subject)
        models = [versions.draft().models, *(version.models for version in versions.kept())]
        named = {number for by_alias in models for number in by_alias.values()}
        return pruned(self.store, self.subject, named)


RUN = "dagster_run_id"
"""Tag of a version that a run or night registered. Versions without it were registered by hand."""


def point_champion(lake: Lake, trace: str, store: Tracking) -> None:
    """Point the champion of ``policy-<trace>`` to the published version.

    A champion that was registered by hand stays.
    """
    version = lake.read("learned_policy", trace)[1]["version"] if lake.has("learned_policy", trace) else ""
    model = POLICY.registered(trace)
    champion = aliases(store, model).get("champion")
    if version and (champion is None or RUN in store.client.get_model_version(model, champion).tags):
        store.client.set_registered_model_alias(model, "champion", version)


def point_start_champion(lake: Lake, trace: str, store: Tracking) -> None:
    """Point champion and challenger of ``start-<trace>`` to the published versions."""
    serves = lake.read("start_model", trace)[1].get("serves", {}) if lake.has("start_model", trace) else {}
    for alias, number in serves.items():
        if number:
            store.client.set_registered_model_alias(START.registered(trace), alias, number)
