"""``queuecast serve``: registered models of runtimes and starts over HTTP."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

import click

from features.errors import InputError
from features.names import check_name
from pipelines.cli.notes import note
from pipelines.cli.options import listening

if TYPE_CHECKING:
    from fastapi import FastAPI

    from pipelines.serving.models import Served

ENDS_S, IDLE_S = 10, 75
"""Max seconds for running requests after SIGTERM, and for an idle connection. The latter is longer than proxies keep theirs, so
that a request never meets a connection that is being closed."""


@click.command()
@click.argument("models", nargs=-1, required=True, metavar="NAME[@ALIAS]...")
@listening(8765)
@click.option(
    "--stale-after", type=click.FloatRange(0), default=48.0, show_default=True, help="Hours from which a snapshot is stale."
)
@click.option("--poll", type=click.FloatRange(0), default=5.0, show_default=True, help="Seconds between looks at the registry.")
@click.option(
    "--log",
    "log_directory",
    type=click.Path(path_type=Path),
    is_flag=False,
    flag_value=Path(),
    metavar="[DIR]",
    help="Append what is asked and answered to files there, by default in asked of the home directory, which nights judge.",
)
def command(
    models: tuple[str, ...],
    port: int,
    host: str,
    names: tuple[str, ...],
    stale_after: float,
    poll: float,
    log_directory: Path | None,
) -> None:
    """Answer POST /predict and /start from registered models, and GET /health.

    Each model follows its alias, by default champion, without losing a request. After SIGTERM or Ctrl-C, running requests are
    still answered. There are no passwords: any program that reaches the port can ask.
    """
    served = _served(models)
    from models.registry.unregistered import unregistered
    from pipelines.serving.app import Service, application
    from pipelines.serving.asked_log import AskedLog, asked_place
    from pipelines.serving.models import follow_registry
    from pipelines.serving.site_registry import SiteRegistry

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
    Thread(target=follow_registry, args=(served, registry, poll, over, _tell), name="registry", daemon=True).start()
    try:
        _run(application(Service(served, 3_600 * stale_after, log)), host, port, names)
    finally:
        over.set()
        if log is not None:
            log.close()


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
    import gc
    import signal
    import sys

    from pipelines.cli.web import answer

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
