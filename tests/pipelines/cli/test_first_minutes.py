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

TWO_CLUSTERS = f"Cluster|{HEAD}\na|{ROW}\nb|{LATER}\n"
NO_ZONE = ("--procs", "8")
USUAL = (*ZONE, *NO_ZONE)

REFUSED = {
    "nothing says how many processors": (
        f"{HEAD}\n{ROW}\n{LATER}\n",
        ZONE,
        "unknown; give --procs 8 (not stated; 8 fits the widest job), or the true number",
    ),
    "Unix times, no zone": (
        f"{HEAD}\n{ROW.replace(f'{DAY}10:00:00', '1772355600')}\n",
        NO_ZONE,
        ":2: Submit '1772355600' is in Unix seconds: run sacct with SLURM_TIME_FORMAT=standard",
    ),
    "several clusters, no zone": (
        TWO_CLUSTERS,
        (),
        "holds jobs of several clusters, whose queues are apart: name one with --cluster: a (1 jobs), b (1 jobs)",
    ),
    "local times, no zone": (f"{HEAD}\n{ROW}\n", NO_ZONE, "Slurm writes local times; say of which zone with --time-zone"),
    "times of another format": (
        f"{HEAD}\n{ROW.replace(f'{DAY}10:00:00', '01.03.26 10:00')}\n",
        USUAL,
        "is not a time YYYY-MM-DDTHH:MM:SS: run sacct with SLURM_TIME_FORMAT=standard",
    ),
    "no header": (f"{ROW}\n{LATER}\n", USUAL, ":1: has no header line that names the columns: run sacct without --noheader"),
    "aligned by spaces": (
        "JobID    JobName  Partition\n------- ---------- ----------\n7         x   long\n",
        USUAL,
        ":1: is a table aligned by spaces, which cuts values short: run sacct with --parsable2",
    ),
}
READ = {
    "too few processors": (
        f"{HEAD}\n{ROW}\n{LATER}\n",
        (*ZONE, "--procs", "6"),
        "WARNING: 1 job asks for more than 6 processors, up to 8",
    ),
    "more asked than there is": (
        f"{HEAD}\n{ROW}\n" + LATER.replace("T10:30", "T10:01") + "\n",
        USUAL,
        "WARNING: jobs ask for 82.50 times what 8 processors can do",
    ),
    "one of several clusters": (TWO_CLUSTERS, (*USUAL, "--cluster", "b"), "Jobs of other clusters than b are not read: 1."),
    "a byte that is not UTF-8": (
        f"JobName|{HEAD}\nKöln|{ROW}\n",
        USUAL,
        "Lines with bytes that are not UTF-8 are read as Latin-1: 1 (2).",
    ),
}


@pytest.mark.parametrize("kind", [*REFUSED, *READ])
def test_what_a_site_exports_is_read_or_refused_with_what_to_do(kind: str, tmp_path: Path) -> None:
    content, arguments, words = (REFUSED | READ)[kind]
    (tmp_path / "export.txt").write_text(content, encoding="latin-1")
    done = queuecast("simulate", str(tmp_path / "export.txt"), *arguments, home=tmp_path / "home")
    assert done.returncode == (2 if kind in REFUSED else 0), done.stderr
    assert words in done.stderr
    assert kind in READ or done.stderr.count("\n") == 1
