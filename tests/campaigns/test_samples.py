"""A few kills: nothing is found, and what may come of an attempt does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaigns.apart import apart
from tests.support.system_calls import available

QUICK = ("promotion", "campaign", "ingestion")


@pytest.mark.slow
@pytest.mark.skipif(not available(), reason="system calls can be watched on Linux for x86-64 only")
def test_a_killed_command_and_a_full_disk_lose_nothing(tmp_path: Path) -> None:
    counts = apart("kills", 30, 5, tmp_path, *QUICK)
    assert counts.findings == []
    assert counts.attempts >= 25
    assert {"promotion: as before", "promotion: new, mended"} <= set(counts.outcomes)
    assert any("on a full disk" in outcome for outcome in counts.outcomes)
