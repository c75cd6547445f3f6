"""Dagster's web server behind the guard.

``python -m pipelines.cli.webserver HOSTS [OPTION]...``: HOSTS are the served names, with a comma between; the
options are those of ``dagster-webserver``. ``queuecast ui`` starts it.
"""

from __future__ import annotations

import sys
from typing import Any

from dagster_webserver import cli
from starlette.middleware.body_limit import RequestBodyLimitMiddleware

from pipelines.cli.guard import guarded

LARGEST = 16 << 20
"""Max bytes of a request's body."""


def main() -> None:
    """Run Dagster's web server, its application wrapped."""
    hosts = sys.argv.pop(1).split(",")
    create = cli.create_app_from_workspace_process_context

    def created(*given: Any, **more: Any) -> Any:
        return guarded(RequestBodyLimitMiddleware(create(*given, **more), LARGEST), hosts)

    setattr(cli, create.__name__, created)
    cli.main()


if __name__ == "__main__":
    main()
