"""What a site should look at: failed nights and drift, a line of JSON each, in ``alerts.jsonl`` in the home directory."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path


def alerts_file(home: Path) -> Path:
    """Where alerts are kept; a site's own monitoring reads it there."""
    return home / "alerts.jsonl"


def alert(home: Path, kind: str, subject: str, night: str, what: str) -> str:
    """Add a line ``at kind subject night what`` and return it; lines of several processes do not mix."""
    at = datetime.now(UTC).isoformat(timespec="seconds")
    line = json.dumps({"at": at, "kind": kind, "subject": subject, "night": night, "what": what})
    alerts_file(home).parent.mkdir(parents=True, exist_ok=True)
    file = os.open(alerts_file(home), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, f"{line}\n".encode())
    finally:
        os.close(file)
    return line
