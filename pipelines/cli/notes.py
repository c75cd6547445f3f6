"""Lines about the work on standard error, and records of its results on standard output."""

import json
import math
import sys
from typing import Any

import click

from features.errors import printable


def note(text: str) -> None:
    """Print one line about the work to standard error."""
    print(printable(text), file=sys.stderr)


def record(fields: Any) -> None:
    """Print one JSON object as a line to standard output, with null for NaN."""
    click.echo(json.dumps(_plain(fields)))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and math.isnan(value) else value
