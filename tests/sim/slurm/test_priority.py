"""Priorities of jobs: classic fair share, against the numbers that Slurm's documentation prints."""

from __future__ import annotations

import numpy as np
import pytest

from sim.site.replay import replay
from sim.slurm.begin import begin, draw_phases
from sim.slurm.files import read_site
from sim.slurm.shares import bill, factor_of
from sim.slurm.state import Slurm
from tests.sim.slurm.test_replay import CONF, jobs_of, waits_of

CLASSIC = "PriorityType=priority/multifactor\nPriorityWeightFairShare=1000\nPriorityFlags=NO_FAIR_TREE\n" + CONF
DUMP = """\
Parent - 'root'
Account - 'A':Fairshare=40
Account - 'D':Fairshare=60
Parent - 'A'
Account - 'B':Fairshare=30
Account - 'C':Fairshare=10
Parent - 'D'
Account - 'E':Fairshare=25
Account - 'F':Fairshare=35
Parent - 'B'
User - 'u1':Fairshare=1
Parent - 'C'
User - 'u2':Fairshare=1
User - 'u3':Fairshare=1
Parent - 'E'
User - 'u4':Fairshare=1
Parent - 'F'
User - 'u5':Fairshare=1
User - 'u6':Fairshare=parent
"""
"""The example of Slurm's page on classic fair share, and a user with the account's share."""
USAGE = {
    "root": 100,
    "A": 45,
    "B": 20,
    "C": 25,
    "D": 55,
    "E": 25,
    "F": 30,
    "B u1": 20,
    "C u2": 25,
    "C u3": 0,
    "E u4": 25,
    "F u5": 30,
}
SSHARE = "Account|User|RawUsage\n" + "".join(
    f"{name.replace(' ', '|') if ' ' in name else name + '|'}|{used}\n" for name, used in USAGE.items()
)


def slurm_of(conf: str, *rows: dict[str, object]) -> Slurm:
    site = read_site({"slurm.conf": conf, "accounts.dump": DUMP, "sshare.txt": SSHARE}, "site")
    jobs = jobs_of(*rows)
    return begin(site, jobs, draw_phases(site, len(jobs), 1))


@pytest.mark.parametrize(("damping", "expected"), [(1, [0.408479, 0.022097, 0.125, 0.353553, 0.413429, 0.413429]), (2, [0.639123])])
def test_classic_fair_share_has_the_factors_of_slurms_documentation(damping: int, expected: list[float]) -> None:
    users = [
        {"account": account, "user": user} for account, user in zip("BCCEFF", ("u1", "u2", "u3", "u4", "u5", "u6"), strict=True)
    ]
    slurm = slurm_of(f"FairShareDampeningFactor={damping}\n{CLASSIC}", *users)
    factors = [factor_of(slurm.ask.leaf[job], slurm.tree, slurm.rules.damping) for job in range(len(expected))]
    assert factors == pytest.approx(expected, abs=2e-4)  # its page rounds the usage to a tenth of a percent


def test_classic_fair_share_orders_users_that_fair_tree_orders_otherwise() -> None:
    jobs = jobs_of({"cpus": 32}, *({"cpus": 32, "account": account, "user": user} for account, user in (("B", "u1"), ("E", "u4"))))
    texts = {"accounts.dump": DUMP, "sshare.txt": SSHARE}

    def order(conf: str) -> list[float]:
        return waits_of({"slurm.conf": conf, **texts}, jobs)

    assert order(CLASSIC) == [0, 100, 200]
    assert order(CLASSIC.replace("PriorityFlags=NO_FAIR_TREE\n", "")) == [0, 200, 100]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("PriorityWeightJobSize=1000", 250),
        ("PriorityWeightJobSize=1000\nPriorityFlags=SMALL_RELATIVE_TO_TIME", 125),
        ("PriorityWeightJobSize=1000\nPriorityFlags=SMALL_RELATIVE_TO_TIME\nPriorityFavorSmall=yes", 875),
        ("PriorityWeightTRES=CPU=100,Mem=8", 100 / 4 + 8 / 8),
        ("PriorityWeightTRES=CPU=100,Mem=8\nPriorityFlags=NO_NORMAL_TRES", 800 + 8 * 1024),
        ("PriorityWeightPartition=10", 5),
        ("PriorityWeightPartition=10\nPriorityFlags=NO_NORMAL_PART", 70),
        ("PriorityWeightQOS=10\nPriorityFlags=NO_NORMAL_ALL", 30),
    ],
)
def test_a_priority_is_made_of_shares_or_of_plain_factors(settings: str, expected: float) -> None:
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
    dump, conf = "Parent - 'root'\nUser - 'a':Fairshare=1\nUser - 'b':Fairshare=1\n", CLASSIC.replace("CR_CPU", "CR_CPU_Memory")
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
