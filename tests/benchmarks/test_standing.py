"""Where waiting jobs stand: what is computed of a moment's rows, and answers that know nothing of later."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from benchmarks.studies import daily_starts as daily
from benchmarks.studies.standing import inputs
from features.clock import DAY_S
from features.errors import InputError
from models.packed.start_distribution import EDGES_S, LEVELS, at_levels, at_waits
from models.starts.model import spread

NOON_S = DAY_S // 2


def noons(days: int = 12, jobs: int = 40, seed: int = 1) -> pd.DataFrame:
    """Return waiting jobs of some noons; those behind many wait long, and some days err together."""
    draw, count = np.random.default_rng(seed), days * jobs
    at_s = np.repeat(np.arange(days), jobs) * DAY_S + NOON_S
    ahead = draw.integers(0, 1_000, count)
    slow = np.repeat(np.exp(draw.normal(0.0, 0.7, days)), jobs)
    wait_s = np.maximum(ahead * 90.0 * slow * np.exp(0.2 * draw.standard_normal(count)), 5.0).astype(np.int64)
    table = pd.DataFrame({"at_s": at_s, "submit_s": at_s - draw.integers(60, NOON_S, count), "start_s": at_s + wait_s})
    table = table.assign(procs=4, requested_s=3_600, priority=-ahead, queue=draw.integers(0, 3, count), account=ahead % 7)
    return table.assign(ahead_jobs=ahead, queue_ahead_jobs=ahead // 3, eligible_s=table["submit_s"])


def answered(table: pd.DataFrame, since_s: int) -> np.ndarray:
    states = inputs(table).to_numpy(np.float64)
    return daily.answered_daily(states, table["at_s"].to_numpy(), table["start_s"].to_numpy(), since_s)


@pytest.fixture(autouse=True)
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daily, "GROWTH", replace(daily.GROWTH, trees=10, members=1))


def test_inputs_are_of_the_moment_alone_and_bear_missing_columns() -> None:
    table = noons(days=2)
    whole, one = inputs(table), inputs(table[table["at_s"] == NOON_S])
    pd.testing.assert_frame_equal(whole.iloc[: len(one)], one)
    assert whole["queue_waiting"].iloc[0] == ((table["queue"] == table["queue"].iloc[0]) & (table["at_s"] == NOON_S)).sum()
    assert not whole.isna().any(axis=None)
    later = table.assign(eligible_s=table["at_s"] + np.arange(len(table)))
    assert (inputs(later)["eligible_for_s"].iloc[1:] == -1).all(), "how much later a job becomes eligible is not known"
    bare = inputs(table[["at_s", "submit_s", "procs", "requested_s"]])
    assert (list(bare), bare["priority"].eq(-1).all()) == (list(whole), True)
    assert bare["rank"].corr(-table["submit_s"] % DAY_S) > 0.9, "without priorities, those submitted first stand ahead"


def test_answers_know_the_past_alone() -> None:
    table, since_s = noons(), 10 * DAY_S
    answers = answered(table, since_s)
    last = table["at_s"].max()
    changed = table.assign(start_s=table["start_s"].mask(table["start_s"] >= last, table["start_s"] * 3))
    assert (table["start_s"] >= last).sum() > 40
    assert np.array_equal(answers, answered(changed, since_s), equal_nan=True)
    assert np.isnan(answers[table["at_s"] < since_s]).all()
    judged = answers[table["at_s"] >= since_s]
    assert (np.diff(judged, axis=1) >= 0).all()
    waited = (table["start_s"] - table["at_s"])[table["at_s"] >= since_s].to_numpy(np.float64)
    assert ((at_waits(judged, waited) > 0.1) & (at_waits(judged, waited) < 0.9)).mean() > 0.6
    with pytest.raises(InputError, match="fewer than 100 jobs started"):
        answered(table, 0)


def test_medians_move_half_way_to_least_squares_and_know_the_past_alone() -> None:
    table, since_s = noons(), 10 * DAY_S
    columns = inputs(table).to_numpy(np.float64), table["at_s"].to_numpy(), table["start_s"].to_numpy()
    quantiles_s, judged = daily.quantiles_daily(*columns, since_s), columns[1] >= since_s
    assert np.isnan(quantiles_s[~judged]).all()
    assert (np.diff(quantiles_s[judged], axis=1) >= 0).all()
    still = at_levels(answered(table, since_s), np.array(LEVELS))[judged]
    moved = quantiles_s[judged] / np.maximum(still, 1e-9)
    assert moved[:, 1:] == pytest.approx(np.repeat(moved[:, 1:2], len(LEVELS) - 1, axis=1)), "all levels move alike"
    assert len(np.unique(moved[:, 3].round(3))) > 10
    later = np.where(columns[2] >= columns[1].max(), columns[2] * 3, columns[2])
    assert np.array_equal(quantiles_s, daily.quantiles_daily(columns[0], columns[1], later, since_s), equal_nan=True)


def test_recent_errors_to_one_side_widen_both_sides_and_leave_the_median() -> None:
    curves = np.tile(1.0 - np.exp(-EDGES_S / 10_000.0), (400, 1))
    curves[:, -1] = 1.0
    waited = np.random.default_rng(2).exponential(50_000.0, 400).clip(61.0)  # all waited longer than the curves say
    wider = spread(curves, waited, np.zeros(400, bool), np.arange(400) // 100).apply(curves[:1])
    before, after = (at_waits(each, np.array([6_931.0])) for each in (curves[:1], wider))
    assert after == pytest.approx(before, abs=0.03)
    assert at_waits(wider, np.array([1_000.0])) > 1.5 * at_waits(curves[:1], np.array([1_000.0]))
    assert at_waits(wider, np.array([30_000.0])) < at_waits(curves[:1], np.array([30_000.0]))
