"""Predictor names: the one place where a name such as ``requested*2`` becomes a predictor."""

from __future__ import annotations

import re
from collections.abc import Callable

from features.errors import InputError
from models.clairvoyant import clairvoyant
from models.last2 import last2
from models.protocol import Predictor
from models.requested import requested

_PLAIN: dict[str, Callable[[], Predictor]] = {"requested": requested, "clairvoyant": clairvoyant, "last2": last2}
_MULTIPLIED: dict[str, Callable[[float], Predictor]] = {"requested": requested, "clairvoyant": clairvoyant}
FITTED = ("lightgbm",)
"""Predictors that are trained on a trace's history beforehand; the caller that has that history brings their table."""
KNOWN = (*_PLAIN, *FITTED, "requested*FACTOR", "clairvoyant*FACTOR", "registry:NAME[@ALIAS]", "table:FILE")


def predictor(name: str) -> Predictor:
    """The predictor called ``name``; InputError with the list of what is known for any other name."""
    if name in _PLAIN:
        return _PLAIN[name]()
    match = re.fullmatch(r"(\w+)\*(\d+(?:\.\d+)?)", name)
    if match and match[1] in _MULTIPLIED and float(match[2]) > 0:
        return _MULTIPLIED[match[1]](float(match[2]))
    raise InputError(f"unknown predictor {name!r}: known are {', '.join(KNOWN)}")
