"""The Dagster instance: the site's own ($DAGSTER_HOME), or ours, in the home directory.

Ours keeps its runs and events in the site's PostgreSQL database ($QUEUECAST_DATABASE), or in SQLite. It is set up once
and by one process at a time.
"""

import os
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path

import dagster as dg
from filelock import FileLock

from features.errors import InputError
from pipelines.lake.locks import DATABASE, held, named
from pipelines.lake.places import local_home, write

LOCATION = "queuecast"
"""The name of the code location, in the web server, the daemon, and the runs of commands."""
_OURS = "# Queuecast's own Dagster instance."
_SETTINGS = f"""\
{_OURS} A site with one of its own sets DAGSTER_HOME to the directory with its dagster.yaml.
telemetry:
  enabled: false
nux:
  enabled: false
freshness:
  enabled: true
run_monitoring:
  enabled: true
  # a command that was killed leaves a run that nights would wait for
  max_runtime_seconds: 86400
concurrency:
  runs:
    # no two nights or runs of a trace or system at once, scheduled or backfilled
    tag_concurrency_limits:
      - key: "dagster/partition"
        value:
          applyLimitPerUniqueValue: true
        limit: 1
"""
_POSTGRES = f"""\
storage:
  custom:
    module: pipelines.lake.postgres
    class: PostgresStorage
    config:
      postgres_url:
        env: {DATABASE}
"""


def dagster_home() -> Path:
    """Return the directory of the instance, set up if it is ours and new.

    It is also put into the environment for child processes. Raises InputError if the site's database does not answer.
    """
    home = os.environ.get("DAGSTER_HOME")
    if home:
        if not Path(home).is_dir():
            raise InputError(f"DAGSTER_HOME={home}: is not a directory")
        return Path(home)
    directory = local_home() / "dagster"
    directory.mkdir(parents=True, exist_ok=True)
    os.environ["DAGSTER_HOME"] = str(directory)
    url = os.environ.get(DATABASE, "")
    if url and not find_spec("dagster_postgres"):
        raise InputError(f"{DATABASE} is set and dagster-postgres is missing: install Queuecast with its extra 'server'")
    # a fresh store opened by several processes at once fails in its migrations
    with FileLock(directory / ".lock"):
        settings, wanted = directory / "dagster.yaml", _SETTINGS + (_POSTGRES if url else "")
        if not settings.exists() or ((text := settings.read_text()).startswith(_OURS) and text != wanted):
            write(settings, wanted)
        ready, database = directory / ".ready", named(url) if url else ""
        if not ready.exists() or ready.read_text() != database:
            # one machine at a time if they share a database
            with held(Path("queuecast dagster")) if url else nullcontext():
                check_reads()
            write(ready, database)
    return directory


def check_reads() -> None:
    """Read a little of each storage at $DAGSTER_HOME; a damaged one raises its own error."""
    with dg.DagsterInstance.get() as instance:
        instance.get_dynamic_partitions("traces")
        instance.get_run_records(limit=1)
        instance.all_instigator_state()


def instance() -> dg.DagsterInstance:
    """Return the instance, ready for use as a context manager."""
    dagster_home()
    return dg.DagsterInstance.get()
