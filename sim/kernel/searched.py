"""What searches in a plan have ruled out.

A plan only gets fuller, so a job has no place before the place of an earlier job of its kind. The array is int64 [KINDS + 1, 4].
A row of a kind has the number of the plan last searched, the kind's request and seconds, and the time before which it has no
place. Kinds that share a row overwrite each other. The last row has the number of the current plan.
"""

from __future__ import annotations

import numpy as np

from features.jit import kernel

KINDS = 4096
"""Number of rows for kinds."""


def nothing_searched() -> np.ndarray:
    """Return the array before any search, int64 [KINDS + 1, 4]."""
    searched = np.zeros((KINDS + 1, 4), np.int64)
    searched[KINDS, 0] = 1
    return searched


@kernel
def forget_searches(searched):
    """Forget what earlier searches ruled out, as more may be free now."""
    searched[KINDS, 0] += 1


@kernel
def ruled_out(searched, request, seconds):
    """Return the time before which no job of a kind has a place, 0 if unknown."""
    kind = (request * 7919 + seconds * 31) % KINDS
    noted = searched[kind, 0] == searched[KINDS, 0] and searched[kind, 1] == request and searched[kind, 2] == seconds
    return searched[kind, 3] if noted else 0


@kernel
def rule_out(searched, request, seconds, before):
    """Note that no job of a kind has a place earlier than ``before``."""
    kind = (request * 7919 + seconds * 31) % KINDS
    searched[kind, 0] = searched[KINDS, 0]
    searched[kind, 1] = request
    searched[kind, 2] = seconds
    searched[kind, 3] = before
