"""Limits of QOS and associations: of one job, of users, and of minutes."""

from __future__ import annotations

import numpy as np
import pytest

from sim.site.replay import replay
from sim.slurm.files import read_site
from tests.sim.slurm.test_replay import CONF, jobs_of, waits, waits_of

ENFORCED = "AccountingStorageEnforce=limits\n" + CONF
DECAYING = "PriorityType=priority/multifactor\nPriorityCalcPeriod=0:10\nPriorityDecayHalfLife=10\n"
HEAD = "Name|Priority|Flags|GrpTRESMins|GrpTRESRunMins|GrpWall|MaxTRES|MaxTRESMins|MaxWall\n"


def qos(**columns: str) -> str:
    names = HEAD.strip().split("|")
    return HEAD + "|".join({"Name": "normal", "Priority": "0", **columns}.get(name, "") for name in names) + "\nfree|0|||||||\n"


@pytest.mark.parametrize(
    ("limit", "over", "within"),
    [
        ({"MaxWall": "00:01:00"}, {}, {"limit_s": 60}),
        ({"MaxTRES": "cpu=4"}, {}, {"cpus": 4}),
        ({"MaxTRESMins": "cpu=10"}, {}, {"cpus": 5}),
        ({"GrpTRESRunMins": "cpu=10"}, {}, {"cpus": 5}),
    ],
)
def test_a_job_over_a_limit_of_its_own_waits_for_ever_and_blocks_no_other(
    limit: dict[str, str], over: dict[str, object], within: dict[str, object]
) -> None:
    jobs = jobs_of({**over, "cpus": 8}, {"cpus": 8, **within}, {"qos": "free", "cpus": 8})
    site = read_site({"slurm.conf": ENFORCED, "qos.txt": qos(**limit)}, "site")
    assert np.isnan(replay(site, jobs, 1).start_s).tolist() == [True, False, False]
    assert not np.isnan(replay(site, jobs.assign(qos="free"), 1).start_s).any()


def test_minutes_that_running_jobs_may_still_use_hold_a_job_back() -> None:
    qos_text = qos(GrpTRESRunMins="cpu=25")
    assert waits(ENFORCED, jobs_of({}, {}, {"qos": "free"}), qos=qos_text) == [0, 100, 0]
    assert waits(ENFORCED, jobs_of({}, {"cpus": 4}), qos=qos_text) == [0, 0]
    jobs = jobs_of({"runtime_s": 120}, {})  # 25 minutes of which 16 are asked for: 9 min are 67 s of 8 processors
    assert waits(DECAYING + ENFORCED, jobs, qos=qos_text)[1] in (50, 60, 70)


@pytest.mark.parametrize(
    ("limit", "expected"), [({"GrpTRESMins": "cpu=10"}, 300), ({"GrpTRESMins": "cpu=14"}, 100), ({"GrpWall": "00:01:00"}, 490)]
)
def test_used_minutes_hold_jobs_back_until_they_have_decayed(limit: dict[str, str], expected: float) -> None:
    jobs = jobs_of({}, {"cpus": 32, "submit_s": 1_000_001})  # 94 s decayed in 100: below 75 and 60 of them after 199 and 392 s
    waited = waits(DECAYING + ENFORCED, jobs, qos=qos(**limit))
    assert waited[1] == pytest.approx(expected, abs=20)
    kept = read_site({"slurm.conf": DECAYING + ENFORCED, "qos.txt": qos(**limit, Flags="NoDecay")}, "site")
    assert np.isnan(replay(kept, jobs, 1).start_s[1]) == (expected != 100)


def test_a_job_starts_safely_where_what_it_may_use_is_left() -> None:
    qos_text = qos(GrpTRESMins="cpu=30", Flags="NoDecay")
    assert waits(DECAYING + ENFORCED, jobs_of({}, {}), qos=qos_text) == [0, 0]
    safe = DECAYING + ENFORCED.replace("limits", "safe")
    assert waits(safe, jobs_of({}, {}), qos=qos_text) == [0, 100]  # 16 run and 16 are asked for; then 13 have been used


def test_a_limit_of_nodes_counts_each_node_once() -> None:
    """Jobs of 4 processors share a node of 8 under a limit of one node; the third would need a second one."""
    qos_text = "Name|Priority|GrpTRES\nnormal|0|node=1\nfree|0|\n"
    small = {"cpus": 4, "min_nodes": 1}
    site = {"slurm.conf": ENFORCED, "qos.txt": qos_text}
    assert waits_of(site, jobs_of(small, small, small, {**small, "qos": "free"})) == [0, 0, 100, 0]
    assert waits_of(site, jobs_of({**small, "runtime_s": 50}, small, small)) == [0, 0, 50]


DUMP = """\
Parent - 'root'
Account - 'a':Fairshare=1:MaxJobs=1:GrpTRESMins=cpu=20
Parent - 'a'
User - 'u1':Fairshare=1
User - 'u2':Fairshare=1
User - 'u3':Fairshare=1:MaxJobs=2
"""


def test_an_accounts_limit_of_jobs_is_that_of_each_user_without_one() -> None:
    jobs = jobs_of(*({"account": "a", "user": user, "cpus": 2} for user in ("u1", "u2", "u1", "u3", "u3", "u3")))
    assert waits_of({"slurm.conf": ENFORCED, "accounts.dump": DUMP}, jobs) == [0, 0, 100, 0, 0, 100]


def test_usage_at_the_beginning_counts_against_the_minutes_of_an_account() -> None:
    jobs = jobs_of({"account": "a", "user": "u1"}, {"account": "a", "user": "u2"})
    for used, waits_s in ((1100, 0), (2000, 410)):  # below 20 minutes of processors after 442 s, 30 of which have gone
        usage = f"Account|User|RawUsage\nroot||{used}\na||{used}\n"
        texts = {"slurm.conf": DECAYING + ENFORCED, "accounts.dump": DUMP, "sshare.txt": usage}
        assert waits_of(texts, jobs)[0] == pytest.approx(waits_s, abs=20)


def test_a_qos_may_go_beyond_a_partitions_limits() -> None:
    conf = CONF.replace("low Nodes=ALL", "low Nodes=ALL MaxTime=1 MaxNodes=1")
    qos_text = "Name|Priority|Flags\nnormal|0|\nlong|0|PartitionTimeLimit\nwide|0|PartitionMaxNodes\n"
    site = read_site({"slurm.conf": conf, "qos.txt": qos_text}, "site")
    jobs = jobs_of({}, {"qos": "long"}, {"limit_s": 60, "min_nodes": 2}, {"limit_s": 60, "min_nodes": 2, "qos": "wide"})
    assert np.isnan(replay(site, jobs, 1).start_s).tolist() == [True, False, True, False]
