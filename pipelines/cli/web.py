"""Dagster's own web application, with our pages, for programs and its own pages only.

A page of any site may send requests to this machine, and Dagster takes changes from forms and addresses, too. ``queuecast serve``
answers by the same rules.
"""

import html
import mimetypes
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uvicorn
from starlette.datastructures import MutableHeaders
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipelines.lake.home import PAGES, home

_PAGE = re.compile(r"([a-z0-9][a-z0-9._-]*/)*[a-z0-9][a-z0-9._-]*\.(html|csv|png)")
_TITLE = re.compile("<title>(.*?)</title>")
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
    """Answer with a published page of the home directory, its rows or picture, or without a name with a list of pages."""
    name, reports = request.path_params["name"], home() / "reports"
    if not name:
        return HTMLResponse(_index(reports))
    place = reports / name
    if not _PAGE.fullmatch(name) or not place.is_file():
        return PlainTextResponse("no such page: it is there once its run is published\n", 404)
    return Response(place.read_bytes(), media_type=mimetypes.guess_type(name)[0])


def _index(reports: Path) -> str:
    """Return a page that lists all pages, of nights the last one first."""
    from pipelines.report.page import template

    names = sorted((page.relative_to(reports).as_posix() for page in reports.rglob("*.html")), reverse=True)
    pages = []
    for name in sorted(filter(_PAGE.fullmatch, names), key=lambda name: name.count("/")):
        with (reports / name).open(encoding="utf-8") as page:
            title = _TITLE.search(page.read(2000))
        written = datetime.fromtimestamp((reports / name).stat().st_mtime, UTC)
        pages.append((name, html.unescape(title[1]) if title else "", f"{written:%Y-%m-%d %H:%M}"))
    return template("pages.html.j2").render(pages=pages, address=PAGES)
