"""What deploy/ offers is whole: the image's copies make the package, and an export replaces its file at once."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from zipfile import ZipFile

import pytest

from pipelines.readers.catalogue import read_catalogue
from pipelines.readers.queue_file import kept_queues
from pipelines.readers.slurm import COMMAND

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
    assert names >= modules | {"queuecast.py", "pipelines/readers/catalogue.toml", "pipelines/readers/kth-sp2.swf.gz"}


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


def test_a_snapshot_of_the_queue_is_whole_named_in_utc_and_kept_for_days(tmp_path: Path) -> None:
    program, folder = tmp_path / "squeue", tmp_path / "queues"
    program.write_text("#!/bin/sh\nprintf 'JOBID|STATE\\n'\nexit ${CODE:-0}\n")
    program.chmod(0o755)
    folder.mkdir()
    (folder / "squeue-20200101T000000Z.txt").touch()
    os.utime(folder / "squeue-20200101T000000Z.txt", (0, 0))
    for code in ("1", "0"):
        environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "CODE": code}
        subprocess.run([DEPLOY / "export-queue", folder, "90"], env=environment, check=code == "0", capture_output=True)
    [second] = kept_queues(folder)
    assert abs(second - time.time()) < 600
    assert len([*folder.iterdir()]) == 1, "neither a part nor an old snapshot stays"
    asked = re.findall(r"^(squeue .*) > ", (DEPLOY / "export-queue").read_text(), re.MULTILINE)
    assert asked == [COMMAND]


def test_the_settings_of_a_server_are_read_by_shells_as_by_systemd() -> None:
    done = subprocess.run(["sh", "-euc", f". {DEPLOY}/site.env; echo $QUEUECAST_CATALOGUE"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "/etc/queuecast/queuecast.toml\n", "")
    assert all(re.fullmatch(r"#.*|\w+='[^']*'", line) for line in (DEPLOY / "site.env").read_text().splitlines())
    assert read_catalogue(DEPLOY / "queuecast.toml")["accounting"].machine_path == Path("/srv/queuecast/site")
    served = (DEPLOY / "systemd" / "queuecast-serve.service").read_text()
    assert "serve runtime-accounting start-accounting " in served, "of the trace that queuecast.toml states"


def test_every_unit_says_what_to_edit() -> None:
    units = [*(DEPLOY / "systemd").iterdir()]
    assert len(units) >= 8
    assert [unit.name for unit in units if not unit.read_text().startswith("# Edit: ")] == []
