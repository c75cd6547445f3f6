"""Dagster's web server behind the guard.

``python -m pipelines.cli.webserver HOSTS [OPTION]...``: HOSTS are the served names, with a comma between; the
options are those of ``dagster-webserver``. ``queuecast ui`` starts it.
"""

from __future__ import annotations

import sys
from typing import Any

from dagster_webserver import cli

from pipelines.cli.guard import Guard


def main() -> None:
    """Run Dagster's web server, its application wrapped."""
    hosts = frozenset(sys.argv.pop(1).split(","))
    made = cli.create_app_from_workspace_process_context

    def guarded(*given: Any, **more: Any) -> Any:
        return Guard(made(*given, **more), hosts)

    setattr(cli, made.__name__, guarded)
    cli.main()


if __name__ == "__main__":
    main()
