"""The benchmark of schedules: which combinations are asked for, which correction is chosen, and that finished simulations are used again."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.common import replays
from benchmarks.common.policy_frontier import change
from benchmarks.common.replays import PARTS, replayed, replays_of
from benchmarks.studies.schedules import BASE, Results, best_corrections, policies, run, tidy
from features.jobs.cleaning import CleanTrace, clean
from pipelines.ingest.workload import Workload, generate
from sim import Campaign, campaign_schedules
from sim.metrics.comparison import compare
from sim.metrics.schedule_metrics import Ratio
from sim.policy import Policy


@pytest.fixture(scope="module")
def trace() -> CleanTrace:
    return clean(generate(Workload(jobs=3000, procs=64, users=20, load=0.9, seed=3)))


def test_a_correction_is_varied_only_where_there_is_something_to_correct():
    asked = policies(["EASY", "JustBF"], ["last2"], ["requested", "tsafrir"])
    assert len(asked) == len(set(asked)) == 10
    assert asked[:3] == [BASE, Policy("EASY", "clairvoyant"), Policy("EASY-SJBF", "clairvoyant")]
    assert {policy.correction for policy in asked if policy.predictor != "last2"} == {"requested"}
    assert [policy.scheduler for policy in asked if policy.predictor == "requested*2"] == ["EASY"]


def test_corrections_are_chosen_on_the_first_half_alone(trace):
    def sums(slowdown: float) -> dict[str, Ratio]:
        return {"mean_bounded_slowdown": Ratio(np.array([slowdown]), np.ones(1))}

    one, other = (Policy("EASY", "last2", correction) for correction in ("requested", "tsafrir"))
    parts = {"first half": {one: sums(3), other: sums(2)}, "second half": {one: sums(1), other: sums(9)}, "whole": {}}
    assert best_corrections(Results("", trace, parts, {})) == [other]


def test_a_finished_replay_is_used_again_and_says_the_same(trace, tmp_path, monkeypatch):
    policy = Policy("EASY-SJBF", "last2", "tsafrir")
    sums, seconds = replayed(trace, policy, 3, tmp_path, "jobs")
    monkeypatch.setattr(replays, "one_replay", lambda *_: pytest.fail("simulated again"))
    again, same = replayed(trace, policy, 3, tmp_path, "jobs")
    assert same == seconds
    for part in PARTS:
        assert sums[part].keys() == again[part].keys()
        for metric, ratio in sums[part].items():
            assert ratio.numerator.shape[0] == 3
            np.testing.assert_array_equal(again[part][metric], ratio)


def test_changed_jobs_and_changed_code_are_simulated_anew(trace, tmp_path, monkeypatch):
    replayed(trace, BASE, 1, tmp_path, "jobs")
    replayed(trace, BASE, 1, tmp_path, "other jobs")
    monkeypatch.setattr("benchmarks.common.pages.code", lambda: "another version")
    replayed(trace, BASE, 1, tmp_path, "jobs")
    assert len(list(tmp_path.iterdir())) == 3


def test_replays_are_those_of_a_campaign_seed_by_seed(trace):
    policy = Policy("EASY-SJBF", "last2", "tsafrir")
    sums = run("generated", trace, [BASE, policy], quiet=True, replays=3).sums["whole"]
    asked = Campaign(
        schedulers=("EASY", "EASY-SJBF"),
        predictors=("requested", "last2"),
        corrections=("requested", "tsafrir"),
        seeds=(0, 1, 2),
        shake_s=60,
    )
    table = compare(campaign_schedules(trace.jobs, asked, procs=trace.procs)).set_index(
        ["scheduler", "predictor", "correction", "metric"]
    )
    gain, expected = change(sums[policy], sums[BASE], "awf_s"), table.loc[(*policy.names().values(), "awf_s")]
    assert (gain.replicates, expected["replicates"]) == (3, 3)
    assert gain.relative == pytest.approx(expected["relative"], rel=1e-12)


def test_predictors_retrained_every_night_get_fewer_replays():
    assert [replays_of(Policy("EASY", name)) for name in ("last2", "quantile(order=0.6)", "lightgbm")] == [20, 3, 3]


def test_the_table_holds_what_a_comparison_of_whole_schedules_says(trace):
    asked = policies(["EASY", "EASY-SJBF"], ["last2"], ["tsafrir"])
    table = tidy(run("generated", trace, asked, quiet=True))
    campaign = Campaign(schedulers=("EASY", "EASY-SJBF"), predictors=("requested", "last2"), corrections=("tsafrir",))
    expected = compare(campaign_schedules(trace.jobs, campaign, procs=trace.procs))
    expected = expected[(expected["scheduler"] == "EASY-SJBF") & (expected["predictor"] == "last2")].set_index("metric")
    rows = table[(table["part"] == "whole") & (table["against"] == "EASY / requested")]
    rows = rows[(rows["scheduler"] == "EASY-SJBF") & (rows["predictor"] == "last2")].set_index("metric")
    assert rows["weeks"].min() > 4
    for metric in ("mean_bounded_slowdown", "awf_s", "p2sf_s", "mean_wait_s"):
        for column in ("value", "relative"):
            assert rows.loc[metric, column] == pytest.approx(expected.loc[metric, column], rel=1e-12)
