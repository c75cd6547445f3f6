"""A service as a process: aliases move under load, the registry goes, and SIGTERM ends it."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from benchmarks.speed.serving import MODEL, exact, load, move_aliases, questions, register
from tests.conftest import SHARED, needs_shared
from tests.server.services import HOUSE, LOOPBACK, Service, answers, free_port

pytestmark = needs_shared


@dataclass
class Serving:
    place: Path
    port: int
    jobs: pd.DataFrame
    service: Service

    def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, dict]:
        link = http.client.HTTPConnection(LOOPBACK, self.port, timeout=30)
        link.request(method, path, body or None, {"Content-Type": "application/json"})
        answer = link.getresponse()
        return answer.status, json.loads(answer.read())

    def until(self, told: str) -> None:
        """Wait until the service's health tells ``told``."""
        for _ in range(300):
            if told in json.dumps(self.ask("GET", "/health")[1]):
                return
            time.sleep(0.1)
        raise AssertionError(self.ask("GET", "/health"))


@pytest.fixture
def serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path))
    jobs, port = register(SHARED, ["lightgbm", "quantile(order=accuracy)"]), free_port()
    options = ["--port", str(port), "--poll", "0.2s", "--log", str(tmp_path / "asked")]
    env = {**os.environ, "PYTHONPATH": str(HOUSE)}
    command = [sys.executable, "-m", "pipelines", "serve", MODEL, *options]
    service = Service("serve", command, tmp_path, env, answers(f"http://{LOOPBACK}:{port}/health"))
    try:
        yield Serving(tmp_path, port, jobs, service.start())
    finally:
        service.stop()


def test_no_request_is_lost_or_wrong_while_the_alias_moves_ten_times(serving: Serving) -> None:
    moving = threading.Thread(target=move_aliases, args=(["1", "2"], 1.0, 10))
    moving.start()
    found = asyncio.run(load(serving.port, "/predict", questions(serving.jobs), exact(serving.jobs), rate=40, seconds=8))
    moving.join()
    assert set(found.kinds) == {"right of version 1", "right of version 2"}
    assert sum(found.kinds.values()) == 40 * 13
    log = serving.place / "serve.log"
    assert log.read_text(encoding="utf-8").count("answers (") == 11


def test_a_registry_that_is_gone_or_names_a_broken_version_leaves_the_answers(serving: Serving) -> None:
    from pipelines.storage.registry import tracking

    asked = questions(serving.jobs)[0]
    before = serving.ask("POST", "/predict", asked)
    store = tracking()
    broken = store.client.get_model_version_download_uri(MODEL, "1")
    for file in Path(broken.removeprefix("file://")).rglob("trees.npz"):
        file.write_bytes(b"cut")
    store.client.set_registered_model_alias(MODEL, "champion", "1")
    serving.until("is damaged or was tampered with")
    assert serving.ask("POST", "/predict", asked) == before
    (serving.place / "mlflow.db").rename(serving.place / "elsewhere.db")
    serving.until("its file is gone")
    assert serving.ask("POST", "/predict", asked) == before
    assert not (serving.place / "mlflow.db").exists()
    (serving.place / "elsewhere.db").rename(serving.place / "mlflow.db")
    store.client.set_registered_model_alias(MODEL, "champion", "2")
    for _ in range(100):
        if "problem" not in serving.ask("GET", "/health")[1]["models"][MODEL]:
            break
        time.sleep(0.1)
    assert "problem" not in serving.ask("GET", "/health")[1]["models"][MODEL]


def test_requests_under_way_end_before_the_process_does(serving: Serving) -> None:
    jobs = [json.loads(each) for each in questions(serving.jobs)] * 8
    found: list[tuple[int, dict]] = []
    asking = threading.Thread(target=lambda: found.append(serving.ask("POST", "/predict", json.dumps({"jobs": jobs}).encode())))
    asking.start()
    time.sleep(0.4)
    process = serving.service.process
    assert process is not None
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(timeout=60) == 0
    asking.join()
    ((status, answer),) = found
    assert (status, len(answer["answers"])) == (200, len(jobs))
    logged = [line for file in (serving.place / "asked").iterdir() for line in file.read_text().splitlines()]
    assert len(logged) == len(jobs)
