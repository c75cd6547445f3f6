"""What the doctor finds wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

BY_HAND = "by hand"


@dataclass(frozen=True)
class Finding:
    """State something wrong: ``part`` of the home, ``where``, ``what``, how to ``mend`` it.

    ``repair`` does that; without one it is for a person.
    """

    part: str
    where: str
    what: str
    mend: str
    repair: Callable[[], object] | None = None
