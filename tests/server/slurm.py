"""A real Slurm with emulated nodes on this machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import SHARED, needs
from tests.server.services import SLURM_PACKAGES, SLURM_PROGRAMS, WAITS, free_ports
from tests.support.patience import run

SLURM = SHARED / "slurm"
_PORTS = 32
"""Ports of a Slurm: its controller's, its database's, one a node from the tenth on."""
_WAITS = """
MessageTimeout=99
TCPTimeout=60
SlurmctldTimeout=3600
SlurmdTimeout=3600
BatchStartTimeout=3600
UnkillableStepTimeout=3600
"""
"""Lines of slurm.conf: a busy machine is no failure."""
NEEDED = [
    needs(SLURM),
    pytest.mark.skipif(
        os.getuid() != 0 or not all(shutil.which(each) for each in SLURM_PROGRAMS),
        reason=f"a Slurm of emulated nodes needs root, and {' '.join(SLURM_PACKAGES[:-1])}",
    ),
]


@contextmanager
def started(place: Path, settings: str = "") -> Iterator[dict[str, str]]:
    """Yield the environment of a Slurm with ten emulated nodes, whose files are in ``place``.

    ``settings`` are further lines of slurm.conf.
    """
    env = {**os.environ, **WAITS, "BASE_PORT": str(free_ports(_PORTS)), "SLURM_CONF": str(place / "slurm.conf"), "HOME": str(place)}
    for file in SLURM.glob("micro.*"):
        (place / file.name).write_text(
            file.read_text(encoding="utf-8") + (_WAITS + settings) * (file.suffix == ".conf"), encoding="utf-8"
        )
    try:
        done = run([SLURM / "up", place, place / "micro.conf"], place, env=env)
        assert done.returncode == 0, done.stderr
        yield env
    finally:
        for end in (["scancel", "--me"], [SLURM / "down", place]):
            run(end, place, env=env)


def submitted(env: dict[str, str], *options: str) -> str:
    """Submit a job; return what Slurm then says of it."""
    given = ["--parsable", "--uid=u1", "--account=physics", "--output=/dev/null", "--chdir=/", *options, "--wrap=true"]
    return asked(env, "scontrol", "show", "job", asked(env, "sbatch", *given).strip(), "-o").strip()


def asked(env: dict[str, str], *command: str) -> str:
    """Return what a program of Slurm prints."""
    done = run(command, Path(env["HOME"]), env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout
