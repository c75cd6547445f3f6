"""``python -m tests.server [OPTION]...``: the recipe of a server, run; options are pytest's.

Debian's PostgreSQL and, where there is what sets it up, Slurm are installed where they are missing and this is root. Without
PostgreSQL nothing is run; without Slurm it is not asked, and the last lines say so.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.services import HOUSE, SLURM_PACKAGES, SLURM_PROGRAMS, programs_of_postgres


def main() -> int:
    """Bring what is missing, run the tests; return the exit code."""
    wanting = [] if _has_postgres() else ["postgresql"]
    if (HOUSE.parent / "shared" / "slurm").is_dir() and not all(shutil.which(each) for each in SLURM_PROGRAMS):
        wanting += SLURM_PACKAGES
    if wanting:
        _install(wanting)
    if not _has_postgres():
        print("make server-test needs PostgreSQL: apt-get install postgresql", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what was started is stopped
    here = Path(__file__).parent
    return pytest.main(
        ["-o", "addopts=", "--strict-markers", "-q", "-rs", "-p", "no:cacheprovider", *(sys.argv[1:] or [str(here)])]
    )


def _has_postgres() -> bool:
    try:
        programs_of_postgres()
    except RuntimeError:
        return False
    return True


def _install(packages: list[str]) -> None:
    if os.getuid() or not shutil.which("apt-get"):
        print(f"missing: {' '.join(packages)}; as root on Debian this would be installed", file=sys.stderr)
        return
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update", "-qq"], ["install", "-qq", "-y", "--no-install-recommends", *packages]):
        subprocess.run(["apt-get", *command], env=env, check=False, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.exit(main())
