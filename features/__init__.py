"""Canonical job tables and the pure functions that turn them into model inputs.

Nothing here reads or writes a file, and nothing here depends on Dagster or MLflow. Names are imported when they are
first used: the command line needs the errors of this package alone, and pandas takes half of a second.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from features.errors import InputError
    from features.jobs.cleaning import CleanTrace, clean
    from features.jobs.schema import Trace, fingerprint, jobs_from

_HOMES = {
    "CleanTrace": "features.jobs.cleaning",
    "InputError": "features.errors",
    "Trace": "features.jobs.schema",
    "clean": "features.jobs.cleaning",
    "fingerprint": "features.jobs.schema",
    "jobs_from": "features.jobs.schema",
}

__all__ = ["CleanTrace", "InputError", "Trace", "clean", "fingerprint", "jobs_from"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
