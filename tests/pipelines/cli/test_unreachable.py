"""A registry that cannot be reached is said in one line when the site's wait is over, not after minutes of retries."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support.command import queuecast

UNREACHABLE = (
    "http://127.0.0.1:9/",
    "sqlite:////proc/nowhere/mlflow.db",
    "sqlite:///{file}",
    "postgresql://u:hidden-secret@127.0.0.1:9/mlflow",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "uri"),
    [*(("predict", uri) for uri in UNREACHABLE), pytest.param("run", UNREACHABLE[0], marks=pytest.mark.thorough)],
    ids=["server", "directory", "no database", "no driver or server", "run"],
)
def test_a_registry_that_cannot_be_reached_is_one_line_and_soon(
    tmp_path: Path, command: str, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "no.db").write_text("this is not a database, and long enough to be told apart from an empty file" * 20)
    (tmp_path / "jobs.csv").write_text("user,procs,requested_s,submit_time\nu,1,60,2024-03-01\n")
    arguments = ["predict", "--model", "runtime-x", "jobs.csv"] if command == "predict" else ["run"]
    store = uri.format(file=tmp_path / "no.db")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.setattr("models.registry.tracking._SITE", store)  # what a new process would read
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    began = time.monotonic()
    done = queuecast(*arguments, home=tmp_path / "home", cwd=tmp_path)
    assert time.monotonic() - began < 60
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert len([line for line in done.stderr.splitlines() if line]) == 1, done.stderr
    assert done.stderr.startswith("queuecast: registry ")
    assert "hidden-secret" not in done.stderr
