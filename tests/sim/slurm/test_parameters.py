"""Parameters of Slurm's scheduler, each on the smallest site that shows what it does."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sim.site.replay import replay
from sim.slurm.files import read_site
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
    ("parameters", "same_user", "other_user"),
    [
        ("bf_continue", 0, 0),
        ("bf_max_job_user=1", 200, 0),
        ("bf_max_job_user_part=1", 200, 0),
        ("bf_max_job_assoc=1", 200, 0),
        ("bf_max_job_part=1", 200, 200),
        ("bf_max_job_part=2", 0, 0),
    ],
)
def test_backfill_tests_so_many_jobs_of_a_user_partition_or_association(parameters: str, same_user: int, other_user: int) -> None:
    waiting = {"cpus": 2, "limit_s": 60, "runtime_s": 50}
    for user, expected in (("c", same_user), ("d", other_user)):
        jobs = jobs_of({"cpus": 4, "user": "c"}, {"user": "c"}, {**waiting, "user": user})
        assert waits_of({"slurm.conf": given(parameters, ONE), "accounts.dump": DUMP}, jobs) == [0, 100, expected]


def apart(conf: str, jobs: pd.DataFrame) -> float:
    starts = replay(read_site({"slurm.conf": conf}, "site"), jobs, 1).start_s
    return float(np.ptp(starts[-2:]))


def test_a_cycle_and_a_pass_start_so_many_jobs_at_most() -> None:
    small = {"cpus": 2, "limit_s": 60, "submit_s": 1_000_003}
    jobs = jobs_of({"cpus": 4}, {}, small, small)
    rare = ONE.replace("bf_interval=1,", "bf_interval=30,")
    assert apart(rare, jobs) == 0
    assert apart(given("bf_max_job_start=1", rare), jobs) == pytest.approx(30, abs=1)
    jobs = jobs_of({"submit_s": 1_000_000}, {"submit_s": 1_000_000})
    seldom = "SchedulerType=sched/builtin\n" + CONF.replace("sched_interval=1,", "sched_interval=30,").replace(
        "delay=0", "delay=30"
    )
    assert apart(seldom, jobs) == 0
    assert apart(given("sched_max_job_start=1", seldom), jobs) == pytest.approx(30, abs=2)


@pytest.mark.parametrize(
    ("parameters", "qos", "expected"),
    [
        ("bf_continue", "normal", [0, 100, 200]),
        ("bf_min_prio_reserve=50", "normal", [0, 300, 0]),
        ("bf_min_prio_reserve=2", "high", [0, 100, 200]),
        ("bf_min_age_reserve=1000", "normal", [0, 300, 0]),
        ("bf_continue", "plain", [0, 300, 0]),
    ],
)
def test_a_job_without_a_plan_is_overtaken(parameters: str, qos: str, expected: list[float]) -> None:
    conf = PRIORITY + "PriorityWeightQOS=100\n" + given(parameters, ONE)
    qos_text = "Name|Priority|Flags\nnormal|1|\nhigh|100|\nplain|1|NoReserve\n"
    jobs = jobs_of({"cpus": 4}, {"qos": qos}, {"cpus": 4, "limit_s": 300, "runtime_s": 300})
    assert waits(conf, jobs, qos=qos_text) == expected


def test_a_job_for_two_partitions_is_planned_once() -> None:
    conf = CONF.partition("Node")[0] + "NodeName=n[1-2] CPUs=8\nPartitionName=a Nodes=n1\nPartitionName=b Nodes=n2\n"
    jobs = jobs_of(
        {"partition": "a"}, {"partition": "b", "cpus": 4}, {"partition": "a,b"}, {"partition": "b", "cpus": 4, "limit_s": 300}
    )
    assert waits(conf, jobs) == [0, 0, 100, 100]
    assert waits(given("bf_one_resv_per_job", conf), jobs) == [0, 0, 100, 0]


def test_so_many_jobs_of_a_partition_are_planned() -> None:
    conf = CONF.partition("Node")[0] + "NodeName=n1 CPUs=8 Feature=x\nNodeName=n2 CPUs=8 Feature=y\nPartitionName=low Nodes=ALL\n"
    x, y = {"features": "x"}, {"features": "y"}
    jobs = jobs_of(x, {**y, "cpus": 4}, x, y, {**y, "cpus": 4, "limit_s": 300, "runtime_s": 300})
    assert waits(conf, jobs) == [0, 0, 100, 100, 200]
    assert waits(given("bf_job_part_count_reserve=2", conf), jobs) == [0, 0, 100, 100, 200]
    assert waits(given("bf_job_part_count_reserve=1", conf), jobs) == [0, 0, 100, 300, 0]


QOS = "Name|Priority|MaxJobsPU\nnormal|0|\none|0|1\n"


def test_a_pass_tests_so_many_jobs_of_a_partition() -> None:
    jobs = jobs_of({"qos": "one"}, {"qos": "one"}, {})
    for parameters, expected in (("partition_job_depth=2", 0), ("partition_job_depth=1", 200)):
        conf = "AccountingStorageEnforce=limits\n" + passes(parameters)
        assert waits(conf, jobs, qos=QOS) == [0, 100, expected]


def test_a_rejected_array_counts_once_toward_the_depth_of_a_pass() -> None:
    tasks = [{"qos": "one", "group": 2, "task": task, "submit_s": 1_000_002, "job_id": f"2_{task}"} for task in range(3)]
    jobs = jobs_of({"qos": "one"}, *tasks, {})
    for depth, expected in ((1, 0), (0, 400)):
        conf = "AccountingStorageEnforce=limits\n" + passes(f"default_queue_depth={depth}")
        assert waits(conf, jobs, qos=QOS)[-1] == expected


@pytest.mark.parametrize(
    ("wait", "parameters", "expected"), [(0, "", 0), (60, "", 20), (10, "", 10), (60, ",reduce_completing_frag", 0)]
)
def test_nothing_starts_while_a_job_completes(wait: int, parameters: str, expected: float) -> None:
    conf = CONF.replace("bf_resolution=1", f"bf_resolution=1{parameters}").replace("low Nodes=ALL", "low Nodes=n[3-4]")
    jobs = jobs_of({"partition": "high", "runtime_s": 50}, {"submit_s": 1_000_053})
    assert waits(f"Epilog=/x\nCompleteWait={wait}\n{conf}", jobs, epilog="20") == [0, expected]


def test_a_job_over_its_limit_is_taken_to_end_after_the_time_that_sites_grant() -> None:
    over = {"cpus": 4, "limit_s": 60, "runtime_s": 300}
    jobs = jobs_of(over, {}, {"cpus": 4, "limit_s": 60, "runtime_s": 60, "submit_s": 1_000_070})
    assert waits(ONE, jobs)[-1] == 330
    assert waits("OverTimeLimit=5\n" + ONE, jobs)[-1] == 0


@pytest.mark.parametrize(("parameters", "expected"), [("bf_continue", 0), ("bf_window_linear=1", 175)])
def test_running_jobs_are_taken_out_in_groups_that_widen_until_the_next_one_ends_in_them(parameters: str, expected: float) -> None:
    # ends at 60, 150 and 180 s: the second group reaches 210 s by doubling and ends at 180, or just to 150; a job of 160 s fits before
    running = [{"cpus": 1, "limit_s": limit, "runtime_s": limit} for limit in (60, 150, 180)]
    jobs = jobs_of(
        {"cpus": 4, "limit_s": 300, "runtime_s": 300}, *running, {"cpus": 3}, {"cpus": 1, "limit_s": 160, "runtime_s": 100}
    )
    assert waits(given(parameters, ONE), jobs)[-1] == pytest.approx(expected, abs=10)
