"""Object stores for tests: one of the process, and an S3 server on this machine."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.storage.remote import place_of
from tests.support.stores import point_at

on_s3 = pytest.mark.parametrize("store", ["s3"], indirect=True)
on_both = pytest.mark.parametrize("store", ["memory", "s3"], indirect=True)
"""For tests that say of all that a store is asked that S3 does it; others take S3 for a second case."""


@pytest.fixture(params=["memory", pytest.param("s3", marks=pytest.mark.thorough)])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty place in a store: of this process, or of an S3 server on this machine; or in a directory, if asked for."""
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path / "home"))
    if request.param == "directory":
        return tmp_path / "site"
    if request.param == "memory":
        return place_of(f"memory://{uuid.uuid4().hex}/site")
    return request.getfixturevalue("s3_place")  # type: ignore[no-any-return]


@pytest.fixture
def s3_place(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty place in a bucket of its own."""
    point_at(s3_server, monkeypatch)
    bucket = uuid.uuid4().hex
    place = place_of(f"s3://{bucket}/site")
    place.fs.mkdir(bucket)  # type: ignore[attr-defined]
    return place


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    server = pytest.importorskip("moto.server", reason="moto[s3] and flask-cors are not installed")
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()
