"""What a dozen files that a site exports on its first day print; all of them are made up here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import queuecast

HEAD = "JobIDRaw|User|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|ReqCPUS|AllocCPUS"
DAY = "2026-03-01T"
ROW = f"1|ann|COMPLETED|{DAY}10:00:00|{DAY}10:00:00|{DAY}11:00:00|3600|120|8|8"
LATER = f"2|bob|COMPLETED|{DAY}10:30:00|{DAY}11:00:00|{DAY}11:30:00|1800|60|6|6"
ZONE = ("--time-zone", "Europe/Stockholm")

INPUTS = {
    "nothing says how many processors": (f"{HEAD}\n{ROW}\n{LATER}\n", ZONE, 2, "unknown; give --procs 8, the most in use at once"),
    "Unix times, no zone": (
        f"{HEAD}\n{ROW.replace(f'{DAY}10:00:00', '1772355600')}\n",
        ("--procs", "8"),
        2,
        ":2: Submit '1772355600' is in Unix seconds: run sacct with SLURM_TIME_FORMAT=standard",
    ),
    "several clusters, no zone": (
        f"Cluster|{HEAD}\na|{ROW}\nb|{LATER}\n",
        (),
        2,
        "holds jobs of several clusters, whose queues are apart: name one with --cluster: a (1 jobs), b (1 jobs)",
    ),
    "local times, no zone": (
        f"{HEAD}\n{ROW}\n",
        ("--procs", "8"),
        2,
        "Slurm writes local times; say of which zone with --time-zone",
    ),
    "too few processors": (
        f"{HEAD}\n{ROW}\n{LATER}\n",
        (*ZONE, "--procs", "6"),
        0,
        "WARNING: 1 job asks for more than 6 processors, up to 8",
    ),
    "more asked than there is": (
        f"{HEAD}\n{ROW}\n" + LATER.replace("T10:30", "T10:01") + "\n",
        (*ZONE, "--procs", "8"),
        0,
        "WARNING: jobs ask for 82.50 times what 8 processors can do",
    ),
    "one of several clusters": (
        f"Cluster|{HEAD}\na|{ROW}\nb|{LATER}\n",
        (*ZONE, "--procs", "8", "--cluster", "b"),
        0,
        "Jobs of other clusters than b are not read: 1.",
    ),
    "times of another format": (
        f"{HEAD}\n{ROW.replace(f'{DAY}10:00:00', '01.03.26 10:00')}\n",
        (*ZONE, "--procs", "8"),
        2,
        "is not a time YYYY-MM-DDTHH:MM:SS: run sacct with SLURM_TIME_FORMAT=standard",
    ),
    "a byte that is not UTF-8": (
        f"JobName|{HEAD}\nKöln|{ROW}\n".encode("latin-1"),
        (*ZONE, "--procs", "8"),
        0,
        "Lines with bytes that are not UTF-8 are read as Latin-1: 1 (2).",
    ),
    "no header": (
        f"{ROW}\n{LATER}\n",
        (*ZONE, "--procs", "8"),
        2,
        ":1: has no header line that names the columns: run sacct without --noheader",
    ),
    "aligned by spaces": (
        "JobID    JobName  Partition\n------- ---------- ----------\n7         x   long\n",
        (*ZONE, "--procs", "8"),
        2,
        ":1: is a table aligned by spaces, which cuts values short: run sacct with --parsable2",
    ),
}


@pytest.mark.parametrize("kind", INPUTS)
def test_what_a_site_exports_is_read_or_refused_with_what_to_do(kind: str, tmp_path: Path) -> None:
    content, arguments, code, words = INPUTS[kind]
    (tmp_path / "export.txt").write_bytes(content if isinstance(content, bytes) else content.encode())
    done = queuecast("simulate", str(tmp_path / "export.txt"), *arguments, home=tmp_path / "home")
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert code == 0 or done.stderr.count("\n") == 1
