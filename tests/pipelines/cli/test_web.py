"""The web servers take orders from their own pages only, and serve published pages beside Dagster's."""

from __future__ import annotations

import http.client
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
import requests
from starlette.applications import Starlette
from starlette.routing import Mount, Route

from pipelines.cli import web
from pipelines.cli.web import _page, answer
from pipelines.readers.site_file import apart
from tests.support.patience import wait_until

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
    for page in ("nights/2026-02-28", "nights/2026-03-01", "ours"):
        (tmp_path / "reports" / f"{page}.html").write_text("<p>a night")
    (tmp_path / "reports" / "secret.txt").write_text("no page")
    (tmp_path / "x.html").write_text("no page")
    assert asked(port, "GET", "/pages/nights/2026-03-01.html")[1] == b"<p>a night"
    listed = re.findall(rb'href="/pages/([^"]+).html"', asked(port, "GET", "/pages/")[1])
    assert listed == [b"ours", b"nights/2026-03-01", b"nights/2026-02-28"], "the last night is not below all others"
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
