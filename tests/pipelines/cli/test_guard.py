"""The web server takes orders from its own pages only: the guard alone, and before Dagster's own application."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import socket
import subprocess
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from urllib.parse import quote

import pytest
import yaml
from dagster import DagsterInstance

from features.errors import InputError
from pipelines.cli import serve, ui
from pipelines.cli.guard import allowed_hosts, guarded
from pipelines.cli.ui import behind_guard
from pipelines.cli.webserver import LARGEST

HOUSE = Path(__file__).resolve().parents[3]
PORT = 3000
HOST = f"localhost:{PORT}"
JSON = ("content-type", "application/json")
READS, CHANGES = "{ version }", "mutation { reloadWorkspace { __typename } }"
HIDDEN = "query Q { version } mutation M { reloadWorkspace { __typename } }"


def answered(method="GET", path="/", headers=(("host", HOST),), body=b"", query="", kind="http", hosts=None):
    """Return status, headers and what reached the application: its body, or None."""
    reached, sent = [], []

    async def app(scope, receive, send):
        message = await receive() if scope["type"] == "http" else {}
        reached.append(message.get("body", b""))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    scope = {"type": kind, "method": method, "path": path, "query_string": query.encode()}
    scope["headers"] = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    asyncio.run(guarded(app, hosts or allowed_hosts("127.0.0.1", PORT))(scope, receive, send))
    return sent[0]["status"], dict(sent[0].get("headers", [])), reached[0] if reached else None


def post(*headers, body=None, **more):
    body = json.dumps({"query": CHANGES}).encode() if body is None else body
    return answered("POST", "/graphql", (("host", HOST), *headers), body, **more)


def test_its_own_pages_are_served():
    own = ("origin", f"http://{HOST}")
    assert answered()[::2] == (200, b"")
    assert post(JSON, own, ("sec-fetch-site", "same-origin"))[::2] == (200, json.dumps({"query": CHANGES}).encode())
    assert post(("content-type", "Application/JSON; charset=utf-8"), own)[0] == 200
    assert post(JSON)[0] == 200  # no browser: a client of the site's own
    assert answered(path="/graphql", query="query=" + quote(READS))[0] == 200
    assert answered(path="/graphql", kind="websocket", headers=(("host", HOST), own))[0] == 200
    followed = (("host", HOST), ("sec-fetch-site", "cross-site"), ("sec-fetch-dest", "document"))
    assert answered(path="/runs/1", headers=followed)[0] == 200


@pytest.mark.parametrize("host", ["LocalHost:3000", "[::1]:3000", "127.0.0.1", "localhost:3001"])
def test_names_are_served_in_any_case_and_without_a_look_at_the_port(host):
    assert answered(headers=(("host", host),))[0] == 200


def test_an_answer_is_in_no_other_sites_frame():
    for headers in (answered()[1], answered("PUT")[1]):
        assert headers[b"x-frame-options"] == b"SAMEORIGIN"
        assert headers[b"x-content-type-options"] == b"nosniff"


EVIL = ["evil.example", f"evil.example:{PORT}", f"{HOST}.evil.example", f"localhost.:{PORT}", "", f"evil@{HOST}", "[::2]:3000"]


@pytest.mark.parametrize("hosts", [*([each] for each in EVIL), [], [HOST, "evil.example"]])
@pytest.mark.parametrize("path", ["/", "/graphql", "/logs/a/b.err", "/notebook", "/download_debug/1"])
def test_another_name_of_the_host_is_refused(hosts, path):
    headers = [("host", host) for host in hosts]
    assert answered(path=path, headers=headers)[::2] == (400, None)
    assert answered(path=path, headers=[*headers, ("origin", f"http://{HOST}")], kind="websocket")[::2] == (400, None)


@pytest.mark.parametrize(
    "origin",
    [
        *("http://evil.example", "null", "http://localhost:8080", f"ftp://{HOST}", f"http://{HOST}.evil.example"),
        *(f"http://evil.example@{HOST}", ""),
    ],
)
def test_another_origin_is_refused(origin):
    assert post(JSON, ("origin", origin))[::2] == (403, None)
    assert answered(headers=(("host", HOST), ("origin", origin)), kind="websocket", path="/graphql")[::2] == (403, None)


def test_a_websocket_without_origin_and_pages_of_other_ports_are_refused():
    assert answered(kind="websocket", path="/graphql")[::2] == (403, None)
    for site in ("same-site", "cross-site"):
        for use in ("script", "iframe"):
            headers = (("host", HOST), ("sec-fetch-site", site), ("sec-fetch-dest", use))
            assert answered(path="/logs/a.out", headers=headers)[::2] == (403, None)


@pytest.mark.parametrize(
    "query",
    [
        "query=" + quote(CHANGES),
        "query=" + quote(HIDDEN) + "&operationName=M",
        "query=" + quote(HIDDEN) + "&operationName=Q",
        "query=" + quote(READS) + "&query=" + quote(CHANGES),
        "query=" + quote(CHANGES) + "&query=" + quote(READS),
        "query=" + quote("#" + "\n" + CHANGES),
        "query=" + quote("fragment F on Mutation { __typename } " + CHANGES),
        "query=" + quote("subscription { x }"),
        "q=1&%71uery=" + quote(CHANGES),
        "query=" + quote("{" * 5000),
        "query=" + quote("[" + CHANGES + "]"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_nothing_changes_by_get(method, query):
    for path in ("/graphql", "/graphql/"):
        status, _, reached = answered(method, path, query=query)
        assert (status in (400, 405), reached) == (True, None)
        assert answered(method, path, headers=(("host", HOST), ("accept", "text/html")), query=query)[2] is None


@pytest.mark.parametrize(
    "kinds",
    [
        *(
            ["text/plain"],
            ["text/plain; application/json"],
            ["application/x-www-form-urlencoded"],
            ["multipart/form-data; boundary=a"],
        ),
        *(["application/graphql"], ["application/jsonp"], [""], [], ["application/json", "text/plain"]),
    ],
)
def test_only_json_is_taken(kinds):
    headers = [("content-type", kind) for kind in kinds]
    assert post(*headers)[::2] == (415, None)
    assert answered("POST", "/report_asset_materialization/jobs", [("host", HOST), *headers], b"{}")[::2] == (415, None)


def test_a_post_has_its_query_in_its_body():
    assert post(JSON, query="query=" + quote(READS))[::2] == (400, None)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_no_other_method_is_served(method):
    assert answered(method, "/graphql", (("host", HOST), JSON), b"{}")[::2] == (405, None)


def test_the_names_that_are_served():
    names = allowed_hosts("0.0.0.0", 80, ["queue.example.org", "Proxy:8443", "::2", "[::3]:9"])
    assert names == {
        *("localhost:80", "localhost", "127.0.0.1:80", "127.0.0.1", "[::1]:80", "[::1]", "0.0.0.0:80", "0.0.0.0"),
        *("queue.example.org", "queue.example.org:80", "proxy:8443", "[::2]", "[::2]:80", "[::3]:9"),
    }
    proxied = allowed_hosts("127.0.0.1", PORT, ["queue.example.org"])
    own = (("host", "queue.example.org"), ("origin", "https://queue.example.org"), JSON)
    assert answered("POST", "/graphql", own, b"{}", hosts=proxied)[0] == 200


@pytest.mark.parametrize("name", ["", "a b", "http://a", "a/b", "*", "a:b", "a,b", "a:123456"])
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(InputError, match="--allow-host"):
        ui.listen("127.0.0.1", PORT, [name], "ask")


def test_servers_listen_on_loopback_by_default():
    assert [{each.name: each.default for each in app.params}["host"] for app in (ui.command, serve.command)] == ["127.0.0.1"] * 2


@pytest.mark.parametrize(("host", "warned"), [("0.0.0.0", True), ("127.0.0.1", False), ("localhost", False)])
def test_what_others_can_reach_is_said_of_both_servers_and_of_the_web_server_alone(host, warned, monkeypatch, tmp_path, capsys):
    served, alone = [], []
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    monkeypatch.setattr(ui, "ends_with_children", nullcontext)  # the process that tests fork others from is a child, too
    monkeypatch.setattr(ui, "serve", lambda host, port, hosts: served.append(hosts))
    monkeypatch.setattr(ui, "become", lambda *started: alone.append(started))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    asked = ["--host", host, "--port", port, "--allow-host", "q.example.org"]
    for only in ([], ["--only", "web"]):
        ui.command.main([*asked, *only], standalone_mode=False)
        assert ("nothing asks for a password" in capsys.readouterr().err) == warned
        assert {f"localhost:{port}", f"{host}:{port}", "q.example.org"} <= served.pop()
    [(module, hosts, *options)] = alone
    assert (module, *options) == ("pipelines.cli.webserver", "-w", ui.WORKSPACE, "-p", port, "-h", host)
    assert {f"{host}:{port}", "q.example.org"} <= {*hosts.split(",")}


def test_the_web_server_is_started_behind_the_guard_or_not_at_all():
    hosts = frozenset({"b:1", "a:1"})
    assert behind_guard(["python", "-m", "dagster_webserver", "--port", "1"], hosts) == [
        "python",
        "-m",
        "pipelines.cli.webserver",
        "a:1,b:1",
        "--port",
        "1",
    ]
    assert behind_guard(["python", "-m", "dagster._daemon", "run"], hosts) == ["python", "-m", "dagster._daemon", "run"]
    with pytest.raises(RuntimeError):
        behind_guard(["python", "-m", "another_webserver"], hosts)


def test_the_daemon_gets_a_code_server_that_stays(tmp_path, monkeypatch):
    servers, given = [{"grpc_server": {"location_name": "queuecast", "socket": "/x"}}], []

    class Manager(AbstractContextManager):
        def __init__(self, workspace_load_target, **_):
            assert [each.location_name for each in workspace_load_target.create_origins()] == ["queuecast"]

        def get_code_server_specs(self):
            return servers

        def __exit__(self, *_):
            given.append("ended")

    monkeypatch.setattr("dagster._cli.dev.ProxyServerManager", Manager)
    monkeypatch.setattr("dagster._daemon.cli.run_command.main", lambda where, **_: given.append(Path(where[1]).read_text()))
    monkeypatch.setattr(ui, "leave_directory", lambda: None)
    with DagsterInstance.ephemeral() as instance:
        monkeypatch.setattr(DagsterInstance, "get", lambda: instance)
        ui.run_daemon()
    assert [yaml.safe_load(given[0]), *given[1:]] == [{"load_from": servers}, "ended"]


def test_the_working_directory_is_left(tmp_path, monkeypatch):
    (tmp_path / "queuecast.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    for name, value in {"QUEUECAST_HOME": "own", "PYTHONPATH": "mine", "DAGSTER_HOME": str(HOUSE)}.items():
        monkeypatch.setenv(name, value)
    for name in ("QUEUECAST_CATALOGUE", "PYTHONSAFEPATH", "DAGSTER_DISABLE_TELEMETRY"):
        monkeypatch.setenv(name, "")
    ui.leave_directory()
    assert Path.cwd() == HOUSE
    assert os.environ["QUEUECAST_HOME"] == str(tmp_path / "own")
    assert os.environ["QUEUECAST_CATALOGUE"] == str(tmp_path / "queuecast.toml")
    assert os.environ["PYTHONPATH"].split(os.pathsep)[0] == str(tmp_path / "mine")
    assert os.environ["PYTHONSAFEPATH"] == "1"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A port where Dagster's web server runs behind the guard, without any code, started in a hostile directory."""
    home, foreign = tmp_path_factory.mktemp("dagster"), tmp_path_factory.mktemp("foreign")
    (foreign / "dagster_webserver.py").write_text("raise SystemExit('ran what lies in the working directory')")
    (home / "reports" / "nights").mkdir(parents=True)
    (home / "reports" / "nights" / "2026-03-01.html").write_text("<p>a night")
    (home / "reports" / "nights" / "nights.csv").write_text("night\n")
    (home / "reports" / "secret.txt").write_text("no page")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        **os.environ,
        "DAGSTER_HOME": str(home),
        "QUEUECAST_HOME": str(home),
        "DAGSTER_DISABLE_TELEMETRY": "1",
        "PYTHONPATH": str(HOUSE),
        "PYTHONSAFEPATH": "1",
    }
    parts = [sys.executable, "-m", "dagster_webserver", "-h", "127.0.0.1", "-p", str(port), "--empty-workspace"]
    with subprocess.Popen(
        behind_guard(parts, allowed_hosts("127.0.0.1", port)), env=environment, cwd=foreign, stderr=subprocess.PIPE
    ) as running:
        try:
            for _ in range(1200):
                with socket.socket() as there:
                    if running.poll() is not None or there.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            assert running.poll() is None, running.stderr.read().decode()
            yield port
        finally:
            running.terminate()


