"""Priorities of jobs: their parts, and the usage that fair share counts."""

from __future__ import annotations

import numpy as np
import pytest

from sim.site.replay import replay
from sim.slurm.begin import begin
from sim.slurm.files import read_site
from sim.slurm.phases import draw_phases
from sim.slurm.shares import bill
from sim.slurm.state import Slurm
from tests.sim.slurm.test_replay import CONF, jobs_of, waits_of

SHARED = "PriorityType=priority/multifactor\nPriorityWeightFairShare=1000\n" + CONF


def slurm_of(conf: str, *rows: dict[str, object]) -> Slurm:
    site = read_site({"slurm.conf": conf}, "site")
    jobs = jobs_of(*rows)
    return begin(site, jobs, draw_phases(site, len(jobs), 1))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("PriorityWeightJobSize=1000", 250),
        ("PriorityWeightJobSize=1000\nPriorityFlags=SMALL_RELATIVE_TO_TIME", 125),
        ("PriorityWeightJobSize=1000\nPriorityFlags=SMALL_RELATIVE_TO_TIME\nPriorityFavorSmall=yes", 875),
        ("PriorityWeightTRES=CPU=100,Mem=8", 100 / 4 + 8 / 8),
        ("PriorityWeightPartition=10", 5),
    ],
)
def test_a_priority_is_made_of_shares(settings: str, expected: float) -> None:
    nodes = CONF.replace("CPUs=8", "CPUs=8 RealMemory=2048").replace("low Nodes=ALL", "low Nodes=ALL PriorityJobFactor=7")
    conf = f"{settings}\n{nodes.replace('PriorityTier=5', 'PriorityJobFactor=14')}"
    site = read_site({"slurm.conf": conf, "qos.txt": "Name|Priority\nnormal|3\nhigh|4\n"}, "site")
    jobs = jobs_of({"memory_node": 1024})
    assert begin(site, jobs, draw_phases(site, 1, 1)).ask.fixed[0] == pytest.approx(expected)


@pytest.mark.parametrize(("flags", "expected"), [("", [0, 200, 100]), ("ACCRUE_ALWAYS", [0, 100, 200])])
def test_age_counts_from_the_submission_where_it_accrues_always(flags: str, expected: list[float]) -> None:
    conf = f"PriorityType=priority/multifactor\nPriorityCalcPeriod=1\nPriorityWeightAge=100000\nPriorityFlags={flags}\n{CONF}"
    jobs = jobs_of({"cpus": 32}, {"cpus": 32, "eligible_s": 1_000_090}, {"cpus": 32})
    assert waits_of({"slurm.conf": conf}, jobs) == expected


@pytest.mark.parametrize(("flags", "expected"), [("", 3.0), ("MAX_TRES", 2.0)])
def test_usage_is_billed_as_in_the_example_of_slurms_manual(flags: str, expected: float) -> None:
    weights = 'low Nodes=ALL TRESBillingWeights="CPU=1.0,Mem=0.25G,GRES/gpu=2.0"'
    slurm = slurm_of(f"PriorityFlags={flags}\n" + CONF.replace("low Nodes=ALL", weights), {"memory_node": 8 * 1024})
    assert bill(0, 0, 1, 1, slurm) == expected
    assert bill(0, 1, 1, 1, slurm) == 1.0


def test_what_is_billed_decides_whose_job_is_next() -> None:
    dump, conf = "Parent - 'root'\nUser - 'a':Fairshare=1\nUser - 'b':Fairshare=1\n", SHARED.replace("CR_CPU", "CR_CPU_Memory")
    conf = conf.replace("CPUs=8", "CPUs=8 RealMemory=8192")
    jobs = jobs_of(
        *(
            {"user": user, "account": "root", **asked}
            for user, asked in (("a", {"cpus": 1, "memory_node": 8192}), ("b", {"cpus": 2}))
        ),
        *({"user": user, "account": "root", "cpus": 32, "submit_s": 1_000_700} for user in "ba"),
    ).assign(group=range(4), job_id=list("0123"))
    weighted = conf.replace("low Nodes=ALL", "low Nodes=ALL TRESBillingWeights=CPU=1,Mem=1G")
    for text, expected in ((conf, [100, 0]), (weighted, [0, 100])):
        site = read_site({"slurm.conf": text, "accounts.dump": dump}, "site")
        at_once = draw_phases(site, 4, 1)._replace(parts_s=np.full(4, 0.5))
        assert (replay(site, jobs, at_once).start_s - jobs["submit_s"]).round(-1).tolist()[2:] == expected
