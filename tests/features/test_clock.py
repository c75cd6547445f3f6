"""The clock on the wall: midnights as instants, days of 23 and 25 hours, and learners that look at the time of the place."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.clock import DAY_S, Clock
from features.errors import InputError
from tests.models.runtime.test_job_features import features_of, spy
from tests.models.runtime.test_knn import KnnByHand
from tests.models.runtime.test_lightgbm import BoostedByHand, days
from tests.models.runtime.test_okcm import OkcmByHand
from tests.oracle.nag import NagByHand
from tests.sim.test_midnight import load_of, nights
from tests.support.walls import next_day, wall
from tests.support.workloads import by_kernel, by_oracle, crowd, dependent_crowd

ZONES = [None, "UTC", "Europe/Stockholm", "America/Denver", "Asia/Kolkata", "America/Sao_Paulo", "America/Havana", "Pacific/Apia"]
zones = st.sampled_from(ZONES)
origins = st.integers(0, 2_000_000_000)


@given(origins, zones, st.integers(0, 400 * DAY_S))
def test_the_next_midnight_is_the_first_second_of_another_day(origin_s: int, zone: str | None, now: int) -> None:
    assert Clock(origin_s, zone).next_midnight(now) == next_day(now, wall(origin_s, zone))


@given(origins, zones, st.integers(0, 1000 * DAY_S), st.integers(0, 2000 * DAY_S))
def test_steps_are_the_local_time_at_every_second(origin_s: int, zone: str | None, first: int, length: int) -> None:
    steps, at = Clock(origin_s, zone).steps(first, first + length), wall(origin_s, zone)
    assert steps[0, 0] == first
    for begin, end in zip(steps[:, 0], [*steps[1:, 0], first + length + 1], strict=True):
        ahead = steps[steps[:, 0] == begin, 1][0]
        for second in {begin, (begin + end) // 2, end - 1}:
            assert at(int(second)) == second + ahead


def test_days_have_23_and_25_hours_where_clocks_are_changed() -> None:
    origin = int(datetime(1997, 3, 29, 23, tzinfo=UTC).timestamp())  # midnight in Stockholm
    clock = Clock(origin, "Europe/Stockholm")
    assert clock.next_midnight(0) == 23 * 3600
    autumn = int(datetime(1997, 10, 25, 22, tzinfo=UTC).timestamp()) - origin
    assert clock.next_midnight(autumn) == autumn + 25 * 3600
    assert Clock().next_midnight(5) == Clock(None, "Europe/Stockholm").next_midnight(5) == DAY_S


def test_an_unknown_zone_is_refused() -> None:
    for asked in (lambda clock: clock.next_midnight(0), lambda clock: clock.steps(0, 9)):
        with pytest.raises(InputError, match="unknown time zone 'Mars/Olympus': use a name such as Europe/Stockholm"):
            asked(Clock(0, "Mars/Olympus"))


SPRING = int(datetime(2024, 3, 28, 11, 59, 29, tzinfo=UTC).timestamp())
"""Three days before clocks are changed in Europe, at no midnight."""
STOCKHOLM = Clock(SPRING, "Europe/Stockholm")
AT = wall(*STOCKHOLM)


@pytest.mark.parametrize("semantics", ["per-second", "per-event"])
def test_learners_are_retrained_at_midnights_of_the_place(semantics: str) -> None:
    midnights = [STOCKHOLM.next_midnight(0)]
    for _ in range(4):
        midnights.append(STOCKHOLM.next_midnight(midnights[-1]))
    assert [AT(second) % DAY_S for second in midnights] == [0] * 5
    assert np.diff(midnights).tolist() == [DAY_S, DAY_S, 23 * 3600, DAY_S]
    # before each midnight one job ends, another is running and a third is submitted in its second
    load = load_of(*[job for midnight in midnights for job in ((midnight - 3, 1), (midnight - 1, 5), (midnight, 1))])
    assert [len(ended) for ended in nights(load, semantics=semantics, clock=STOCKHOLM)] == [1, 4, 7, 10, 13]
    assert [len(ended) for ended in nights(load, semantics=semantics, clock=STOCKHOLM, every=2)] == [1, 7, 13]
    assert [len(ended) for ended in nights(load, semantics=semantics)] != [1, 4, 7, 10, 13]


LEARNERS = [KnnByHand(2, 9), OkcmByHand(switch=3), NagByHand(False, eta=300.0, lambda_=10.0), BoostedByHand(trees=5)]


@pytest.mark.parametrize(("hand", "dependencies"), [*zip(LEARNERS, 2 * (False, True), strict=True)])
def test_learners_know_the_time_of_the_place(hand: Any, dependencies: bool) -> None:
    load = days(dependencies, size=400)
    own = by_kernel(load, "FCFS-EASY-SPF", hand.label(), dependencies=dependencies)
    hand.clock = AT
    local = by_kernel(load, "FCFS-EASY-SPF", hand.label(), dependencies=dependencies, clock=STOCKHOLM)
    assert local == by_oracle(load, "FCFS-EASY-SPF", hand, dependencies=dependencies)
    assert local.predicted != own.predicted


def test_hours_and_days_of_the_week_are_those_of_the_place() -> None:
    load = dependent_crowd(np.random.default_rng(5), 150)
    load = replace(load, submit=[10 * DAY_S * second // load.submit[-1] for second in load.submit])  # over the change of clocks
    schedule = load.schedule("EASY", spy(), dependencies=True, clock=STOCKHOLM)
    features, seconds = features_of(schedule), schedule.jobs["submit_s"].tolist()
    at = [AT(second) for second in seconds]
    assert features["hour"].tolist() == [second % DAY_S / 3600 for second in at]
    assert features["weekday"].tolist() == [second // DAY_S % 7 for second in at]
    assert len({local - second for local, second in zip(at, seconds, strict=True)}) == 2


def test_the_published_learner_keeps_the_traces_own_seconds() -> None:
    load = crowd(np.random.default_rng(5), size=150, longest_s=36_000, origin_s=5000)
    assert by_kernel(load, predictor="cv-triple", clock=STOCKHOLM) == by_kernel(load, predictor="cv-triple")
    assert by_kernel(load, predictor="nag", clock=STOCKHOLM) != by_kernel(load, predictor="nag")
