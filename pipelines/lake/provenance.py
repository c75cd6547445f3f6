"""Provenance of numbers: package version, code revision and versions of software."""

import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

_COMPUTES = ("numpy", "pandas", "numba", "lightgbm", "mlflow", "dagster")


def code_version() -> str:
    """Return the package version and, in a git checkout, the revision, with ``+`` if modified."""
    release = version("queuecast")
    house = Path(__file__).resolve().parents[2]
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
    return ", ".join([f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in _COMPUTES)])
