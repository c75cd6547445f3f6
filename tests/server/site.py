"""A whole site on this machine: its servers, its settings, and commands of its users."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.server.services import HOUSE, LOOPBACK, WAITS, Service, answers, free_port, listens, module, postgres
from tests.support.patience import FOREVER_S, run, wait_until

BUCKET, PREFIX = "site", "home"
SECRETS = {
    "admin": "planted-admin-4b1d",
    "queuecast": "planted-database-9c2e",
    "mlflow": "planted-backend-7f3a",
    "AWS_SECRET_ACCESS_KEY": "planted-aws-secret-e81c",
    "MLFLOW_TRACKING_PASSWORD": "planted-tracking-d5b7",
    "QUEUECAST_HASH_KEY": "planted-hash-key-60af",
    "PGPASSWORD": "planted-pgpassword-17c8",
}
"""What nothing that is written may hold."""
_KEPT = ("PATH", "LANG", "NUMBA_CACHE_DIR", "TZ", "SSL_CERT_FILE")


@dataclass
class Site:
    """The servers of a site by name, below the directory ``root``, and what its machines set."""

    root: Path
    services: dict[str, Service] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)

    @property
    def settings(self) -> Path:
        """Return the site's settings file; it lies in no working directory of ours."""
        return self.root / "etc" / "queuecast.toml"

    def clean(self) -> dict[str, str]:
        """Return an environment without any setting of a site's."""
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        user = self.root / "user"
        user.mkdir(exist_ok=True)
        ours = {"HOME": str(user), "PYTHONPATH": str(HOUSE), "OMP_NUM_THREADS": "1", "QUEUECAST_NIGHTS_SINCE": "2023-11-01"}
        return {**kept, **WAITS, **ours}

    def machine(self, name: str, **more: str) -> dict[str, str]:
        """Return the environment of a machine of the site: a home of its own, the site's settings file, and secrets."""
        home = self.root / "machines" / name
        home.parent.mkdir(exist_ok=True)
        home.mkdir(mode=0o700, exist_ok=True)
        return {
            **self.clean(),
            **self.store(),
            "QUEUECAST_HOME": str(home),
            "QUEUECAST_CATALOGUE": str(self.settings),
            "QUEUECAST_DATABASE": f"postgresql://queuecast:{SECRETS['queuecast']}@{LOOPBACK}:{self.ports['postgres']}/queuecast",
            "MLFLOW_TRACKING_USERNAME": "operator",
            **{name: SECRETS[name] for name in ("MLFLOW_TRACKING_PASSWORD", "QUEUECAST_HASH_KEY", "PGPASSWORD")},
            **more,
        }

    def store(self) -> dict[str, str]:
        """Return how libraries find the object store."""
        return {
            "AWS_ENDPOINT_URL": f"http://{LOOPBACK}:{self.ports['s3']}",
            "AWS_ACCESS_KEY_ID": "site",
            "AWS_SECRET_ACCESS_KEY": SECRETS["AWS_SECRET_ACCESS_KEY"],
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def start(self) -> None:
        """Start the servers that everything else needs: PostgreSQL, the object store, MLflow."""
        for name in ("postgres", "s3", "mlflow", "dask", "web"):
            self.ports[name] = free_port()
        users = {name: SECRETS[name] for name in ("admin", "queuecast", "mlflow")}
        self.services["postgres"] = postgres(self.root, self.ports["postgres"], users, self.clean())
        command = module("moto.server", "-H", LOOPBACK, "-p", str(self.ports["s3"]))
        self.add("s3", command, self.clean(), listens(self.ports["s3"]))
        urllib.request.urlopen(
            urllib.request.Request(f"http://{LOOPBACK}:{self.ports['s3']}/{BUCKET}", method="PUT"), timeout=FOREVER_S
        )
        self.settings.parent.mkdir()
        self.settings.write_text(
            f'[site]\nlake = "s3://{BUCKET}/{PREFIX}"\nregistry = "http://{LOOPBACK}:{self.ports["mlflow"]}"\n'
        )
        env = {
            **self.clean(),
            **self.store(),
            "MLFLOW_BACKEND_STORE_URI": f"postgresql+psycopg2://mlflow@{LOOPBACK}:{self.ports['postgres']}/mlflow",
            "PGPASSWORD": SECRETS["mlflow"],
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        }
        where = ["--host", LOOPBACK, "--port", str(self.ports["mlflow"]), "--workers", "1"]
        command = module("mlflow", "server", "--artifacts-destination", f"s3://{BUCKET}/mlflow", *where)
        self.add("mlflow", command, env, answers(f"http://{LOOPBACK}:{self.ports['mlflow']}/health"))

    def start_dagster(self) -> None:
        """Start Dagster's daemon and web server, each on a machine of its own."""
        port = self.ports["web"]
        web = module("pipelines", "ui", "--only", "web", "--port", str(port))
        self.add("web", web, self.machine("web"), answers(f"http://{LOOPBACK}:{port}/server_info"))
        daemon = module("pipelines", "ui", "--only", "daemon")
        self.add("daemon", daemon, self.machine("daemon"), self._daemon_is_healthy)

    def start_dask(self, workers: int = 2) -> None:
        """Start a Dask scheduler and workers, each a process and a machine of its own."""
        where = ["--host", LOOPBACK, "--port", str(self.ports["dask"]), "--no-dashboard"]
        env = {**self.clean(), **self.store()}
        self.add("dask", module("distributed.cli.dask_scheduler", *where), env, listens(self.ports["dask"]))
        for number in range(workers):
            self.start_worker(number)

    def start_worker(self, number: int) -> None:
        """Start one worker of one thread."""
        name = f"worker-{number}"
        address = f"tcp://{LOOPBACK}:{self.ports['dask']}"
        options = ["--nthreads", "1", "--host", LOOPBACK, "--no-dashboard", "--name", name, "--no-nanny"]
        log = self.root / name / f"{name}.log"
        ready = lambda: log.exists() and "Registered to" in log.read_text(errors="replace")  # noqa: E731
        self.add(name, module("distributed.cli.dask_worker", address, *options), {**self.machine(name)}, ready)

    def add(self, name: str, command: Sequence[str], env: Mapping[str, str], ready: Any) -> None:
        """Start a service and keep it."""
        self.services[name] = Service(name, command, self.root / name, env, ready)
        self.services[name].start()

    def stop(self) -> None:
        """Stop everything, the last one first."""
        for service in reversed([*self.services.values()]):
            service.stop()

    # what users of the site do

    def command(self, *arguments: str) -> list[str]:
        """Return the command line ``queuecast``."""
        return module("pipelines", *arguments)

    def queuecast(
        self, *arguments: str, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, by default on the machine ``desk``; its output is kept, too."""
        place = cwd or self.root / "desk"
        place.mkdir(parents=True, exist_ok=True)
        done = run(self.command(*arguments), self.root, cwd=place, env=env or self.machine("desk"))
        with (self.root / "commands.log").open("a") as log:
            log.write(f"$ queuecast {' '.join(arguments)}\n{done.stdout}{done.stderr}exit {done.returncode}\n")
        return done

    def tables(self) -> set[str]:
        """Return the names of the tables in the lake."""
        return {name for name in self.objects(f"{PREFIX}/lake/") if name.endswith(".parquet")}

    def wait_for_table(self, before: set[str]) -> None:
        """Wait until there is a table in the lake that was not ``before``."""
        wait_until(lambda: bool(self.tables() - before), str)

    def python(self, code: str, *, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
        """Return what a program prints, run on a machine; AssertionError with its words if it fails."""
        done = run([*module("tests.server.program"), code], self.root, cwd=cwd, env=env or self.machine("desk"))
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    def objects(self, prefix: str = "") -> dict[str, bytes]:
        """Return the objects of the bucket whose names begin with ``prefix``, by name."""
        store = self._client()
        pages = store.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        names = [each["Key"] for page in pages for each in page.get("Contents", [])]
        return {name: store.get_object(Bucket=BUCKET, Key=name)["Body"].read() for name in names}

    def _client(self) -> Any:
        import boto3

        keys = {"aws_access_key_id": "site", "aws_secret_access_key": "any", "region_name": "us-east-1"}
        return boto3.client("s3", endpoint_url=f"http://{LOOPBACK}:{self.ports['s3']}", **keys)

    def published(self, subject: str, env: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return what readers see of ``subject``: version, tables, pages, aliases."""
        return json.loads(self.python(f"from tests.server.seen import tell; tell({subject!r})", env=env))

    def graphql(self, query: str, **variables: Any) -> dict[str, Any]:
        """Return the answer of Dagster's web server; AssertionError where it has errors."""
        address = f"http://{LOOPBACK}:{self.ports['web']}"
        body = json.dumps({"query": query, "variables": variables}).encode()
        asked = urllib.request.Request(f"{address}/graphql", body, {"Content-Type": "application/json", "Origin": address})
        with urllib.request.urlopen(asked, timeout=FOREVER_S) as answer:
            reply = json.load(answer)
        assert "errors" not in reply, reply["errors"]
        return reply["data"]

    def _daemon_is_healthy(self) -> bool:
        state = self.graphql("{instance{daemonHealth{allDaemonStatuses{healthy required}}}}")
        needed = [each for each in state["instance"]["daemonHealth"]["allDaemonStatuses"] if each["required"]]
        return bool(needed) and all(each["healthy"] for each in needed)


def removed(root: Path) -> None:
    """Remove a site's directory."""
    shutil.rmtree(root, ignore_errors=True)
