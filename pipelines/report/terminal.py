"""Standard output for users, and its width."""

from __future__ import annotations

import os
import sys
from typing import Any

from rich.console import Console
from rich.text import Text

from features.errors import printable

_UNBOUNDED = 250
"""Width of a file or pipe without ``COLUMNS``."""


class _Console(Console):
    """Standard output on which no text can control the terminal."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **options)


def console() -> Console:
    """Return standard output with the terminal's width, or ``COLUMNS`` in a file or pipe."""
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        return _Console()
    return _Console(width=_UNBOUNDED)
