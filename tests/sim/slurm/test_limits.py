"""Limits of QOS and associations: of one job, and of users."""

from __future__ import annotations

import numpy as np
import pytest

from sim.site.replay import replay
from sim.slurm.files import read_site
from tests.sim.slurm.test_replay import CONF, jobs_of, waits_of

ENFORCED = "AccountingStorageEnforce=limits\n" + CONF
HEAD = "Name|Priority|MaxTRES|MaxWall\n"


def qos(**columns: str) -> str:
    names = HEAD.strip().split("|")
    return HEAD + "|".join({"Name": "normal", "Priority": "0", **columns}.get(name, "") for name in names) + "\nfree|0||\n"


@pytest.mark.parametrize(
    ("limit", "over", "within"),
    [
        ({"MaxWall": "00:01:00"}, {}, {"limit_s": 60}),
        ({"MaxTRES": "cpu=4"}, {}, {"cpus": 4}),
    ],
)
def test_a_job_over_a_limit_of_its_own_waits_for_ever_and_blocks_no_other(
    limit: dict[str, str], over: dict[str, object], within: dict[str, object]
) -> None:
    jobs = jobs_of({**over, "cpus": 8}, {"cpus": 8, **within}, {"qos": "free", "cpus": 8})
    site = read_site({"slurm.conf": ENFORCED, "qos.txt": qos(**limit)}, "site")
    assert np.isnan(replay(site, jobs, 1).start_s).tolist() == [True, False, False]
    assert not np.isnan(replay(site, jobs.assign(qos="free"), 1).start_s).any()


DUMP = """\
Parent - 'root'
Account - 'a':Fairshare=1:MaxJobs=1
Parent - 'a'
User - 'u1':Fairshare=1
User - 'u2':Fairshare=1
User - 'u3':Fairshare=1:MaxJobs=2
"""


def test_an_accounts_limit_of_jobs_is_that_of_each_user_without_one() -> None:
    jobs = jobs_of(*({"account": "a", "user": user, "cpus": 2} for user in ("u1", "u2", "u1", "u3", "u3", "u3")))
    assert waits_of({"slurm.conf": ENFORCED, "accounts.dump": DUMP}, jobs) == [0, 0, 100, 0, 0, 100]


def test_a_qos_may_go_beyond_a_partitions_limits() -> None:
    conf = CONF.replace("low Nodes=ALL", "low Nodes=ALL MaxTime=1 MaxNodes=1")
    qos_text = "Name|Priority|Flags\nnormal|0|\nlong|0|PartitionTimeLimit\nwide|0|PartitionMaxNodes\n"
    site = read_site({"slurm.conf": conf, "qos.txt": qos_text}, "site")
    jobs = jobs_of({}, {"qos": "long"}, {"limit_s": 60, "min_nodes": 2}, {"limit_s": 60, "min_nodes": 2, "qos": "wide"})
    assert np.isnan(replay(site, jobs, 1).start_s).tolist() == [True, False, True, False]
