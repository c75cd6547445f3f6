"""What a pointer and a draft list, and which of it is published together."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

STORES = frozenset({"control_runs", "monitored_jobs", "probes", "application_types", "topology", "contention"})
"""Tables that grow row by row: each is a subject of its own."""
COUNTERS = "counters"
"""Prefix of the subjects of counters, and the folder of their parts."""
PARTS, FILES = "counter_parts", "counter_files"
"""Tables of a subject of counters: its parts, and the files that they were read from."""
GROWING = STORES | {COUNTERS}
"""Kinds of subjects that grow: what is written to them is published at once."""
_OWN = frozenset({"current", "drafts", "pages"})
OF_SYSTEMS = frozenset({"variability_features", "variability_model", "variability_nights"})
OF_BOTH = frozenset({"schedules", "comparison"})
"""Tables that a trace has and a system, too; their rows name which of the two, and its name."""
COUNTERS_PART = re.compile(r"[^/]+/day=[^/]+/part-[^/]+\.parquet")
"""Entries of parts of counters."""
SOURCES = frozenset({"jobs", "rejected_jobs"})
"""Tables that are made from no other: they are ingested."""
HISTORIES = frozenset({"nights", "served", "queue_states", "starts", "variability_nights"})
"""Tables that go on from their published version: they stay published, whatever is made anew."""
MEND = "queuecast doctor says what is whole, queuecast doctor --repair goes back to that"
PAGES, DATED = "reports/", "reports/nights/"
"""Beginnings of the entries of pages, and of those that only the night of a day has."""
MODELS = "models"
"""The entry of the registered models in ``made_from``."""


def subject_of(table: str, name: str, system: bool = False) -> str:
    """Return the subject of a table, "" for a folder that holds no tables.

    Of a table that both have, it is the trace's, or the ``system``'s.
    """
    if table in _OWN:
        return ""
    of_system = table in OF_SYSTEMS or (system and table in OF_BOTH)
    kind = COUNTERS if table in (COUNTERS, PARTS, FILES) else "variability" if of_system else "runtime"
    return f"{table if table in STORES else kind}-{name}"


@dataclass(frozen=True)
class Version:
    """Files by table or page, relative to the lake, and the registered models by alias.

    They belong together: ``made_from`` has, by table or page, the files by table that it was made from. ``version`` is
    empty if none was published.
    """

    version: str = ""
    made_by: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    made_from: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Draft:
    """The file made last of each table or page, published or not, and its maker.

    ``made_by`` has the makers of what was made since the draft began: the id of a run, or a night's or command's name.
    The other fields are those of :class:`Version`.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    made_from: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    made_by: Mapping[str, str] = field(default_factory=dict)


def settled(draft: Draft, current: Version, accepted: Callable[[str], bool]) -> tuple[Version, dict[str, str]]:
    """Return what is published of a draft, and why the rest of it is not, by table or page.

    A file is published if it was made from the files that are published with it, and by an ``accepted`` maker; else the
    current one, if that was. Without new models the current ones stay.
    """
    chosen: dict[str, str] = {}
    latest, published = _values(draft), _values(current)
    new = {entry for entry, value in latest.items() if published.get(entry) != value}
    refused = {entry for entry in new if entry in draft.made_by and not accepted(draft.made_by[entry])}

    def choose(entry: str) -> str:
        if entry in chosen:
            return chosen[entry]
        chosen[entry] = ""  # what was made from itself is not published
        candidates = [(published, current.made_from)]
        if entry not in refused:
            candidates.insert(0, (latest, draft.made_from))
        for values, made_from in candidates:
            value = values.get(entry, "")
            if value and all(choose(table) == file for table, file in made_from.get(entry, {}).items()):
                chosen[entry] = value
                break
        return chosen[entry]

    kept = {entry: value for entry in latest if (value := choose(entry))}
    if MODELS in published:
        kept.setdefault(MODELS, published[MODELS])  # a champion serves until there is another
    left_out = {}
    for entry, value in latest.items():
        if kept.get(entry) == value:
            continue
        other = [table for table, file in draft.made_from.get(entry, {}).items() if kept.get(table) != file]
        left_out[entry] = (
            f"made by {draft.made_by[entry]}, which did not succeed or is not done"
            if entry in refused
            else f"made from {', '.join(other)} of another run"
        )
    lineage = {
        entry: (draft if value == latest[entry] and entry not in refused else current).made_from.get(entry, {})
        for entry, value in kept.items()
    }
    models = json.loads(kept.pop(MODELS, "{}"))
    return Version(files=kept, models=models, made_from={entry: tables for entry, tables in lineage.items() if tables}), left_out


def _values(listed: Draft | Version) -> dict[str, str]:
    """Return the files by table or page, and the models as one more entry."""
    return {**listed.files, **({MODELS: models_text(listed.models)} if listed.models else {})}


def models_text(models: Mapping[str, str]) -> str:
    """Return registered models by alias as they stand among files in ``made_from``."""
    return json.dumps(dict(models), sort_keys=True)
