"""Files are written by one module: whole, on the disk, or not at all."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from pipelines.lake import places

HOUSE = Path(__file__).parents[3]
WRITES = re.compile(r"\bos\.(replace|rename)\(|\.write_(text|bytes)\(|\.open\(\"[wax]|\bopen\([^)]*, \"[wax]")
ELSEWHERE = {
    "pipelines/studies/campaigns.py": 1,  # a journal is appended to as points are done
    "pipelines/cli/when_answers.py": 1,  # answers are appended to, a line each
    "pipelines/serving/asked_log.py": 1,  # a log is appended to as answers come
    "pipelines/lake/places.py": 3,  # this is the place
    "pipelines/lake/counters.py": 1,  # parts are synced where they are staged
}


def test_every_file_is_written_through_the_one_module() -> None:
    counts = {}
    for path in sorted((HOUSE / "pipelines").rglob("*.py")):
        lines = [
            line
            for line in path.read_text().splitlines()
            if WRITES.search(line) and not re.search(r"temporary\.|replacing\(", line)
        ]
        if lines:
            counts[path.relative_to(HOUSE).as_posix()] = len(lines)
    assert {name: count for name, count in counts.items() if count > ELSEWHERE.get(name, 0)} == {}


def test_a_file_its_directory_and_a_new_directory_are_synced_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda file: steps.append(os.readlink(f"/proc/self/fd/{file}")))
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda *paths: (steps.append("moved"), replace(*paths)))
    places.write(tmp_path / "new" / "page.html", "text")
    assert [steps[0], *steps[2:]] == [str(tmp_path), "moved", str(tmp_path / "new")]
    assert steps[1].startswith(str(tmp_path / "new" / ".page.html."))
    assert (tmp_path / "new" / "page.html").read_text() == "text"
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["page.html"]
