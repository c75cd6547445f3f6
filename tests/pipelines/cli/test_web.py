"""The web servers: what they refuse and say, whose orders they take, and the pages beside Dagster's."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import requests
from click.testing import CliRunner
from starlette.applications import Starlette
from starlette.routing import Mount, Route

from features.errors import InputError
from pipelines.cli import web
from pipelines.cli.web import _page, answer
from pipelines.lake.instance import LOCATION, instance
from pipelines.readers.site_file import apart
from pipelines.serving import app, models
from pipelines.serving.app import Service
from tests.support.command import queuecast
from tests.support.patience import GIVEN_S, wait_until
from tests.support.process import python

CHANGE = {"query": "mutation { reloadWorkspace { __typename } }"}
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


async def reached(scope, receive, send):
    """Answer 200 to requests, and accept websockets."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.close"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@pytest.fixture(scope="module")
def port():
    """Serve an application under the site's name queue.example.org, too."""
    app = Starlette(routes=[Route("/pages/{name:path}", _page), Mount("/", reached)])
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    serving = {"target": answer, "args": (app, "127.0.0.1", port, ("queue.example.org",)), "kwargs": {"lifespan": "off"}}
    threading.Thread(**serving, daemon=True).start()
    wait_until(lambda: listens(port))
    return port


def listens(port):
    """Tell whether a server listens at a port."""
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


