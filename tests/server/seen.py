"""What readers see of a subject, without times and places: the same from a laptop and from a server."""

from __future__ import annotations

import hashlib
import json
import os
import re
from typing import Any

from tests.support.scenes import text_of


def tell(subject: str) -> None:
    """Print as JSON the version, digests of tables and pictures, pages, aliases, files."""
    print(json.dumps(seen(subject)))


def seen(subject: str) -> dict[str, Any]:
    """Return what :func:`tell` prints."""
    from models.registry.versions import aliases
    from pipelines.storage.home import home
    from pipelines.storage.lake import Lake
    from pipelines.storage.registry import tracking

    place, name = home(), subject.partition("-")[2]
    lake = Lake(place / "lake")
    current = lake.versions(subject).current()
    tables = {entry: text_of(lake.read(entry, name)[0]) for entry in current.files if not entry.startswith("reports/")}
    pages = {
        entry: hashlib.sha256(content).hexdigest() if entry.endswith(".png") else plain(content.decode(), str(place))
        for entry, content in ((entry, (place / entry).read_bytes()) for entry in current.files if entry.startswith("reports/"))
    }
    return {
        "version": current.version,
        "made_by": current.made_by,
        "tables": tables,
        "pages": pages,
        "aliases": aliases(tracking(), subject),
        "files": dict(current.files),
    }


def plain(page: str, place: str) -> str:
    """Return a page without places, times and identifiers."""
    for each in (place, os.environ["QUEUECAST_HOME"], os.environ.get("MLFLOW_TRACKING_URI")):
        page = page.replace(each, "PLACE") if each else page
    page = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b", "ID", page)
    page = re.sub(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?( UTC|Z|\+00:00)?", "TIME", page)
    return page
