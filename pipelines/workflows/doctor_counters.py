"""Counters, for the doctor: damaged parts, and what an older Queuecast wrote.

An older Queuecast kept a system's ledger in ``ledger.json`` beside its parts, and unreadable files in ``quarantine.parquet``.
"""

import json
from collections.abc import Iterator
from dataclasses import astuple, fields
from functools import partial
from pathlib import Path

import pandas as pd

from features.errors import InputError
from pipelines.ingest.ldms_ingest import QUARANTINE
from pipelines.storage.counters_parts import Part, rows_in
from pipelines.storage.counters_store import CountersStore
from pipelines.storage.lake import Lake
from pipelines.storage.locks import held
from pipelines.storage.parquet import read_parquet
from pipelines.storage.places import removed, seen
from pipelines.storage.version import COUNTERS, FILES, PARTS, Version, subject_of
from pipelines.storage.versions import Versions
from pipelines.workflows.doctor_databases import BY_HAND, Finding

_LEDGER, _QUARANTINED = "ledger.json", "quarantine.parquet"


def counters(home: Path) -> Iterator[Finding]:
    """Find what is wrong with the counters of each system."""
    for root in sorted((home / "lake" / COUNTERS).glob("*")):
        system = root.name
        if (root / _LEDGER).exists():
            yield Finding(
                COUNTERS, system, "an older Queuecast wrote its ledger", "take it over", partial(take_over, home / "lake", system)
            )
            continue
        try:
            store = CountersStore(home / "lake", system)
        except InputError:  # told with its subject
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
    """Return how a subject that is made from nothing else is mended."""
    return f"restore them from a backup, or remove {versions.root / 'current' / versions.subject}.* and ingest again"


def take_over(lake: Path, system: str) -> None:
    """Make the ledger of an older Queuecast a version, which lists the parts where they are.

    InputError where it is damaged, or another process changes these counters.
    """
    root, tables = lake / COUNTERS / system, Lake(lake)
    versions = tables.versions(subject_of(COUNTERS, system))
    with held(root / ".lock", 0):
        if not (lake / "current" / f"{versions.subject}.json").exists():  # else a process died after it
            try:
                stated = json.loads(seen(root / _LEDGER).content or b"")
                parts = [Part(*part) for each in stated["samplers"].values() for part in each["parts"]]
                metrics = {name: each["metrics"] for name, each in stated["samplers"].items()}
                files = pd.DataFrame(stated["files"])
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                raise InputError(f"{root / _LEDGER}: is damaged: {error}; restore it from a backup") from error
            if (root / _QUARANTINED).exists():
                tables.write(QUARANTINE, system, read_parquet(root / _QUARANTINED, kind=QUARANTINE)[0])
            rows = pd.DataFrame([astuple(part) for part in parts], columns=[each.name for each in fields(Part)])
            written = {
                PARTS: tables.part(PARTS, system, rows, {"metrics": metrics}),
                FILES: tables.part(FILES, system, files),
            }
            there = {part.file: f"{COUNTERS}/{system}/{part.file}" for part in parts}
            versions.commit(written, Version(files=there), "queuecast doctor")
        removed(root / _QUARANTINED)
        removed(root / _LEDGER)
