"""What a cumulative counter says of the time between two samples, against whole-number arithmetic; and which metrics are cumulative."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from features.monitoring.samplers import FEATURES, SAMPLERS, sampler_of
from features.monitoring.window_kernel import KINDS, NO_SAMPLE, rates_of_sample
from tests.support.counters_by_hand import growth_by_hand


def grown(previous: float, value: float) -> tuple[str, float]:
    """Kind and growth of the second of two samples of a counter, a second apart."""
    values, since, rate, counts = np.zeros(1), np.full(1, NO_SAMPLE), np.zeros(1), np.zeros(len(KINDS), np.int64)
    for micros, sample in ((0, previous), (1_000_000, value)):
        before = counts.copy()
        rates_of_sample(micros, np.array([sample], np.float64), np.zeros(1, bool), values, since, 10_000_000, rate, counts)
    return KINDS[int((counts - before).argmax())], float(rate[0])


near = st.one_of(
    *(st.integers(max(0, edge - 2**12), edge + 2**12) for edge in (0, 2**28, 2**32 // 16 * 15, 2**32, 2**60, 2**64 // 16 * 15))
)
below = st.integers(2**64 - 2**20, 2**64)
LAST, FIRST = 2**32 // 16 * 15, 2**32 // 16
"""A wrap goes from the last sixteenth to the first."""


@pytest.mark.slow
@example(2**32 - 100, 50)
@example(2**64 - 2048, 4096)
@example(2**64 - 1, 10)  # stored as 2^64, from which it grew by ten
@example(2**32, 50)  # a counter of 64 bits, far from its end
@example(LAST, FIRST - 1)
@example(LAST - 1, FIRST - 1)
@example(LAST, FIRST)
@given(st.one_of(near, below, st.integers(0, 2**64)), st.one_of(near, below, st.integers(0, 2**64)))
def test_growth_is_what_whole_numbers_say_of_the_stored_values(previous: int, value: int) -> None:
    stored = float(previous), float(value)
    kind, exact = growth_by_hand(int(stored[0]), int(stored[1]))
    assert grown(*stored)[0] == kind
    if exact is None:
        assert np.isnan(grown(*stored)[1])
    else:
        assert abs(int(grown(*stored)[1]) - exact) <= exact * 2**-52


def test_what_no_counter_says_gives_no_growth() -> None:
    for pair, kind in (
        ((np.nan, 1), "first"),
        ((1, np.nan), "null"),
        ((-1, 1), "first"),
        ((1, -1), "invalid"),
        ((1, np.inf), "invalid"),
    ):
        outcome, growth = grown(*pair)
        assert outcome == kind
        assert np.isnan(growth)
    assert grown(5, 5) == ("difference", 0)


def test_the_papers_samplers_are_known_by_name() -> None:
    assert len(FEATURES) == 282
    for name, sampler in SAMPLERS.items():
        assert sampler_of(name, sampler.metrics) == sampler


def test_events_since_the_boot_are_no_gauges_though_named_like_them() -> None:
    sampler = sampler_of(
        "vmstat", ["nr_dirty", "nr_dirtied", "nr_written", "nr_writeback", "nr_tlb_remote_flush", "nr_free_pages", "pgfault"]
    )
    assert sampler.gauges == {"nr_dirty", "nr_writeback", "nr_free_pages"}
