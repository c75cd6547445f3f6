"""Slurm asks a served champion at each submission, and goes on without an answer."""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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
TIMEOUT_S, PATIENT_S = 0.05, 60.0
"""Seconds that the script gives a service, and those that it is given here where it answers, however busy the machine."""


class Cluster:
    """A Slurm whose controller asks at ``port``; ``log`` is what it logged since the last look."""

    def __init__(self, place: Path, env: dict[str, str], port: int) -> None:
        self.env, self.port, self._place, self._file, self._seen = env, port, place, place / "log" / "slurmctld.log", 0

    def set(self, name: str, seconds: float) -> None:
        """Let the script, which is read again, have other seconds for one of those it has by default."""
        (self._place / name).write_text(f"{seconds}\n")
        script = self._place / "job_submit.lua"
        os.utime(script, (script.stat().st_mtime + 5,) * 2)

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
    for name, default, other in (("REST_S", "5", 0.0), ("TIMEOUT_S", str(TIMEOUT_S), PATIENT_S)):
        assert f"local {name} = {default}" in script
        script = script.replace(f"local {name} = {default}", f"local {name} = tonumber(io.open('{place / name}'):read('*l'))")
        (place / name).write_text(f"{other}\n")
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


@contextmanager
def talking(port: int, talk: Callable[[socket.socket], None]) -> Iterator[None]:
    """Accept connections at ``port`` and let ``talk`` do what it wants with each."""
    over, held = threading.Event(), list[socket.socket]()

    def accept() -> None:
        while not over.is_set():
            try:
                link, _ = listener.accept()
            except TimeoutError:
                continue
            held.append(link)
            threading.Thread(target=talked, args=(link,), daemon=True).start()

    def talked(link: socket.socket) -> None:
        with suppress(OSError):
            talk(link)

    with socket.create_server((LOOPBACK, port)) as listener:
        listener.settimeout(0.1)
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            for link in held:
                link.close()


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


def never(link: socket.socket) -> None:
    """Accept and say nothing."""


def unanswered(cluster: Cluster) -> str:
    """Submit a job that gets no prediction; return why."""
    cluster.log()
    job = cluster.submit("--time=30")
    assert (job["AdminComment"], job["TimeLimit"], job["JobState"]) == ("", "00:30:00", "PENDING")
    ((why, _),) = SILENT.findall(cluster.log())
    return why


def test_with_the_service_down_the_request_stands(cluster: Cluster) -> None:
    assert unanswered(cluster) == "connection refused"


def test_a_slow_service_is_waited_for_no_longer_than_the_time_out(cluster: Cluster) -> None:
    cluster.set("TIMEOUT_S", TIMEOUT_S)
    with talking(cluster.port, never):
        assert unanswered(cluster) == "timeout"
    cluster.set("TIMEOUT_S", PATIENT_S)
