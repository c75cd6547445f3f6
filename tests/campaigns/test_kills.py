"""A few kills of the quick commands: nothing is lost, and a kill in the last step is among them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaigns import kills
from tests.support.system_calls import available


@pytest.mark.slow
@pytest.mark.skipif(not available(), reason="system calls can be watched on Linux for x86-64 only")
def test_commands_that_are_killed_lose_nothing_and_can_be_done_again(tmp_path: Path) -> None:
    found = kills.campaign(24, 5, tmp_path, ("promotion", "campaign", "ingestion"))
    assert found.findings == []
    assert found.attempts >= 20
    assert {"promotion: as before", "promotion: new, mended"} <= set(found.outcomes)
