"""Last2 (Tsafrir, Etsion & Feitelson 2007): the mean of a user's last two ended runtimes.

The mean is rounded down to a second and at most the request; until two jobs of the user have ended it is the request.
It learns during the run.
"""

from __future__ import annotations

import numpy as np

from features.jit import kernel
from features.jobs.schema import known_users
from models.runtime.memory import Memory
from models.runtime.protocol import CompiledPredictor

LAST2 = 1
"""Code of this predictor inside the kernel."""


def last2() -> CompiledPredictor:
    """Return the predictor.

    Its memory holds each user's last two runtimes and number of ended jobs.
    """
    return CompiledPredictor("last2", LAST2, lambda jobs: Memory(users=np.zeros((known_users(jobs), 3))))


@kernel
def estimate(memory, user, requested):
    if user < 0 or memory.users[user, 2] < 2.0:
        return 1.0 * requested
    return min(1.0 * requested, np.floor(0.5 * (memory.users[user, 0] + memory.users[user, 1])))


@kernel
def learn(memory, user, runtime):
    if user >= 0:
        memory.users[user, 1] = memory.users[user, 0]
        memory.users[user, 0] = runtime
        memory.users[user, 2] += 1.0
