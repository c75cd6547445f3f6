"""Calibration of probabilities: bins, Brier scores and skill are what they are by hand, intervals resample days."""

from __future__ import annotations

import numpy as np
import pytest

from features.clock import DAY_S
from models.variability.reliability import above, reliability, share, skill, squared_error


def test_probabilities_of_classes_add_up_from_above():
    assert above(np.array([[0.5, 0.25, 0.125, 0.125], [0.0, 0.0, 0.0, 1.0]])).tolist() == [[0.5, 0.25, 0.125], [1, 1, 1]]


def test_bins_hold_their_lower_edge_and_the_last_one_both():
    said, came = np.array([0.0, 0.1, 0.1, 0.3, 1.0]), np.array([False, True, False, True, True])
    table = reliability(said, came, np.zeros(5), (0.0, 0.1, 0.2, 0.5, 1.0))
    assert table[["above", "runs"]].to_numpy().tolist() == [[0.0, 1], [0.1, 2], [0.2, 1], [0.5, 1]]
    assert table["said"].tolist() == pytest.approx([0.0, 0.1, 0.3, 1.0])
    assert table["came"].tolist() == [0.0, 0.5, 1.0, 1.0]
    assert table["low"].isna().all()  # one day


def test_what_is_drawn_by_the_said_probability_is_reliable_and_half_of_it_is_not():
    random = np.random.default_rng(0)
    start_s, truth = np.arange(20_000) * (40 * DAY_S / 20_000), random.uniform(0, 0.4, 20_000)
    came = random.random(20_000) < truth
    edges = (0.0, 0.1, 0.2, 0.3, 0.4)
    right, half = (reliability(said, came, start_s, edges) for said in (truth, truth / 2))
    assert right["came"].to_numpy() == pytest.approx(right["said"].to_numpy(), abs=0.02)
    assert ((right["low"] < right["came"]) & (right["came"] < right["high"])).all()
    assert (half["said"] < half["low"]).all()


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
