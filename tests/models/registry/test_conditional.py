"""Quantiles given how long a job has run: those of the simulator's kernel, from plain numbers."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from models.packed.conditional import conditional
from models.runtime import quantile
from tests.support.fresh import seeds

LEVELS = tuple(quantile.REGULAR.tolist())


def drawn_quantiles(requested: int, seed: int) -> list[float]:
    """Return ascending quantiles, many of them equal."""
    random = np.random.default_rng(seed)
    return np.sort(np.clip(np.rint(random.lognormal(5.0, 1.5, len(LEVELS))), 1, requested)).tolist()


@pytest.mark.parametrize("seed", seeds(8))
def test_it_answers_as_the_simulator_does(seed):
    requested, quantiles = 3600, drawn_quantiles(3600, seed)
    again = getattr(quantile.estimate_again, "py_func", quantile.estimate_again)
    features = 5 * 7
    memory = SimpleNamespace(model=np.zeros(200), jobs=np.zeros((1, 200)), keys=np.zeros((1, 5)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(quantile, "width", lambda memory: features)
        memory.model[quantile.LEVELS] = len(LEVELS)
        memory.model[quantile.LEVEL : quantile.LEVEL + len(LEVELS)] = LEVELS
        memory.jobs[0, features : features + len(LEVELS)] = quantiles
        for elapsed in (0, 1, 17, 150, 400, 1500, 3599):
            for place in (0, 19, 31, 38):
                memory.model[quantile.END_AT] = place
                expected = again(memory, 0, requested, elapsed)
                assert conditional(LEVELS, quantiles, requested, elapsed, [LEVELS[place]]) == [min(expected, requested)]


def test_at_its_request_a_job_has_nothing_left_but_that():
    assert conditional(LEVELS, drawn_quantiles(3600, 2), 3600, 4000, (0.1, 0.9)) == [3600.0, 3600.0]
