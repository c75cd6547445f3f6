"""A few losses of power during the quick commands: results of before or the new ones, whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaigns import power_loss
from tests.support.system_calls import available


@pytest.mark.slow
@pytest.mark.skipif(not available(), reason="system calls can be watched on Linux for x86-64 only")
def test_a_loss_of_power_loses_no_result(tmp_path: Path) -> None:
    found = power_loss.campaign(24, 2, tmp_path, ("promotion", "campaign", "ingestion"))
    assert found.findings == []
    assert {"promotion: as before", "promotion: new, mended"} <= set(found.outcomes)
