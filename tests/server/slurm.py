"""A real Slurm with emulated nodes on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import SHARED, needs
from tests.server.services import free_port

SLURM = SHARED / "slurm"
PROGRAMS = ("slurmctld", "slurmdbd", "slurmd", "mariadbd", "munged")
NEEDED = [
    needs(SLURM),
    pytest.mark.skipif(
        os.getuid() != 0 or not all(shutil.which(each) for each in PROGRAMS),
        reason="a Slurm of emulated nodes needs root, and slurm-wlm slurmdbd mariadb-server munge",
    ),
]


@contextmanager
def started(place: Path, settings: str = "") -> Iterator[dict[str, str]]:
    """Yield the environment of a Slurm with ten emulated nodes, whose files are in ``place``.

    ``settings`` are further lines of slurm.conf.
    """
    env = {**os.environ, "BASE_PORT": str(free_port()), "SLURM_CONF": str(place / "slurm.conf"), "HOME": str(place)}
    for file in SLURM.glob("micro.*"):
        (place / file.name).write_text(file.read_text(encoding="utf-8") + settings * (file.suffix == ".conf"), encoding="utf-8")
    try:
        with (place / "up.log").open("wb") as log:  # its daemons keep what they inherit open
            subprocess.run([SLURM / "up", place, place / "micro.conf"], env=env, check=True, stdout=log, stderr=log, timeout=180)
        yield env
    finally:
        subprocess.run([SLURM / "down", place], env=env, check=False, timeout=60)


def asked(env: dict[str, str], *command: str) -> str:
    """Return what a program of Slurm prints."""
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=60).stdout
