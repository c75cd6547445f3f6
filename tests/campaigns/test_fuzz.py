"""Some mutated files, and every file in which something was ever found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.ingest.read import read_file
from tests.campaigns import fuzz
from tests.campaigns.apart import apart
from tests.campaigns.readings import READINGS, judged


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


def test_the_corpus_is_of_known_kinds() -> None:
    assert {kind for kind, _, _ in fuzz.corpus()} <= set(READINGS)
    assert {outcome for _, outcome, _ in fuzz.corpus()} == {"accepted", "refused"}
    assert len(fuzz.corpus()) > 40


def test_cases_depend_on_their_numbers_alone() -> None:
    assert [fuzz.case(3, number) for number in range(30)] == [fuzz.case(3, number) for number in range(30)]


@pytest.mark.slow
def test_mutated_files_are_refused_in_a_line_or_read_as_a_second_reader_reads_them(tmp_path: Path) -> None:
    counts = apart("fuzz", 120, 0, tmp_path)
    assert counts.findings == []
    assert counts.attempts == 120
    assert sum(count for outcome, count in counts.outcomes.items() if outcome.endswith("accepted")) > 20


def test_a_reader_that_loses_a_value_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The campaign sees what it looks for: here a reader that forgets the last job."""
    kept = READINGS["swf"]
    monkeypatch.setitem(READINGS, "swf", replace(kept, read=lambda path: replace(read_file(path), jobs=read_file(path).jobs[:-1])))
    assert judged("swf", kept.seeds()[0], tmp_path) == ("accepted", "39 rows, a second reader has 40")


def test_whatever_escapes_a_reader_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: Path) -> None:
        raise KeyError(path)

    monkeypatch.setitem(READINGS, "types", replace(READINGS["types"], read=broken))
    outcome, finding = fuzz.judge("types", b"x", tmp_path)
    assert outcome == "escaped"
    assert finding.startswith("KeyError")
