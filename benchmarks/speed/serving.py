"""Measure ``queuecast serve``, and MLflow's own model server beside it.

``python -m benchmarks.speed.serving`` registers KTH-SP2 with each method that can be champion in a scratch home, starts servers one
after the other as processes of their own, and asks them at a fixed rate from this process. The load is open: a request's time
counts from when it was to be sent, whether or not earlier ones have been answered, so a server that stalls is charged for all that wait
meanwhile. ``--changes`` moves the alias under load, from another process, and compares every answer with that of the version it
names.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.common.pages import SHARED
from features.clock import DAY_S, local_clock_s
from features.jobs.cleaning import clean
from features.jobs.schema import fingerprint, start_s
from pipelines.readers.read import read_trace

MODEL, STARTS, TRACE = "runtime-kth-sp2", "start-kth-sp2", "traces/KTH-SP2-1996-2.1-cln.swf.gz"
FIRST_S = 5.0
"""Seconds of load before the measurement."""


@dataclass
class Measured:
    """Seconds from when each request was to be sent to its whole answer, and what the answers were."""

    latency_s: list[float] = field(default_factory=list)
    late_s: list[float] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)

    def line(self) -> str:
        p50, p99, p999, worst = (1000 * np.percentile(self.latency_s, [50, 99, 99.9, 100])).tolist()
        late = 1000 * float(np.percentile(self.late_s, 99))
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(self.kinds.items()))
        return (
            f"p50 {p50:.2f} ms, p99 {p99:.2f} ms, p99.9 {p999:.2f} ms, worst {worst:.1f} ms; {kinds}; sent late (p99) {late:.2f} ms"
        )


class Connection(asyncio.Protocol):
    """One kept-alive HTTP connection with at most one request under way."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.done: Callable[[int, bytes], None] | None = None
        self._read = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        self._read += data
        head, separator, body = self._read.partition(b"\r\n\r\n")
        if not separator:
            return
        length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
        if len(body) >= length and self.done is not None:
            done, self.done, self._read = self.done, None, b""
            done(int(head.split(b" ", 2)[1]), body[:length])

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        if self.done is not None:
            self.done(0, b"")


async def load(
    port: int, path: str, bodies: list[bytes], judge: Callable[[int, int, bytes], str], rate: float, seconds: float
) -> Measured:
    """Send ``bodies`` in turn at ``rate`` a second; ``judge(index, status, body)`` names the kind of an answer."""
    loop, tally, free = asyncio.get_running_loop(), Measured(), list[Connection]()
    pending = 0
    every = [
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\nContent-Length: {len(each)}\r\n\r\n".encode()
        + each
        for each in bodies
    ]

    async def send(index: int, due: float) -> None:
        nonlocal pending
        while free and free[-1].transport is None:
            free.pop()
        if not free:
            try:
                _, opened = await loop.create_connection(Connection, "127.0.0.1", port)
            except OSError:
                tally.kinds["not connected"] += 1
                return
            free.append(opened)
        connection = free.pop()
        assert connection.transport is not None
        pending += 1

        def done(status: int, body: bytes) -> None:
            nonlocal pending
            pending -= 1
            if counted:
                tally.latency_s.append(time.perf_counter() - due)
            tally.kinds[judge(index % len(bodies), status, body) if status else "lost"] += 1
            free.append(connection)

        connection.done, counted = done, due > begin + FIRST_S
        connection.transport.write(every[index % len(bodies)])
        if counted:
            tally.late_s.append(time.perf_counter() - due)

    begin = time.perf_counter() + 0.1
    for index in range(int(rate * (seconds + FIRST_S))):
        due = begin + index / rate
        while (wait := due - time.perf_counter()) > 0:
            await asyncio.sleep(wait - 0.0015 if wait > 0.002 else 0)
        await send(index, due)
    for _ in range(600):
        if not pending:
            break
        await asyncio.sleep(0.05)
    tally.kinds["never answered"] += pending
    return Measured(tally.latency_s, tally.late_s, +tally.kinds)


def register(shared: Path, methods: list[str], most: int = 1000) -> pd.DataFrame:
    """Register versions of KTH-SP2 as of 30 days before its end; return the first submissions since then."""
    from models.registry.candidates import accounting, fit
    from models.registry.registration import Training, log_and_register
    from models.registry.runtime_registration import RUNTIME, Snapshot, runtime_content
    from pipelines.lake.registry import submissions, tracking

    cleaned = clean(read_trace(shared / TRACE))
    start = start_s(cleaned.jobs)
    assert start is not None
    past = accounting(cleaned.jobs, start, cleaned.origin_unix_s, cleaned.timezone)
    at_s, store, data = past.until_s - 30 * DAY_S, tracking(), fingerprint(cleaned.jobs)
    snapshot = Snapshot(past.snapshot(at_s), at_s, cleaned.origin_unix_s, cleaned.timezone, data)
    training = Training(MODEL.removeprefix("runtime-"), data, len(past.ended(at_s)), (0, at_s))
    for name in methods:
        candidate = log_and_register(store, RUNTIME, runtime_content(fit(name, past, at_s, 0), snapshot), training, (0.5, 1), {})
        store.client.set_registered_model_alias(MODEL, "champion", candidate.version)
    return submissions(cleaned)[cleaned.jobs["submit_s"].to_numpy() >= at_s].head(most)


