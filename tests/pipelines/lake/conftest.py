"""Object stores for tests: one of the process, and an S3 server on this machine."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.lake.places import place_of
from tests.support.stores import point_at


@pytest.fixture(params=["memory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty place in a store: of this process, or of an S3 server on this machine."""
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path / "home"))
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
