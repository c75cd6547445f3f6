"""Secrets of a site's settings are in nothing that commands print or write, whatever fails."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import s3fs

from features.errors import InputError, masked
from pipelines.lake.locks import connected
from pipelines.lake.places import place_of
from pipelines.lake.registry import tracking
from pipelines.readers import site_file
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
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
        "QUEUECAST_HASH_KEY": f"{PLANTED}-hash-key",
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
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)  # of which each waits
    monkeypatch.setattr("models.registry.tracking._SITE", f"http://{address}")  # what a new process would read
    (tmp_path / "jobs.csv").write_text("user,procs,requested_s,submit_time\nu,1,60,2024-03-01\n")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "services"),
    [
        (["traces"], ["s3://bucket/site"]),
        (["predict", "--model", "runtime-t", "jobs.csv"], ["registry http://127.0.0.1:"]),
    ],
)
def test_a_command_that_reaches_nothing_names_the_service_and_no_secret(
    arguments: list[str], services: list[str], unreachable: Path
) -> None:
    done = queuecast(*arguments, home=unreachable / "home", cwd=unreachable)
    assert done.returncode != 0
    printed = done.stdout + done.stderr
    for service in services:
        assert service in printed
    assert PLANTED not in printed
    assert not [path for path in unreachable.rglob("*") if path.is_file() and PLANTED.encode() in path.read_bytes()]


MISTYPED = {
    "a slash for two": "postgresql:/u:{}@h/db",
    "three slashes": "postgresql:///u:{}@h/db",
    "no slashes": "postgresql:u:{}@h/db",
    "no scheme": "u:{}@h/db",
    "no colon": "postgresql//u:{}@h/db",
    "another scheme": "postgres://u:{}@h/db",
    "capitals": "POSTGRESQL://u:{}@h/db",
    "a blank before": " postgresql://u:{}@h/db",
    "a blank inside": "postgresql://u:{} x@h/db",
    "a slash in the password": "postgresql://u:1/{}@h/db",
    "an @ in the password": "postgresql://u:x@{}@h/db",
    "an escaped colon": "postgresql://u%3A{}@h/db",
    "a number, an @ and no host": "postgresql://h:5432/u:{}@db",
    "a question mark in the password": "postgresql://u:x?{}@h/db",
    "a number sign in the password": "postgresql://u:x#{}@h/db",
    "a bracket": "postgresql://[u:{}@h/db",
    "an option that is none": "postgresql://u@127.0.0.1:1/db?{}",
    "libpq's other form": "host=h user=u password={}",
    "no database": "postgresql://u:{}@127.0.0.1:1",
    "as an option": "postgresql://u@127.0.0.1:1/db?password={}",
    "right": "postgresql://u:{}@127.0.0.1:1/db",
}


@pytest.mark.parametrize("form", MISTYPED)
def test_no_refusal_of_an_address_shows_its_password(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    address = MISTYPED[form].format(PLANTED)
    monkeypatch.setattr("models.registry.tracking._SITE", address)  # what a new process would read
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    for opened in (tracking, lambda: place_of(address), lambda: connected(address)):
        with pytest.raises(InputError) as refused:
            opened()
        assert PLANTED not in str(refused.value)


@pytest.mark.parametrize("form", MISTYPED)
def test_no_library_that_repeats_an_address_shows_its_password(form: str) -> None:
    address = MISTYPED[form].format(PLANTED)
    if form not in ("an option that is none", "libpq's other form"):  # refused before a library sees them
        assert PLANTED not in masked(f"could not parse '{address}', nor {address}: see http://127.0.0.1:5000/x?token={PLANTED}")


def test_an_address_without_secrets_is_shown() -> None:
    for message in (
        "s3://bucket/site/lake: is gone",
        "registry http://mlflow.example.org:5000, tried 3 times",
        "sqlite:////home/u@x/a:b.db",
    ):
        assert masked(message) == message
    assert masked("see http://u:x@mlflow:5000/a?b=c.") == "see http://***@mlflow:5000/a."


def test_a_settings_file_with_a_secret_is_told_without_it(unreachable: Path) -> None:
    (unreachable / "queuecast.toml").write_text(f'[site]\npassword = "{PLANTED}"\n')
    done = queuecast("traces", home=unreachable / "home", cwd=unreachable)
    assert done.returncode == 2
    allowed = ", ".join(sorted(site_file.VARIABLES))
    assert done.stderr.endswith(f"unknown key 'password' in [site]; known: {allowed}\n")


def test_a_lake_or_a_trace_whose_address_has_a_secret_is_refused_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUEUECAST_LAKE", f"s3://bucket/x?key={PLANTED}")
    lake = queuecast("lake", home=tmp_path, cwd=tmp_path)
    assert (lake.returncode, lake.stderr) == (
        2,
        "queuecast: s3://bucket/x: credentials do not belong in a URL: set them by the store's own means\n",
    )
    monkeypatch.setenv("QUEUECAST_LAKE", f"s3://bucket/x;token={PLANTED}")
    lake = queuecast("lake", home=tmp_path, cwd=tmp_path)
    assert (lake.returncode, PLANTED in lake.stderr) == (2, False)
    monkeypatch.delenv("QUEUECAST_LAKE")
    place = f"http://user:{PLANTED}@127.0.0.1:1/a.swf?key={PLANTED}"
    (tmp_path / "queuecast.toml").write_text(f'[traces.own]\nplace = "{place}"\nsha256_content = "{"0" * 64}"\n')
    fetched = queuecast("fetch", "own", home=tmp_path, cwd=tmp_path)
    assert fetched.returncode == 2
    assert "http://***@127.0.0.1:1/a.swf: cannot be fetched" in fetched.stderr
    assert PLANTED not in fetched.stderr
