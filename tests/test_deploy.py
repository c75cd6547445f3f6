"""What deploy/ offers is whole: the image's copies make the package, and an export replaces its file at once."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

HOUSE = Path(__file__).parents[1]
DEPLOY = HOUSE / "deploy"


@pytest.mark.thorough
@pytest.mark.slow
def test_what_the_image_copies_builds_the_whole_package(tmp_path: Path) -> None:
    copied = tmp_path / "image"
    copied.mkdir()
    for line in re.findall(r"^COPY (.+)$", (DEPLOY / "Containerfile").read_text(), re.MULTILINE):
        *files, _ = line.split()
        for name in files:
            source = HOUSE / name
            copy = shutil.copytree if source.is_dir() else shutil.copy2
            copy(source, copied / name)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path), str(copied)]
    subprocess.run(command, check=True, capture_output=True)
    [wheel] = tmp_path.glob("queuecast-*.whl")
    names = set(ZipFile(wheel).namelist())
    rooms = ("features", "models", "sim", "pipelines")
    modules = {file.relative_to(HOUSE).as_posix() for room in rooms for file in (HOUSE / room).rglob("*.py")}
    assert names >= modules | {"queuecast.py", "pipelines/sources/catalogue.toml", "pipelines/sources/kth-sp2.swf.gz"}


@pytest.mark.parametrize(
    ("sacct", "code", "left"),
    [
        ("printf 'JobID|State\\n1|COMPLETED\\n'", 0, "JobID|State\n1|COMPLETED\n"),
        ("printf 'JobID|State\\n'", 1, "before"),
        ("printf 'JobID|State\\n1|COMPL'; exit 1", 1, "before"),
    ],
)
def test_an_export_replaces_its_file_at_once_or_leaves_it(sacct: str, code: int, left: str, tmp_path: Path) -> None:
    program, file = tmp_path / "sacct", tmp_path / "accounting.txt"
    program.write_text(f"#!/bin/sh\n{sacct}\n")
    program.chmod(0o755)
    file.write_text("before")
    done = subprocess.run(
        [DEPLOY / "export-accounting", file, "2026-01-01"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, file.read_text()) == (code, left)


def test_every_page_and_the_export_ask_sacct_for_the_same_columns() -> None:
    pages = ("README.md", "docs/tutorials/own-slurm.md", "docs/how-to/slurm.md", "deploy/export-accounting")
    asked = {page: re.findall(r"--format (\S+)", (HOUSE / page).read_text(encoding="utf-8")) for page in pages}
    assert all(asked.values())
    assert len({columns for every in asked.values() for columns in every}) == 1


def test_every_unit_says_what_to_edit() -> None:
    units = [*(DEPLOY / "systemd").iterdir()]
    assert len(units) >= 8
    assert [unit.name for unit in units if not unit.read_text().startswith("# Edit: ")] == []
