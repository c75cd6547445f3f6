"""``queuecast ui`` and ``serve``: web servers for programs and their own pages only.

A page of any site may send requests to this machine, and Dagster takes changes from forms and addresses, too. The pages
of the home directory are mounted on Dagster's own web application. It and its daemon ask one code server, which stays:
a daemon that starts its own replaces it each minute, at 9 s of processor time.
"""

from __future__ import annotations

import gc
import hashlib
import mimetypes
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from subprocess import Popen
from tempfile import gettempdir
from threading import Event, Thread
from time import sleep
from typing import TYPE_CHECKING, Any

import click
import uvicorn
from filelock import FileLock, Timeout
from starlette.datastructures import MutableHeaders
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from features.errors import InputError, check_name
from pipelines.cli import note
from pipelines.cli.options import listening
from pipelines.lake.places import PAGES, home, write
from pipelines.readers.site_file import apart

if TYPE_CHECKING:
    from fastapi import FastAPI

    from pipelines.serving.models import Served

_PAGE = re.compile(r"([a-z0-9][a-z0-9._-]*/)*[a-z0-9][a-z0-9._-]*\.(html|csv|png)")
_HEAD = 64 << 10  # bytes of a request's head that a server keeps


@contextmanager
def dagster_application(workspace: Path) -> Iterator[ASGIApp]:
    """Yield Dagster's web application on the code that ``workspace`` names, with our pages."""
    from dagster import DagsterInstance
    from dagster._core.workspace.context import WorkspaceProcessContext
    from dagster._core.workspace.load_target import WorkspaceFileTarget
    from dagster_webserver.app import create_app_from_workspace_process_context

    target = WorkspaceFileTarget([str(workspace)])
    with DagsterInstance.get() as instance, WorkspaceProcessContext(instance, target) as context:
        app = create_app_from_workspace_process_context(context)
        app.router.routes.insert(0, Route(f"{PAGES}/{{name:path}}", _page))
        yield app


def answer(
    app: ASGIApp,
    host: str,
    port: int,
    names: tuple[str, ...],
    **options: Any,
) -> None:
    """Serve ``app`` under the names of this machine's loopback interface and ``names``."""
    guarded = TrustedHostMiddleware(OwnPages(app), ["localhost", "127.0.0.1", "[::1]", host, *names], www_redirect=False)
    uvicorn.run(guarded, host=host, port=port, http="h11", h11_max_incomplete_event_size=_HEAD, access_log=False, **options)


class OwnPages:
    """An ASGI application that passes to ``app`` what programs and its own pages send."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def unframed(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["x-frame-options"] = "SAMEORIGIN"
            await send(message)

        app = self.app
        if scope["type"] != "lifespan":
            request = HTTPConnection(scope)
            if (origin := request.headers.get("origin")) is not None and origin.lower().partition("://")[2] != request.headers[
                "host"
            ].lower():
                app = PlainTextResponse("a page of another site may send nothing here\n", 403)
            elif scope["path"].rstrip("/").endswith("/graphql") and "query" in request.query_params:
                app = PlainTextResponse("a query stands in the body of a POST, not in the address\n", 405)
        await app(scope, receive, unframed)


def _page(request: Request) -> Response:
    """Answer with a published page of the home directory, or its rows or picture."""
    name = request.path_params["name"]
    place = home() / "reports" / name
    if not _PAGE.fullmatch(name) or not place.is_file():
        return PlainTextResponse("no such page: it is there once its run is published\n", 404)
    return Response(place.read_bytes(), media_type=mimetypes.guess_type(name)[0])


@click.command()
@listening(3000)
@click.option("--only", type=click.Choice(["web", "daemon"]), help="The web server or the daemon alone, for two machines.")
def ui(port: int, host: str, names: tuple[str, ...], only: str | None) -> None:
    """Serve the Dagster UI; stop it with Ctrl-C.

    It has no passwords: any user that reaches the port can start runs and read what is in the home directory.
    """
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

    It stays the same, as Dagster keeps the states and ticks of schedules and sensors by it. The system takes 107
    characters.
    """
    socket = folder / "code"
    name = f"queuecast-{hashlib.sha256(bytes(folder)).hexdigest()[:16]}"
    return socket if len(bytes(socket)) <= 100 else Path(gettempdir(), name)


