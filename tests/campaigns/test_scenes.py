"""A few kills, faults, losses of power and races of the quick commands: results of before or the new ones, whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaigns.apart import apart
from tests.support.system_calls import available

QUICK = ("promotion", "campaign", "ingestion")
IN_THE_LAST_STEP = {"promotion: as before", "promotion: new, mended"}


@pytest.mark.slow
@pytest.mark.skipif(not available(), reason="system calls can be watched on Linux for x86-64 only")
@pytest.mark.parametrize(
    ("campaign", "attempts", "seed", "what", "outcomes"),
    [
        ("kills", 24, 5, QUICK, IN_THE_LAST_STEP),
        ("power_loss", 24, 2, QUICK, IN_THE_LAST_STEP),
        ("faults", 15, 1, QUICK, {"promotion: a line, as before"}),
        ("races", 2, 0, ("ingest,doctor", "ingest,ingest"), set()),
    ],
)
def test_commands_lose_nothing_and_can_be_done_again(
    campaign: str, attempts: int, seed: int, what: tuple[str, ...], outcomes: set[str], tmp_path: Path
) -> None:
    found = apart(campaign, attempts, seed, tmp_path, *what)
    assert found.findings == []
    assert found.attempts >= 0.8 * attempts
    assert outcomes <= set(found.outcomes)
