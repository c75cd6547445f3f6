"""POLICY(...) among the names of schedulers: resolved to the exact formula, or refused in one line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from features.errors import InputError
from pipelines.lake.registry import make_policy, read_policy, resolve, resolved, write_policy
from sim.schedulers.names import scheduler
from tests.support.workloads import crowd

RULE = "r**a*n-min(wait,2);a=2.0"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place, area = tmp_path_factory.mktemp("policies"), make_policy("area", "R**a * n - min(wait, 2); a=2", backfill="SQF")
    for name in ("a-b(1).json", "it's-EASY-SPF.json"):
        write_policy(place / name, area)
    write_policy(place / "plans.json", make_policy("area", "r", algorithm="EASY(plans=requested)"))
    write_policy(place / "just.json", make_policy("area", "r", algorithm="JustBF", backfill=""))
    write_policy(place / "plain.json", make_policy("area", "r**a*n;a=2"))
    return place


@pytest.fixture(autouse=True)
def within(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in the folder, whose registry is empty."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("QUEUECAST_HOME", str(folder / "home"))


def refused(name: str) -> str:
    with pytest.raises(InputError) as raised:
        resolved(name)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) <= 300
    return str(raised.value)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("SAF-EASY-SPF", "SAF-EASY-SPF"),
        ("POLICY(a-b(1).json)-EASY-SPF", f"SCORE({RULE})-EASY-SPF"),
        ("policy(it's-EASY-SPF.json)-JustBF", f"SCORE({RULE})-JustBF"),
        ("POLICY(a-b(1).json)", f"SCORE({RULE})-EASY-SQF"),
        ("POLICY(a-b(1).json)+RUSH(model=oracle)", f"SCORE({RULE})-EASY-SQF+RUSH(model=oracle)"),
        ("POLICY(plans.json)", "SCORE(r)-EASY(plans=requested)-SPF"),
        ("POLICY(just.json)", "SCORE(r)-JustBF"),
        ("POLICY(a-b(1).json)-EASY(reservations=2)-FCFS", f"SCORE({RULE})-EASY(reservations=2)-FCFS"),
    ],
)
def test_the_formula_stands_in_the_place_of_the_policy(name: str, expected: str) -> None:
    assert resolved(name) == expected
    scheduler(expected)


def test_a_resolved_policy_makes_the_schedule_of_its_formula() -> None:
    load = crowd(np.random.default_rng(7), size=60, machine=16)
    policy = resolve("POLICY(a-b(1).json)-EASY-SPF")
    assert policy.policies == {"a-b(1).json": read_policy("a-b(1).json")}
    starts = load.schedule(policy.scheduler).jobs["start_s"]
    assert starts.equals(load.schedule("SCORE(r**2*n-min(wait,2))-EASY-SPF").jobs["start_s"])
    assert not starts.equals(load.schedule("EASY-SPF").jobs["start_s"])
    for name in ("POLICY(a-b(1).json)-EASY-SPF", "policy(a-b(1).json)"):
        with pytest.raises(InputError, match=r"call pipelines\.lake\.registry\.resolved\(NAME\) first"):
            load.schedule(name)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("POLICY(none.json)-EASY", "none.json: no such file"),
        ("POLICY(none.json", "a bracket is not closed"),
        ("POLICY()-EASY", "POLICY(FILE.json), POLICY(registry:NAME) and POLICY(registry:NAME@ALIAS) are policies"),
        ("POLICY(registry:)-EASY", "are policies"),
        (f"POLICY({'x' * 256})", "cannot be read: File name too long"),
        ("POLICY(registry:policy-kth-sp2)-EASY", "no registered model policy-kth-sp2@champion at sqlite"),
    ],
)
def test_an_unknown_policy_is_refused(name: str, error: str) -> None:
    assert error in refused(name)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"formula": "r*memory"}, "'memory' at letter 3 is not a feature"),
        ({"formula": "__import__('os').system('true')"}, "cannot have"),
        ({"parameters": {"n": 2}}, "'n=2.0' is not of the form NAME=VALUE"),
        ({"backfill": "EASY"}, "algorithm 'EASY' with backfill 'EASY' cannot serve a queue in this order: EASY with SPF can"),
        ({"algorithm": "PlanRS", "backfill": ""}, "algorithm 'PlanRS' with backfill '' cannot serve"),
    ],
)
def test_a_file_that_cannot_be_simulated_is_refused(changes: dict[str, object], error: str) -> None:
    plain = json.loads(Path("plain.json").read_text())
    Path("wrong.json").write_text(json.dumps({**plain, **changes}))
    message = refused("POLICY(wrong.json)-EASY-SPF")
    assert error in message
    assert message.startswith("wrong.json: ")
