"""``queuecast variability experiment`` and ``emit``: what they print and write, and one line with exit code 2 for what cannot be done."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from features.errors import InputError
from pipelines.cli.variability import experiment
from pipelines.storage.parquet import read_parquet
from pipelines.workflows.cluster_experiments import Plan
from tests.support import command

RUSH = "EASY+RUSH(model=knn,skips=5)"
SMALL = ("--trials", "2", "--days", "0.05", "--scheduler", "EASY", "--scheduler", RUSH)


def queuecast(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return command.queuecast("variability", *arguments, home=place / "home", cwd=place)


def test_an_experiment_is_printed_written_and_drawn_and_says_that_it_is_simulated(tmp_path: Path) -> None:
    done = queuecast(tmp_path, "experiment", "adpa", *SMALL, "--report", "page.html", "--out", "numbers")
    assert done.returncode == 0, done.stderr
    tables = [line for line in done.stdout.splitlines() if line.startswith("ADPA")]
    assert len(tables) == 6
    assert all("simulated" in line for line in tables)
    assert "beside Nichols et al." in done.stdout
    assert "RUSH knn, 5 skips" in done.stdout
    assert "Simulated" in (tmp_path / "page.html").read_text()
    runs, stated = read_parquet(tmp_path / "numbers" / "ADPA.runs.parquet", kind="cluster_runs")
    assert len(runs) == 2 * 2 * 150
    assert (stated["generated"], stated["trials"], stated["schedulers"]) == (True, 2, ["EASY", RUSH])
    found, _ = read_parquet(tmp_path / "numbers" / "ADPA.comparison.parquet", kind="cluster_comparison")
    assert set(found["scheduler"]) == {"EASY", RUSH}
    assert set(found["stratum"]) >= {"all"}


def test_by_default_jobs_wait_patiently_for_the_classifier_of_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[Plan] = []

    def conducted(plan: Plan, **_: object) -> None:
        plans.append(plan)
        raise InputError("planned")

    monkeypatch.setattr("pipelines.workflows.cluster_experiments.conduct", conducted)
    for arguments in ((), ("--classifier", "knn", "--classifier", "lightgbm")):
        assert CliRunner().invoke(experiment.command, arguments).exit_code
    patient = "EASY+RUSH(model={},patience=1200,every=10)"
    references = tuple(map(patient.format, ("oracle", "nowcast", "coin")))
    assert plans[0].schedulers == ("EASY", patient.format("ordinal"), *references)
    assert plans[1].schedulers == ("EASY", patient.format("knn"), patient.format("lightgbm"), *references)
    assert plans[0].trial_seeds == plans[1].trial_seeds


def test_json_is_one_simulated_number_a_line_and_the_same_again(tmp_path: Path) -> None:
    first, second = (queuecast(tmp_path, "experiment", "ADPA", *SMALL, "--threads", threads, "--json") for threads in ("2", "1"))
    assert first.returncode == second.returncode == 0, first.stderr
    assert first.stdout == second.stdout
    rows = [json.loads(line) for line in first.stdout.splitlines()]
    assert all(row["simulated"] is True and row["cluster"] == "congested" and row["experiment"] == "ADPA" for row in rows)
    assert {row["application"] for row in rows} == {"all", "Laghos", "LBANN", "PENNANT"}
    assert all(row["low"] is row["error"] is None for row in rows)  # two trials give no interval
    assert {row["trials"] for row in rows if row["stratum"] == "all"} == {2}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("experiment", "NOPE"), "unknown experiment 'NOPE'; known: ADAA, ADPA, PDPA, WS, SS"),
        (("experiment", "--cluster", "nope"), "unknown cluster 'nope'; known: quiet, congested, stormy"),
        (("experiment", "--scheduler", "EASY", "--scheduler", "EASY+RUSH(model=nope)"), "known models"),
        (("experiment", "--scheduler", "EASY", "--classifier", "knn"), "name the model there"),
        (("experiment", "--model", "runtime-kth-sp2@champion"), "not of the form variability-SYSTEM@champion"),
        (("experiment", "--classifier", "nope"), "'nope' is not one of"),
        (("emit", "--cluster", "nope", "--out", "new"), "unknown cluster 'nope'"),
        (("emit", "--out", "full"), "full: is there already and not empty"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_exit_code_2(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    done = queuecast(tmp_path, *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert said in done.stderr
    assert not (tmp_path / "new").exists()


def test_what_is_emitted_can_be_ingested(tmp_path: Path) -> None:
    done = queuecast(
        tmp_path, "emit", "--days", "0.005", "--each", "2", "--rotate", "20", "--gzip", "--origin", "1700000000", "--out", "site"
    )
    assert done.returncode == 0, done.stderr
    assert "simulated cluster congested" in done.stderr
    assert "SIMULATED" in (tmp_path / "site" / "README.txt").read_text()
    places = ("--runs", "site/runs.csv", "--probes", "site/probes.csv", "--types", "site/types.csv")
    places += ("--topology", "site/topology.conf")
    done = queuecast(tmp_path, "ingest", "--system", "sim", "--counters", "site/counters", *places)
    assert done.returncode == 0, done.stderr
    assert "12 control runs: 12 new" in done.stderr
    assert "512 nodes with a leaf: 512 new" in done.stderr
    assert "0 quarantined" in done.stderr
