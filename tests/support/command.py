"""``queuecast`` run inside the test process, without a second of imports each time."""

from __future__ import annotations

import io
import subprocess
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from pipelines.cli import main


def queuecast(*arguments: str, home: Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command line as ``python -m pipelines`` would.

    ``home`` is the home directory, ``cwd`` the working directory.
    """
    out, err = io.StringIO(), io.StringIO()
    code: object = 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["queuecast", *arguments])
        patch.setenv("QUEUECAST_HOME", str(home))
        if cwd is not None:
            patch.chdir(cwd)
        try:
            main()
        except SystemExit as leaving:
            code = leaving.code or 0
        except BaseException:
            traceback.print_exc()
            code = 1
    return subprocess.CompletedProcess(["queuecast", *arguments], int(str(code)), out.getvalue(), err.getvalue())
