"""Parameters of Slurm's scheduler, each on the smallest site that shows what it does."""

from __future__ import annotations

import pytest

from tests.sim.slurm.test_replay import CONF, jobs_of, waits, waits_of

ONE = CONF.replace("n[1-4]", "n1").replace("PartitionName=high Nodes=n[1-2] PriorityTier=5\n", "")
DUMP = "Parent - 'root'\nAccount - 'normal':Fairshare=1\nParent - 'normal'\nUser - 'c':Fairshare=1\nUser - 'd':Fairshare=1\n"
PRIORITY = "PriorityType=priority/multifactor\nPriorityCalcPeriod=1\n"


def given(parameters: str, conf: str = CONF) -> str:
    return conf.replace("bf_resolution=1", f"bf_resolution=1,{parameters}")


def passes(parameters: str, conf: str = CONF) -> str:
    """Return a configuration without backfill, with a full pass only every 1000 seconds."""
    clocks = conf.replace("sched_interval=1,", "sched_interval=1000,")
    return "SchedulerType=sched/builtin\n" + given(parameters, clocks)


@pytest.mark.parametrize(
    ("parameters", "same_user", "other_user"), [("bf_continue", 0, 0), ("bf_max_job_user=1", 200, 0), ("bf_max_job_user=2", 0, 0)]
)
def test_backfill_tests_so_many_jobs_of_a_user(parameters: str, same_user: int, other_user: int) -> None:
    waiting = {"cpus": 2, "limit_s": 60, "runtime_s": 50}
    for user, expected in (("c", same_user), ("d", other_user)):
        jobs = jobs_of({"cpus": 4, "user": "c"}, {"user": "c"}, {**waiting, "user": user})
        assert waits_of({"slurm.conf": given(parameters, ONE), "accounts.dump": DUMP}, jobs) == [0, 100, expected]


@pytest.mark.parametrize(("qos", "expected"), [("normal", [0, 100, 200]), ("plain", [0, 300, 0])])
def test_a_job_without_a_plan_is_overtaken(qos: str, expected: list[float]) -> None:
    conf = PRIORITY + "PriorityWeightQOS=100\n" + ONE
    qos_text = "Name|Priority|Flags\nnormal|1|\nplain|1|NoReserve\n"
    jobs = jobs_of({"cpus": 4}, {"qos": qos}, {"cpus": 4, "limit_s": 300, "runtime_s": 300})
    assert waits(conf, jobs, qos=qos_text) == expected


QOS = "Name|Priority|MaxJobsPU\nnormal|0|\none|0|1\n"


def test_a_rejected_array_counts_once_toward_the_depth_of_a_pass() -> None:
    tasks = [{"qos": "one", "group": 2, "task": task, "submit_s": 1_000_002, "job_id": f"2_{task}"} for task in range(3)]
    jobs = jobs_of({"qos": "one"}, *tasks, {})
    for depth, expected in ((1, 0), (0, 400)):
        conf = "AccountingStorageEnforce=limits\n" + passes(f"default_queue_depth={depth}")
        assert waits(conf, jobs, qos=QOS)[-1] == expected


def test_a_job_over_its_limit_is_taken_to_end_next() -> None:
    over = {"cpus": 4, "limit_s": 60, "runtime_s": 300}
    jobs = jobs_of(over, {}, {"cpus": 4, "limit_s": 60, "runtime_s": 60, "submit_s": 1_000_070})
    assert waits(ONE, jobs)[-1] == 330


def test_running_jobs_are_taken_out_in_groups_that_widen_until_the_next_one_ends_in_them() -> None:
    # ends at 60, 150 and 180 s: the second group reaches 210 s by doubling and ends at 180; a job of 160 s fits before
    running = [{"cpus": 1, "limit_s": limit, "runtime_s": limit} for limit in (60, 150, 180)]
    jobs = jobs_of(
        {"cpus": 4, "limit_s": 300, "runtime_s": 300}, *running, {"cpus": 3}, {"cpus": 1, "limit_s": 160, "runtime_s": 100}
    )
    assert waits(ONE, jobs)[-1] == pytest.approx(0, abs=10)
