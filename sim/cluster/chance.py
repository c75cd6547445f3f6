"""Random numbers inside the kernel: one stream a simulation (xorshift64*, Vigna 2016), seeded from outside."""

from __future__ import annotations

import numpy as np

from features.jit import kernel

_A, _B, _C = np.uint64(12), np.uint64(25), np.uint64(27)
_STAR = np.uint64(2685821657736338717)
_ELEVEN, _SIXTEEN, _LOW = np.uint64(11), np.uint64(16), np.uint64(0xFFFF)
_SPREAD = np.sqrt(3.0)


@kernel
def bits(random):
    """64 random bits; ``random`` uint64 [1], not 0."""
    state = random[0]
    state ^= state >> _A
    state ^= state << _B
    state ^= state >> _C
    random[0] = state
    return state * _STAR


@kernel
def uniform(random):
    """Evenly in [0, 1)."""
    return np.float64(bits(random) >> _ELEVEN) * (1.0 / 9007199254740992.0)


@kernel
def normal(random):
    """Mean 0, variance 1, the sum of four even numbers: normal enough for a sensor's noise, within 3.5."""
    drawn = bits(random)
    total = np.int64(drawn & _LOW)
    for _ in range(3):
        drawn >>= _SIXTEEN
        total += np.int64(drawn & _LOW)
    return (total * (1.0 / 65536.0) - 2.0 + 2.0 / 65536.0) * _SPREAD