def questions(jobs: pd.DataFrame) -> list[bytes]:
    """Return the submissions as requests."""
    texts = jobs.astype({"submit_time": "str"}).astype(object).where(jobs.notna(), None).to_dict("records")
    rows = [{**row, "procs": int(row["procs"]), "requested_s": int(row["requested_s"])} for row in texts]
    return [json.dumps(row).encode() for row in rows]


def register_starts(shared: Path, trees: int = 250) -> None:
    """Register a model of KTH-SP2's starts that reads the state of the queue.

    It has learned from the ``LEARNED`` submissions before those that :func:`register` returns.
    """
    from models.packed.queue_state import FEATURES, PLANS, states
    from models.packed.start_distribution import EDGES_S
    from models.packed.start_predictor import HAZARD, STATE, StartModel
    from models.registry.registration import Training, log_and_register
    from models.registry.start_registration import START, start_content
    from models.starts.model import LEARNED, Growth, grow
    from pipelines.lake.registry import tracking
    from sim.starts.questions import queued

    cleaned = clean(read_trace(shared / TRACE))
    start = start_s(cleaned.jobs)
    assert start is not None
    jobs = queued(cleaned, start, start + cleaned.jobs["runtime_s"].to_numpy(np.int64))
    until_s = int(jobs.submit[-1]) - 30 * DAY_S
    rows = np.flatnonzero(jobs.start <= until_s)[-LEARNED:]
    at_s = jobs.submit[rows]
    features = states(jobs, rows, at_s, local_clock_s(at_s, *cleaned.clock), cleaned.procs)
    hazard = grow(
        features,
        features[:, list(PLANS)],
        None,
        (jobs.start - jobs.submit)[rows].astype(float),
        np.zeros(len(rows), bool),
        growth=Growth(trees=trees),
    )
    site, recent = (cleaned.procs, cleaned.origin_unix_s, cleaned.timezone), np.zeros((2, len(EDGES_S)))
    model = StartModel(HAZARD, tuple(FEATURES), PLANS, {STATE: hazard}, {}, recent, until_s, until_s, *site)
    training = Training(STARTS.removeprefix("start-"), fingerprint(cleaned.jobs), len(rows), (int(at_s[0]), until_s))
    candidate = log_and_register(tracking(), START, start_content(model), training, (0.5, 1), {})
    tracking().client.set_registered_model_alias(STARTS, "champion", candidate.version)


def questions_of_queues(jobs: pd.DataFrame, count: int, same: int) -> list[bytes]:
    """Return questions when submissions start that come behind ``count`` others, of which 20 run.

    So many questions are about the ``same`` queue, then the next submission has joined it.
    """
    rows = [json.loads(each) for each in questions(jobs)]
    submitted = [{name: row[name] for name in ("user", "procs", "requested_s", "submit_time")} for row in rows]
    bodies = []
    for number in range(1000):
        at = count + number // same
        queue = [{**each, "running_s": 60} if place < 20 else each for place, each in enumerate(submitted[at - count : at])]
        job = {name: value for name, value in submitted[(at + number) % len(submitted)].items() if name != "submit_time"}
        bodies.append(json.dumps({"queue": queue, "now": submitted[at]["submit_time"], "job": job}).encode())
    return bodies


def questions_of_mlflow(jobs: pd.DataFrame) -> list[bytes]:
    """Return the same for MLflow's server."""
    return [
        json.dumps(
            {"dataframe_split": json.loads(jobs.iloc[[place]].astype({"submit_time": "str"}).to_json(orient="split", index=False))}
        ).encode()
        for place in range(len(jobs))
    ]


@contextmanager
def started(command: list[str], port: int, ready: str) -> Iterator[Callable[[], float]]:
    """Run a server with its children until the body ends; then say with which exit code SIGTERM ended it.

    Yields a function that returns the CPU seconds that it has used.
    """
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    with tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(
            [sys.executable, "-m", *command], stdout=printed, stderr=printed, env=environment, start_new_session=True
        )
        try:
            while not answers(port, ready):
                if process.poll() is not None:
                    printed.seek(0)
                    raise SystemExit(f"{' '.join(command)}: {printed.read().decode()[-2000:]}")
                time.sleep(0.1)
            yield lambda: cpu_s(process.pid)
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            print(f"  ended by SIGTERM with exit code {process.wait(30)}", flush=True)


