"""``queuecast ui``: Dagster's web server and daemon on what was materialised."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import click

import pipelines
from features.errors import InputError


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), default=3000, show_default=True)
@click.option("--host", default="127.0.0.1", show_default=True)
def command(port: int, host: str) -> None:
    """Serve the Dagster UI; stop it with Ctrl-C."""
    from pipelines.storage.instance import dagster_home

    check_free(host, port)
    print(f"instance {dagster_home()}, web server http://{host}:{port}", file=sys.stderr, flush=True)
    os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "1")
    arguments = web_server(host, port)
    os.execv(arguments[0], arguments)


def web_server(host: str, port: int) -> list[str]:
    """Return the command line of the web server, for any working directory."""
    dagster, workspace = Path(sys.executable).with_name("dagster"), Path(pipelines.__file__).with_name("workspace.yaml")
    return [str(dagster), "dev", "-w", str(workspace), "-p", str(port), "-h", host]


def check_free(host: str, port: int) -> None:
    """Raise InputError if nothing can listen on ``port`` of ``host``.

    For example because a web server does already.
    """
    try:
        kind, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise InputError(f"--host {host}: {error.strerror}") from error
    with socket.socket(kind) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
        except OSError as error:
            raise InputError(
                f"port {port} of {host} cannot be listened on ({error.strerror}): choose another with --port"
            ) from error
