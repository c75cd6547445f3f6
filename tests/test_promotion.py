"""The rule of promotion: its interval against scipy's and against chance, and each reason for which a challenger is not promoted."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from models.performance import performance_drift
from models.promotion import FEWEST_JOBS, TIE, UNDERPREDICTION_MARGIN, Duel, Mean, clustered_mean, decide, duel, user_days


def test_with_a_cluster_a_job_the_interval_is_students() -> None:
    values = np.random.default_rng(0).normal(0.3, 1, 40)
    found = clustered_mean(values, np.arange(40))
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert found.interval(0.95) == pytest.approx((expected.low, expected.high), rel=1e-12)


def test_copies_of_a_job_within_a_cluster_add_no_certainty() -> None:
    values = np.random.default_rng(1).normal(0.3, 1, 40)
    once, often = clustered_mean(values, np.arange(40)), clustered_mean(np.repeat(values, 7), np.repeat(np.arange(40), 7))
    assert (often.value, often.error) == pytest.approx((once.value, once.error), rel=1e-12)


def test_clusters_are_users_and_days() -> None:
    user, submit = np.array([-1, -1, 0, 0, 3, 3]), np.array([0, 86_399, 0, 86_400, 86_400, 86_401])
    assert len(np.unique(user_days(user, submit))) == 4
    assert user_days(user, submit)[4] == user_days(user, submit)[5]


def _night(rng: np.random.Generator, better: float) -> Duel:
    """Two equally noisy predictors of bursts of alike jobs; the challenger's logarithmic error is smaller by ``better``."""
    sizes = rng.geometric(1 / 8, 120)
    cluster = np.repeat(np.arange(len(sizes)), sizes)
    runtime = np.exp(rng.normal(6, 1, len(sizes)))[cluster]
    errors = [
        np.exp(scale * (rng.normal(0, 0.7, len(sizes))[cluster] + rng.normal(0, 0.3, len(cluster)))) for scale in (1 - better, 1)
    ]
    return duel(runtime * errors[0], runtime * errors[1], runtime, cluster)


def test_an_equal_challenger_is_promoted_in_about_one_night_of_forty_and_a_better_one_in_most() -> None:
    rng = np.random.default_rng(2)
    equal = sum(decide(_night(rng, 0.0), {})[0] for _ in range(1000))
    assert 5 <= equal <= 45  # 2.5 % of 1,000, less those kept back by the margin of under-prediction
    assert sum(decide(_night(rng, 0.5), {})[0] for _ in range(200)) > 120


def _found(jobs: int = 1000, difference: float = 0.02, low: float = 0.01, under: float = 0.0) -> Duel:
    champion, challenger = Mean(0.55, 0.01, 300), Mean(0.55 + difference, 0.01, 300)
    return Duel(jobs, champion, challenger, Mean(difference, 0.005, 300), low, 0.03, 0.40, 0.40 + under)


def test_a_challenger_that_is_surely_better_is_promoted_and_the_numbers_say_why() -> None:
    promoted, why = decide(_found(), {"it loads back": True})
    assert promoted
    assert why == (
        "accuracy as served 0.5700 against 0.5500 on 1,000 jobs, difference +0.0200 [+0.0100, +0.0300], under-predicted 40.0% against "
        "40.0%; every check holds"
    )


@pytest.mark.parametrize(
    ("found", "checks", "reason"),
    [
        (_found(jobs=FEWEST_JOBS - 1), {}, "only 199 jobs"),
        (_found(difference=TIE, low=0.0005), {}, "not better by more than 0.001"),
        (_found(low=0.0), {}, "does not leave out 0"),
        (_found(under=UNDERPREDICTION_MARGIN + 0.001), {}, "under-predicts over 10 points more"),
        (_found(), {"it loads back": False}, "its check failed: it loads back"),
    ],
)
def test_each_reason_keeps_the_champion(found: Duel, checks: dict[str, bool], reason: str) -> None:
    promoted, why = decide(found, checks)
    assert not promoted
    assert reason in why


def test_several_candidates_share_the_chance_of_an_error() -> None:
    rng = np.random.default_rng(3)
    predictions = [np.exp(rng.normal(6, 1, 500)) for _ in range(3)]
    one, two = (duel(*predictions, np.arange(500), candidates=count) for count in (1, 2))
    assert two.low < one.low < one.high < two.high
    assert (two.high - two.low) / (one.high - one.low) == pytest.approx(stats.t.ppf(1 - 0.0125, 499) / stats.t.ppf(0.975, 499))


def test_a_champion_that_got_worse_is_reported_and_one_that_did_not_is_not() -> None:
    rng = np.random.default_rng(4)

    def means(accuracy: float, under: float) -> dict[str, Mean]:
        sizes = rng.geometric(1 / 8, 120)
        cluster = np.repeat(np.arange(120), sizes)
        shared = rng.normal(0, 0.2, 120)[cluster]
        level = stats.norm.ppf(under)
        below = (level * np.sqrt(2) + rng.normal(0, 1, 120)[cluster] + rng.normal(0, 1, len(cluster))) > 0
        return {
            "accuracy": clustered_mean(accuracy + shared + rng.normal(0, 0.1, len(cluster)), cluster),
            "underprediction_rate": clustered_mean(below.astype(float), cluster),
        }

    alarms = sum(performance_drift(means(0.6, 0.4), means(0.6, 0.4), 900)["drifted"].any() for _ in range(500))
    assert alarms <= 15  # 1 % of 500, and chance
    worse = performance_drift(means(0.4, 0.8), means(0.6, 0.4), 900).set_index("measure")
    assert worse["drifted"].all()
    better = performance_drift(means(0.8, 0.1), means(0.6, 0.4), 900)
    assert not better["drifted"].any()
    few = performance_drift(means(0.2, 0.9), means(0.6, 0.4), FEWEST_JOBS - 1)
    assert not few["drifted"].any()
    assert few["note"].str.startswith("no verdict").all()
