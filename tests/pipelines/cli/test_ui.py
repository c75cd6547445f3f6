"""What ``queuecast ui`` and the metadata it shows must not get wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.command import queuecast
from tests.support.process import python

HOUSE = Path(__file__).resolve().parents[3]


@pytest.mark.thorough
@pytest.mark.slow
def test_dagsters_own_commands_find_the_workspace(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"}  # other tests set it
    environment |= {"PYTHONPATH": str(HOUSE), "QUEUECAST_HOME": str(tmp_path), "DAGSTER_DISABLE_TELEMETRY": "1"}
    workspace = str(HOUSE / "workspace.yaml")
    done = python(["-m", "dagster", "definitions", "validate", "-w", workspace], cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert "Validation successful for code location queuecast" in done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("place", ["history/runs.db", "history/runs/index.db", "schedules/schedules.db"])
def test_a_damaged_database_ends_it_in_a_line_before_anything_is_served(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    damaged = tmp_path / "dagster" / place
    damaged.parent.mkdir(parents=True)
    damaged.write_text("a note\n" * 1000)
    (tmp_path / "dagster" / ".ready").touch()
    asked = queuecast("ui", home=tmp_path)
    assert asked.returncode == 1
    assert "queuecast: a database of the site: file is not a database" in asked.stderr
