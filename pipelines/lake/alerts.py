"""Alerts for the site: failed nights and drift, in ``alerts.jsonl`` of the home directory.

Each is one line of JSON.
"""

import json
from datetime import UTC, datetime
from pathlib import Path

from pipelines.lake.places import append


def alerts_file(home: Path) -> Path:
    """Return the file of alerts; a site's own monitoring may read it."""
    return home / "alerts.jsonl"


def alert(home: Path, kind: str, subject: str, night: str, what: str) -> str:
    """Add a line ``at kind subject night what``; return it. Lines of processes do not mix."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    line = json.dumps({"at": now, "kind": kind, "subject": subject, "night": night, "what": what})
    append(alerts_file(home), f"{line}\n".encode())
    return line
