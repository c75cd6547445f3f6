"""The rule of choosing on tables made by hand, the intervals against those of whole schedules."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.common.policy_frontier import change, halves, part, pick, replicated, weekly
from features.errors import InputError
from sim.metrics.comparison import compare
from sim.metrics.schedule_metrics import Ratio
from sim.policy import Policy
from tests.sim.metrics.test_comparison import pair_of

BASE, CAREFUL, BOLD, BAD = (Policy("EASY", name) for name in ("requested", "careful", "bold", "bad"))


def sums_of(slowdown: float, awf: float, p2sf: float, wait: float = 1.0, weeks: int = 6) -> dict[str, Ratio]:
    """Weekly sums of a schedule whose every week is alike."""
    values = {"mean_bounded_slowdown": slowdown, "awf_s": awf, "p2sf_s": p2sf, "mean_wait_s": wait}
    return {name: Ratio(np.full(weeks, 2.0 * value), np.full(weeks, 2.0)) for name, value in values.items()}


def test_weekly_sums_give_the_intervals_of_compared_schedules():
    base, other = pair_of(np.random.default_rng(2), weeks=9)
    _, rows = halves(len(base.jobs))
    base, other = part(base, rows), part(other, rows)
    expected = compare([base, other], (base.scheduler, base.predictor)).set_index(["scheduler", "metric"])
    for metric in ("mean_bounded_slowdown", "awf_s", "p2sf_s", "mean_wait_s"):
        gain, row = change(weekly(other), weekly(base), metric), expected.loc[("EASY-SJBF", metric)]
        assert gain.weeks == row["weeks"] > 4
        assert gain[:5] == pytest.approx(tuple(row[["value", "baseline", "relative", "low", "high"]]), rel=1e-12)


def test_few_weeks_have_no_interval_and_a_baseline_of_zero_no_change():
    few = change(sums_of(8, 1, 1, weeks=4), sums_of(10, 1, 1, weeks=4), "mean_bounded_slowdown")
    assert (few.relative, few.low, few.high) == (pytest.approx(-0.2), None, None)
    assert change(sums_of(1, 1, 1, wait=5), sums_of(1, 1, 1, wait=0), "mean_wait_s")[2:5] == (None, None, None)


def test_sums_of_other_jobs_and_unknown_metrics_are_refused():
    with pytest.raises(InputError, match="6 and over 7 weeks"):
        change(sums_of(1, 1, 1), sums_of(1, 1, 1, weeks=7), "awf_s")
    with pytest.raises(InputError, match="unknown metric 'beauty'"):
        change(sums_of(1, 1, 1), sums_of(1, 1, 1), "beauty")


@pytest.mark.parametrize(
    ("allowed", "chosen"),
    [(0.0, CAREFUL), (0.01, CAREFUL), (0.02, BOLD), (0.05, BOLD)],
)
def test_the_least_slowdown_within_what_is_allowed_is_picked(allowed, chosen):
    candidates = {BASE: sums_of(10, 100, 100), BOLD: sums_of(5, 101, 102), CAREFUL: sums_of(8, 99, 100), BAD: sums_of(1, 90, 200)}
    assert pick(candidates, candidates[BASE], allowed) == chosen


@pytest.mark.parametrize("worse", [(99.0, 101.0), (101.0, 99.0)])
def test_either_of_packing_and_fairness_rules_a_candidate_out(worse):
    assert pick({BOLD: sums_of(1, *worse)}, sums_of(10, 100, 100)) is None


def test_replicates_are_compared_one_by_one() -> None:
    waits = {BASE: [1.0, 1.1, 0.9], BOLD: [0.5, 0.55, 0.45]}
    sums = {policy: replicated([sums_of(1, 1, 1, wait) for wait in each]) for policy, each in waits.items()}
    bold = change(sums[BOLD], sums[BASE], "mean_wait_s")
    assert (bold.replicates, bold.relative) == (3, pytest.approx(-0.5))
    with pytest.raises(InputError, match="3 replicates have only 2 of the baseline"):
        change(sums[BASE], replicated([sums_of(1, 1, 1)] * 2), "mean_wait_s")
