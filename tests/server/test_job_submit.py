"""Slurm asks a served champion at each submission, and goes on without an answer."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import SHARED
from tests.server.services import HOUSE, LOOPBACK, Service, answers, free_port
from tests.server.slurm import NEEDED, started, submitted
from tests.support.patience import run

EXAMPLE = HOUSE / "docs" / "examples" / "job_submit.lua"
pytestmark = [
    *NEEDED,
    pytest.mark.skipif(not [*Path("/usr/lib").glob("*/lua/5.1/socket/core.so")], reason="Slurm's Lua needs Debian's lua-socket"),
]
COMMENT = re.compile(r"queuecast: predicted_s=(\d+) p50_s=\d+ p95_s=(\d+) version=1 stale")
SILENT = re.compile(r"lua: queuecast: no prediction \((.*)\) after ([\d.]+) ms: the request stands")
ANSWERED = re.compile(r"lua: queuecast: predicted_s=.* of (\w+) in ([\d.]+) ms")
PATIENT_S = 60.0
"""Seconds that the script gives a service here, however busy the machine."""


class Cluster:
    """A Slurm whose controller asks at ``port``; ``log`` is what it logged since the last look."""

    def __init__(self, place: Path, env: dict[str, str], port: int) -> None:
        self.env, self.port, self._file, self._seen = env, port, place / "log" / "slurmctld.log", 0

    def submit(self, *options: str) -> dict[str, str]:
        """Submit a job; return what Slurm then says of it."""
        fields = submitted(self.env, "--hold", *options)
        comment = re.search(r"AdminComment=(.*?) [A-Z]\w*=", fields)
        job = dict(each.split("=", 1) for each in fields.split() if "=" in each)
        return {**job, "AdminComment": comment[1].strip() if comment else ""}

    def log(self) -> str:
        text = self._file.read_text(encoding="utf-8", errors="replace")
        self._seen, new = len(text), text[self._seen :]
        return new


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    place, port = tmp_path_factory.mktemp("slurm"), free_port()
    script = EXAMPLE.read_text(encoding="utf-8").replace('PORT = "127.0.0.1", 8765', f'PORT = "127.0.0.1", {port}')
    assert str(port) in script
    for name, default, other in (("REST_S", "5", 0.0), ("TIMEOUT_S", "0.05", PATIENT_S)):
        assert f"local {name} = {default}" in script
        script = script.replace(f"local {name} = {default}", f"local {name} = {other}")
    (place / "job_submit.lua").write_text(script, encoding="utf-8")
    with started(place, "JobSubmitPlugins=lua\n") as env:
        yield Cluster(place, env, port)


@contextmanager
def served(cluster: Cluster, place: Path) -> Iterator[None]:
    """Serve a champion of KTH-SP2 at the cluster's port."""
    env = {**os.environ, "QUEUECAST_HOME": str(place), "PYTHONPATH": str(HOUSE)}
    code = "import sys, pathlib; from benchmarks.speed.serving import register; register(pathlib.Path(sys.argv[1]), sys.argv[2:])"
    training = [sys.executable, "-c", code, str(SHARED), "quantile(order=accuracy)"]
    done = run(training, place, env=env)
    assert done.returncode == 0, done.stderr
    command = [sys.executable, "-m", "pipelines", "serve", "runtime-kth-sp2", "--port", str(cluster.port)]
    service = Service("serve", command, place, env, answers(f"http://{LOOPBACK}:{cluster.port}/health"))
    try:
        service.start()
        yield
    finally:
        service.stop()


def test_a_job_gets_its_predicted_runtime_as_comment_and_keeps_its_limit(cluster: Cluster, tmp_path: Path) -> None:
    with served(cluster, tmp_path):
        jobs = [cluster.submit("--time=30", f"--ntasks={tasks}", f'--job-name=a "name" \\ of {tasks}') for tasks in (1, 2, 4)]
        jobs.append(cluster.submit("--time=30", f"--job-name={'x' * 200}\t{'ä' * 20}"))
        partly = cluster.submit("--partition=debug")  # no limit stated: the partition's
    for job in jobs:
        comment = COMMENT.fullmatch(job["AdminComment"])
        assert comment is not None, job["AdminComment"]
        assert 1 <= int(comment[1]) <= 1800
        assert (job["TimeLimit"], job["TimeMin"]) == ("00:30:00", "N/A")
    comment = COMMENT.fullmatch(partly["AdminComment"])
    assert comment is not None
    assert int(comment[1]) <= 300
    assert len(ANSWERED.findall(cluster.log())) == 5


def test_with_the_service_down_the_request_stands(cluster: Cluster) -> None:
    cluster.log()
    job = cluster.submit("--time=30")
    assert (job["AdminComment"], job["TimeLimit"], job["JobState"]) == ("", "00:30:00", "PENDING")
    ((why, _),) = SILENT.findall(cluster.log())
    assert why == "connection refused"
