"""What ``queuecast ui`` and the metadata it shows must not get wrong."""

from __future__ import annotations

import os
import socket
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

from features.errors import InputError
from pipelines.cli.run import described
from pipelines.cli.ui import check_free, web_server
from pipelines.report.table import escaped
from pipelines.workflows.doctor_databases import databases
from tests.support.command import queuecast
from tests.support.process import python

HOUSE = Path(__file__).resolve().parents[3]


def test_a_taken_port_is_one_line_that_says_what_to_do():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"port {port} of 127.0.0.1 .*--port"):
            check_free("127.0.0.1", port)
    check_free("127.0.0.1", port)


@pytest.mark.slow
def test_the_workspace_is_found_from_any_directory(tmp_path):
    workspace = web_server("127.0.0.1", 3000)[:2]
    environment = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"}  # other tests set it
    environment |= {"PYTHONPATH": str(HOUSE), "QUEUECAST_HOME": str(tmp_path), "DAGSTER_DISABLE_TELEMETRY": "1"}
    done = python(["-m", "dagster", "definitions", "validate", *workspace], cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert "Validation successful for code location queuecast" in done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("place", ["history/runs.db", "history/runs/index.db", "schedules/schedules.db"])
def test_a_damaged_database_ends_it_in_a_line_before_anything_is_served(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    damaged = tmp_path / "dagster" / place
    damaged.parent.mkdir(parents=True)
    damaged.write_text("a note\n" * 1000)
    (tmp_path / "dagster" / ".ready").touch()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        asked = queuecast("ui", "--port", str(taken.getsockname()[1]), home=tmp_path)
    assert asked.returncode == 1
    assert "queuecast: a database of the site is damaged: `queuecast doctor` says which and how to mend it\n" in asked.stderr
    (fault,) = databases(tmp_path)
    assert fault.where == f"dagster/{place}"


def test_the_wheel_brings_the_workspace():
    packaged = tomllib.loads((HOUSE / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["*"]
    workspace = Path(web_server("127.0.0.1", 3000)[1])
    assert workspace.parent == HOUSE / "pipelines"
    assert any(fnmatch(workspace.name, each) for each in packaged)


def test_an_unknown_host_is_refused():
    with pytest.raises(InputError, match=r"--host no\.such\.host\.invalid"):
        check_free("no.such.host.invalid", 3000)


def test_angle_brackets_survive_markdown():
    assert escaped("runtime-<trace> & a|b") == "runtime-&lt;trace&gt; &amp; a|b"


@pytest.mark.parametrize(
    ("name", "generated", "of", "words"),
    [
        ("generated", True, (), "generated workload"),
        ("small", True, (), "generated workload small"),
        ("kth", False, (), "trace kth"),
        ("simulated", True, ("system", "simulated cluster"), "simulated cluster"),
        ("small", True, ("system", "simulated cluster"), "simulated cluster small"),
        ("quartz", False, ("system", "simulated cluster"), "system quartz"),
    ],
)
def test_no_word_twice(name, generated, of, words):
    assert described(name, generated, *of) == words
