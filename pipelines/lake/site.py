"""Settings of a site in environment variables.

:mod:`pipelines.readers.site_file` puts the values of its settings file there.
"""

import os

from features.errors import InputError

REGISTRY = "MLFLOW_TRACKING_URI"
VARIABLES = {
    "lake": "QUEUECAST_LAKE",
    "database": "QUEUECAST_DATABASE",
    "registry": REGISTRY,
    "on": "QUEUECAST_ON",
    "wait_s": "QUEUECAST_WAIT_S",
    "keep_versions": "QUEUECAST_KEEP_VERSIONS",
    "keep_days": "QUEUECAST_KEEP_DAYS",
}
"""Keys of [site] and [registry], and the environment variables that take precedence over them."""
NUMBERS = frozenset({"keep_versions", "keep_days", "wait_s"})
"""Keys of [registry], which are numbers."""
WAIT_S = 60.0
"""Default max seconds to wait for a registry, a database or an object store that does not answer."""


def wait_s() -> float:
    """Return the site's max wait in seconds; raise InputError if $QUEUECAST_WAIT_S is invalid."""
    return number(VARIABLES["wait_s"], WAIT_S)


def number(variable: str, default: float, whole: bool = False) -> float:
    """Return the number in an environment variable; raise InputError unless it is from 0.

    A ``whole`` number is from 1.
    """
    setting = os.environ.get(variable) or str(default)
    try:
        amount = int(setting) if whole else float(setting)
    except ValueError:
        amount = -1.0
    if not int(whole) <= amount < 1e6:
        raise InputError(f"${variable}: {setting} is not a {'whole ' if whole else ''}number from {int(whole)}")
    return amount
