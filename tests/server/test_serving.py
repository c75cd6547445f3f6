"""A service as a process: SIGTERM ends it, after what it is asked."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from benchmarks.speed.serving import MODEL, questions, register
from tests.conftest import SHARED, needs_shared
from tests.server.services import HOUSE, LOOPBACK, Service, answers, free_port, listens
from tests.support.patience import FOREVER_S

pytestmark = needs_shared


@dataclass
class Serving:
    place: Path
    port: int
    jobs: pd.DataFrame
    service: Service


@pytest.fixture
def serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path))
    jobs, port = register(SHARED, ["lightgbm"]), free_port()
    options = ["--port", str(port), "--poll", "0.2", "--log", str(tmp_path / "asked")]
    env = {**os.environ, "PYTHONPATH": str(HOUSE)}
    command = [sys.executable, "-m", "pipelines", "serve", MODEL, *options]
    service = Service("serve", command, tmp_path, env, answers(f"http://{LOOPBACK}:{port}/health"))
    try:
        yield Serving(tmp_path, port, jobs, service.start())
    finally:
        service.stop()


def test_requests_under_way_end_before_the_process_does(serving: Serving) -> None:
    jobs, process = [json.loads(each) for each in questions(serving.jobs)], serving.service.process
    assert process is not None
    body = json.dumps({"jobs": jobs}).encode()
    head = ["POST /predict HTTP/1.1", f"Host: {LOOPBACK}:{serving.port}", "Content-Type: application/json"]
    head += [f"Content-Length: {len(body)}", "Expect: 100-continue"]
    with socket.create_connection((LOOPBACK, serving.port), timeout=FOREVER_S) as link:
        link.sendall("\r\n".join([*head, "", ""]).encode())
        assert link.recv(64).startswith(b"HTTP/1.1 100 "), "the request is under way"
        os.kill(process.pid, signal.SIGTERM)
        serving.service.wait(lambda: not listens(serving.port)())
        link.sendall(body)
        answer = http.client.HTTPResponse(link)
        answer.begin()
        assert (answer.status, len(json.loads(answer.read())["answers"])) == (200, len(jobs))
    serving.service.wait(lambda: process.poll() is not None)
    assert process.wait() == 0
    logged = [line for file in (serving.place / "asked").iterdir() for line in file.read_text().splitlines()]
    assert len(logged) == len(jobs)
