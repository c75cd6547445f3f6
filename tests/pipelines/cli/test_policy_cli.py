"""``queuecast policy``: from a formula to a registered version that a fresh process simulates."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import mlflow
import numpy as np
import pytest

from models.policies import dumps, loads
from models.registry import registration
from pipelines.storage.policies import read_policy, resolved
from pipelines.storage.registry import tracking
from pipelines.workflows.registered_policy import register_policy
from tests.models.test_policies import LEARNED
from tests.support.command import queuecast
from tests.support.process import python

JOBS = "; MaxProcs: 8\n" + "".join(
    f"{job + 1} {9 * job} -1 {runtime} {procs} -1 -1 {procs} {2 * runtime} -1 1 1 1 1 1 1 -1 -1\n"
    for job, (runtime, procs) in enumerate(
        zip(*(np.random.default_rng(4).integers(1, most, 80).tolist() for most in (200, 9)), strict=True)
    )
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield a folder with a trace, a learned policy, and a home whose registry holds it."""
    folder = tmp_path_factory.mktemp("policies")
    before = mlflow.get_tracking_uri()
    (folder / "tiny.swf").write_text(JOBS)
    (folder / "kth.json").write_text(dumps(LEARNED))
    done = queuecast("policy", "register", "kth.json", "--json", home=folder / "home", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "model": "policy-kth-sp2",
        "version": "1",
        "alias": "champion",
        "scheduler": "POLICY(registry:policy-kth-sp2@champion)-EASY-SPF",
    }
    assert done.stderr == ""
    yield folder
    mlflow.set_tracking_uri(before)


def test_a_fresh_process_loads_the_registered_policy_and_simulates_it(place: Path) -> None:
    names = [
        "EASY-SPF",
        "POLICY(registry:policy-kth-sp2@champion)-EASY-SPF",
        "POLICY(registry:policy-kth-sp2@1)",
        "POLICY(kth.json)",
    ]
    simulate = ["simulate", "tiny.swf", "--json", *(each for name in names for each in ("--scheduler", name))]
    house = Path(__file__).parents[3]
    alone = python(
        ["-m", "pipelines", *simulate],
        cwd=place,
        env={**os.environ, "QUEUECAST_HOME": str(place / "home"), "PYTHONPATH": str(house)},
    )
    assert alone.returncode == 0, alone.stderr
    rows = [json.loads(line) for line in alone.stdout.splitlines()]
    assert [row["scheduler"] for row in rows] == ["EASY-SPF", *["SCORE(r**a*n;a=2.0)-EASY-SPF"] * 3]
    assert rows[1]["mean_wait_s"] == rows[2]["mean_wait_s"] == rows[3]["mean_wait_s"] != rows[0]["mean_wait_s"]
    assert "POLICY(kth.json) is SCORE(r**a*n;a=2.0), meant for --predictor last2 --starvation 200000" in alone.stderr


def test_every_command_that_takes_a_scheduler_takes_a_policy(place: Path) -> None:
    asked = ["--scheduler", "EASY", "--scheduler", "POLICY(registry:policy-kth-sp2)-EASY-SPF"]
    done = queuecast("campaign", "tiny.swf", *asked, "--out", "out.parquet", home=place / "home", cwd=place)
    assert done.returncode == 0, done.stderr
    assert "SCORE(r**a*n;a=2.0)-EASY-SPF" in done.stdout
    for command in (
        ["run", "--trace", "tiny.swf"],
        ["bench", "--quick"],
        ["variability", "experiment"],
        ["campaign", "tiny.swf", "--out", "x"],
    ):
        done = queuecast(*command, "--scheduler", "POLICY(registry:policy-none)-EASY", home=place / "home", cwd=place)
        assert done.returncode == 2
        assert done.stderr.startswith("queuecast: no registered model policy-none@champion at ")
        assert done.stderr.count("\n") == 1


def test_a_formula_becomes_a_file_and_a_version_without_evidence_is_told(place: Path) -> None:
    home = place / "home"
    done = queuecast(
        "policy", "write", "R*R * n", "--name", "area", "--starvation", "72000", "--out", "area.json", home=home, cwd=place
    )
    assert (done.returncode, done.stderr) == (0, "wrote area.json\n")
    assert read_policy(place / "area.json").formula == "r*r*n"
    done = queuecast("policy", "register", "area.json", home=home, cwd=place)
    assert (done.returncode, done.stderr) == (
        2,
        "queuecast: area.json: does not say on which trace it was learned: name one with --trace\n",
    )
    done = queuecast("policy", "register", "area.json", "--trace", "tiny", "--alias", "challenger", home=home, cwd=place)
    assert (done.returncode, done.stderr) == (0, "area: nothing says what it gains\n")
    shown = queuecast("policy", "show", "registry:policy-tiny@challenger", "--json", "--out", "back.json", home=home, cwd=place)
    assert loads(shown.stdout, "shown") == read_policy(place / "area.json") == read_policy(place / "back.json")
    told = queuecast("policy", "show", "kth.json", home=home, cwd=place).stdout
    assert "scheduler   SCORE(r**a*n;a=2.0)-EASY-SPF" in told
    assert "on weeks 1-3 of kth-sp2: sum of weekly means, tau 60 s, seed 7, 1,000 trials" in told
    for arguments, error in (
        (("register", "area.json", "--trace", "../x"), "registry: '../x' is no name"),
        (("register", "area.json", "--trace", "tiny", "--alias", "v1"), "alias 'v1': is no alias"),
        (("register", "area.json", "--trace", "tiny", "--alias", "3"), "alias '3': is no alias"),
        (("write", "r*m", "--name", "area", "--out", "x.json"), "no feature 'm'"),
        (("write", "r", "--name", "A B", "--out", "x.json"), "'A B' is no name"),
        (
            ("write", "r", "--name", "a", "--backfill", "none", "--out", "x.json"),
            "algorithm 'EASY' with backfill 'none' is none",
        ),
        (("show", "none.json"), "none.json: no such file"),
        (("show", "area.json", "--out", "area.json"), "would overwrite what is read"),
    ):
        done = queuecast("policy", *arguments, home=home, cwd=place)
        assert done.returncode == 2
        assert error in done.stderr
        assert done.stderr.count("\n") == 1
    assert not (place / "x.json").exists()


def test_a_registration_that_fails_leaves_no_version_and_the_champion(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUECAST_HOME", str(place / "home"))
    before = resolved("POLICY(registry:policy-kth-sp2)")

    def broken(*_: object) -> str:
        raise OSError("no room")

    monkeypatch.setattr(registration, "describe", broken)  # the version is made by then
    with pytest.raises(OSError, match="no room"):
        register_policy(read_policy(place / "area.json"), "kth-sp2")
    monkeypatch.undo()
    monkeypatch.setenv("QUEUECAST_HOME", str(place / "home"))
    assert [each.version for each in tracking().client.search_model_versions("name = 'policy-kth-sp2'")] == [1]
    assert resolved("POLICY(registry:policy-kth-sp2)") == before
