"""Limits from predictions: what the simulator's predictor says, without a look ahead, and whom they would kill."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from features.clock import DAY_S, Clock
from features.jobs.schema import conform
from models.runtime.quantile import quantile
from sim import simulate
from sim.inputs.predicted_limits import along, predicted_quantile
from sim.site.changes import change, site_change
from tests.sim.site.test_what_if import jobs as few_jobs
from tests.sim.site.test_what_if import site

COUNT = 600


def recorded(seed: int = 2) -> pd.DataFrame:
    """Return a record of two weeks in which the users run a part of their own of what they ask for."""
    random = np.random.default_rng(seed)
    table = few_jobs(COUNT, seed)
    submit = 1_772_323_200 + np.sort(random.integers(0, 14 * DAY_S, COUNT))
    share = np.where(table["user"] == "u", 0.15, 0.7) * random.uniform(0.8, 1.2, COUNT)
    runtime = np.maximum(table["limit_s"].to_numpy() * 20 * share, 1).astype(np.int64)
    start = submit + random.integers(0, 3600, COUNT)
    times = {"submit_s": submit, "start_s": start, "end_s": start + runtime, "runtime_s": runtime}
    return table.assign(**times, limit_s=table["limit_s"] * 20, least_limit_s=table["limit_s"] * 20)


@pytest.mark.slow
def test_what_is_said_along_a_record_is_what_the_simulator_says_in_the_same_schedule() -> None:
    of = recorded()
    given = {"job_id": np.arange(COUNT), "submit_s": of["submit_s"] - of["submit_s"].iloc[0], "runtime_s": of["runtime_s"]}
    table = conform({**given, "procs": of["cpus"], "requested_s": of["limit_s"], "user": of["user"]}, COUNT)
    clock = Clock(int(of["submit_s"].iloc[0]), "Europe/Stockholm")
    simulated = simulate(table, procs=100_000, predictor="quantile(order=0.9)", clock=clock)
    assert (simulated.jobs["start_s"] == simulated.jobs["submit_s"]).all(), "so the record is this schedule"
    ends = (table["submit_s"] + table["runtime_s"]).to_numpy(np.int64)
    predicted = np.rint(along(quantile(order="0.9"), table, ends, clock)).clip(1, table["requested_s"].to_numpy(np.int64))
    assert (predicted == simulated.jobs["predicted_s"]).all()
    assert (predicted < table["requested_s"]).mean() > 0.5


@pytest.mark.slow
def test_no_limit_knows_what_ends_after_the_submission() -> None:
    of = recorded()
    when = int(of["submit_s"].iloc[400])
    later = of["end_s"] >= when
    other = of.assign(end_s=of["end_s"].where(~later, of["end_s"] + 777), runtime_s=of["runtime_s"].where(~later, 60))
    first, second = (predicted_quantile(each, 0.9) for each in (of, other))
    assert (first[:401] == second[:401]).all()
    assert (first[401:] != second[401:]).any()
    assert (first <= of["limit_s"]).all()
    late = first[300:]
    assert 0.75 < (of["runtime_s"].to_numpy()[300:] <= late).mean() < 0.99


@pytest.mark.slow
def test_predicted_limits_are_whole_minutes_of_what_was_asked_at_most_and_kill_what_runs_longer() -> None:
    of = recorded()
    changed = change(site_change("predicted", limits="predicted 0.9"), site(), of)
    assert changed is not None
    predicted = predicted_quantile(of, 0.9)
    assert (changed.jobs["limit_s"] % 60 == 0).all()
    assert (changed.jobs["limit_s"] <= of["limit_s"]).all()
    assert (changed.jobs["limit_s"] >= predicted).all()
    over = (of["runtime_s"] > changed.jobs["limit_s"]) & (of["runtime_s"] <= of["limit_s"])
    assert changed.kills == frozenset(of["job_id"][over])
    assert 0 < len(changed.kills) < 0.3 * COUNT
    assert "p90_s" in changed.lines[-1]
