"""A service as a process: aliases move under load, the registry goes, and SIGTERM ends it."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import signal
import socket
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from benchmarks.speed.serving import MODEL, exact, move_aliases, questions, register
from tests.conftest import SHARED, needs_shared
from tests.server.services import HOUSE, LOOPBACK, Service, answers, free_port, listens
from tests.support.patience import FOREVER_S

pytestmark = needs_shared
MOVES, CLIENTS = 10, 4


@dataclass
class Serving:
    place: Path
    port: int
    jobs: pd.DataFrame
    service: Service

    def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, dict]:
        link = http.client.HTTPConnection(LOOPBACK, self.port, timeout=FOREVER_S)
        link.request(method, path, body or None, {"Content-Type": "application/json"})
        answer = link.getresponse()
        return answer.status, json.loads(answer.read())

    def until(self, text: str) -> None:
        """Wait until the service's health tells ``text``."""
        self.service.wait(lambda: text in json.dumps(self.ask("GET", "/health")[1]))


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
    asked, judge, moved = questions(serving.jobs), exact(serving.jobs), threading.Event()

    def ask(first: int) -> Counter[str]:
        """Ask one request after the other until the alias has moved for the last time."""
        link, kinds = http.client.HTTPConnection(LOOPBACK, serving.port, timeout=FOREVER_S), Counter[str]()
        for number in itertools.count(first, CLIENTS):
            index, last = number % len(asked), moved.is_set()
            link.request("POST", "/predict", asked[index], {"Content-Type": "application/json"})
            answer = link.getresponse()
            kinds[judge(index, answer.status, answer.read())] += 1
            if last:
                break
        return kinds

    def followed(times: int) -> bool:
        return serving.service.log.read_text(encoding="utf-8").count("answers (") == 1 + times

    with ThreadPoolExecutor(CLIENTS) as pool:
        clients = [pool.submit(ask, number) for number in range(CLIENTS)]
        try:
            for number in range(MOVES):
                move_aliases(["12"[number % 2]], 0, 1)
                serving.service.wait(partial(followed, number + 1))
        finally:
            moved.set()
    outcomes = sum((each.result() for each in clients), Counter[str]())
    assert set(outcomes) == {"right of version 1", "right of version 2"}
    assert outcomes.total() >= CLIENTS * MOVES


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
    serving.service.wait(lambda: "problem" not in serving.ask("GET", "/health")[1]["models"][MODEL])


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
