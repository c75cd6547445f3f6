"""``queuecast ui``: Dagster's web server and daemon on what was materialised."""

import os
import re
import signal
import socket
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from subprocess import Popen
from threading import Event, Timer
from typing import Any, NoReturn

import click
import psutil

import pipelines
from features.errors import InputError
from pipelines.cli.guard import allowed_hosts
from pipelines.cli.interrupts import INTERRUPTED
from pipelines.cli.notes import note
from pipelines.cli.options import listening

WORKSPACE = str(Path(pipelines.__file__).with_name("workspace.yaml"))
ENDS_S = 7
"""Max seconds that the servers have to end by themselves."""
_ENDING = (signal.SIGINT, signal.SIGTERM)
_NAME = re.compile(r"([a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(:\d{1,5})?|[0-9a-f]*(:[0-9a-f.]*){2,}", re.IGNORECASE)


@click.command()
@listening(3000)
@click.option(
    "--only", type=click.Choice(["web", "daemon"]), help="The web server or the daemon alone: a site's may be on two machines."
)
def command(port: int, host: str, names: tuple[str, ...], only: str | None) -> None:
    """Serve the Dagster UI; stop it with Ctrl-C.

    It answers under the names of this machine's loopback interface, --host and --allow-host, and takes orders from its own pages
    only. It has no passwords: any user that reaches the port can start runs and read what is in the home directory.
    """
    from pipelines.storage.instance import check_reads, dagster_home

    place = dagster_home()
    check_reads()  # children would go on without
    note(f"instance {place}")
    with ends_with_children():
        if only == "daemon":
            run_daemon()
            return
        hosts = listen(host, port, names, "start runs and read users' names")
        if only == "web":
            become("pipelines.cli.webserver", ",".join(sorted(hosts)), *web_server(host, port))
        serve(host, port, hosts)


@contextmanager
def ends_with_children() -> Iterator[None]:
    """End the body at SIGINT and SIGTERM, and its children within :data:`ENDS_S` seconds.

    If children must be killed, the process exits with :data:`INTERRUPTED`, whatever the body does when they end.

    A shell starts background processes with SIGINT ignored. This is undone here and in children, since Dagster stops its
    processes with SIGINT.
    """
    began: list[psutil.Process] = []
    gave_up = Event()

    def end(number: int, frame: object) -> NoReturn:
        for each in _ENDING:
            signal.signal(each, signal.SIG_IGN)
        began.extend(psutil.Process().children(recursive=True))
        late.start()
        raise KeyboardInterrupt

    def kill() -> None:
        for each in [*began, *psutil.Process().children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                each.kill()

    def give_up() -> NoReturn:
        gave_up.set()
        kill()
        os._exit(INTERRUPTED)

    late = Timer(ENDS_S, give_up)
    late.daemon = True
    for each in _ENDING:
        signal.signal(each, end)
    try:
        yield
    finally:
        kill()
        late.cancel()
        if gave_up.is_set():
            os._exit(INTERRUPTED)


def become(module: str, *arguments: str) -> NoReturn:
    """Replace this process by a Python module, run as a child of :func:`serve` would be."""
    leave_directory()
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])


def run_daemon() -> None:
    """Run Dagster's daemon with a code server that stays, as ``dagster dev`` runs both.

    A daemon that starts its code server itself replaces it each minute, at 9 s of processor time.
    """
    from dagster import DagsterInstance
    from dagster._cli.dev import WorkspaceOpts, _optionally_create_temp_workspace
    from dagster._daemon.cli import run_command

    leave_directory()
    with (
        DagsterInstance.get() as instance,
        _optionally_create_temp_workspace(
            use_legacy_code_server_behavior=False,
            workspace_opts=WorkspaceOpts(workspace=[WORKSPACE]),
            instance=instance,
            code_server_log_level="warning",
        ) as where,
    ):
        run_command.main(list(where), prog_name="queuecast ui --only daemon", standalone_mode=False)


def listen(host: str, port: int, names: Iterable[str], what: str) -> frozenset[str]:
    """Return the host names that a server answers to; raise InputError if it cannot listen.

    ``names`` are those of ``--allow-host``. If other machines can reach ``host``, it notes that they can do ``what``.
    """
    for name in names:
        if not _NAME.fullmatch(name):
            raise InputError(f"--allow-host {name}: is not a name such as queuecast.example.org or queuecast.example.org:8080")
    address = check_free(host, port)
    if not ip_address(address.partition("%")[0]).is_loopback:
        note(
            f"queuecast: {host} can be reached from other machines, and nothing asks for a password: any program that reaches port {port} can "
            f"{what}; put a proxy with a login in front, or leave --host out"
        )
    return allowed_hosts(host, port, names)


def serve(host: str, port: int, hosts: frozenset[str]) -> None:
    """Run Dagster's daemon and its web server, the latter behind the guard, until Ctrl-C."""
    from dagster._cli import dev

    leave_directory()
    opened = dev.open_ipc_subprocess

    def opening(parts: Sequence[str], **given: Any) -> Popen[Any]:
        return opened(behind_guard(parts, hosts), **given)

    dev.open_ipc_subprocess = opening
    dev.dev_command.main(web_server(host, port), prog_name="queuecast ui", standalone_mode=False)


def leave_directory() -> None:
    """Make paths in the environment absolute, then change to the instance's directory.

    Dagster and its children would run Python modules and read an ``.env`` that lie in the working directory.
    """
    from pipelines.sources.site_file import settings_file
    from pipelines.storage.home import LAKE, home, local_home
    from pipelines.storage.instance import dagster_home

    os.environ["QUEUECAST_HOME"] = str(local_home())
    if os.environ.get(LAKE):
        os.environ[LAKE] = str(home())
    if (site := settings_file()) is not None:
        os.environ["QUEUECAST_CATALOGUE"] = str(site)
    house = Path(pipelines.__file__).parents[1]
    paths = [str(Path(each).absolute()) for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    paths += [str(house)] if house.name != "site-packages" else []  # a checkout from whose directory we were started
    os.environ |= {"PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1", "DAGSTER_DISABLE_TELEMETRY": "1"}
    os.chdir(dagster_home())


def behind_guard(parts: Sequence[str], hosts: frozenset[str]) -> list[str]:
    """Return the command line ``parts`` with the guarded web server in place of Dagster's.

    The daemon's command line stays. Raises RuntimeError for any other, so that no web server runs without the guard.
    """
    python, _, module, *options = parts
    if module == "dagster_webserver":
        return [python, "-m", "pipelines.cli.webserver", ",".join(sorted(hosts)), *options]
    if module != "dagster._daemon":
        raise RuntimeError(f"this Dagster starts {' '.join(parts[:4])}, which is not known")
    return list(parts)


def web_server(host: str, port: int) -> list[str]:
    """Return the options of ``dagster dev``, for any working directory."""
    return ["-w", WORKSPACE, "-p", str(port), "-h", host]


def check_free(host: str, port: int) -> str:
    """Return the address of ``host``; raise InputError if its ``port`` cannot be listened on.

    For example, a web server may listen on it already.
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
    return str(address[0])
