"""A campaign on a real Slurm: workers are its jobs, some are cancelled, and the table is that of threads."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from tests.conftest import SHARED
from tests.server.slurm import NEEDED, asked, started
from tests.support.patience import wait_until

TRACE = SHARED / "traces" / "KTH-SP2-1996-2.swf.gz"
pytestmark = NEEDED
CANCELLED = 3


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Yield the environment of a Slurm with ten emulated nodes."""
    with started(tmp_path_factory.mktemp("slurm")) as env:
        asked(env, "sacctmgr", "-i", "add", "user", "root", "account=physics")
        yield env


def campaign(out: Path, env: dict[str, str], *on: str) -> subprocess.Popen[bytes]:
    """Start a campaign of 10,368 simulations."""
    options = [
        "--windows",
        "weeks",
        "--shake",
        "600",
        "--replicates",
        "27",
        "--predictor",
        "requested",
        "--predictor",
        "clairvoyant",
    ]
    options += [word for name in ("EASY", "EASY-SJBF", "SAF-EASY-SPF", "SPF-EASY-SPF") for word in ("--scheduler", name)]
    command = [sys.executable, "-m", "pipelines", "campaign", str(TRACE), *options, "--out", str(out), *on]
    return subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=out.with_suffix(".err").open("wb"))


def test_a_campaign_on_slurm_whose_jobs_are_cancelled_makes_the_table_of_threads(slurm: dict[str, str], tmp_path: Path) -> None:
    alone = campaign(tmp_path / "threads.parquet", slurm)
    place = Path(slurm["HOME"])
    wait_until(lambda: alone.poll() is not None, tmp_path)
    assert alone.wait() == 0
    work, cancelled = campaign(tmp_path / "slurm.parquet", slurm, "--on", "slurm(jobs=6,cores=1,memory=1GB)"), set[str]()
    journal, log = tmp_path / "slurm.parquet.journal", tmp_path / "slurm.err"

    def ended() -> bool:
        running = asked(slurm, "squeue", "--noheader", "--states=RUNNING", "--format=%A").split()
        if len(cancelled) < CANCELLED and running and journal.exists() and journal.read_bytes().count(b"\n") > 1:
            asked(slurm, "scancel", running[0])
            cancelled.add(running[0])
        return work.poll() is not None

    try:
        wait_until(ended, place, lambda: log.read_text(encoding="utf-8"), every_s=1)
    finally:
        work.kill()
    text = log.read_text(encoding="utf-8")
    assert work.wait() == 0, text
    assert cancelled
    one, two = (pd.read_parquet(tmp_path / f"{name}.parquet").drop(columns="simulate_s") for name in ("threads", "slurm"))
    pd.testing.assert_frame_equal(one, two, check_exact=True)
    wait_until(lambda: not asked(slurm, "squeue", "--noheader"), place, every_s=1)  # jobs that end
