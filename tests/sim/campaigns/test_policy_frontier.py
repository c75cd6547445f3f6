"""Choosing on one half and measuring on the other: the rule on tables made by hand, the intervals against those of whole schedules."""

from __future__ import annotations

import numpy as np
import pytest

from features.errors import InputError
from sim.campaigns.policy_frontier import LADDER, change, climb, halves, part, pick, picked, replicated, weekly
from sim.metrics.comparison import compare
from sim.metrics.schedule_metrics import Ratio, evaluate
from sim.policy import Policy
from tests.sim.metrics.test_comparison import pair_of

BASE, CAREFUL, BOLD, BAD = (Policy("EASY", name) for name in ("requested", "careful", "bold", "bad"))


def sums_of(slowdown: float, awf: float, p2sf: float, wait: float = 1.0, weeks: int = 6) -> dict[str, Ratio]:
    """Weekly sums of a schedule whose every week is alike."""
    values = {"mean_bounded_slowdown": slowdown, "awf_s": awf, "p2sf_s": p2sf, "mean_wait_s": wait}
    return {name: Ratio(np.full(weeks, 2.0 * value), np.full(weeks, 2.0)) for name, value in values.items()}


def test_halves_share_out_the_jobs_and_an_odd_one_is_in_the_second():
    first, second = halves(7)
    assert first.tolist() == [True] * 3 + [False] * 4
    assert (first ^ second).all()


def test_a_part_of_a_schedule_is_measured_over_its_jobs_alone():
    _, schedule = pair_of(np.random.default_rng(1), weeks=6)
    first, second = (part(schedule, rows) for rows in halves(len(schedule.jobs)))
    wait = (schedule.jobs["start_s"] - schedule.jobs["submit_s"]).to_numpy()
    assert evaluate(second)["mean_wait_s"] == pytest.approx(wait[len(wait) // 2 :].mean(), rel=1e-14)
    assert len(first.jobs) + len(second.jobs) == len(schedule.jobs)
    assert (first.label, first.procs) == (schedule.label, schedule.procs)


def test_weekly_sums_give_the_intervals_of_compared_schedules():
    base, other = pair_of(np.random.default_rng(2), weeks=9)
    _, rows = halves(len(base.jobs))
    base, other = part(base, rows), part(other, rows)
    expected = compare([base, other], (base.scheduler, base.predictor)).set_index(["scheduler", "metric"])
    for metric in ("mean_bounded_slowdown", "awf_s", "p2sf_s", "mean_wait_s"):
        made, row = change(weekly(other), weekly(base), metric), expected.loc[("EASY-SJBF", metric)]
        assert made.weeks == row["weeks"] > 4
        assert made[:5] == pytest.approx(tuple(row[["value", "baseline", "relative", "low", "high"]]), rel=1e-12)


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


def test_the_first_of_equals_is_picked():
    same = sums_of(8, 99, 99)
    base = sums_of(10, 100, 100)
    assert pick({BOLD: same, CAREFUL: same}, base) == BOLD
    assert picked({BOLD: same, BAD: sums_of(9, 99, 99), CAREFUL: same}, base) == [BOLD, CAREFUL]


def test_the_frontier_says_how_many_were_as_good():
    halves_alike = {BASE: sums_of(10, 100, 100), BOLD: sums_of(5, 99, 99), CAREFUL: sums_of(5, 98, 98), BAD: sums_of(9, 9, 9)}
    table = climb(halves_alike, halves_alike, [BOLD, CAREFUL, BAD], BASE, ladder=(0.0,))
    assert (set(table["predictor"]), set(table["tied"])) == ({"bold"}, {1})


def test_replicates_are_compared_one_by_one_and_only_a_change_that_they_agree_on_is_sure():
    waits = {BASE: [1.0, 1.1, 0.9], BOLD: [0.5, 0.55, 0.45], BAD: [0.5, 1.6, 0.6]}
    sums = {policy: replicated([sums_of(1, 1, 1, wait) for wait in each]) for policy, each in waits.items()}
    bold, bad = (change(sums[policy], sums[BASE], "mean_wait_s") for policy in (BOLD, BAD))
    assert (bold.replicates, bold.sure, bold.relative) == (3, True, pytest.approx(-0.5))
    assert (bad.sure, bad.minimum, bad.maximum) == (False, pytest.approx(-0.5), pytest.approx(0.6 / 1.1 - 0.1 / 1.1))
    assert bad.low < 0 < bad.high
    fewer = change(replicated([sums_of(1, 1, 1, wait) for wait in waits[BOLD][:2]]), sums[BASE], "mean_wait_s")
    assert (fewer.replicates, fewer.relative) == (2, pytest.approx(-0.5))
    assert not change(sums_of(1, 1, 1, 0.5), sums_of(1, 1, 1, 1.0), "mean_wait_s").sure  # one replay shows nothing of chaos
    with pytest.raises(InputError, match="3 replicates have only 2 of the baseline"):
        change(sums[BASE], replicated([sums_of(1, 1, 1)] * 2), "mean_wait_s")


def test_what_is_picked_on_the_first_half_is_measured_on_the_second():
    first = {BASE: sums_of(10, 100, 100), CAREFUL: sums_of(8, 99, 100), BOLD: sums_of(5, 104, 100)}
    second = {BASE: sums_of(20, 50, 50), CAREFUL: sums_of(25, 110, 100), BOLD: sums_of(1, 1, 1)}
    table = climb(first, second, [CAREFUL, BOLD], BASE, metrics=("mean_bounded_slowdown", "awf_s"))
    slowdown = table[table["metric"] == "mean_bounded_slowdown"].set_index("allowed")
    assert slowdown.index.tolist() == list(LADDER)
    assert slowdown["predictor"].tolist() == ["careful"] * 4 + ["bold"] * 2
    assert slowdown.loc[0.0, ["first", "second", "low", "high"]].tolist() == pytest.approx([-0.2, 0.25, 0.25, 0.25])
    assert slowdown.loc[0.1, ["first", "second"]].tolist() == pytest.approx([-0.5, -0.95])
    assert table[table["metric"] == "awf_s"]["second"].iloc[0] == pytest.approx(1.2)


def test_a_step_that_no_candidate_meets_keeps_the_baseline():
    halves_alike = {BASE: sums_of(10, 100, 100), BOLD: sums_of(5, 200, 200)}
    table = climb(halves_alike, halves_alike, [BOLD], BASE, ladder=(0.0,))
    assert set(table["predictor"]) == {"requested"}
    assert table["second"].eq(0.0).all()
