"""``queuecast ui``: Dagster's web server and daemon on what was materialised."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from features.errors import InputError


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), default=3000, show_default=True)
@click.option("--host", default="127.0.0.1", show_default=True)
def command(port: int, host: str) -> None:
    """Serve the Dagster UI; stop it with Ctrl-C."""
    from pipelines.instance import dagster_home

    workspace = Path(__file__).resolve().parents[2] / "workspace.yaml"
    if not workspace.exists():
        raise InputError(f"{workspace}: not there; run the user interface from a checkout")
    print(f"instance {dagster_home()}, web server http://{host}:{port}", file=sys.stderr, flush=True)
    os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "1")
    dagster = Path(sys.executable).with_name("dagster")
    os.execv(dagster, [str(dagster), "dev", "-w", str(workspace), "-p", str(port), "-h", host])
