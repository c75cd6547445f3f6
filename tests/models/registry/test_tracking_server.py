"""An MLflow server that does not answer for a while: its requests are repeated for as long as the site waits."""

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import mlflow
import pytest

from models.registry import tracking
from models.registry.tracking import Tracking

ANSWERS = {"/api/2.0/mlflow/experiments/search": {"experiments": []}, "/api/2.0/mlflow/experiments/create": {"experiment_id": "7"}}


@pytest.fixture
def restarting(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, list[str]]]:
    """A server that answers 503 to the first request of each kind, and its log."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asked.append(self.path)
            body = json.dumps(ANSWERS[self.path]).encode() if asked.count(self.path) > 1 else b""
            self.send_response(200 if body else 503)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    for name in ("MAX_RETRIES", "BACKOFF_FACTOR", "TIMEOUT"):
        monkeypatch.delenv(f"MLFLOW_HTTP_REQUEST_{name}", raising=False)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_JITTER", "0")
    before = mlflow.get_tracking_uri()
    yield f"http://127.0.0.1:{server.server_port}", asked
    mlflow.set_tracking_uri(before)
    server.shutdown()
    server.server_close()


def test_a_server_that_is_restarted_is_waited_for(restarting: tuple[str, list[str]]) -> None:
    uri, asked = restarting
    assert tracking.connect(uri, "", "e", site=False, wait_s=5).experiment_id == "7"
    assert asked == [path for path in ANSWERS for _ in range(2)]


@pytest.mark.parametrize(("wait_s", "retries", "factor"), [(0, 1, 1), (1, 2, 1), (60, 6, 1), (1000, 10, 1), (5000, 10, 5)])
def test_requests_are_repeated_for_about_as_long_as_the_site_waits(
    wait_s: float, retries: int, factor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MAX_RETRIES", "BACKOFF_FACTOR"):
        monkeypatch.delenv(f"MLFLOW_HTTP_REQUEST_{name}", raising=False)
    tracking._wait_for_server(wait_s)
    settings = [int(os.environ[f"MLFLOW_HTTP_REQUEST_{name}"]) for name in ("MAX_RETRIES", "BACKOFF_FACTOR")]
    assert settings == [retries, factor]


def test_a_password_in_a_stores_address_is_not_shown() -> None:
    store = Tracking("postgresql+psycopg2://reader:hunter2@db.example.org/mlflow", "1", None)  # type: ignore[arg-type]
    assert store.place == "postgresql+psycopg2://***@db.example.org/mlflow"
