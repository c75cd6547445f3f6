"""Lines about the work, on standard error."""

import sys

from features.errors import printable


def note(text: str) -> None:
    """Print one line about the work to standard error."""
    print(printable(text), file=sys.stderr)
