"""What the doctor finds."""

from collections.abc import Callable
from dataclasses import dataclass

BY_HAND = "by hand"


@dataclass(frozen=True)
class Finding:
    """A fault: ``part`` of the home, ``where``, ``what``, and how to ``mend`` it.

    ``repair`` mends it; without one, it must be mended by hand.
    """

    part: str
    where: str
    what: str
    mend: str
    repair: Callable[[], object] | None = None