def asked(port, method, path, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body, {"Host": f"localhost:{port}", **named})
    answer = connection.getresponse()
    return answer.status, answer.read()


@pytest.mark.slow
def test_a_real_server_does_what_its_own_page_asks_and_nothing_else(server):
    own, change = f"http://localhost:{server}", json.dumps({"query": CHANGES})
    done = (200, {"data": {"reloadWorkspace": {"__typename": "Workspace"}}})
    status, body = asked(server, "POST", "/graphql", change, Content_Type="application/json", Origin=own)
    assert (status, json.loads(body)) == done
    assert asked(server, "GET", "/")[0] == 200
    assert asked(server, "GET", "/graphql?query=" + quote(READS))[0] == 200
    assert asked(server, "GET", "/graphql?query=" + quote(CHANGES))[0] == 405
    assert asked(server, "GET", "/graphql?operationName=M&query=" + quote(HIDDEN))[0] == 405
    assert asked(server, "GET", "/%67raphql?query=" + quote(CHANGES))[0] == 405
    assert asked(server, "POST", "/graphql", change, Content_Type="text/plain")[0] == 415
    assert (
        asked(server, "POST", "/graphql", change, Content_Type="text/plain;application/json", Origin="http://evil.example")[0]
        == 403
    )
    assert asked(server, "POST", "/graphql?query=" + quote(CHANGES), "", Content_Type="application/x-www-form-urlencoded")[0] == 415
    assert asked(server, "POST", "/graphql", f"[{change}]", Content_Type="application/json")[0] == 500
    too_much = {"Content_Type": "application/json", "Content_Length": str(LARGEST + 1)}
    assert asked(server, "POST", "/graphql", **too_much)[0] == 413
    assert asked(server, "POST", "/graphql", change, Content_Type="application/json", Host="evil.example")[0] == 400
    assert asked(server, "OPTIONS", "/graphql", Origin="http://evil.example")[0] == 403
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec_WebSocket_Version": "13",
        "Sec_WebSocket_Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    assert asked(server, "GET", "/graphql", Sec_WebSocket_Protocol="graphql-ws", Origin="http://evil.example", **upgrade)[0] == 403
    assert asked(server, "GET", "/graphql", Sec_WebSocket_Protocol="graphql-ws", **upgrade)[0] == 403
    connection = http.client.HTTPConnection("127.0.0.1", server, timeout=60)
    headers = {"Host": f"localhost:{server}", "Origin": own, **{name.replace("_", "-"): value for name, value in upgrade.items()}}
    connection.request("GET", "/graphql", headers={**headers, "Sec-WebSocket-Protocol": "graphql-ws"})
    assert connection.getresponse().status == 101


@pytest.mark.slow
def test_a_published_page_is_served_beside_the_ui_and_no_other_file(server):
    assert asked(server, "GET", "/pages/nights/2026-03-01.html") == (200, b"<p>a night")
    assert asked(server, "GET", "/pages/nights/nights.csv") == (200, b"night\n")
    for other in ("secret.txt", "../dagster.yaml", "nights/../../x.html", "%2e%2e/x.html", "gone.html", "nights", ""):
        assert asked(server, "GET", f"/pages/{other}")[0] == 404
