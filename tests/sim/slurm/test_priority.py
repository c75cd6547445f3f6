"""Priorities of jobs: classic fair share, against the numbers that Slurm's documentation prints."""

from __future__ import annotations

import pytest

from sim.slurm.begin import begin, draw_phases
from sim.slurm.files import read_site
from sim.slurm.shares import factor_of
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
    found = [factor_of(slurm.ask.leaf[job], slurm) for job in range(len(expected))]
    assert found == pytest.approx(expected, abs=2e-4)  # its page rounds the usage to a tenth of a percent


def test_classic_fair_share_orders_users_that_fair_tree_orders_otherwise() -> None:
    jobs = jobs_of({"cpus": 32}, *({"cpus": 32, "account": account, "user": user} for account, user in (("B", "u1"), ("E", "u4"))))
    texts = {"accounts.dump": DUMP, "sshare.txt": SSHARE}

    def order(conf: str) -> list[float]:
        return waits_of({"slurm.conf": conf, **texts}, jobs)

    assert order(CLASSIC) == [0, 100, 200]
    assert order(CLASSIC.replace("PriorityFlags=NO_FAIR_TREE\n", "")) == [0, 200, 100]
