"""Values of candidates: as stated, or multiples of today's such as ``x2``."""

from __future__ import annotations

from typing import Any

from features.errors import InputError
from sim.site.lines import length
from sim.slurm.lines import seconds


def value_of(value: Any, today: str, key: str) -> str:
    """Return a new value as text: as stated, or a multiple of today's."""
    text = str(value)
    if not text.startswith("x"):
        return text
    factor = factor_of(text, key)
    if today.isdecimal():
        return str(round(factor * int(today)))
    try:
        return length(round(factor * seconds(today)))
    except ValueError:
        raise InputError(f"{key} is {today or 'not stated'}, so {text} cannot be applied to it") from None


def factor_of(text: str, key: str) -> float:
    """Return the number in a text such as x0.5; InputError for any other text."""
    try:
        factor = float(str(text).removeprefix("x"))
    except ValueError:
        factor = -1.0
    if not (str(text).startswith("x") and factor >= 0):
        raise InputError(f"{key} = {text!r} is not a factor such as x0.5")
    return factor


def number_of(value: Any, today: int, key: str) -> int:
    """Return a count as stated or as a multiple of today's, at least 1 if there is one today."""
    text = value_of(value, str(today), key)
    if not text.removeprefix("-").isdecimal():
        raise InputError(f"{key} = {value!r} is not a whole number")
    return max(int(text), min(today, 1))
