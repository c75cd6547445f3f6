"""Dagster's web server behind the guard, with the pages of runs and nights beside it.

``python -m pipelines.cli.webserver HOSTS [OPTION]...``: HOSTS are the served names, separated by commas; the
options are those of ``dagster-webserver``. ``queuecast ui`` starts it.
"""

import re
import sys
from typing import Any

import uvicorn
from dagster_webserver import cli
from starlette.exceptions import HTTPException
from starlette.middleware.body_limit import RequestBodyLimitMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pipelines.cli.answering import Announced
from pipelines.cli.guard import guarded
from pipelines.storage.home import PAGES, home

LARGEST = 16 << 20
"""Max bytes of a request's body."""
ENDS_S = 2
"""Max seconds for running requests after a signal."""
_KINDS = {"html": "text/html", "csv": "text/csv", "png": "image/png"}
"""Media types of a page's files by ending: the page, its rows and its picture."""
_PAGE = re.compile(rf"([a-z0-9][a-z0-9._-]*/)*[a-z0-9][a-z0-9._-]*\.({'|'.join(_KINDS)})")


def page(request: Request) -> Response:
    """Answer with a published page of the home directory, or its rows or picture."""
    name = request.path_params["name"]
    try:
        if not (match := _PAGE.fullmatch(name)):
            raise FileNotFoundError
        return Response((home() / "reports" / name).read_bytes(), media_type=_KINDS[match[2]])
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise HTTPException(404, "no such page: it is there once its run is published") from None


def run(app: Any, host: str, port: int, log_level: str) -> None:
    """Serve as ``uvicorn.run``, but print the address, and end soon after a signal."""
    config = uvicorn.Config(app, host, port, log_level=log_level, timeout_graceful_shutdown=ENDS_S)
    Announced(config, f"web server http://{f'[{host}]' if ':' in host else host}:{port}").run()


def main() -> None:
    """Run Dagster's web server with its application behind the guard."""
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
