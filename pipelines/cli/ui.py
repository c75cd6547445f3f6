"""``queuecast ui``: Dagster's web server and daemon on what was materialised.

Both ask one code server, which stays: a daemon that starts its own replaces it each minute, at 9 s of processor time.
"""

import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from subprocess import Popen
from tempfile import TemporaryDirectory
from time import sleep

import click

from pipelines.cli.options import listening
from pipelines.sources.site_file import apart


@click.command()
@listening(3000)
@click.option("--only", type=click.Choice(["web", "daemon"]), help="The web server or the daemon alone, for two machines.")
def command(port: int, host: str, names: tuple[str, ...], only: str | None) -> None:
    """Serve the Dagster UI; stop it with Ctrl-C.

    It has no passwords: any user that reaches the port can start runs and read what is in the home directory.
    """
    from pipelines.cli.web import answer, check_port, dagster_application
    from pipelines.storage.instance import check_reads, dagster_home

    if only != "daemon":
        check_port(host, port)
    folder = dagster_home()
    check_reads()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # leave by the end of this function, which ends the children
    with ExitStack() as stack:
        socket = Path(stack.enter_context(TemporaryDirectory()), "code")
        commands = [f"dagster code-server start -m pipelines.definitions --location-name queuecast --log-level warning -s {socket}"]
        commands += [f"dagster-daemon run --grpc-socket {socket}"] if only != "web" else []
        for program, *arguments in map(str.split, commands):
            path = Path(sys.executable).with_name(program)
            child = stack.enter_context(Popen([path, *arguments], cwd=folder, env=apart()))
            stack.callback(child.terminate)
            while not socket.exists() and child.poll() is None:
                sleep(0.1)
        if only == "daemon":
            child.wait()
        else:
            answer(stack.enter_context(dagster_application(str(socket))), host, port, names)
