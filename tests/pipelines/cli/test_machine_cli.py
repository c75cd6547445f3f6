"""``--machine`` on the command line: whole schedules on clusters, and how bad files are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from tests.support.command import queuecast

LINE = "{} {} 0 {} 1 -1 -1 {} 100 {} 1 1 1 -1 -1 -1 -1 -1 {{7}} q {}\n"
ROWS = [
    (1, 0, 50, 8, 1024, "1:ppn=8:x86_64"),  # on a
    (2, 0, 50, 8, 1024, "1:ppn=8"),  # on a
    (3, 0, 50, 4, 1024, "4:ppn=1:x86_64"),  # on b, which has four nodes
    (4, 1, 50, 1, 1024, "1:ppn=1:cl_a"),  # behind both on a
    (5, 1, 50, 1, 1024 * 90, "1:ppn=1"),  # b's memory is too small: behind both on a
    (6, 1, 50, 2, 1024, "1:ppn=1:cl_b#excl"),  # behind 3 on b
    (7, 2, 50, 9, 1024, "1:ppn=9"),  # nowhere
]
MACHINE = """
[[cluster]]
name = "a"
nodes = 2
procs = 8
memory = "100 KiB"
[[cluster]]
name = "b"
nodes = 4
procs = 2
memory = "50 KiB"
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    trace, machine = tmp_path / "log.swf", tmp_path / "Two.toml"
    trace.write_text("".join(LINE.format(*row) for row in ROWS))
    machine.write_text(MACHINE)
    return str(trace), str(machine)


def test_jobs_run_on_nodes_that_have_what_they_ask_for(files: tuple[str, str], tmp_path: Path) -> None:
    trace, machine = files
    out = tmp_path / "out.parquet"
    done = queuecast("simulate", trace, "--machine", machine, "--json", "--schedule-out", str(out), home=tmp_path)
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)
    assert (row["procs"], row["machine"], row["jobs"]) == (24, "two", 6)
    assert pd.read_parquet(out)["start_s"].tolist() == [0, 0, 0, 50, 50, 50]
    assert "fits-no-cluster dropped 1" in done.stderr
    assert "no node of two has these properties, so jobs do not ask for them: x86_64 (2 jobs)" in done.stderr
    pooled = json.loads(queuecast("simulate", trace, "--procs", "24", "--json", home=tmp_path).stdout)
    assert (pooled["machine"], pooled["jobs"]) == ("", 7)


def test_a_bad_machine_is_refused_in_one_line(files: tuple[str, str], tmp_path: Path) -> None:
    trace, machine = files
    Path(machine).write_text("x = 1")
    done = queuecast("simulate", trace, "--machine", machine, home=tmp_path)
    complaint = f"queuecast: {machine}: x is unknown; known: name, asked, cluster, limit"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, complaint)
