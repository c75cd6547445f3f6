"""Dagster's web server behind the guard, with the pages of runs and nights beside it.

``python -m pipelines.cli.webserver HOSTS [OPTION]...``: HOSTS are the served names, with a comma between; the
options are those of ``dagster-webserver``. ``queuecast ui`` starts it.
"""

from __future__ import annotations

import re
import sys
from typing import Any

import uvicorn
from dagster_webserver import cli
from starlette.exceptions import HTTPException
from starlette.middleware.body_limit import RequestBodyLimitMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from pipelines.cli.answering import Announced
from pipelines.cli.guard import guarded
from pipelines.storage.home import PAGES, home

LARGEST = 16 << 20
"""Max bytes of a request's body."""
ENDS_S = 2
"""Max seconds that requests under way have after a signal."""
_PAGE = re.compile(r"([a-z0-9][a-z0-9._-]*/)*[a-z0-9][a-z0-9._-]*\.html")


def page(request: Request) -> HTMLResponse:
    """Answer with a published page of the home directory, as it is now."""
    name = request.path_params["name"]
    try:
        if not _PAGE.fullmatch(name):
            raise FileNotFoundError
        return HTMLResponse((home() / "reports" / name).read_bytes())
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise HTTPException(404, "no such page: it is there once its run is published") from None


def run(app: Any, host: str, port: int, log_level: str) -> None:
    """Serve as ``uvicorn.run``, but print the address, and end soon after a signal."""
    config = uvicorn.Config(app, host, port, log_level=log_level, timeout_graceful_shutdown=ENDS_S)
    Announced(config, f"web server http://{f'[{host}]' if ':' in host else host}:{port}").run()


def main() -> None:
    """Run Dagster's web server, its application wrapped."""
    hosts = sys.argv.pop(1).split(",")
    create = cli.create_app_from_workspace_process_context

    def created(*given: Any, **more: Any) -> Any:
        app = create(*given, **more)
        app.router.routes.insert(0, Route(f"{PAGES}/{{name:path}}", page))
        return guarded(RequestBodyLimitMiddleware(app, LARGEST), hosts)

    setattr(cli, create.__name__, created)
    setattr(uvicorn, run.__name__, run)
    cli.main()


if __name__ == "__main__":
    main()
