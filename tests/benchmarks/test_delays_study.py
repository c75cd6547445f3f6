"""The study of delays: probabilities over thresholds, and bins of said beside came."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.studies.delay_answers import above
from benchmarks.studies.delays import reliability
from features.clock import DAY_S


def test_probabilities_of_classes_add_up_from_above():
    assert above(np.array([[0.5, 0.25, 0.125, 0.125], [0.0, 0.0, 0.0, 1.0]])).tolist() == [[0.5, 0.25, 0.125], [1, 1, 1]]


def test_bins_hold_their_lower_edge_and_the_last_one_both():
    chance, came = np.array([0.0, 0.1, 0.1, 0.3, 1.0]), np.array([False, True, False, True, True])
    table = reliability(chance, came, np.zeros(5), (0.0, 0.1, 0.2, 0.5, 1.0))
    assert table[["above", "runs"]].to_numpy().tolist() == [[0.0, 1], [0.1, 2], [0.2, 1], [0.5, 1]]
    assert table["said"].tolist() == pytest.approx([0.0, 0.1, 0.3, 1.0])
    assert table["came"].tolist() == [0.0, 0.5, 1.0, 1.0]
    assert table["low"].isna().all()  # one day


def test_what_is_drawn_by_the_said_probability_is_reliable_and_half_of_it_is_not():
    random = np.random.default_rng(0)
    start_s, truth = np.arange(20_000) * (40 * DAY_S / 20_000), random.uniform(0, 0.4, 20_000)
    came = random.random(20_000) < truth
    edges = (0.0, 0.1, 0.2, 0.3, 0.4)
    right, half = (reliability(chances, came, start_s, edges) for chances in (truth, truth / 2))
    assert right["came"].to_numpy() == pytest.approx(right["said"].to_numpy(), abs=0.02)
    assert ((right["low"] < right["came"]) & (right["came"] < right["high"])).all()
    assert (half["said"] < half["low"]).all()
