"""The rule of promotion: its interval, its evidence under the null, years of nights, and each reason to keep the champion."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from models.registry import promotion
from models.registry.as_served import performance_drift
from models.registry.promotion import (
    CALIBRATION_MARGIN,
    CONFIDENCE,
    EPOCH_DAYS,
    FEWEST_JOBS,
    LEVEL,
    PINBALL_MARGIN,
    SETTLING_DAYS,
    STAKES,
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


DAY_S = 86_400


def by_hand(days: list[list[float]], known_from: int = 0) -> list[float]:
    """The mean of products, begun anew every epoch, one factor after the other."""
    e_values = []
    for last in range(len(days)):
        total, kept = 0.0, 1.0
        for number, first in enumerate(range(0, last + 1, EPOCH_DAYS)):
            weight = 1 / ((number + 1) * (number + 2))
            kept -= weight
            products = [np.prod([1 + stake * unit for day in days[first : last + 1] for unit in day]) for stake in STAKES]
            total += weight * float(np.mean(products)) if first >= known_from else 0.0
        e_values.append(total + kept)
    return e_values


def computed(days: list[list[float]], known_from: int = 0) -> np.ndarray:
    units = np.array([unit for day in days for unit in day])
    which = np.repeat(np.arange(len(days)), [len(day) for day in days])
    return np.exp(log_evidence(log_growth(units, which, len(days)), known_from))


@pytest.mark.slow
@given(st.lists(st.lists(st.floats(-1.0, 1.0), max_size=3), min_size=1, max_size=40), st.integers(0, 20))
def test_the_evidence_is_a_mean_of_products_and_never_negative(days: list[list[float]], known_from: int) -> None:
    e_values = computed(days, known_from)
    assert (e_values >= 0).all()
    assert e_values == pytest.approx(by_hand(days, known_from), rel=1e-9)
    assert (e_values <= computed(days) * (1 + 1e-12)).all()


OUTCOMES = (-1.0, -0.25, 0.5, 1.0)


@pytest.mark.slow
@settings(max_examples=10)
@given(
    st.lists(st.floats(0.01, 1.0), min_size=4, max_size=4),
    st.lists(st.sampled_from(OUTCOMES), max_size=6),
    st.integers(1, 3),
)
def test_in_expectation_the_evidence_never_grows_if_nothing_is_better(
    weights: list[float], past: list[float], epoch_days: int
) -> None:
    """Every continuation of a past by two days is gone through, with its probability; the mean of a day is at most 0."""
    chances = np.array(weights) / sum(weights)
    outcomes = np.array(OUTCOMES)
    outcomes = np.maximum(outcomes - max(float(chances @ outcomes), 0.0), -1.0)
    chances = chances if chances @ outcomes <= 0 else np.array([1.0, 0, 0, 0])
    before = promotion.EPOCH_DAYS
    try:
        promotion.EPOCH_DAYS = epoch_days  # so short that some days begin anew
        now = computed([[unit] for unit in past])[-1] if past else 1.0
        later = sum(
            float(np.prod(chances[list(places)])) * computed([[unit] for unit in (*past, *outcomes[list(places)])])[-1]
            for places in itertools.product(range(4), repeat=2)
        )
    finally:
        promotion.EPOCH_DAYS = before
    assert later <= now * (1 + 1e-9)


@pytest.mark.slow
def test_users_on_either_side_of_the_tie_do_not_add_up_to_evidence() -> None:
    """Expectations differ from user to user and from day to day; only their mean is 0."""
    rng = np.random.default_rng(0)
    lean = np.tile([0.3, -0.3, 0.1, -0.1], 60)
    units = np.where(rng.random((1000, 240)) < (1 + lean) / 2, 1.0, -1.0)
    growth = np.log1p(units[..., None] * np.array(STAKES))
    promoted = (log_evidence(growth) >= np.log(1 / LEVEL)).any(axis=1)
    assert 0 < promoted.sum() <= 50


def served(jobs: int, seed: int = 1) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    return rng.uniform(-0.5, 0.7, jobs), rng.integers(-1, 6, jobs), np.sort(rng.integers(0, 20 * DAY_S, jobs))


def test_every_job_judges_once_and_what_was_judged_is_judged_alike_on_later_nights() -> None:
    difference, user, end = served(900)
    tonight = served_evidence(difference, user, end, 0, 12 * DAY_S, 2, 0)
    earlier = end <= 12 * DAY_S
    assert served_evidence(difference[earlier], user[earlier], end[earlier], 0, 12 * DAY_S, 2, 0) == tonight
    assert served_evidence(difference[earlier], user[earlier], end[earlier], 0, 13 * DAY_S - 1, 2, 0) == tonight
    assert tonight.days == 11
    assert tonight.needed == 2 / LEVEL
    judging = (end > DAY_S) & earlier
    assert tonight.units == len(np.unique(np.column_stack([user, (end - 1) // DAY_S])[judging], axis=0))


def test_a_burst_of_one_user_counts_as_one() -> None:
    difference, user, end = served(900)
    often = [np.repeat(each, 50) for each in (difference, user, end)]
    once = served_evidence(difference, user, end, 0, 20 * DAY_S, 1, 0)
    assert served_evidence(*often, 0, 20 * DAY_S, 1, 0).value == pytest.approx(once.value)


def test_without_the_days_before_there_is_less_evidence_and_none_without_days() -> None:
    difference, user, end = served(900)
    whole = served_evidence(difference, user, end, 0, 20 * DAY_S, 1, 0)
    late = end > 3 * DAY_S
    part = served_evidence(difference[late], user[late], end[late], 0, 20 * DAY_S, 1, 3 * DAY_S)
    assert part.value < whole.value
    assert part.value == served_evidence(difference, user, end, 0, 20 * DAY_S, 1, 3 * DAY_S).value
    none = served_evidence(difference, user, end, 0, DAY_S, 1, 0)
    assert (none.value, none.needed) == (1.0, 1 / LEVEL)
    assert served_evidence(difference, user, end, 0, 20 * DAY_S, 0, 0) == whole, "no candidates are one"
    begins = 1 + promotion.EPOCH_DAYS  # the day after the champion's training settles nothing
    instants = (0, DAY_S, DAY_S + 1, begins * DAY_S, begins * DAY_S + 1)
    fewer = [served_evidence(difference, user, end, 0, 3 * begins * DAY_S, 1, known_s).value for known_s in instants]
    assert fewer[0] == fewer[1] > fewer[2] == fewer[3] > fewer[4], "a day of which a part is given is unknown"
