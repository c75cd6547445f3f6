"""Evidence that may be looked at every night: a nonnegative supermartingale under the null, counted by hand on a small case."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.registry import promotion
from models.registry.promotion import EPOCH_DAYS, LEVEL, STAKES, log_evidence, log_growth, served_evidence

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
