"""What ``queuecast ui`` and the metadata it shows must not get wrong."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import requests

from pipelines.lake.instance import LOCATION, instance
from tests.support.command import queuecast
from tests.support.patience import GIVEN_S
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


PLACE = {"repositoryName": "__repository__", "repositoryLocationName": LOCATION}


def literal(value: object) -> str:
    """Return a value as GraphQL writes it: keys without quotes."""
    return re.sub(r'"(\w+)":', r"\1:", json.dumps(value))


@contextmanager
def served(home: Path) -> Iterator[Callable[[str], dict[str, Any]]]:
    """Start the interface on ``home``; yield a function that sends it a query."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "pipelines", "ui", "--port", str(port)]
    with (home / "ui.log").open("a") as log, subprocess.Popen(command, cwd=HOUSE, stdout=log, stderr=log) as server:

        def ask(query: str) -> dict[str, Any]:
            answer = requests.post(f"http://127.0.0.1:{port}/graphql", json={"query": query}, timeout=GIVEN_S)
            return answer.json()["data"]

        def answers() -> bool:
            with suppress(requests.ConnectionError):
                return bool(ask("{ version }"))
            return False

        try:
            wait_for(answers, (True,))
            yield ask
        finally:
            server.terminate()
            server.wait(GIVEN_S)


def wait_for(look: Callable[[], Any], ends: Container[Any]) -> Any:
    """Return what ``look`` sees once that is one of ``ends``."""
    until = time.monotonic() + GIVEN_S
    while (seen := look()) not in ends:
        assert time.monotonic() < until, seen
        time.sleep(0.5)
    return seen


@pytest.mark.thorough
@pytest.mark.slow
def test_what_is_launched_in_the_browser_runs_and_states_stay_over_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path))
    with instance() as running:
        running.add_dynamic_partitions("traces", ["kth-sp2"])
    with served(tmp_path) as ask:
        params = {
            "selector": {**PLACE, "jobName": "__ASSET_JOB", "assetSelection": [{"path": ["jobs"]}], "assetCheckSelection": []},
            "executionMetadata": {"tags": [{"key": "dagster/partition", "value": "kth-sp2"}]},
        }
        run = ask(
            f"mutation {{ launchRun(executionParams: {literal(params)}) {{ ... on LaunchRunSuccess {{ run {{ runId }} }} }} }}"
        )
        state = f'{{ runOrError(runId: "{run["launchRun"]["run"]["runId"]}") {{ ... on Run {{ status }} }} }}'
        assert wait_for(lambda: ask(state)["runOrError"]["status"], ("SUCCESS", "FAILURE")) == "SUCCESS"
        stop = ask(
            f"{{ sensorOrError(sensorSelector: {literal({**PLACE, 'sensorName': 'failed_nights'})}) {{ ... on Sensor {{ sensorState {{ id }} }} }} }}"
        )
        ask(f'mutation {{ stopSensor(id: "{stop["sensorOrError"]["sensorState"]["id"]}") {{ __typename }} }}')
        ticked = f"{{ sensorOrError(sensorSelector: {literal({**PLACE, 'sensorName': 'drift'})}) {{ ... on Sensor {{ sensorState {{ ticks {{ id }} }} }} }} }}"
        ticks = wait_for(lambda: len(ask(ticked)["sensorOrError"]["sensorState"]["ticks"]), range(1, 99))
    with served(tmp_path) as ask:
        left = ask(
            f"{{ sensorOrError(sensorSelector: {literal({**PLACE, 'sensorName': 'failed_nights'})}) {{ ... on Sensor {{ sensorState {{ status }} }} }} }}"
        )
        assert left["sensorOrError"]["sensorState"]["status"] == "STOPPED"
        assert len(ask(ticked)["sensorOrError"]["sensorState"]["ticks"]) >= ticks
