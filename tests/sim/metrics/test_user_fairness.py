"""Fairness between users, against hand-made cases."""

from __future__ import annotations

import numpy as np
import pytest

from sim.metrics.schedule_metrics import evaluate
from tests.sim.metrics.test_schedule_metrics import schedule_of


def test_nuwt_is_total_wait_over_processor_seconds_used_by_known_users():
    schedule = schedule_of([0, 0, 5, 5], [10, 80, 2, 9], [100, 50, 4, 1], [2, 1, 1, 1], user=["a", "b", "a", None])
    values = [12 / 204, 80 / 50]
    assert evaluate(schedule)[["nuwt_mean", "nuwt_sd"]].tolist() == pytest.approx([np.mean(values), np.std(values)])
