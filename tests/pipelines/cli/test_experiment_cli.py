"""``queuecast variability experiment`` and ``emit``: what they print and write, and one line with exit code 2 for what cannot be done."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support import command

pytestmark = pytest.mark.usefixtures("undrawn_pictures")
SMALL = ("--trials", "2", "--scheduler", "EASY+RUSH(model=oracle,skips=5)")


def queuecast(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return command.queuecast("variability", *arguments, home=place / "home", cwd=place)


def test_an_experiment_is_the_same_again_and_says_that_it_is_simulated(tmp_path: Path) -> None:
    first, second = (queuecast(tmp_path, "experiment", *SMALL, "--json") for _ in range(2))
    assert first.returncode == second.returncode == 0, first.stderr
    assert first.stdout == second.stdout
    rows = [json.loads(line) for line in first.stdout.splitlines()]
    assert all(row["simulated"] is True for row in rows)
    assert {row["note"] for row in rows if row["metric"] == "mean_wait_s"} == {"no interval: 2 trials are too few"}
    assert {row["replicates"] for row in rows} == {2}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("experiment", "--scheduler", "EASY+RUSH(model=nope)"), "known models"),
        (("experiment", "--scheduler", "EASY-SJBF", "--predictor", "served"), "runtime-simulated: is not registered yet"),
        (("emit", "--cluster", "nope", "--out", "new"), "'nope' is not one of"),
        (("emit", "--out", "full"), "full: is there already and not empty"),
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
    assert "5 control runs: 5 new" in done.stderr
    assert "512 nodes with a leaf: 512 new" in done.stderr
    assert "0 quarantined" in done.stderr
