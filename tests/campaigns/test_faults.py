"""A few faults of the quick commands: each ends with a line, and the next one without faults succeeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaigns import faults
from tests.support.system_calls import available


@pytest.mark.slow
@pytest.mark.skipif(not available(), reason="system calls can be watched on Linux for x86-64 only")
def test_commands_whose_calls_fail_end_with_a_line_and_lose_nothing(tmp_path: Path) -> None:
    found = faults.campaign(15, 1, tmp_path, ("promotion", "campaign", "ingestion"))
    assert found.findings == []
    assert found.attempts >= 15
    assert found.outcomes["promotion: a line, as before"]
