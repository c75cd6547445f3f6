"""``queuecast variability emit``: what it writes, and one line with exit code 2 for what cannot be done."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support import command


def queuecast(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return command.queuecast("variability", *arguments, home=place / "home", cwd=place)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("emit", "--cluster", "nope", "--out", "new"), "'nope' is not one of"),
        (("emit", "--out", "full"), "full: already holds other data"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_exit_code_2(tmp_path: Path, arguments: tuple[str, ...], error: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    done = queuecast(tmp_path, *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert error in done.stderr
    assert not (tmp_path / "new").exists()


@pytest.mark.thorough
def test_what_is_emitted_can_be_ingested(tmp_path: Path) -> None:
    done = queuecast(tmp_path, "emit", "--days", "0.005", "--gzip", "--out", "site")
    assert done.returncode == 0, done.stderr
    assert "simulated cluster congested" in done.stderr
    assert "SIMULATED" in (tmp_path / "site" / "README.txt").read_text()
    places = ("--runs", "site/runs.csv", "--probes", "site/probes.csv", "--types", "site/types.csv")
    places += ("--topology", "site/topology.conf")
    done = queuecast(tmp_path, "ingest", "--system", "sim", "--counters", "site/counters", *places)
    assert done.returncode == 0, done.stderr
    assert "6 control runs: 6 new" in done.stderr
    assert "512 nodes with a leaf: 512 new" in done.stderr
    assert "0 quarantined" in done.stderr
