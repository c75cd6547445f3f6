"""Damaged parts of counters, for the doctor."""

from collections.abc import Iterator
from pathlib import Path

from features.errors import InputError
from pipelines.storage.counters_store import CountersStore
from pipelines.storage.version import COUNTERS
from pipelines.storage.versions import Versions
from pipelines.workflows.finding import BY_HAND, Finding


def counters(home: Path) -> Iterator[Finding]:
    """Find parts of counters that the pointer names and that are not there, or not whole."""
    for root in sorted((home / "lake" / COUNTERS).glob("*")):
        try:
            store = CountersStore(home / "lake", root.name)
        except InputError:  # reported with its subject
            continue
        with store.reading():
            bad = [part.file for sampler in store.samplers for part in store.parts(sampler) if not store.is_whole(part)]
        if bad:
            what = f"{len(bad):,} parts missing or damaged: {', '.join(bad[:3])}"
            yield Finding(COUNTERS, root.name, what, f"{BY_HAND}: {anew(store.versions)}")


def anew(versions: Versions) -> str:
    """Return how to mend a subject that cannot be made again from other data."""
    return f"restore them from a backup, or remove {versions.root / 'current' / versions.subject}.* and ingest again"
