"""A few hundred hostile workloads through the kernels as plain Python, where an index out of bounds is an error."""

from __future__ import annotations

from pathlib import Path

from tests.campaigns import bounds


def test_hostile_workloads_are_simulated_or_refused(tmp_path: Path) -> None:
    found = bounds.campaign(100, 3, tmp_path, compiled=False)
    assert found.findings == []
    assert found.attempts == 100
    assert {"refused", "whole", "as the oracle"} <= set(found.outcomes)
