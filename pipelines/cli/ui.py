"""``queuecast ui``: Dagster's web server and daemon on what was materialised.

Both ask one code server, which stays: a daemon that starts its own replaces it each minute, at 9 s of processor time.
"""

import hashlib
import signal
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from subprocess import Popen
from tempfile import gettempdir
from time import sleep

import click
from filelock import FileLock, Timeout

from pipelines.cli.options import listening
from pipelines.lake.places import write
from pipelines.readers.site_file import apart


@click.command()
@listening(3000)
@click.option("--only", type=click.Choice(["web", "daemon"]), help="The web server or the daemon alone, for two machines.")
def command(port: int, host: str, names: tuple[str, ...], only: str | None) -> None:
    """Serve the Dagster UI; stop it with Ctrl-C.

    It has no passwords: any user that reaches the port can start runs and read what is in the home directory.
    """
    from pipelines.cli.web import answer, dagster_application
    from pipelines.lake.instance import LOCATION, check_reads, dagster_home

    folder = dagster_home()
    check_reads()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # leave by the end of this function, which ends the children
    with ExitStack() as stack:
        workspace, socket = folder / "workspace.yaml", code_socket(folder)
        # one name for both: the daemon starts no run of a location that it does not know
        write(workspace, f"load_from: [{{grpc_server: {{host: localhost, socket: {socket}, location_name: {LOCATION}}}}}]\n")
        commands = [f"dagster-daemon run -w {workspace}"] if only != "web" else []
        with suppress(Timeout):  # else the other half of the server answers there; one that ends takes seconds
            stack.enter_context(FileLock(folder / "code.lock", timeout=10))
            socket.unlink(missing_ok=True)
            commands.insert(
                0, f"dagster code-server start -m pipelines.definitions --location-name {LOCATION} --log-level warning -s {socket}"
            )
        for program, *arguments in map(str.split, commands):
            path = Path(sys.executable).with_name(program)
            child = stack.enter_context(Popen([path, *arguments], cwd=folder, env=apart()))
            stack.callback(child.terminate)
            while not socket.exists() and child.poll() is None:
                sleep(0.1)
        if only == "daemon":
            child.wait()
        else:
            answer(stack.enter_context(dagster_application(workspace)), host, port, names)


def code_socket(folder: Path) -> Path:
    """Return where the code of an instance in ``folder`` answers.

    It stays the same, as Dagster keeps the states and ticks of schedules and sensors by it. The system takes 107 characters.
    """
    socket = folder / "code"
    name = f"queuecast-{hashlib.sha256(bytes(folder)).hexdigest()[:16]}"
    return socket if len(bytes(socket)) <= 100 else Path(gettempdir(), name)
