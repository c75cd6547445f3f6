"""Where the simulation kernel meets the predictors compiled into it: integer codes, direct calls.

Code 0 is a table filled beforehand (nothing to do), code -1 a predictor outside the kernel (the loop stops and asks).
"""

from __future__ import annotations

from features.jit import kernel
from models import last2
from models.last2 import LAST2

TABLE = 0
OUTSIDE = -1


@kernel
def estimate(code, memory, user, requested):
    """Whole seconds predicted at submission."""
    if code == LAST2:
        return last2.estimate(memory, user, requested)
    return requested


@kernel
def estimate_again(code, memory, user, requested, elapsed):
    """Whole seconds predicted in all for a job that has run ``elapsed`` of them, as predicted, and runs on: more than that, up to the request."""
    if code == LAST2:
        seconds = last2.estimate(memory, user, requested)
        if seconds > elapsed:
            return seconds
    return requested


@kernel
def learn(code, memory, user, runtime):
    """A job of ``user`` has ended after ``runtime`` seconds."""
    if code == LAST2:
        last2.learn(memory, user, runtime)
