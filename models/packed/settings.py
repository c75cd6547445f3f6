"""The settings file of a registered model: format, kind and the predictor's parameters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FORMAT = 3
"""Version of a model's files. In format 1 a variability model had one cutoff, chosen on folds that shared the machine's
state. In format 2 a runtime model had features of its own."""
SETTINGS = "model.json"


def read_settings(directory: Path) -> dict[str, Any]:
    """Read the settings in ``directory``.

    Raises ValueError for another format, OSError for a missing file.
    """
    settings = json.loads((directory / SETTINGS).read_text(encoding="utf-8"))
    if settings.get("format") != FORMAT:
        raise ValueError(
            f"{directory / SETTINGS}: has format {settings.get('format')}, and this version reads {FORMAT}: register the model again"
        )
    return settings
