"""Some mutated files, and every file in which something was ever found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaigns import fuzz
from tests.campaigns.apart import apart
from tests.campaigns.readings import judged


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "outcome", "path"), [pytest.param(*each, id=f"{each[0]}/{each[2].name}") for each in fuzz.corpus()]
)
def test_what_was_once_found_stays_mended(
    kind: str, outcome: str, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUEUECAST_CATALOGUE", "")  # and back to what it was
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path / "home"))
    assert judged(kind, path.read_bytes(), tmp_path) == (outcome, None)


@pytest.mark.slow
def test_mutated_files_are_refused_in_a_line_or_read_as_a_second_reader_reads_them(tmp_path: Path) -> None:
    counts = apart("fuzz", 120, 0, tmp_path)
    assert counts.findings == []
    assert counts.attempts == 120
    assert sum(count for outcome, count in counts.outcomes.items() if outcome.endswith("accepted")) > 20
