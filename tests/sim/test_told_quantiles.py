"""A table of predictions that tells quantiles, too: what stands in for a prediction that is outlived, and what is told of it afterwards."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from features.errors import InputError
from features.jobs.schema import conform
from models.runtime.protocol import TablePredictor
from sim import simulate
from sim.campaigns.campaign import campaign_schedules, run_campaign
from sim.campaigns.windows import split_windows
from sim.settings import Campaign
from tests.support.workloads import Told

PROCS = 4
LEVELS = {0.5: 0.6, 0.8: 1.1, 0.95: 2.0}
"""Told quantiles as multiples of the point."""


class InPython(Told):
    """The same answers as the table of :func:`source`, asked one by one."""

    def __init__(self) -> None:
        super().__init__([], [], [])

    def begin(self, jobs: pd.DataFrame) -> None:
        self.point, self.quantiles, self.request = *answers(jobs), jobs["requested_s"].to_numpy()

    def estimate(self, question: int, job: int, now_s: int, elapsed_s: int) -> float:
        steps = [self.point[job], *self.quantiles.iloc[job], self.request[job]]
        if elapsed_s < steps[0]:
            return steps[0]
        return next(seconds for seconds in steps[1:] if seconds > elapsed_s)


def answers(jobs: pd.DataFrame) -> tuple[np.ndarray, pd.DataFrame]:
    point = np.maximum(np.rint(0.3 * jobs["requested_s"].to_numpy(np.float64)), 1.0)
    request = jobs["requested_s"].to_numpy(np.float64)
    by_level = {level: np.minimum(np.rint(share * point), request) for level, share in LEVELS.items()}
    return point, pd.DataFrame(by_level, index=range(len(jobs)))


def source(quantiles: bool = True) -> TablePredictor:
    return TablePredictor(
        "told",
        lambda jobs: answers(jobs)[0],
        quantiles=lambda jobs: answers(jobs)[1] if quantiles else pd.DataFrame(index=range(len(jobs))),
    )


@pytest.fixture(scope="module")
def jobs() -> pd.DataFrame:
    random, count = np.random.default_rng(3), 400
    runtime = random.integers(1, 2000, count)
    columns = {
        "job_id": np.arange(count),
        "submit_s": np.sort(random.integers(0, 150_000, count)),
        "runtime_s": runtime,
        "requested_s": runtime + random.integers(0, 4000, count),
        "procs": random.integers(1, PROCS + 1, count),
        "user": np.array([f"u{user}" for user in random.integers(0, 9, count)]),
    }
    table = conform(columns, count)
    return table.astype(dict.fromkeys(("submit_s", "runtime_s", "requested_s", "procs"), "int64"))


@pytest.mark.parametrize("scheduler", ["EASY", "EASY-SJBF", "Conservative"])
def test_what_outlives_its_prediction_is_told_the_next_quantile_and_then_the_request(jobs: pd.DataFrame, scheduler: str) -> None:
    policy = {"procs": PROCS, "scheduler": scheduler, "correction": "conditional"}
    table, python = simulate(jobs, predictor=source(), **policy), simulate(jobs, predictor=InPython(), **policy)
    pd.testing.assert_frame_equal(table.jobs, python.jobs)
    assert table.jobs["corrections"].max() > 1  # some outlive a quantile, too
    renewed = simulate(jobs, predictor=source(), **{**policy, "correction": "conditional(when=pass)"})
    assert (renewed.jobs["start_s"] == table.jobs["start_s"]).mean() > 0.5


def test_a_table_without_quantiles_is_asked_again_only_if_it_says_that_it_tells_none(jobs: pd.DataFrame) -> None:
    alone = TablePredictor("alone", lambda jobs: answers(jobs)[0])
    with pytest.raises(InputError, match="predictor alone is a table of one answer a job"):
        simulate(jobs, procs=PROCS, predictor=alone, correction="conditional")
    none = simulate(jobs, procs=PROCS, predictor=source(quantiles=False), correction="conditional")
    request = simulate(jobs, procs=PROCS, predictor=alone, correction="requested")
    pd.testing.assert_frame_equal(none.jobs, request.jobs)
    assert none.quantiles is None


def test_windows_and_shaken_replays_ask_the_quantiles_of_their_own_jobs(jobs: pd.DataFrame) -> None:
    asked = Campaign(schedulers=("EASY",), predictors=(source(),), corrections=("conditional(when=pass)",), seeds=(1,), shake_s=600)
    [schedule] = campaign_schedules(jobs, asked, procs=PROCS)
    pd.testing.assert_frame_equal(schedule.quantiles, answers(jobs)[1])
    np.testing.assert_array_equal(schedule.jobs["predicted_s"], answers(jobs)[0])
    spread = jobs.assign(submit_s=10 * jobs["submit_s"])
    weeks = split_windows(spread, "weeks", skip_first=False, drop="none")
    rows = run_campaign(
        spread, Campaign(schedulers=("EASY",), predictors=(source(),), corrections=("conditional",)), procs=PROCS, windows=weeks
    )
    for window, corrections in zip(weeks.windows, rows["corrections"], strict=True):
        alone = simulate(window.jobs, procs=PROCS, predictor=source(), correction="conditional")
        assert corrections == alone.jobs["corrections"].sum() > 0


def test_quantiles_that_are_no_seconds_are_refused(jobs: pd.DataFrame) -> None:
    broken = TablePredictor(
        "broken", lambda jobs: answers(jobs)[0], quantiles=lambda jobs: answers(jobs)[1].where(lambda x: x > 600)
    )
    with pytest.raises(InputError, match="predictor broken: its quantiles are not finite seconds"):
        simulate(jobs, procs=PROCS, predictor=broken)
