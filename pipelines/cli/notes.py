"""Lines about the work on standard error, and records of its results on standard output."""

import json
import math
import sys
from collections.abc import Iterable
from typing import Any

import click

from features.errors import printable
from pipelines.report.wording import takes_correction


def note(text: str) -> None:
    """Print one line about the work to standard error."""
    print(printable(text), file=sys.stderr)


def tell_of_prior(schedulers: Iterable[str], predictors: Iterable[str]) -> None:
    """Say which schedulers use ``requested`` and which ``prior``, or that Harm lacks it."""
    named = set(predictors)
    if named == {"requested"} and not all(map(takes_correction, schedulers)):
        note(
            "Harm takes each request for the exact runtime here: add --predictor prior, with which it knows how far requests are off"
        )
    if {"requested", "prior"} <= named:
        note("requested and prior both predict the request: Harm is simulated with prior, other schedulers with requested")


def record(fields: Any) -> None:
    """Print one JSON object as a line to standard output, with null for NaN."""
    click.echo(json.dumps(_plain(fields)))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and math.isnan(value) else value
