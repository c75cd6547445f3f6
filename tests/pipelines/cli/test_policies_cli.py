"""``queuecast policies`` learns an order, and a fresh process simulates files and registered versions."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import mlflow
import numpy as np
import pytest

from models.policies import dumps
from models.registry.policy_registration import register
from pipelines.lake.registry import read_policy, tracking
from tests.models.test_policies import LEARNED
from tests.support.command import queuecast
from tests.support.process import python
from tests.support.workloads import weekly_crowds

JOBS = "; MaxProcs: 8\n" + "".join(
    f"{job + 1} {9 * job} -1 {runtime} {procs} -1 -1 {procs} {2 * runtime} -1 1 1 1 1 1 1 -1 -1\n"
    for job, (runtime, procs) in enumerate(
        zip(*(np.random.default_rng(4).integers(1, most, 80).tolist() for most in (200, 9)), strict=True)
    )
)


def weeks(count: int) -> str:
    """Return a crowd in each of some weeks, as an SWF file."""
    lines = ["; MaxProcs: 64"]
    for number, submit, runtime, procs, requested, _ in weekly_crowds(count, 15):
        lines.append(f"{number} {submit} -1 {runtime} {procs} -1 -1 {procs} {requested} -1 1 1 1 -1 -1 -1 -1 -1")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield a folder with traces, a learned policy, and a home whose registry holds it."""
    folder = tmp_path_factory.mktemp("policies")
    before = mlflow.get_tracking_uri()
    (folder / "tiny.swf").write_text(JOBS)
    (folder / "crowd.swf").write_text(weeks(17))
    (folder / "short.swf").write_text(weeks(5))
    (folder / "kth.json").write_text(dumps(LEARNED))
    store = tracking(f"sqlite:///{folder / 'home' / 'mlflow.db'}")
    version = register(store, LEARNED, "kth-sp2").version
    store.client.set_registered_model_alias("policy-kth-sp2", "champion", version)
    yield folder
    mlflow.set_tracking_uri(before)


@pytest.mark.slow
def test_an_order_is_learned_on_a_trace_and_written(place: Path) -> None:
    asked = ("policies", "crowd.swf", "--budget", "4", "--starvation", "none", "--out", "crowd.json")
    done = queuecast(*asked, home=place / "home", cwd=place)
    assert done.returncode == 0, done.stderr
    policy = read_policy(place / "crowd.json")
    assert (policy.name, policy.starvation_s, policy.behind) == ("crowd", None, "-EASY-SPF")
    assert policy.trained is not None
    assert policy.evidence is not None
    assert (policy.trained.weeks, policy.evidence.weeks) == (tuple(range(1, 12)), tuple(range(12, 17)))
    assert f"{policy.evidence.relative:+.1%} ({policy.evidence.low:+.1%} to {policy.evidence.high:+.1%}, 95%)" in done.stdout
    assert "against SAF-EASY-SPF on weeks 12-16" in done.stdout
    for arguments, error in (
        (("short.swf",), "short: 4 whole weeks with jobs are too few to learn from; 8 are needed"),
        (("crowd.swf", "--formula", "r*n**a;a=1"), "fewer than the two parameters that a search takes"),
        (("crowd.swf", "--budget", "0"), "--budget must be at least 1, not '0'"),
    ):
        done = queuecast("policies", *arguments, "--out", "x.json", home=place / "home", cwd=place)
        assert done.returncode == 2
        assert error in done.stderr
    assert not (place / "x.json").exists()


@pytest.mark.slow
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


@pytest.mark.slow
def test_every_command_that_takes_a_scheduler_takes_a_policy(place: Path) -> None:
    asked = ["--scheduler", "EASY", "--scheduler", "POLICY(registry:policy-kth-sp2)-EASY-SPF"]
    done = queuecast("campaign", "tiny.swf", *asked, "--out", "out.parquet", home=place / "home", cwd=place)
    assert done.returncode == 0, done.stderr
    assert "SCORE(r**a*n;a=2.0)-EASY-SPF" in done.stdout
    once = ("evaluate", "tiny.swf", "--predictor", "requested", "--scheduler", "policy(kth.json)")
    done = queuecast(*once, home=place / "home", cwd=place)
    assert done.returncode == 0, done.stderr
    assert "POLICY(kth.json) is SCORE(r**a*n;a=2.0)" in done.stderr
    for command in (
        ["run", "--trace", "tiny.swf"],
        ["campaign", "tiny.swf", "--out", "x"],
        ["evaluate", "tiny.swf"],
    ):
        done = queuecast(*command, "--scheduler", "POLICY(registry:policy-none)-EASY", home=place / "home", cwd=place)
        assert done.returncode == 2
        assert done.stderr.startswith("queuecast: no registered model policy-none@champion at ")
        assert done.stderr.count("\n") == 1
