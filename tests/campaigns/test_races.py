"""Two pairs of quick commands at once: each is done or told that another is at work."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaigns import races
from tests.support.system_calls import available


@pytest.mark.slow
@pytest.mark.skipif(not available(), reason="system calls can be watched on Linux for x86-64 only")
def test_commands_at_once_do_not_mix(tmp_path: Path) -> None:
    found = races.campaign(2, 0, tmp_path, ("ingest,doctor", "ingest,ingest"))
    assert found.findings == []
    assert found.attempts == 2
