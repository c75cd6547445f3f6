"""Where numbers come from: package version, code revision and the versions of what computes."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

_COMPUTES = ("numpy", "pandas", "numba", "lightgbm", "mlflow", "dagster")


def code_version() -> str:
    """Package version and, in a git checkout, the revision, with ``+`` where files differ from it."""
    release = version("queuecast")
    house = Path(__file__).resolve().parents[2]
    if not (house / ".git").exists():
        return release
    asked = ["git", "-C", str(house), "describe", "--always", "--dirty=+", "--abbrev=10"]
    try:
        answer = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):  # no git on this machine: the release alone
        return release
    return f"{release} ({answer.stdout.strip()})"


def software() -> str:
    """Python and the packages whose versions can change a number."""
    return ", ".join([f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in _COMPUTES)])
