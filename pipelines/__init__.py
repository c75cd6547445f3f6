"""Assets, commands and pages: the packages beside this one, run on a site's own logs.

Here is the version of the code that runs, and which of its modules a module of the user's would hide.
"""

import platform
from importlib.util import find_spec
from pathlib import Path

_ROOMS = ("features", "models", "sim")
_COMPUTES = ("numpy", "pandas", "numba", "lightgbm", "mlflow", "dagster")


def hidden() -> str:
    """Return a line about a module of the user's that hides one of Queuecast's, or ""."""
    for room in _ROOMS:
        spec, own = find_spec(room), Path(__file__).parents[1] / room / "__init__.py"
        if spec is None or spec.origin is None or not Path(spec.origin).samefile(own):
            place = "nothing" if spec is None else spec.origin or next(iter(spec.submodule_search_locations or ["?"]))
            return f"{place} hides the package {room} of Queuecast: rename it, or start in another directory"
    return ""


def code_version() -> str:
    """Return the package version and, in a git checkout, the revision, with ``+`` if modified."""
    import subprocess
    from importlib.metadata import version  # neither is needed for --help

    release = version("queuecast")
    house = Path(__file__).resolve().parents[1]
    if not (house / ".git").exists():
        return release
    command = ["git", "-C", str(house), "describe", "--always", "--dirty=+", "--abbrev=10"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):  # no git on this machine: the release alone
        return release
    return f"{release} ({answer.stdout.strip()})"


def software() -> str:
    """Return the versions of Python and the packages that can change a number."""
    from importlib.metadata import version

    return ", ".join([f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in _COMPUTES)])