POLL_S = 5.0
"""Seconds between looks at the registry."""
ENDS_S, IDLE_S = 10, 75
"""Max seconds for running requests after SIGTERM, and for an idle connection. The latter is longer than proxies keep
theirs, so that a request never meets a connection that is being closed."""


@click.command()
@click.argument("models", nargs=-1, required=True, metavar="NAME[@ALIAS]...")
@listening(8765)
@click.option(
    "--stale-after", type=click.FloatRange(0), default=48.0, show_default=True, help="Hours from which a snapshot is stale."
)
@click.option(
    "--log",
    "log_directory",
    type=click.Path(path_type=Path),
    is_flag=False,
    flag_value=Path(),
    metavar="[DIR]",
    help="Append what is asked and answered to files there, by default in asked of the home directory, which nights judge.",
)
def serve(
    models: tuple[str, ...],
    port: int,
    host: str,
    names: tuple[str, ...],
    stale_after: float,
    log_directory: Path | None,
) -> None:
    """Answer POST /predict and /start from registered models, and GET /health.

    Each model follows its alias, by default champion, without losing a request. After SIGTERM or Ctrl-C, running
    requests are still answered. There are no passwords: any program that reaches the port can ask.
    """
    served = _served(models)
    from models.registry.unregistered import unregistered
    from pipelines.serving.app import Service, application
    from pipelines.serving.asked_log import AskedLog, asked_place
    from pipelines.serving.models import SiteRegistry, follow_registry

    registry = SiteRegistry()
    for model in served:
        loaded = model.follow(registry)
        if model.missing:
            raise unregistered(model.name, model.alias, alternatives=registry.alternatives(model.name))
        _tell(model, loaded)
    log = None
    if log_directory is not None:
        log = AskedLog(asked_place() if log_directory == Path() else log_directory)
    over = Event()
    Thread(target=follow_registry, args=(served, registry, POLL_S, over, _tell), name="registry", daemon=True).start()
    try:
        _run(application(Service(served, 3_600 * stale_after, log)), host, port, names)
    finally:
        over.set()


def _served(models: tuple[str, ...]) -> list[Served]:
    from pipelines.serving.models import Served

    served = []
    for spec in models:
        name, _, at = spec.partition("@")
        if not name.startswith(("runtime-", "start-")):
            raise InputError(
                f"{spec}: is not the name of a model of runtimes or starts, such as runtime-kth-sp2 or start-kth-sp2@challenger"
            )
        served.append(Served(check_name(name, "registry"), at or "champion"))
    if len({model.name for model in served}) < len(served):
        raise InputError("a model is named twice: serve another alias of it in another process")
    return served


def _tell(served: Served, loaded: bool) -> None:
    """Print the version that answers now, or the problem, on standard error."""
    at = f"{served.name}@{served.alias}"
    if loaded and served.loaded is not None:
        note(f"{at}: version {served.loaded.number} answers ({served.loaded.method})")
    elif served.problem:
        note(
            f"{at}: {'version ' + served.loaded.number + ' goes on answering' if served.loaded else 'does not answer yet'}: {served.problem}"
        )
    else:
        note(f"{at}: the registry answers again")


def _run(app: FastAPI, host: str, port: int, names: tuple[str, ...]) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    signal.signal(signal.SIGTERM, lambda *_: None)  # uvicorn raises the signal again after it has ended
    sys.setswitchinterval(0.0005)  # the max delay of the answering thread by the thread that loads versions
    gc.collect()
    gc.freeze()  # objects loaded so far stay; collections over them would take a tenth of a second
    answer(
        app,
        host,
        port,
        names,
        log_level="info",
        server_header=False,
        lifespan="off",
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=ENDS_S,
    )
