"""Why jobs wait at a Slurm site: as slurmctld logged it, with what must end first on the nodes that a job may use."""

from __future__ import annotations

import pytest

from benchmarks.studies.site_reasons import compared
from pipelines.studies.parity import read_site_jobs
from sim.site.reasons import standings
from sim.slurm.files import read_site
from tests.conftest import SHARED, needs
from tests.sim.site.test_ahead import NOW_S, SITE, asked


def test_only_jobs_of_its_nodes_keep_a_job_waiting() -> None:
    site = read_site({"slurm.conf": SITE}, "site")
    running, elsewhere = {"start_s": 1_000_010, "nodes": "n1"}, {"partition": "other", "start_s": 1_000_005, "nodes": "n2"}
    jobs = asked(1, running, {}, elsewhere, {}, {"partition": "other", "cpus": 1})
    first, second, other = (standings(site, jobs, NOW_S, {"2", "4", "5"})[name] for name in ("2", "4", "5"))
    assert (first.why, first.ahead, first.free, first.first, first.first_s) == ("resources", 0, 0, ("1",), 510)
    assert (second.why, second.ahead, second.first) == ("priority", 1, ())
    assert second.ahead_hours == pytest.approx(8 * 600 / 3600)
    assert (other.why, other.ahead, other.first, other.first_s) == ("resources", 0, ("3",), 505)
    alone = standings(site, jobs[jobs["job_id"] != "3"].reset_index(drop=True), NOW_S, {"5"})["5"]
    assert (alone.why, alone.free) == ("next", 8)
    kept = standings(site, jobs, NOW_S, {"4"}, before={"4": "limit"})["4"]
    assert kept.why == "limit", "slurmctld keeps a limit as the reason of a job behind the first one"


@pytest.mark.thorough
@needs(SHARED / "slurm")
def test_reasons_are_those_of_slurmctlds_log() -> None:
    folder = SHARED / "slurm"
    site, jobs = read_site_jobs(folder / "pair24-A.sacct.txt", folder / "sites" / "pair24-A", "UTC")
    table = compared(site, jobs.table, folder / "pair24-A.slurmctld.log.gz")
    assert len(table) > 300
    assert (table["logged"] == table["ours"]).mean() > 0.95
