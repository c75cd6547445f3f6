"""What a run of a monitored system may be told."""

import pytest
from pydantic import ValidationError

from pipelines.assets.variability import TrialConfig


def test_trials_are_at_least_one_and_their_default_is_a_number_that_is_shown() -> None:
    assert TrialConfig().trials == 100
    with pytest.raises(ValidationError, match="trials"):
        TrialConfig(trials=0)
