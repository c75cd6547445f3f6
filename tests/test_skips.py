"""Skips for want of reference material are counted in one line at the end, and fail CI where the material is there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import conftest
from tests.support import fresh

TESTS = """
from tests.conftest import SHARED, needs, needs_shared

@needs_shared
def test_a(): pass

@needs(SHARED / "traces" / "x.swf")
def test_b(): pass

def test_c(): pass
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("there", "ci", "code", "line"),
    [
        (False, "true", 0, "2 tests skipped: reference material is not at {shared}"),
        pytest.param(True, "", 0, "1 tests skipped: reference material is not at {shared}", marks=pytest.mark.thorough),
        (True, "true", 1, "1 tests skipped for want of files in {shared}, which is there: in CI that is a failure"),
    ],
)
def test_skips_are_counted_in_one_line_and_fail_ci(there: bool, ci: str, code: int, line: str, tmp_path: Path) -> None:
    tests = tmp_path / "checkout" / "tests"
    tests.mkdir(parents=True)
    (tests / "__init__.py").write_text("")
    (tests / "conftest.py").write_text(Path(conftest.__file__).read_text())
    (tests / "support").mkdir()
    (tests / "support" / "__init__.py").write_text("")
    (tests / "support" / "fresh.py").write_text(Path(fresh.__file__).read_text())
    (tests / "test_it.py").write_text(TESTS)
    shared = tmp_path / "shared"
    if there:
        shared.mkdir()
    environment = {**os.environ, "CI": ci, "PYTHONPATH": str(tests.parent), "PYTEST_ADDOPTS": ""}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(tests)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tests.parent)
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stdout.splitlines().count(line.format(shared=shared)) == 1
