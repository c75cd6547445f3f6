"""Alerts for the site: failed nights and drift, in ``alerts.jsonl`` of the home directory.

A line of JSON each.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path


def alerts_file(home: Path) -> Path:
    """Return the file of alerts; a site's own monitoring may read it."""
    return home / "alerts.jsonl"


def alert(home: Path, kind: str, subject: str, night: str, what: str) -> str:
    """Add a line ``at kind subject night what`` and return it; processes' lines do not mix."""
    at = datetime.now(UTC).isoformat(timespec="seconds")
    line = json.dumps({"at": at, "kind": kind, "subject": subject, "night": night, "what": what})
    alerts_file(home).parent.mkdir(parents=True, exist_ok=True)
    file = os.open(alerts_file(home), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, f"{line}\n".encode())
    finally:
        os.close(file)
    return line
