"""The site's PostgreSQL database: what is waited for, what is refused, what is said; by a server that only refuses."""

import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from features.errors import InputError
from pipelines.lake.database import connected, named
from pipelines.lake.instance import dagster_home

SECRET = "hunter2-planted"


@pytest.fixture
def refusing() -> Iterator[Callable[..., str]]:
    """Start a server that answers its connections in turn with these messages; the last one stays."""
    listener = socket.create_server(("127.0.0.1", 0))
    answers: list[tuple[str, str]] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                while (length := struct.unpack("!i", connection.recv(4))[0]) == 8:  # asks for encryption
                    connection.recv(length - 4)
                    connection.sendall(b"N")
                connection.recv(length - 4)
                code, text = answers.pop(0) if len(answers) > 1 else answers[0]
                body = f"SFATAL\0VFATAL\0C{code}\0M{text}\0\0".encode()
                connection.sendall(b"E" + struct.pack("!i", len(body) + 4) + body)

    thread = threading.Thread(target=serve, daemon=True)

    def started(*given: tuple[str, str]) -> str:
        answers.extend(given)
        thread.start()
        return f"postgresql://reader:{SECRET}@127.0.0.1:{listener.getsockname()[1]}/jobs"

    yield started
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(5)


def refusal(url: str) -> str:
    with pytest.raises(InputError) as refused:
        connected(url)
    assert SECRET not in str(refused.value)
    return str(refused.value)


def test_a_database_that_starts_is_waited_for(refusing: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUECAST_WAIT_S", "0.5")
    url = refusing(
        ("57P03", "the database system is starting up"),
        ("53300", "sorry, too many clients already"),
        ("28P01", 'password authentication failed for user "reader"'),
    )
    port = url.rpartition(":")[2].partition("/")[0]
    assert refusal(url) == (
        f'PostgreSQL database jobs at 127.0.0.1:{port} does not answer (waited 0 s): connection to server at "127.0.0.1", port {port} failed: '
        'FATAL: password authentication failed for user "reader"'
    )


def test_a_database_that_stays_away_is_given_up_after_the_sites_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEUECAST_WAIT_S", "0.2")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    message = refusal(f"postgresql://reader:{SECRET}@127.0.0.1:{port}/jobs")
    assert message.startswith(
        f"PostgreSQL database jobs at 127.0.0.1:{port} does not answer (waited 0 s): connection to server at "
    )


@pytest.mark.parametrize(
    "url",
    [
        f"reader:{SECRET}@host/jobs",
        f"mysql://reader:{SECRET}@host/jobs",
        f"postgresql://reader:{SECRET}@host",
        f"postgresql://reader:a/{SECRET}@host/jobs",
        f"postgresql://reader@host:{SECRET}/jobs",
    ],
)
def test_what_is_no_url_is_not_repeated(url: str) -> None:
    with pytest.raises(InputError, match="QUEUECAST_DATABASE is not a URL such as") as refused:
        named(url)
    assert SECRET not in str(refused.value)


@pytest.mark.slow
def test_dagsters_settings_name_the_variable_and_not_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusing: Callable[..., str]
) -> None:
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path))
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    dagster_home()
    settings = tmp_path / "dagster" / "dagster.yaml"
    alone = settings.read_text()
    del os.environ["DAGSTER_HOME"]
    monkeypatch.setenv("QUEUECAST_WAIT_S", "0")
    monkeypatch.setenv("QUEUECAST_DATABASE", refusing(("3D000", 'database "jobs" does not exist')))
    with pytest.raises(InputError, match=r'does not answer .* database "jobs" does not exist'):
        dagster_home()
    assert yaml.safe_load(settings.read_text())["storage"]["custom"]["config"] == {"postgres_url": {"env": "QUEUECAST_DATABASE"}}
    assert settings.read_text().startswith(alone)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    del os.environ["DAGSTER_HOME"], os.environ["QUEUECAST_DATABASE"]
    dagster_home()
    assert settings.read_text() == alone
