"""The chance that a job starts sooner in one place than in another."""

import numpy as np

from sim.site.queue_ahead import SURE, chance_sooner

WAITS_S = np.array([0.0, 1.0, 2.0, 300.0])
DAY_S = 86_400.0


def test_seconds_are_not_sure_though_all_scenarios_agree_and_minutes_are() -> None:
    assert 0.5 < chance_sooner(WAITS_S, WAITS_S + 7.0, DAY_S) < SURE
    assert chance_sooner(WAITS_S, WAITS_S + 600.0, DAY_S) > SURE


def test_equal_starts_are_even_and_both_ways_add_up_to_one() -> None:
    assert chance_sooner(WAITS_S, WAITS_S, DAY_S) == 0.5
    other_s = WAITS_S[::-1]
    assert chance_sooner(WAITS_S, other_s, DAY_S) + chance_sooner(other_s, WAITS_S, DAY_S) == 1.0
