"""What random tests draw: the same few examples and seeds in every run, many fresh ones in the campaign of properties."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

SEED, TIMES = "QUEUECAST_TESTS_SEED", "QUEUECAST_TESTS_TIMES"
"""Variables that :mod:`tests.campaigns.properties` sets: what is drawn by, and how many times as much as otherwise."""
FIRST = 1_000_000
"""No smaller seed is fresh."""

# a slow machine is no failure, and compiled kernels make first examples slow
settings.register_profile("queuecast", deadline=None, derandomize=True)
slow = [HealthCheck.too_slow, HealthCheck.filter_too_much]
settings.register_profile("campaign", deadline=None, derandomize=False, database=None, suppress_health_check=slow)
settings.load_profile("campaign" if SEED in os.environ else "queuecast")


def seeds(count: int) -> range:
    """Return the first ``count`` seeds; in the campaign so many times as many that no other run of it has."""
    if SEED not in os.environ:
        return range(count)
    first = FIRST * (1 + int(os.environ[SEED]))
    return range(first, first + count * int(os.environ[TIMES]))
