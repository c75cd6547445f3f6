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
def learn(code, memory, user, runtime):
    """A job of ``user`` has ended after ``runtime`` seconds."""
    if code == LAST2:
        last2.learn(memory, user, runtime)
