"""Measures of prediction against values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from models.runtime.evaluation import EXPERIENCE, evaluate_predictions, experience


def test_measures_equal_values_worked_out_by_hand():
    """An exact prediction is no under-prediction, and twice the runtime is as accurate as half of it."""
    measures = evaluate_predictions(np.array([100.0, 50.0, 200.0, 30.0]), np.array([100, 100, 100, 120]), quantiles=(0.5, 0.9))
    assert measures["jobs"] == 4
    assert measures["accuracy"] == pytest.approx((1 + 0.5 + 0.5 + 0.25) / 4)
    assert measures["underprediction_rate"] == 0.5
    assert measures["mae_s"] == pytest.approx((0 + 50 + 100 + 90) / 4)
    assert measures["pinball_0.5_s"] == pytest.approx(measures["mae_s"] / 2)
    assert measures["pinball_0.9_s"] == pytest.approx((0 + 0.9 * 50 + 0.1 * 100 + 0.9 * 90) / 4)


def test_stages_of_experience_share_out_the_jobs():
    stages = [EXPERIENCE[stage] for stage in experience(np.array([0, 0, 1, 25, 26, 900]))]
    assert stages == ["first", "first", "learning", "learning", "experienced", "experienced"]


@pytest.mark.parametrize(
    ("predicted", "runtime", "levels", "says"),
    [
        ([1.0, np.nan], [1, 1], (0.5,), "row 1: prediction nan"),
        ([1.0, 2.0], [1, 0], (0.5,), "row 1: runtime 0.0"),
        ([-1.0], [1], (0.5,), "row 0: prediction -1.0"),
        ([1.0], [1, 2], (0.5,), "give one number for each job"),
        ([1.0], [1], (1.0,), "not all between 0 and 1"),
    ],
)
def test_values_that_make_no_sense_are_refused(predicted, runtime, levels, says):
    with pytest.raises(ValueError, match=says):
        evaluate_predictions(np.array(predicted), np.array(runtime), levels)
