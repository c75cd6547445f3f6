"""Changes made on a real Slurm after they were predicted, against the predictions."""

from __future__ import annotations

import pandas as pd
import pytest

from tests.golden.slurm.changes import AFTER, PREDICTED, measured, predict


def test_six_changes_made_on_a_real_slurm_lie_within_what_was_predicted() -> None:
    predicted = pd.read_csv(PREDICTED)
    actual = predicted["change"].map(measured)
    assert list(predicted["change"]) == list(AFTER)
    assert (actual * predicted["relative"] > 0).all()
    assert actual.between(predicted["low"], predicted["high"]).all()


@pytest.mark.thorough
def test_the_prediction_committed_before_is_still_what_replays_say() -> None:
    predicted, now = pd.read_csv(PREDICTED), predict()
    assert now["relative"].to_numpy() == pytest.approx(predicted["relative"].to_numpy(), abs=0.03)
    assert list(now["verdict"]) == list(predicted["verdict"])
