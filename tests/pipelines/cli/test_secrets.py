"""Secrets of a site's settings are in nothing that commands print or write, whatever fails."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest
import s3fs

from pipelines.cli import serve, ui
from pipelines.storage import site
from tests.support.command import queuecast

PLANTED = "planted-c0ffee"


@pytest.fixture
def unreachable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of a site none of whose servers answers, and every kind of secret in its environment."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    for name, value in {
        "QUEUECAST_LAKE": "s3://bucket/site",
        "QUEUECAST_DATABASE": f"postgresql://reader:{PLANTED}-database@{address}/jobs",
        "QUEUECAST_WAIT_S": "0",
        "QUEUECAST_HASH_KEY": f"{PLANTED}-hash-key",
        "QUEUECAST_TRACEBACK": "1",
        "PGPASSWORD": f"{PLANTED}-pgpassword",
        "AWS_ENDPOINT_URL": f"http://{address}",
        "AWS_ACCESS_KEY_ID": "site",
        "AWS_SECRET_ACCESS_KEY": f"{PLANTED}-aws",
        "AWS_SESSION_TOKEN": f"{PLANTED}-session",
        "MLFLOW_TRACKING_URI": f"http://reader:{PLANTED}-address@{address}",
        "MLFLOW_TRACKING_PASSWORD": f"{PLANTED}-tracking",
        "MLFLOW_HTTP_REQUEST_BACKOFF_JITTER": "0",
    }.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    monkeypatch.setattr("models.registry.tracking._SITE", f"http://{address}")  # what a new process would read
    (tmp_path / "jobs.csv").write_text("user,procs,requested_s,submit_time\nu,1,60,2024-03-01\n")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "services"),
    [
        (["doctor"], ["s3://bucket/site", "PostgreSQL database jobs at 127.0.0.1:"]),
        (["traces"], ["s3://bucket/site"]),
        (["predict", "--model", "runtime-t", "jobs.csv"], ["registry http://127.0.0.1:"]),
        (["run", "--trace", "generated"], ["s3://bucket/site"]),
    ],
)
def test_a_command_that_reaches_nothing_names_the_service_and_no_secret(
    arguments: list[str], services: list[str], unreachable: Path
) -> None:
    done = queuecast(*arguments, home=unreachable / "home", cwd=unreachable)
    assert done.returncode != 0
    said = done.stdout + done.stderr
    for service in services:
        assert service in said
    assert PLANTED not in said
    assert not [path for path in unreachable.rglob("*") if path.is_file() and PLANTED.encode() in path.read_bytes()]


def test_a_settings_file_with_a_secret_is_told_without_it(unreachable: Path) -> None:
    (unreachable / "queuecast.toml").write_text(f'[site]\npassword = "{PLANTED}"\n')
    done = queuecast("traces", home=unreachable / "home", cwd=unreachable)
    assert done.returncode == 2
    assert done.stderr.endswith(f"unknown key 'password' in [site]; known: {', '.join(sorted(site.VARIABLES))}\n")


def test_servers_listen_on_loopback_unless_told_otherwise_and_then_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [{each.name: each.default for each in made.params}["host"] for made in (ui.command, serve.command)] == ["127.0.0.1"] * 2
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    begun: list[tuple[str, ...]] = []
    monkeypatch.setattr(ui, "become", lambda *started: begun.append(started) or sys.exit(0))
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = str(closed.getsockname()[1])
    for host, warned in (("127.0.0.1", False), ("0.0.0.0", True)):
        done = queuecast("ui", "--only", "web", "--host", host, "--port", port, home=tmp_path)
        assert done.returncode == 0, done.stderr
        assert ("nothing asks for a password" in done.stderr) == warned
        assert begun.pop()[2:] == ("-w", ui.WORKSPACE, "-p", port, "-h", host)
    assert queuecast("ui", "--only", "daemon", home=tmp_path).returncode == 0
    assert begun == [("dagster._daemon", "run", "-w", ui.WORKSPACE)]
