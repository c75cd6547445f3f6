"""What is counted beside OKCM's figures."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.papers.okcm_beside import STEPS, accuracies, by_corrections, within_a_minute


def test_corrections_are_counted_of_jobs_that_outlive_a_prediction() -> None:
    shares = by_corrections(np.array([0, 0, 1, 2, 2, STEPS + 1]))
    assert shares == [0.25, *[0.75] * (STEPS - 1)]


def test_a_minute_between_two_submissions_is_not_less_than_a_minute() -> None:
    assert within_a_minute(np.array([0, 59, 119, 119])) == pytest.approx(2 / 3)


def test_rivals_are_those_of_the_page_about_predictors() -> None:
    rivals = accuracies()
    assert {"okcm", "svr", "lightgbm"} <= set(rivals.index)
    assert rivals.notna().all(axis=None)
    assert rivals.at["requested", "SDSC-SP2"] == 32.3
