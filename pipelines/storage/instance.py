"""The Dagster instance: the site's own ($DAGSTER_HOME), or SQLite in the home directory.

It is set up once and by one process at a time.
"""

from __future__ import annotations

import os
from pathlib import Path

import dagster as dg
from filelock import FileLock

from features.errors import InputError
from pipelines.storage.atomic import write
from pipelines.storage.home import local_home
from pipelines.storage.permissions import check_owner

PROCESS_TAG = "queuecast/process"
"""Run tag: the process that runs it, where that is a command; a run whose process is gone was killed."""
_OURS = "# Queuecast's own Dagster instance."
_SETTINGS = f"""\
{_OURS} A site that wants PostgreSQL sets DAGSTER_HOME to a directory with a dagster.yaml of its own.
telemetry:
  enabled: false
nux:
  enabled: false
freshness:
  enabled: true
concurrency:
  runs:
    # no two nights or runs of a trace or system at once, scheduled or backfilled
    tag_concurrency_limits:
      - key: "dagster/partition/trace"
        value:
          applyLimitPerUniqueValue: true
        limit: 1
      - key: "dagster/partition/system"
        value:
          applyLimitPerUniqueValue: true
        limit: 1
"""


def dagster_home() -> Path:
    """Return the directory of the instance, set up if it is ours and new.

    It is also put into the environment for child processes.
    """
    given = os.environ.get("DAGSTER_HOME")
    if given:
        if not Path(given).is_dir():
            raise InputError(f"DAGSTER_HOME={given}: is not a directory")
        check_owner(Path(given) / "dagster.yaml")
        return check_owner(Path(given))
    directory = local_home() / "dagster"
    directory.mkdir(parents=True, exist_ok=True)
    os.environ["DAGSTER_HOME"] = str(directory)
    ready = directory / ".ready"
    # a fresh SQLite store opened by several processes at once fails in its migrations
    with FileLock(directory / ".lock"):
        settings = directory / "dagster.yaml"
        if not settings.exists() or (settings.read_text().startswith(_OURS) and "partition/system" not in settings.read_text()):
            write(settings, _SETTINGS)
        if not ready.exists():
            with dg.DagsterInstance.get() as instance:
                instance.get_dynamic_partitions("traces")
                instance.get_run_records(limit=1)
            ready.touch()
    return directory


def instance() -> dg.DagsterInstance:
    """Return the instance, ready for use as a context manager."""
    dagster_home()
    return dg.DagsterInstance.get()
