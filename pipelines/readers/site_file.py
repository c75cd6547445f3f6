"""A site's settings file: the table [site].

The file is $QUEUECAST_CATALOGUE, which must exist (/dev/null: none), or ``queuecast.toml`` in the working directory. A
command, and Dagster when it loads the definitions, puts the settings into the environment, where the rest of the code
and child processes find them. Variables that are set already take precedence.
"""

import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pipelines
from features.errors import ADDRESS, InputError, shown
from pipelines.lake.places import LAKE, home, local_home

REGISTRY = "MLFLOW_TRACKING_URI"
VARIABLES = {
    "lake": "QUEUECAST_LAKE",
    "database": "QUEUECAST_DATABASE",
    "registry": REGISTRY,
    "on": "QUEUECAST_ON",
}
"""Keys of [site], and the environment variables that take precedence over them."""


def settings_file() -> Path | None:
    """Return the site's settings file, or None if there is none."""
    own = os.environ.get("QUEUECAST_CATALOGUE")
    if own == os.devnull:
        return None
    site = Path(own or "queuecast.toml")
    return site.absolute() if own or site.is_file() else None


def apart() -> dict[str, str]:
    """Return the environment for processes that run elsewhere: its paths are absolute.

    Python does not take modules from their working directory.
    """
    paths: dict[str, Any] = {"QUEUECAST_HOME": local_home(), "QUEUECAST_CATALOGUE": settings_file()}
    if os.environ.get(LAKE):
        paths[LAKE] = home()
    house = Path(pipelines.__file__).parents[1]
    modules = [Path(name).absolute() for name in os.environ.get("PYTHONPATH", "").split(os.pathsep) if name]
    modules += [house] if house.name != "site-packages" else []
    set_here = {"PYTHONPATH": os.pathsep.join(map(str, modules)), "PYTHONSAFEPATH": "1", "DAGSTER_DISABLE_TELEMETRY": "1"}
    return {**os.environ, **set_here, **{name: str(path) for name, path in paths.items() if path is not None}}


def apply() -> None:
    """Set those variables of the settings file that the environment does not have.

    Credentials in a registry's address become MLflow's own variables, so that the address can be shown. Raises
    InputError with file and key.
    """
    if (path := settings_file()) is not None:
        _take(path)
    uri = ADDRESS.fullmatch(os.environ.get(REGISTRY, ""))
    if uri is not None and uri["scheme"] in ("http", "https") and uri["user"] is not None:
        os.environ["MLFLOW_TRACKING_USERNAME"] = unquote(uri["user"])
        os.environ["MLFLOW_TRACKING_PASSWORD"] = unquote(uri["password"] or "")
        os.environ[REGISTRY] = f"{uri['scheme']}://{uri['place']}"


def _take(path: Path) -> None:
    from pipelines.readers.text import read_settings  # without a site's settings, the readers of TOML and gzip are not imported

    for key, value in site_table(read_settings(path), path).items():
        if not os.environ.get(VARIABLES[key]):
            os.environ[VARIABLES[key]] = value


def site_table(settings: dict[str, Any], path: Path) -> dict[str, str]:
    """Return the table [site] of the settings in ``path``.

    Raises InputError with file and key, never with a value.
    """
    table = settings.get("site", {})
    if not isinstance(table, dict) or (unknown := table.keys() - VARIABLES.keys()):
        what = f"unknown key {shown(min(unknown))} in [site]" if isinstance(table, dict) else "site is not a table"
        raise InputError(f"{path}: {what}; known: {', '.join(sorted(VARIABLES))}")
    for key, value in table.items():
        if not isinstance(value, str) or not value.isprintable() or value == "":
            raise InputError(f"{path}: {key} of [site] must be text")
    return table
