"""Calibration of probabilities: Brier scores and skill are what they are by hand, intervals resample days."""

from __future__ import annotations

import numpy as np
import pytest

from features.clock import DAY_S
from models.variability.reliability import share, skill, squared_error


def test_skill_is_the_share_of_the_constants_error_that_is_saved():
    came = np.array([[True, False], [False, False]] * 10)
    perfect, constant = squared_error(came.astype(float), came), squared_error(np.full((20, 2), 0.5), came)
    assert (perfect == 0).all()
    assert (constant == 0.5).all()  # a quarter for each threshold
    start_s = np.arange(20) * DAY_S
    assert skill(perfect, constant, start_s) == (1, 1, 1)
    assert skill(constant, constant, start_s) == (0, 0, 0)
    assert skill(2 * constant, constant, start_s)[0] == -1


def test_intervals_resample_whole_days():
    """Ten copies of each day's run tell no more than one of each."""
    values = np.random.default_rng(1).random(12)
    days = np.arange(12) * DAY_S
    assert share(values, np.ones(12), days) == pytest.approx(share(np.repeat(values, 10), np.ones(120), np.repeat(days, 10)))
