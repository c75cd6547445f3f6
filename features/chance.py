"""Random numbers inside the kernel: one SplitMix64 stream a simulation, seeded outside.

Steele, Lea & Flood 2014.
"""

from __future__ import annotations

import numpy as np

from features.jit import kernel

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_A, _B, _C, _ELEVEN = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
_SIXTEEN, _LOW = np.uint64(16), np.uint64(0xFFFF)
_TO_UNIT = 1.0 / 65536.0


@kernel
def bits(random):
    """Return 64 random bits; ``random`` uint64 [1]."""
    state = random[0] + _GOLDEN
    random[0] = state
    state = (state ^ (state >> _A)) * _FIRST
    state = (state ^ (state >> _B)) * _SECOND
    return state ^ (state >> _C)


@kernel
def uniform(random):
    """Draw uniformly from [0, 1)."""
    return np.float64(bits(random) >> _ELEVEN) * (1.0 / 9007199254740992.0)


@kernel
def normal_of(drawn):
    """Return a number of mean 0 and variance 1, within 3, from the lower 48 random bits.

    It is the sum of three uniform numbers, normal enough for a sensor's noise.
    """
    total = np.int64(drawn & _LOW) + np.int64((drawn >> _SIXTEEN) & _LOW) + np.int64((drawn >> _SIXTEEN + _SIXTEEN) & _LOW)
    return total * (2.0 * _TO_UNIT) - 3.0 + 3.0 * _TO_UNIT


@kernel
def uniform_of(drawn):
    """Return a uniform number in [0, 1), in steps of 1/65536, from the upper 16 random bits."""
    return np.float64(drawn >> _SIXTEEN + _SIXTEEN + _SIXTEEN) * _TO_UNIT


@kernel
def normal(random):
    """Draw a number of mean 0 and variance 1, as :func:`normal_of`."""
    return normal_of(bits(random))
