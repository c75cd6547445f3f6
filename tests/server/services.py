"""Processes of their own: started, asked whether they are ready, stopped by their id."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.patience import FOREVER_S, wait_until

HOUSE = Path(__file__).resolve().parents[2]
LOOPBACK = "127.0.0.1"
SLURM_PROGRAMS = ("slurmctld", "slurmdbd", "slurmd", "mariadbd", "munged")
SLURM_PACKAGES = ("slurm-wlm", "slurmdbd", "mariadb-server", "munge", "lua-socket")
"""Debian's packages with them; the last lets Slurm's Lua ask over HTTP."""
ENDING_S = 60.0
"""Seconds that a server may run, or wait, after it was told to end."""
_LOOK_S = 30.0
"""Seconds after which a server that has not answered is asked once more."""
WAITS = {
    name: str(int(FOREVER_S))
    for name in (
        "DAGSTER_GRPC_TIMEOUT_SECONDS",
        "DAGSTER_DAEMON_HEARTBEAT_TOLERANCE",
        "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT",
        "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP",
        "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL",
        "DASK_JOBQUEUE__SLURM__DEATH_TIMEOUT",
        "MLFLOW_HTTP_REQUEST_TIMEOUT",
    )
}
"""Settings of libraries that give up by the clock: a busy machine is no failure."""


def free_port() -> int:
    """Return a port of the loopback interface on which nothing listens."""
    with socket.create_server((LOOPBACK, 0)) as listener:
        return listener.getsockname()[1]


def free_ports(count: int) -> int:
    """Return the first of ``count`` ports in a row on which nothing listens, below those that the system gives to connections."""
    while True:
        first = random.SystemRandom().randrange(10_000, 32_768 - count)
        with ExitStack() as stack, suppress(OSError):
            for port in range(first, first + count):
                stack.enter_context(socket.create_server((LOOPBACK, port)))
            return first


def listens(port: int) -> Callable[[], bool]:
    """Return a function that tells whether something listens on ``port``."""

    def ready() -> bool:
        with socket.socket() as asking:
            asking.settimeout(1)
            return asking.connect_ex((LOOPBACK, port)) == 0

    return ready


def answers(url: str) -> Callable[[], bool]:
    """Return a function that tells whether ``url`` is answered."""

    def ready() -> bool:
        with suppress(OSError), urllib.request.urlopen(url, timeout=_LOOK_S) as answer:
            return answer.status == 200
        return False

    return ready


@dataclass
class Service:
    """A process with its children: command, working directory, environment, log, and what tells that it is ready.

    ``user`` is whose process it becomes, where ours is root's.
    """

    name: str
    command: Sequence[str]
    place: Path
    env: Mapping[str, str]
    ready: Callable[[], bool]
    user: str = ""
    ending: int = signal.SIGTERM
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """Return the file with what it prints."""
        return self.place / f"{self.name}.log"

    def start(self) -> Service:
        """Start it and wait until it is ready; AssertionError, with the end of its log, if it ends before or hangs."""
        self.place.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                cwd=self.place,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **({"user": self.user, "group": self.user, "extra_groups": []} if self.user else {}),  # type: ignore[call-overload]
            )
        try:
            self.wait(self._ready)
        except AssertionError:
            self.stop()
            raise
        return self

    def wait(self, over: Callable[[], object]) -> None:
        """Wait until ``over`` is true; AssertionError, with the end of its log, if it and what it needs hang before."""
        wait_until(over, lambda: f"{self.name}:\n{self._tail()}")

    def _ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"{self.name} ended with exit code {self.process.poll()}:\n{self._tail()}"
        return self.ready()

    def _tail(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]

    def kill(self) -> None:
        """Kill it and its children at once."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Let it end, and kill it and its children if it hangs."""
        self._end(self.ending)

    def _end(self, number: int) -> None:
        if self.process is None:
            return
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, number)
        process = self.process
        with suppress(AssertionError):
            wait_until(lambda: process.poll() is not None, seconds=ENDING_S)
        with suppress(ProcessLookupError):  # what is left of its session: its own group, by its id
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process = None


def postgres(root: Path, port: int, passwords: Mapping[str, str], env: Mapping[str, str]) -> Service:
    """Return PostgreSQL with a data directory of its own below ``root``: a user and a database of each name in ``passwords``."""
    user = "postgres" if os.getuid() == 0 else ""
    place = root / "postgres"
    place.mkdir(parents=True)
    if user:
        shutil.chown(place, user, user)
    data, programs = place / "data", programs_of_postgres()
    given = {"user": user, "group": user, "extra_groups": []} if user else {}
    quick = ["--no-sync", "--auth=scram-sha-256", "--username=admin", "--encoding=UTF8", "--no-locale"]
    secret = place / "secret"
    secret.write_text(passwords["admin"])
    subprocess.run(
        [str(programs / "initdb"), "-D", str(data), f"--pwfile={secret}", *quick],
        check=True,
        capture_output=True,
        env=env,
        cwd=place,
        **given,  # type: ignore[call-overload]
    )
    secret.unlink()
    command = [str(programs / "postgres"), "-D", str(data), "-p", str(port), "-h", LOOPBACK, "-k", str(place), "-c", "fsync=off"]
    server = Service("postgres", command, place, env, listens(port), user, signal.SIGINT).start()
    import psycopg2

    admin = f"postgresql://admin:{passwords['admin']}@{LOOPBACK}:{port}/postgres"
    connection = psycopg2.connect(admin)
    connection.autocommit = True
    with connection.cursor() as cursor:
        for name in passwords.keys() - {"admin"}:
            cursor.execute(f"CREATE ROLE {name} LOGIN PASSWORD %s", (passwords[name],))
            cursor.execute(f"CREATE DATABASE {name} OWNER {name}")
    connection.close()
    return server


def programs_of_postgres() -> Path:
    """Return the directory of PostgreSQL's programs; Debian keeps the servers' off the path."""
    bins = [*sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4])), shutil.which("initdb")]
    paths = [Path(each) for each in bins if each]
    if not paths:
        raise RuntimeError("PostgreSQL is missing: apt-get install postgresql (make server-test does so where it is root)")
    return paths[-1].resolve().parent


def module(*arguments: str) -> list[str]:
    """Return the command that runs a Python module of this environment."""
    return [sys.executable, "-m", *arguments]
