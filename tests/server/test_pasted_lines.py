"""What `queuecast whatif` gives to paste does on a real Slurm what it says."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.readers.slurm.site import load_site
from sim.site.changes import change, site_change
from sim.site.lines import SCRIPT
from tests.server.slurm import NEEDED, asked, started, submitted
from tests.sim.site.test_lines import in_place
from tests.sim.site.test_what_if import jobs

pytestmark = NEEDED
TOLD = """\
function slurm_job_submit(job, partitions, uid)
   job.admin_comment = "queuecast: predicted_s=200 p50_s=64 p90_s=250"
   return slurm.SUCCESS
end
function slurm_job_modify(job, record, partitions, uid) return slurm.SUCCESS end
"""
"""In place of the example, which asks a service."""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    place = tmp_path_factory.mktemp("slurm")
    (place / "job_submit.lua").write_text(TOLD)
    with started(place, "JobSubmitPlugins=lua\n") as env:
        yield env


def pasted(env: dict[str, str], **given: object) -> None:
    """Make a change as its lines say it, and let Slurm read it."""
    conf = Path(env["SLURM_CONF"])
    table = jobs().assign(partition="normal", start_s=-1, end_s=-1)
    changed = change(site_change("tried", **given), load_site(conf), table)
    assert changed is not None
    conf.write_text(in_place(conf.read_text(), changed.lines))
    (conf.parent / "queuecast.lua").write_text(TOLD)
    for script in (line for line in changed.lines if line.startswith(SCRIPT)):
        file = conf.parent / "job_submit.lua"
        later = max(file.stat().st_mtime, time.time()) + 5  # Slurm reads it again where it is newer, in whole seconds
        file.write_text(script.replace("/etc/slurm", str(conf.parent)))
        os.utime(file, (later, later))
    asked(env, "scontrol", "reconfigure")


def waiting(env: dict[str, str], *options: str) -> dict[str, str]:
    """Submit a job that waits an hour; return what Slurm says of it."""
    return dict(re.findall(r"(\w+)=(\S+)", submitted(env, "--begin=now+1hour", *options)))


def test_settings_and_whole_lines_of_partitions_are_what_slurm_then_has(slurm: dict[str, str]) -> None:
    pasted(
        slurm,
        slurm={"PriorityWeightAge": "x2"},
        scheduler={"bf_interval": 33},
        partitions={"debug": {"PriorityTier": 7, "MaxTime": 9}},
    )
    config = asked(slurm, "scontrol", "show", "config")
    assert re.search(r"PriorityWeightAge += 100000\n", config)
    assert "bf_interval=33,bf_resolution=60" in config
    part = asked(slurm, "scontrol", "show", "partition", "debug", "-o")
    for value in ("PriorityTier=7", "PriorityJobFactor=100", "MaxTime=00:09:00", "Nodes=n[1-2]", "DefMemPerCPU=3000"):
        assert f" {value} " in part


def test_scripts_shorten_limits_and_give_priority_at_submission(slurm: dict[str, str]) -> None:
    before = int(waiting(slurm, "--time=30")["Priority"])
    pasted(slurm, limits="x0.67")
    assert waiting(slurm, "--time=30", "--time-min=25")["TimeLimit"] == "00:21:00"
    pasted(slurm, limits="predicted 0.9")
    assert [waiting(slurm, f"--time={minutes}")["TimeLimit"] for minutes in (30, 2)] == ["00:05:00", "00:02:00"]
    pasted(slurm, site_factor=100_000)
    assert int(waiting(slurm, "--time=30")["Priority"]) - before > 1_800_000  # 25 - 6 doublings, less what age and shares moved