def asked(port, method, path, body=None, **headers):
    """Return the answer, and its content."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, body, {"Host": f"localhost:{port}", **headers})
    done = connection.getresponse()
    return done, b"" if done.status == 101 else done.read()


def test_programs_and_own_pages_are_served_and_never_in_a_frame(port):
    own = {"Origin": f"http://localhost:{port}"}
    for headers in ({}, own):
        done, _ = asked(port, "POST", "/graphql", "{}", **headers)
        assert (done.status, done.headers["x-frame-options"]) == (200, "SAMEORIGIN")
    proxied = {"Host": "queue.example.org", "Origin": "https://queue.example.org"}
    assert asked(port, "POST", "/graphql", "{}", **proxied)[0].status == 200
    assert asked(port, "GET", "/assets?query=x")[0].status == 200
    assert asked(port, "GET", "/graphql", **UPGRADE, **own)[0].status == 101


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example:3000", "evil@localhost", "localhost.", ""])
def test_another_name_of_the_host_is_refused(host, port):
    assert asked(port, "GET", "/", Host=host)[0].status == 400


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "", "http://localhost:8080", "http://localhost", "http://evil.example@localhost"]
)
def test_another_sites_page_is_refused(origin, port):
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for headers in (form, UPGRADE):
        assert asked(port, "POST" if headers is form else "GET", "/graphql", Origin=origin, **headers)[0].status == 403


@pytest.mark.parametrize("path", ["/graphql", "/graphql/", "/%67raphql"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_no_query_stands_in_an_address(method, path, port):
    assert asked(port, method, f"{path}?%71uery=mutation")[0].status == 405


def test_published_pages_are_served_and_no_other_file(port, tmp_path, monkeypatch):
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path))
    (tmp_path / "reports" / "nights").mkdir(parents=True)
    (tmp_path / "reports" / "nights" / "2026-03-01.html").write_text("<p>a night")
    (tmp_path / "reports" / "secret.txt").write_text("no page")
    (tmp_path / "x.html").write_text("no page")
    assert asked(port, "GET", "/pages/nights/2026-03-01.html")[1] == b"<p>a night"
    for other in (
        "secret.txt",
        "../x.html",
        "%2e%2e/x.html",
        "nights/../../x.html",
        f"{tmp_path}/x.html",
        "gone.html",
        "nights",
    ):
        assert asked(port, "GET", f"/pages/{other}")[0].status == 404


def test_a_head_without_end_is_refused(port):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as asking:
        asking.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 400_000)
        assert asking.recv(100).startswith(b"HTTP/1.1 400")


def test_servers_listen_on_loopback_by_default():
    assert [{each.name: each.default for each in app.params}["host"] for app in (web.ui, web.serve)] == ["127.0.0.1"] * 2


def test_children_run_no_module_of_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "queuecast.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    for name, value in {"QUEUECAST_HOME": "own", "PYTHONPATH": "ours", "QUEUECAST_LAKE": "shared"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("QUEUECAST_CATALOGUE", "")
    environment = apart()
    assert environment["QUEUECAST_HOME"] == str(tmp_path / "own")
    assert environment["QUEUECAST_LAKE"] == str(tmp_path / "shared")
    assert environment["QUEUECAST_CATALOGUE"] == str(tmp_path / "queuecast.toml")
    assert environment["PYTHONPATH"].split(":")[0] == str(tmp_path / "ours")
    assert environment["PYTHONSAFEPATH"] == "1"


@pytest.mark.thorough
def test_the_command_serves_dagster_with_our_code_and_ends_with_its_children(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "dagster.py").write_text("raise SystemExit('ran what lies in the working directory')")
    own = f"http://127.0.0.1:{port}"
    environment = {**apart(), "QUEUECAST_HOME": str(tmp_path / "home")}
    environment.pop("DAGSTER_HOME", None)
    command = [sys.executable, "-m", "pipelines", "ui", "--only", "web", "--port", str(port)]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell starts what stands before an ampersand
    running = subprocess.Popen(command, cwd=tmp_path, env=environment)
    signal.signal(signal.SIGINT, before)
    with running:
        try:
            for _ in range(1200):
                if running.poll() is not None:
                    break
                try:
                    requests.get(own, timeout=60)
                    break
                except requests.ConnectionError:
                    time.sleep(0.1)
            wanted = {"query": "{ repositoriesOrError { ... on RepositoryConnection { nodes { location { name } } } } }"}
            answered = requests.post(f"{own}/graphql", json=wanted, headers={"origin": own}, timeout=60).json()
            assert answered["data"]["repositoriesOrError"]["nodes"] == [{"location": {"name": "queuecast"}}]
            assert (
                requests.post(f"{own}/graphql", data=CHANGE, headers={"origin": "http://evil.example"}, timeout=60).status_code
                == 403
            )
        finally:
            running.terminate()
    assert running.returncode is not None


class Down:
    """A registry that does not answer, or that knows no model."""

    says = "registry http://registry.example: refused"

    def version(self, name: str, alias: str) -> str:
        if self.says:
            raise InputError(self.says)
        return ""

    def alternatives(self, name: str) -> str:
        return "its aliases: challenger, champion"


@pytest.fixture
def started(monkeypatch) -> list[Service]:
    """Return the services that would be run."""
    services: list[Service] = []
    monkeypatch.setattr(web, "_run", lambda app, host, port, names: None)
    monkeypatch.setattr(app, "application", services.append)
    monkeypatch.setattr(models, "SiteRegistry", Down)
    monkeypatch.setattr(Down, "says", Down.says)
    return services


def run(*options: str):
    return CliRunner().invoke(web.serve, options, catch_exceptions=False)


def test_it_starts_without_an_answer_of_the_registry_and_says_so(started):
    lines = run("runtime-a", "runtime-b@challenger", "--stale-after", "36").stderr.splitlines()
    assert lines == [f"{name} does not answer yet: {Down.says}" for name in ("runtime-a@champion:", "runtime-b@challenger:")]
    assert started[0].stale_after_s == 36 * 3600
    assert [each.alias for each in started[0].models] == ["champion", "challenger"]


def test_a_model_that_the_registry_does_not_know_is_refused(started):
    Down.says = ""
    with pytest.raises(
        InputError, match="no registered model runtime-a@champion: its aliases: challenger, champion; queuecast run"
    ):
        run("runtime-a")
    assert not started


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["variability-x"], "is not the name of a model of runtimes or starts"),
        (["runtime-a", "runtime-a@challenger"], "is named twice"),
    ],
)
def test_what_cannot_be_served_is_refused(started, options, why):
    with pytest.raises(InputError, match=why):
        run(*options)


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
