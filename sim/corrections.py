"""What replaces a prediction that a running job has outlived."""

from __future__ import annotations

from features.jit import kernel

REQUESTED = 0

CORRECTIONS: dict[str, int] = {"requested": REQUESTED}


@kernel
def corrected(correction, start, requested):
    """The new predicted end; with ``requested`` that of the requested time, which no running job has reached before its own end."""
    return start + requested
