"""Versions and drafts: what they list, what the next version inherits, and their JSON."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pipelines.storage import site
from pipelines.storage.places import at

STORES = frozenset({"control_runs", "probes", "application_types", "topology", "contention", "counters_quarantine"})
"""Tables that grow row by row: each is a subject of its own."""
COUNTERS = "counters"
"""Prefix of the subjects of counters, and the folder of their parts."""
PARTS, FILES = "counter_parts", "counter_files"
"""Tables of a subject of counters: its parts, and the files that they were read from."""
GROWING = STORES | {COUNTERS}
"""Kinds of subjects that grow, and are not made anew from other tables."""
_OWN = frozenset({"current", "drafts", "pages"})
OF_SYSTEMS = frozenset({"variability_features", "variability_model", "cluster_experiments", "variability_nights"})
MADE_FROM: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("jobs", "rejected_jobs", "served", "nights", "queue_states", "starts", "variability_features", "variability_nights"), ()
    ),
    "user_history": ("jobs",),
    "prediction_quality": ("schedules",),
    "runtime_model": ("user_history",),
    "learned_policy": ("runtime_model",),
    "start_model": ("queue_states",),
    "schedules": ("jobs", "runtime_model"),
    "comparison": ("schedules",),
    "parity": ("jobs",),
    "what_if": ("jobs",),
    "variability_model": ("variability_features",),
    "cluster_experiments": ("variability_model",),
}
"""Table -> tables that it is made from: none for tables read from a source and for growing histories (``nights``, ``served``, ``queue_states``, ``starts``)."""
_OF_PAGES = {"variability": ("cluster_experiments",)}
"""Folder of pages -> tables that they are made from; others are of a run or a night."""
_ELSE = ("jobs", "runtime_model")
"""Tables that any table without an entry in :data:`MADE_FROM` is made from."""
MEND = "queuecast doctor says what is whole, queuecast doctor --repair goes back to that"
PAGES, DATED = "reports/", "reports/nights/"
KEEP_H = "QUEUECAST_LAKE_KEEP_H"
"""Environment variable: hours for which files of replaced versions stay."""


def keep_s(root: Path) -> float:
    """Return the seconds for which files of a replaced version stay.

    $QUEUECAST_LAKE_KEEP_H (hours), else a day in an object store, 0 in a directory. The version before the current one stays.
    """
    return 3600 * site.number(KEEP_H, at(root).keep_h)


def subject_of(table: str, name: str) -> str:
    """Return the subject of a table, "" for a folder that holds no tables."""
    if table in _OWN:
        return ""
    kind = COUNTERS if table in (COUNTERS, PARTS, FILES) else "variability" if table in OF_SYSTEMS else "runtime"
    return f"{table if table in STORES else kind}-{name}"


@dataclass(frozen=True)
class Version:
    """Files by table or page, relative to the lake, and the registered models by alias.

    They belong together. ``version`` is empty if none was published.
    """

    version: str = ""
    made_by: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Draft:
    """A version in the making: ``base`` was current when it began, ``stage`` is its progress."""

    id: str
    base: Version
    made_by: str = ""
    stage: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)


def pointer_text(version: Version, before: Version, older: Sequence[Mapping[str, object]] = ()) -> str:
    """Return a pointer's text.

    It has the current version, the one before, and those ``older`` that readers may still hold.
    """
    both = {"current": asdict(version), "before": asdict(before)}
    return json.dumps({**both, "older": older} if older else both, indent=1)


def parsed(content: bytes) -> tuple[Version, Version]:
    """Return the current version and the one before, of a pointer's text."""
    pointer = json.loads(content)
    return Version(**pointer["current"]), Version(**pointer["before"])


def older(content: bytes) -> list[tuple[float, Version]]:
    """Return a pointer's older versions, with Unix times of their replacement."""
    return [(float(each["until"]), Version(**each["version"])) for each in json.loads(content).get("older", [])]


def carried(before: Mapping[str, str], written: Mapping[str, str]) -> dict[str, str]:
    """Return the tables and pages of ``before`` that are valid with those just ``written``."""
    changed = {entry for entry, file in written.items() if before.get(entry) != file}
    return {
        entry: file
        for entry, file in before.items()
        if entry not in written and not entry.startswith(DATED) and not changed & _ancestors(entry)
    }


def _ancestors(entry: str) -> set[str]:
    page = entry.removeprefix(PAGES).partition("/")[0]
    parents = _OF_PAGES.get(page, ("comparison", "runtime_model")) if entry.startswith(PAGES) else MADE_FROM.get(entry, _ELSE)
    return {*parents, *(each for parent in parents for each in _ancestors(parent))}
