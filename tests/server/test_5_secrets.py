"""No secret of the site stands in anything that was written: homes, logs, the object store, the databases."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

from tests.server.services import LOOPBACK, programs_of_postgres
from tests.server.site import BUCKET, SECRETS, Site
from tests.support.patience import run


def written(site: Site) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of every file, object and database of the site."""
    for folder, _, files in os.walk(site.root):
        for name in files:
            path = Path(folder) / name
            if path.is_file():
                yield str(path.relative_to(site.root)), path.read_bytes()
    for name, content in site.objects().items():
        yield f"s3://{BUCKET}/{name}", content
    for name in ("queuecast", "mlflow"):
        command = [str(programs_of_postgres() / "pg_dump"), "-h", LOOPBACK, "-p", str(site.ports["postgres"]), "-U", name, name]
        dump = run(command, site.root, env={**site.clean(), "PGPASSWORD": SECRETS[name]})
        assert dump.returncode == 0, dump.stderr
        yield f"database {name}", dump.stdout.encode()


def opened(content: bytes) -> bytes:
    """Return what can be read in packed content, too."""
    if content[:4] == b"PAR1":
        table = pq.read_table(io.BytesIO(content))
        return content + repr(table.to_pydict()).encode() + repr(table.schema.metadata).encode()
    return content + gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content


def test_nothing_that_was_written_has_a_secret(site: Site) -> None:
    failed = site.queuecast(
        "run",
        "--trace",
        str(site.root / "arriving.parquet"),
        env=site.machine("desk", MLFLOW_TRACKING_URI="http://127.0.0.1:9", MLFLOW_HTTP_REQUEST_MAX_RETRIES="1"),
    )
    assert failed.returncode == 2
    secrets = [secret.encode() for secret in SECRETS.values()]
    looked_at, leaks = 0, []
    for name, content in written(site):
        looked_at += 1
        leaks += [f"{name}: {secret.decode()}" for secret in secrets if secret in opened(content)]
    assert looked_at > 100
    assert leaks == []
    commands = [Path(f"/proc/{each.process.pid}/cmdline").read_bytes() for each in site.services.values() if each.process]
    assert not [line for line in commands for secret in secrets if secret in line]