def answers(port: int, path: str) -> bool:
    """Tell whether a GET is answered by 200."""
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except OSError:
        return False


def cpu_s(group: int) -> float:
    """Return the CPU seconds used so far by the processes of a group."""
    used = 0
    for each in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = each.read_text().rpartition(")")[2].split()
            used += int(fields[11]) + int(fields[12]) if int(fields[2]) == group else 0
    return used / os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def move_aliases(versions: list[str], every_s: float, changes: int) -> None:
    """Point the champion's alias at each of ``versions`` in turn."""
    from pipelines.lake.registry import tracking

    store = tracking()
    for number in range(changes):
        time.sleep(every_s)
        store.client.set_registered_model_alias(MODEL, "champion", versions[number % len(versions)])


def exact(jobs: pd.DataFrame) -> Callable[[int, int, bytes], str]:
    """Return a judge of answers: those of the versions, asked as their consumers do."""
    from models.registry.runtime_registration import load_version
    from models.registry.tracking import all_versions
    from pipelines.lake.registry import tracking

    expected = {
        str(version.version): load_version(MODEL, str(version.version)).predict(jobs)["predicted_s"].to_list()
        for version in all_versions(tracking(), MODEL)
    }

    def judge(index: int, status: int, body: bytes) -> str:
        if status != 200:
            return f"status {status}"
        answer = json.loads(body)
        right = answer["predicted_s"] == expected[answer["version"]][index]
        return f"right of version {answer['version']}" if right else "wrong"

    return judge


def measured(name: str, loading: Coroutine[None, None, Measured], used: Callable[[], float]) -> None:
    """Run a load and print what was found."""
    before = used()
    measures = asyncio.run(loading)
    each_ms = 1000 * (used() - before) / sum(measures.kinds.values())
    print(f"{name}: {measures.line()}; {each_ms:.2f} ms CPU of the server each", flush=True)


def by_status(index: int, status: int, body: bytes) -> str:
    return "answered" if status == 200 else f"status {status}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--shared", type=Path, default=SHARED, help="where traces/ is")
    parser.add_argument("--rate", type=float, default=200.0, help="requests a second")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--method", default="quantile(order=accuracy)", help="the champion")
    parser.add_argument("--changes", type=int, default=0, help="move the alias so often meanwhile")
    parser.add_argument("--queue", type=int, help="ask when each job starts, with so many in the queue")
    parser.add_argument("--same", type=int, default=1, help="questions about a queue before it changes")
    parser.add_argument("--mlflow", action="store_true", help="MLflow's server, too")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="queuecast-") as home:
        os.environ["QUEUECAST_HOME"] = home
        jobs = register(given.shared, [*(["lightgbm"] if given.changes else []), given.method], 1000 + (given.queue or 0))
        asked = f"{given.rate:g}/s about a job for {given.seconds:g} s"
        if given.queue is not None:
            register_starts(given.shared)
            asked = f"{given.rate:g}/s about a job and a queue of {given.queue:,} for {given.seconds:g} s"
        print(f"{os.cpu_count()} cores, load average before {os.getloadavg()[0]:.2f}; {given.method}, {asked}", flush=True)
        port = free_port()
        if given.mlflow:
            os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{home}/mlflow.db"
            command = [
                "mlflow",
                "models",
                "serve",
                "-m",
                f"models:/{MODEL}@champion",
                "--env-manager",
                "local",
                "-p",
                str(port),
                "-w",
                "1",
            ]
            with started(command, port, "/ping") as used:
                measured(
                    "mlflow", load(port, "/invocations", questions_of_mlflow(jobs), by_status, given.rate, given.seconds), used
                )
            port = free_port()
        served = [MODEL] if given.queue is None else [MODEL, STARTS]
        command = ["pipelines", "serve", *served, "--port", str(port), "--log", f"{home}/asked"]
        with started(command, port, "/health") as used:
            if given.queue is not None:
                bodies = questions_of_queues(jobs, given.queue, given.same)
                measured("queuecast", load(port, "/start", bodies, by_status, given.rate, given.seconds), used)
                return
            moving = None
            if given.changes:
                every_s = FIRST_S / 2 + given.seconds / (given.changes + 1)
                command = [sys.executable, "-m", "benchmarks.speed.serving", str(every_s), str(given.changes), "--move"]
                moving = subprocess.Popen(command)
            bodies, judge = questions(jobs), exact(jobs)
            measured("queuecast", load(port, "/predict", bodies, judge, given.rate, given.seconds), used)
            if moving is not None:
                moving.wait(30)
        print(f"load average after {os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    if sys.argv[-1] == "--move":
        move_aliases(["1", "2"], float(sys.argv[1]), int(sys.argv[2]))
    else:
        main()
