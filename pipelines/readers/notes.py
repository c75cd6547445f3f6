"""Notes of a reader on values that are odd, skipped or changed."""

from collections.abc import Sequence

import numpy as np


def counted(notes: list[str], sentence: str, matches: int | np.ndarray) -> None:
    """Add ``sentence`` with the count of its ``matches``, a number or bool array, if not 0."""
    if count := int(np.sum(matches)):
        notes.append(f"{sentence}: {count:,}.")


def some(numbers: Sequence[int]) -> str:
    """Return the first five of ``numbers`` as text, and ... for the rest."""
    return ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 5 else "")
