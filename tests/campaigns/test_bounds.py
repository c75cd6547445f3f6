"""A few hundred hostile workloads through the kernels as plain Python, where an index out of bounds is an error."""

from __future__ import annotations

from pathlib import Path

from tests.campaigns import bounds
from tests.campaigns.apart import apart


def test_hostile_workloads_are_simulated_or_refused(tmp_path: Path) -> None:
    # number 97 is a Rollout of 300 jobs with a pass every 30 s, which takes minutes in plain Python, more than all others
    found = apart("bounds", 97, 3, tmp_path, **bounds.PLAIN)
    assert found.findings == []
    assert found.attempts == 97
    assert {"refused", "whole", "as the oracle"} <= set(found.outcomes)
