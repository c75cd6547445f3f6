"""What readers see of a subject."""

from __future__ import annotations

import json
from typing import Any

from tests.support.scenes import text_of


def tell(subject: str) -> None:
    """Print as JSON the version, digests of tables, names of pages, aliases, files."""
    print(json.dumps(seen(subject)))


def seen(subject: str) -> dict[str, Any]:
    """Return what :func:`tell` prints."""
    from models.registry.tracking import aliases
    from pipelines.lake.places import home
    from pipelines.lake.registry import tracking
    from pipelines.lake.tables import Lake

    place, name = home(), subject.partition("-")[2]
    lake = Lake(place / "lake")
    current = lake.versions(subject).current()
    tables = {entry: text_of(lake.read(entry, name)[0]) for entry in current.files if not entry.startswith("reports/")}
    pages = [entry for entry in current.files if entry.startswith("reports/")]
    return {
        "version": current.version,
        "made_by": current.made_by,
        "tables": tables,
        "pages": pages,
        "aliases": aliases(tracking(), subject),
        "files": dict(current.files),
    }
