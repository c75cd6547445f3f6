"""Quantiles given how long a job has run: those of the simulator."""

from __future__ import annotations

import numpy as np
import pytest

from models.packed.methods import conditional
from models.runtime import quantile
from models.runtime import quantile_forest as forest
from models.runtime.memory import Memory
from tests.support.fresh import seeds

LEVELS = tuple(quantile.REGULAR.tolist())


def drawn_quantiles(requested: int, seed: int) -> list[float]:
    """Return ascending quantiles, many of them equal."""
    random = np.random.default_rng(seed)
    return np.sort(np.clip(np.rint(random.lognormal(5.0, 1.5, len(LEVELS))), 1, requested)).tolist()


@pytest.mark.parametrize("seed", seeds(8))
def test_it_answers_as_the_simulator_does(seed):
    requested, quantiles, width = 3600, drawn_quantiles(3600, seed), 12
    fresh = Memory(jobs=np.zeros((1, width + len(LEVELS) + 1)), keys=np.zeros((1, 1), np.int64))
    memory = quantile.usual(fresh)
    memory.jobs[0, width : width + len(LEVELS)] = quantiles
    for elapsed in (0, 1, 17, 150, 400, 1500, 3599):
        for place in (0, 19, 31, 38):
            memory.model[forest.END_AT] = place
            expected = quantile.estimate_again(memory, 0, requested, elapsed)
            assert answered(quantiles, requested, elapsed, LEVELS[place]) == [min(expected, requested)]


def test_at_its_request_a_job_has_nothing_left_but_that():
    assert answered(drawn_quantiles(3600, 2), 3600, 4000, 0.1, 0.9) == [3600.0, 3600.0]


def answered(quantiles, requested, elapsed, *wanted):
    [seconds] = conditional(LEVELS, np.array([quantiles]), np.array([requested]), np.array([elapsed]), wanted)
    return seconds.tolist()
