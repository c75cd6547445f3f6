"""Losses of distributions against scikit-learn's, and quantiles between the levels of a table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import mean_pinball_loss

from models.runtime.distribution import at_levels
from models.runtime.evaluation import pinball

LEVELS = np.arange(1, 20) / 20


def test_losses_agree_with_scikit_learn_level_by_level():
    rng = np.random.default_rng(1)
    quantiles, runtime = rng.uniform(1, 100, (500, len(LEVELS))), rng.uniform(1, 100, 500)
    loss = pinball(quantiles, runtime[:, None], LEVELS).mean(axis=0)
    expected = [mean_pinball_loss(runtime, column, alpha=level) for column, level in zip(quantiles.T, LEVELS, strict=True)]
    assert loss == pytest.approx(expected)


def test_levels_are_read_as_they_stand_between_them_on_a_line_and_beyond_them_the_outermost():
    table = pd.DataFrame([[10.0, 20.0, 60.0], [1.0, 1.0, 5.0]], columns=[0.2, 0.4, 0.8])
    times = at_levels(table, np.array([0.1, 0.2, 0.4, 0.5, 0.8, 0.9]))
    assert times.tolist() == [[10.0, 10.0, 20.0, pytest.approx(30.0), 60.0, 60.0], [1.0, 1.0, 1.0, pytest.approx(2.0), 5.0, 5.0]]
    assert at_levels(table[[0.4]], np.array([0.1, 0.9])).tolist() == [[20.0, 20.0], [1.0, 1.0]]
