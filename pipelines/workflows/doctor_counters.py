"""Damaged parts of counters, for the doctor."""

from collections.abc import Iterator
from pathlib import Path

from features.errors import InputError
from pipelines.storage.counters_parts import Part, rows_in
from pipelines.storage.counters_store import CountersStore
from pipelines.storage.version import COUNTERS
from pipelines.storage.versions import Versions
from pipelines.workflows.doctor_databases import BY_HAND, Finding


def counters(home: Path) -> Iterator[Finding]:
    """Find what is wrong with the counters of each system."""
    for root in sorted((home / "lake" / COUNTERS).glob("*")):
        system = root.name
        try:
            store = CountersStore(home / "lake", system)
        except InputError:  # reported with its subject
            continue
        with store.reading():
            bad = [part.file for sampler in store.samplers for part in store.parts(sampler) if not _whole(store, part)]
        if bad:
            what = f"{len(bad):,} parts missing or damaged: {', '.join(bad[:3])}"
            yield Finding(COUNTERS, system, what, f"{BY_HAND}: {anew(store.versions)}")


def _whole(store: CountersStore, part: Part) -> bool:
    try:
        return rows_in(store.path(part), part) == part.rows
    except InputError:
        return False


def anew(versions: Versions) -> str:
    """Return how to mend a subject that cannot be made again from other data."""
    return f"restore them from a backup, or remove {versions.root / 'current' / versions.subject}.* and ingest again"
