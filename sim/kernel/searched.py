"""What searches in a plan have ruled out.

A plan only gets fuller, so a job has no place before that of an earlier one of its kind. int64 [KINDS + 1, 4]: of each kind of jobs,
the plan in which a place was last looked for, what the jobs ask for, their seconds, and the time before which there is none. Kinds that
share a row displace each other. In the last row, the plan's number.
"""

from __future__ import annotations

import numpy as np

from features.jit import kernel

KINDS = 512
"""Rows for kinds."""


def nothing_searched() -> np.ndarray:
    """Return the array before any search, int64 [KINDS + 1, 4]."""
    searched = np.zeros((KINDS + 1, 4), np.int64)
    searched[KINDS, 0] = 1
    return searched


@kernel
def forget_searches(searched):
    """Forget what earlier searches ruled out, for more may be free now."""
    searched[KINDS, 0] += 1


@kernel
def ruled_out(searched, asked, seconds):
    """Return the time before which no job of a kind has a place, 0 if it is unknown."""
    kind = (asked * 7919 + seconds * 31) % KINDS
    noted = searched[kind, 0] == searched[KINDS, 0] and searched[kind, 1] == asked and searched[kind, 2] == seconds
    return searched[kind, 3] if noted else 0


@kernel
def rule_out(searched, asked, seconds, before):
    """Note that no job of a kind has a place before a time."""
    kind = (asked * 7919 + seconds * 31) % KINDS
    searched[kind, 0] = searched[KINDS, 0]
    searched[kind, 1] = asked
    searched[kind, 2] = seconds
    searched[kind, 3] = before
