"""The page of replays on recorded counters says what it assumes, and colours no prediction of a model that foresees nothing surely."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

from models.variability.unseen import Unseen
from pipelines.report.monitored import overall, render_monitored
from pipelines.workflows.monitored import METRICS, SCHEDULER, VARYING, Monitored


def foresees(low: float) -> Unseen:
    return cast(Unseen, SimpleNamespace(skill=(0.1, low, 0.2)))


@pytest.fixture
def monitored() -> Monitored:
    times = {f"{name} start_s": [1_600_000_000, 1_600_009_000] for name in ("EASY", SCHEDULER)}
    chances = {"EASY chance": [0.5, 0.25], f"{SCHEDULER} chance": [0.25, None]}
    rows = [
        {"metric": name, "value": 9.0, "baseline": 10.0, "relative": -0.1, "low": -0.2, "high": -0.05, "note": ""}
        for name in METRICS
    ]
    table = pd.DataFrame([{**rows[0], "metric": VARYING}, *rows])
    runs = pd.DataFrame({"application": "AMG", "varied": [True, False], **times, **chances})
    return Monitored(SCHEDULER, "jobs", runs, table, 5, {"questions": 4, "skips": 2, "without counters": 1})


def test_what_is_predicted_is_said_to_be_unsure_where_the_model_is(monitored: Monitored) -> None:
    sure, unsure = (render_monitored("quartz", monitored, foresees(low), {}) for low in (0.05, -0.05))
    assert ("what it predicts is not sure" in sure, "what it predicts is not sure" in unsure) == (False, True)
    for page in (sure, unsure):
        assert "Assumed: the recorded congestion does not depend on the decision" in page
        assert "9.0 of 2 runs would vary instead of 10.0 (−10.0 % [−20.0, −5.0])" in page
        assert "Recorded varying runs: 1." in page
    tones = [
        [mark for cell in cast(Any, overall(monitored.table, SCHEDULER, each).rows[1][1:]) for _, mark in cell.below]
        for each in (True, False)
    ]
    assert tones == [["better"] * 5, ["", *["better"] * 4]]
