"""The page of learned policies."""

from __future__ import annotations

from typing import NamedTuple


class Part(NamedTuple):
    text: str
