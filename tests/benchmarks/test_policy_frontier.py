"""Changes between policies, on sums made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.common.policy_frontier import change, replicated
from features.errors import InputError
from sim.metrics.schedule_metrics import Ratio
from sim.policy import Policy

BASE, BOLD = (Policy("EASY", name) for name in ("requested", "bold"))


def sums_of(slowdown: float, awf: float, p2sf: float, wait: float = 1.0, weeks: int = 6) -> dict[str, Ratio]:
    """Weekly sums of a schedule whose every week is alike."""
    values = {"mean_bounded_slowdown": slowdown, "awf_s": awf, "p2sf_s": p2sf, "mean_wait_s": wait}
    return {name: Ratio(np.full(weeks, 2.0 * value), np.full(weeks, 2.0)) for name, value in values.items()}


def test_few_weeks_have_no_interval_and_a_baseline_of_zero_no_change():
    few = change(sums_of(8, 1, 1, weeks=4), sums_of(10, 1, 1, weeks=4), "mean_bounded_slowdown")
    assert (few.relative, few.low, few.high) == (pytest.approx(-0.2), None, None)
    assert change(sums_of(1, 1, 1, wait=5), sums_of(1, 1, 1, wait=0), "mean_wait_s")[2:5] == (None, None, None)


def test_sums_of_other_jobs_and_unknown_metrics_are_refused():
    with pytest.raises(InputError, match="6 and over 7 weeks"):
        change(sums_of(1, 1, 1), sums_of(1, 1, 1, weeks=7), "awf_s")
    with pytest.raises(InputError, match="unknown metric 'beauty'"):
        change(sums_of(1, 1, 1), sums_of(1, 1, 1), "beauty")


def test_replicates_are_compared_one_by_one() -> None:
    waits = {BASE: [1.0, 1.1, 0.9], BOLD: [0.5, 0.55, 0.45]}
    sums = {policy: replicated([sums_of(1, 1, 1, wait) for wait in each]) for policy, each in waits.items()}
    bold = change(sums[BOLD], sums[BASE], "mean_wait_s")
    assert (bold.replicates, bold.relative) == (3, pytest.approx(-0.5))
    with pytest.raises(InputError, match="3 replicates have only 2 of the baseline"):
        change(sums[BASE], replicated([sums_of(1, 1, 1)] * 2), "mean_wait_s")
