"""The rule of promotion: its interval against scipy's, a year of nights, and each reason for which a challenger is not promoted."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from models.registry.as_served import performance_drift
from models.registry.promotion import (
    CALIBRATION_MARGIN,
    CONFIDENCE,
    FEWEST_JOBS,
    PINBALL_MARGIN,
    SETTLING_DAYS,
    TIE,
    UNDERPREDICTION_MARGIN,
    Duel,
    Evidence,
    Mean,
    clustered_mean,
    decide,
    duel,
    log_evidence,
    log_growth,
    of_quantiles,
    served_evidence,
)
from models.runtime.evaluation import accuracy, pinball
from tests.models.registry.simulated_years import promoted, simulated


def test_with_a_cluster_a_job_the_interval_is_students() -> None:
    values = np.random.default_rng(0).normal(0.3, 1, 40)
    mean = clustered_mean(values, np.arange(40))
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert mean.interval(0.95) == pytest.approx((expected.low, expected.high), rel=1e-12)


def test_copies_of_a_job_within_a_cluster_add_no_certainty() -> None:
    values = np.random.default_rng(1).normal(0.3, 1, 40)
    once, often = clustered_mean(values, np.arange(40)), clustered_mean(np.repeat(values, 7), np.repeat(np.arange(40), 7))
    assert (often.value, often.error) == pytest.approx((once.value, once.error), rel=1e-12)


def test_equal_challengers_are_promoted_in_fewer_than_one_year_of_twenty() -> None:
    years = simulated(np.random.default_rng(2), years=60, candidates=3)
    assert promoted(years).any(axis=1).sum() <= 3


def test_a_challenger_that_is_better_by_five_points_is_promoted_within_a_quarter_of_a_year() -> None:
    years = simulated(np.random.default_rng(3), years=20, better=0.05, nights=90)
    assert promoted(years).any(axis=1).mean() >= 0.9


def test_the_simulated_evidence_is_that_of_the_nights() -> None:
    rng = np.random.default_rng(4)
    user, night = np.divmod(rng.permutation(300), 30)
    difference = rng.uniform(-0.2, 0.3, 300)
    growth = log_growth(difference - TIE, night, 30)
    nights = served_evidence(difference, user, night * 86_400 + 1, 0, 30 * 86_400, 1, 0)
    assert nights.value == pytest.approx(np.exp(log_evidence(growth[SETTLING_DAYS:])[-1]))


def _duel(jobs: int = 1000, difference: float = 0.02, evidence: float = 60.0, under: float = 0.0) -> Duel:
    champion, challenger = Mean(0.55, 0.01, 300), Mean(0.55 + difference, 0.01, 300)
    sure = Evidence(evidence, 60.0, 900, 30)
    return Duel(jobs, champion, challenger, Mean(difference, 0.005, 300), -0.01, 0.03, sure, 0.40, 0.40 + under)


def test_a_challenger_that_is_surely_better_is_promoted_and_the_numbers_say_why() -> None:
    promoted, why = decide(_duel())
    assert promoted
    assert why == (
        "evidence 60 of the 60 needed; accuracy as served 0.5700 against 0.5500 on 1,000 jobs, difference +0.0200 [-0.0100, +0.0300], "
        "under-predicted 40.0% against 40.0%"
    )


@pytest.mark.parametrize(
    ("judged", "vetoes", "reason"),
    [
        (_duel(jobs=FEWEST_JOBS - 1), (), "only 199 jobs"),
        (_duel(difference=TIE, evidence=59.9), (), "; it is not better by more than 0.001"),
        (_duel(difference=TIE), (), "not better by more than 0.001"),
        (_duel(evidence=59.9), (), "the evidence that it is better does not suffice"),
        (_duel(under=UNDERPREDICTION_MARGIN + 0.001), (), "under-predicts over 10 points more"),
        (_duel(), ("its schedules are worse",), "; its schedules are worse"),
    ],
)
def test_each_reason_keeps_the_champion(judged: Duel, vetoes: tuple[str, ...], reason: str) -> None:
    promoted, why = decide(judged, vetoes)
    assert not promoted
    assert reason in why


def test_several_candidates_share_the_chance_of_an_error() -> None:
    rng = np.random.default_rng(3)
    predictions = [np.exp(rng.normal(6, 1, 500)) for _ in range(3)]
    one, two = (duel(*predictions, np.arange(500), Evidence(), candidates=count) for count in (1, 2))
    assert two.low < one.low < one.high < two.high
    assert (two.high - two.low) / (one.high - one.low) == pytest.approx(stats.t.ppf(1 - 0.0125, 499) / stats.t.ppf(0.975, 499))


def test_a_duel_has_the_mean_difference_of_paired_accuracies_and_its_interval() -> None:
    rng = np.random.default_rng(6)
    challenger, champion, runtime = (np.exp(rng.normal(6, 1, 300)) for _ in range(3))
    judged = duel(challenger, champion, runtime, np.arange(300), Evidence())
    better = accuracy(challenger, runtime) - accuracy(champion, runtime)
    assert judged.difference.value == pytest.approx(better.mean())
    assert judged.challenger.value - judged.champion.value == pytest.approx(better.mean())
    expected = stats.ttest_1samp(better, 0).confidence_interval(CONFIDENCE)
    assert (judged.low, judged.high) == pytest.approx((expected.low, expected.high))


def test_a_duel_counts_the_under_predictions_of_each_and_holds_the_challengers_against_it() -> None:
    runtime, cluster, enough = np.full(400, 100.0), np.arange(400), Evidence(60.0, 60.0, 900, 30)
    careful, bold = np.where(np.arange(400) < 80, 60.0, 100.0), np.where(np.arange(400) < 200, 90.0, 100.0)
    judged, other = duel(bold, careful, runtime, cluster, enough), duel(careful, bold, runtime, cluster, enough)
    assert judged.numbers.endswith(", under-predicted 50.0% against 20.0%")
    assert decide(judged) == (False, f"{judged.numbers}; it under-predicts over 10 points more")
    assert other.numbers.endswith(", under-predicted 20.0% against 50.0%")
    assert other.against == []


@pytest.mark.thorough
@pytest.mark.slow
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


def _quantiles(rng: np.random.Generator, scale: float = 1.0) -> tuple[dict[float, np.ndarray], np.ndarray, np.ndarray]:
    """Quantiles of lognormal runtimes, those of the true distribution times ``scale``, runtimes, and clusters of six jobs."""
    centre = rng.normal(6, 1, 3000)
    runtime = np.exp(centre + rng.normal(0, 0.5, 3000))
    quantiles = {level: scale * np.exp(centre + 0.5 * stats.norm.ppf(level)) for level in (0.5, 0.8, 0.95)}
    return quantiles, runtime, np.arange(3000) // 6


def test_quantiles_that_are_as_good_or_a_little_worse_do_not_keep_the_champion() -> None:
    true, runtime, cluster = _quantiles(np.random.default_rng(5))
    assert of_quantiles(true, true, runtime, cluster) == []
    near, _, _ = _quantiles(np.random.default_rng(5), scale=1.03)
    assert of_quantiles(near, true, runtime, cluster) == []
    assert of_quantiles(true, {}, runtime, cluster) == []


def test_quantiles_beyond_a_margin_or_not_surely_within_it_keep_the_champion() -> None:
    true, runtime, cluster = _quantiles(np.random.default_rng(5))
    wide = {level: 2.0 * each for level, each in true.items()}
    losses = [np.mean([pinball(each[level], runtime, level).mean() for level in true]) for each in (wide, true)]
    assert losses[0] > (1 + PINBALL_MARGIN) * losses[1]
    vetoes = of_quantiles(wide, true, runtime, cluster)
    assert vetoes[0].startswith(
        f"the pinball loss of its quantiles, {losses[0]:,.0f} s against {losses[1]:,.0f} s, may be worse by over 10%"
    )
    assert any(each.startswith("its 50% quantiles hold for 9") for each in vetoes)
    tight = {**true, 0.95: true[0.8]}
    off = 0.95 - (runtime <= true[0.8]).mean()
    assert off > CALIBRATION_MARGIN
    assert [each[:20] for each in of_quantiles(tight, true, runtime, cluster)][-1] == "its 95% quantiles ho"
    few = slice(0, 40)  # seven clusters are too few to be sure of anything
    small = [{level: each[few] for level, each in quantiles.items()} for quantiles in (true, true)]
    assert len(of_quantiles(*small, runtime[few], cluster[few])) == 4
