"""Python in a process of its own, forked from one that has imported the libraries.

Importing them takes most of a short command's time. Modules of this repository are imported anew in each process, under its own
environment.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.patience import GIVEN_S

LIBRARIES = (
    "alembic.command",
    "dagster",
    "lightgbm",
    "matplotlib.backends.backend_svg",
    "mlflow.pyfunc",
    "numba",
    "pyarrow.parquet",
    "sklearn.ensemble",
    "tests.support.preloaded",
)
"""What the process has imported that the others are forked from; it starts no thread."""
_HOUSE = Path(__file__).parents[2]


def python(
    arguments: Sequence[str], *, cwd: Path = _HOUSE, env: Mapping[str, str] | None = None, timeout: float | None = GIVEN_S
) -> subprocess.CompletedProcess[str]:
    """Run ``python ARGUMENTS`` (``-m module ...`` or ``-c code ...``) to its end.

    ``env`` is its whole environment, by default this process's. Killed by a signal, its return code is the signal's number, negative.
    TimeoutExpired after ``timeout`` seconds.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(LIBRARIES))
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("out", "err")]
        process = context.Process(target=_become, args=(list(arguments), str(cwd), dict(os.environ if env is None else env), files))
        process.start()
        process.join(timeout)
        if process.is_alive():
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(list(arguments), timeout or 0, *(each.read_text() for each in files))
        return subprocess.CompletedProcess(list(arguments), process.exitcode, *(each.read_text() for each in files))


def _become(arguments: list[str], cwd: str, env: dict[str, str], files: list[Path]) -> None:
    for file, path in zip((1, 2), files, strict=True):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), file)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.path[:0] = [cwd, str(_HOUSE)]
    how, what, *rest = arguments
    if how == "-m":
        sys.argv = [what, *rest]
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        sys.argv = ["-c", *rest]
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
