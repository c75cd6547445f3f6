"""What the scheduler decides otherwise since which release of Slurm, and heterogeneous jobs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from sim.site.replay import replay
from sim.slurm.files import read_site
from sim.slurm.phases import draw_phases, origin_of
from sim.slurm.releases import read_release
from sim.slurm.site import Site
from sim.slurm.unbuilt import unbuilt
from tests.sim.slurm.test_replay import CONF, jobs_of, waits

OLD, NEW = "SLURM_VERSION = 22.05.8\n", "SLURM_VERSION           = 24.11.5\n"
TWO = CONF.replace("n[1-4]", "n[1-2]").replace("bf_resolution=1\n", "bf_resolution=60\n")
LIMITED = "AccountingStorageEnforce=limits\n" + CONF


def of(release: str, conf: str = CONF, **texts: str) -> Site:
    named = {f"{name}.txt": text for name, text in texts.items()}
    return read_site({"slurm.conf": conf, "config.txt": release, **named}, "site")


@pytest.mark.parametrize(
    ("text", "release"),
    [
        (NEW, (24, 11, 5)),
        ("slurm 23.02.4\n", (23, 2, 4)),
        ("slurmctld version 25.05.0 started on cluster here(1)", (25, 5, 0)),
        ("ClusterName = slurm\n", None),
    ],
)
def test_a_release_is_read_as_slurm_writes_it(text: str, release: tuple[int, int, int] | None) -> None:
    assert read_release(text) == release


def test_a_release_that_nothing_states_is_said_and_changes_what_slurm_takes_by_default() -> None:
    unknown, new = read_site({"slurm.conf": CONF}, "site"), of(NEW)
    assert unknown.assumed[0] == "the site's release of Slurm is not known, as config.txt is missing: the rules of 22.05.8 are used"
    assert (unknown.multifactor, new.multifactor) == (False, True)
    assert new.assumed == ("PriorityType is missing: jobs are ordered by factors, the release's default",)
    late, drifting = draw_phases(new, 3, 1), draw_phases(unknown, 3, 1)
    assert (late.turn_length_s, late.turn_s < 0.005) == (1.0, True)
    assert drifting.turn_length_s == 1.004


def test_a_component_ends_its_partition_and_since_24_11_a_further_one_the_pass() -> None:
    conf = "SchedulerType=sched/builtin\nPriorityType=priority/basic\n" + CONF.replace("Nodes=ALL", "Nodes=n[3-4]").replace(
        " PriorityTier=5", ""
    )
    jobs = jobs_of({"het": 1}, {"het": 1, "group": 1}, {}, {"partition": "high"})
    jobs["het"] = jobs["het"].fillna(-1).astype(int)
    jobs["submit_s"] = [1_000_001, 1_000_001, 1_000_005, 1_000_010]
    assert np.isfinite(replay(of(OLD, conf), jobs, 1).start_s).tolist() == [False, False, False, True]
    assert not np.isfinite(replay(of(NEW, conf), jobs, 1).start_s).any()


def test_a_replay_keeps_to_the_passes_and_cycles_of_a_log() -> None:
    def starts(conf: str, release: str = OLD, **phases: float | np.ndarray) -> list[float]:
        site = of(release, conf)
        jobs = jobs_of({"cpus": 32, "runtime_s": 25}, {"cpus": 32}).assign(partition="low")
        drawn = draw_phases(site, 2, 0)._replace(parts_s=np.full(2, 0.5), full_s=0.0, **phases)
        return (replay(site, jobs, drawn).start_s - jobs["submit_s"].min()).round(1).tolist()

    first_s = float(1_000_001 - origin_of(jobs_of({})))
    conf = "PriorityType=priority/basic\n" + CONF.replace("bf_interval=1,sched_interval=1,", "bf_interval=10,sched_interval=600,")
    slow = conf.replace("batch_sched_delay=0", "batch_sched_delay=600")
    cycles = {"cycle_s": first_s + 2, "asked_s": 0.0}
    assert starts(slow, **cycles) == [2, 32]
    assert starts(slow, **cycles, cycles_s=first_s + np.array([2.0, 12.4, 27.4])) == [2, 27.4]
    quick = "SchedulerType=sched/builtin\n" + conf.replace("batch_sched_delay=0", "batch_sched_delay=30")
    passes = {"turn_s": 0.002, "asked_s": -30.0}
    assert starts(quick, NEW, **passes) == [1, 31]
    assert starts(quick, NEW, **passes, passes_s=first_s + np.array([1.0, 30.0])) == [1, 30]


def test_components_start_together_or_not_at_all() -> None:
    jobs = jobs_of({"cpus": 24}, {"het": 2}, {"het": 2, "group": 2, "cpus": 16}).assign(submit_s=1_000_001)
    jobs["het"] = jobs["het"].fillna(-1).astype(int)
    assert waits(CONF, jobs) == [0, 100, 100]
    assert waits(CONF, jobs.drop(columns="het")) == [0, 0, 100]
    qos = "Name|Priority|GrpTRES\nnormal|0|cpu=40\n"
    assert waits(LIMITED, jobs, qos=qos) == [0, 100, 100]
    assert np.isnan(replay(of(OLD, LIMITED, qos=qos.replace("40", "20")), jobs.drop(index=0).reset_index(), 1).start_s).all()


def test_the_submission_of_a_heterogeneous_job_requests_no_pass() -> None:
    conf = "SchedulerType=sched/builtin\nPriorityType=priority/basic\n" + CONF.replace(
        "bf_interval=1,sched_interval=1,", "bf_interval=10,sched_interval=600,"
    ).replace("batch_sched_delay=0", "batch_sched_delay=3")
    jobs = jobs_of({"het": 1}, {"partition": "high"}).assign(submit_s=[1_000_001, 1_000_003])
    jobs["het"] = jobs["het"].fillna(-1).astype(int)
    drawn = draw_phases(of(OLD, conf), 2, 0)._replace(turn_s=0.1, parts_s=np.full(2, 0.5), full_s=-9.0, asked_s=-9.0)
    start_s = replay(of(OLD, conf), jobs, drawn).start_s
    assert start_s[1] - 1_000_001 < 4.2, "else the next pass comes three seconds after the one that the first job asked for"


def test_turns_on_whole_seconds_are_sometimes_taken_for_earlier_ones() -> None:
    site = of(NEW, "PriorityType=priority/basic\n" + CONF.replace("batch_sched_delay=0", "batch_sched_delay=3"))
    site = replace(site, scheduler={**site.scheduler, "sched_interval": "600", "bf_interval": "600"})
    jobs = pd.concat([jobs_of({"runtime_s": 1, "cpus": 1})] * 60, ignore_index=True)
    jobs = jobs.assign(job_id=[str(row) for row in range(60)], group=range(60), submit_s=1_000_001 + 3 * np.arange(60))
    drawn = draw_phases(site, 60, 0)._replace(parts_s=np.full(60, 0.5))
    passes = [np.diff(np.unique(np.floor(replay(site, jobs, drawn._replace(seed=seed)).start_s))) for seed in (-1, 3)]
    assert set(passes[0]) == {3.0}
    assert {2.0, 3.0, 4.0} >= set(passes[1]) > {3.0}


def test_a_plan_ends_rounded_up_since_24_11() -> None:
    first, planned = {"nodelist": "n1"}, {"nodelist": "n1", "limit_s": 90, "runtime_s": 80}
    jobs = jobs_of(first, planned, {"cpus": 16}, {"limit_s": 220, "runtime_s": 200}).fillna({"nodelist": ""})
    conf = "PriorityType=priority/basic\n" + TWO
    waited = [float(replay(of(release, conf), jobs, 1).start_s[3] - jobs["submit_s"][3]) for release in (OLD, NEW)]
    assert waited[0] > 100
    assert waited[1] < 5


def test_tasks_beyond_the_throttle_get_no_plan_since_23_02_4() -> None:
    task = {"nodelist": "n1", "limit_s": 90, "runtime_s": 80, "group": 9, "throttle": 1}
    jobs = jobs_of({"nodelist": "n1"}, {**task, "task": 0}, {**task, "task": 1}, {"cpus": 16}, {"limit_s": 220, "runtime_s": 200})
    jobs = jobs.fillna({"nodelist": ""})
    waited = [
        float(replay(of(f"slurm {release}", TWO), jobs, 1).start_s[4] - jobs["submit_s"][4]) for release in ("23.02.3", "23.02.4")
    ]
    assert waited[0] < 5
    assert waited[1] > 100


def test_a_max_of_tests_also_ends_inside_an_array_since_23_02_1() -> None:
    conf = CONF.replace("bf_interval=1,", "bf_interval=30,bf_max_job_test=2,")
    tasks = [{"group": 9, "task": task, "limit_s": 40, "runtime_s": 30} for task in range(3)]
    jobs = jobs_of({"cpus": 8, "limit_s": 300, "runtime_s": 300}, {"cpus": 32}, *tasks)
    begun = [np.floor(replay(of(f"slurm {release}", conf), jobs, 1).start_s[2:]) for release in ("23.02.0", "23.02.1")]
    assert [int((starts == starts.min()).sum()) for starts in begun] == [3, 1]


def test_a_job_with_more_gpus_than_processors_leaves_the_roomiest_node_to_others_since_24_11() -> None:
    conf = "NodeName=a CPUs=6 Gres=gpu:4\nNodeName=b CPUs=10 Gres=gpu:2\nPartitionName=low Nodes=a,b\n"
    job = jobs_of({"cpus": 1, "gpus": 2})
    assert [replay(of(release, conf), job, 1).nodes[0] for release in (OLD, NEW)] == ["b", "a"]


def test_nodes_for_gpus_are_those_with_the_largest_product_since_25_11() -> None:
    conf = "NodeName=a CPUs=10 Gres=gpu:2\nNodeName=b CPUs=6 Gres=gpu:4\nPartitionName=low Nodes=a,b\n"
    job = jobs_of({"cpus": 1, "gpus": 2})
    assert [replay(of(f"slurm {release}", conf), job, 1).nodes[0] for release in ("22.05.8", "25.11.0")] == ["a", "b"]


def test_of_a_node_with_gpus_only_the_processors_of_a_jobs_tasks_count() -> None:
    conf = "NodeName=n[1-3] CPUs=8 Gres=gpu:2\nPartitionName=low Nodes=ALL\n"
    jobs = jobs_of({"cpus": 2, "nodelist": "n2"}, {"cpus": 2, "gpus": 1}).fillna({"nodelist": ""})
    assert replay(of(NEW, conf), jobs, 1).nodes[1] == "n2", "the tightest node"
    assert replay(of(NEW, conf), jobs.assign(node_cpus=[0, 2]), 1).nodes[1] == "n1", "all nodes have as many, so the first"


def test_a_job_of_one_node_takes_the_first_that_fits_since_26_05() -> None:
    conf = "NodeName=a CPUs=10\nNodeName=b CPUs=6\nNodeName=c CPUs=4 Weight=2\nPartitionName=low Nodes=a,b,c Exclusive=USER\n"
    jobs = jobs_of({"cpus": 4, "max_nodes": 1}, {"cpus": 4, "max_nodes": 1}, {"cpus": 6, "max_nodes": 1})
    placed = [[*replay(of(f"slurm {release}", conf), jobs, 1).nodes] for release in ("25.11.7", "26.05.0")]
    assert placed == [["b", "a", "a"], ["a", "a", "b"]]
    assert "exclusiveuser" in of("slurm 26.05.0", conf).not_modelled
    assert of("slurm 26.05.0", conf.replace("USER", "NODE")).partitions["low"].exclusive


def test_a_min_limit_grows_to_the_next_plan_since_25_05_3() -> None:
    last, wide = {"runtime_s": 400, "limit_s": 420}, {"cpus": 32, "limit_s": 60, "runtime_s": 10}
    least = {"limit_s": 300, "runtime_s": 290, "least_limit_s": 60}
    planned, short = {"cpus": 24, "limit_s": 300, "runtime_s": 10}, {"cpus": 16, "limit_s": 120, "runtime_s": 10}
    jobs = jobs_of(last, wide, least, planned, short)
    waited = [float(replay(of(f"slurm {release}"), jobs, 1).start_s[4] - jobs["submit_s"][4]) for release in ("25.05.2", "25.05.3")]
    assert waited[0] > 50
    assert waited[1] < 50
    soft = CONF.replace("SchedulerParameters=", "SchedulerParameters=time_min_as_soft_limit,")
    assert replay(of("slurm 25.05.2", soft), jobs, 1).start_s[4] - jobs["submit_s"][4] < 50


def test_completing_nodes_are_taken_last_since_23_11() -> None:
    conf = "Epilog=/etc/epilog\nPriorityType=priority/basic\n" + CONF
    small = {"submit_s": 1_000_015, "limit_s": 30, "runtime_s": 10}
    jobs = jobs_of({"runtime_s": 10}, {"cpus": 16, "runtime_s": 200, "limit_s": 200}, {"cpus": 32}, small)
    waited = [
        replay(of(f"slurm {release}", conf, epilog="40\n"), jobs, 1).start_s[3] - 1_000_015 for release in ("23.02.9", "23.11.0")
    ]
    assert waited[0] > 20
    assert waited[1] < 5


def test_limits_of_both_qos_count_since_25_11_1() -> None:
    conf = LIMITED.replace("PartitionName=low", "PartitionName=low QOS=part")
    qos = "Name|Priority|GrpTRES\nnormal|0|cpu=8\npart|0|cpu=24\n"
    jobs = jobs_of({}, {})
    waited = [
        (replay(of(f"slurm {release}", conf, qos=qos), jobs, 1).start_s - jobs["submit_s"]).round(-1).tolist()
        for release in ("25.11.0", "25.11.1")
    ]
    assert waited == [[0, 0], [0, 100]]


def test_a_relative_limit_is_a_part_of_the_cluster_or_of_the_partition() -> None:
    qos = "Name|Priority|Flags|GrpTRES\nnormal|0|DenyOnLimit,Relative|cpu=50\npart|0|Relative|cpu=50\n"
    site = of(NEW, LIMITED.replace("PartitionName=high", "PartitionName=high QOS=part"), qos=qos)
    assert [site.qos[name].limits.group for name in ("normal", "part")] == [{"cpu": 16}, {"cpu": 8}]


def test_a_job_of_several_qos_starts_with_the_first_that_admits_it() -> None:
    qos = "Name|Priority|GrpTRES\nnormal|0|\nfew|0|cpu=8\n"
    jobs = jobs_of({"qos": "few"}, {"qos": "few", "other_qos": "normal"}, {"qos": "few"}).fillna({"other_qos": ""})
    assert waits(LIMITED, jobs, qos=qos) == [0, 0, 100]
    alone = pd.concat([jobs.iloc[[1]], jobs.iloc[[0]]], ignore_index=True).assign(submit_s=[1_000_001, 1_000_003])
    assert waits(LIMITED, alone, qos=qos) == [0, 100]  # it took the QOS few, which is then full


FLEX = "ReservationName=r StartTime=2026-01-01T00:00:00 EndTime=2026-01-02T00:00:00 Nodes=n1 Flags=FLEX AllowQOS=high\n"
QOS_OF_2024 = "Name|Priority|MaxTRESRunMinsPU\nnormal|0|cpu=60\n"


def test_a_rule_that_replays_lack_is_named_where_the_site_uses_it_and_its_release_has_it() -> None:
    conf = CONF.replace("Nodes=ALL", "Nodes=ALL ExclusiveUser=YES OverSubscribe=EXCLUSIVE")
    used = of(NEW, conf, reservations=FLEX, qos=QOS_OF_2024)
    assert [text.partition(": ")[2] for text in unbuilt(used)] == [
        "jobs of a FLEX or ANY_NODES reservation are bound neither to its time nor to its nodes",
        "backfill plans on nodes of one user's jobs (ExclusiveUser)",
    ]
    assert "Not modelled: AllowQOS in reservations.txt" in used.notes
    assert "MaxTRESRunMinsPU in qos.txt" in used.warnings
    assert len(unbuilt(of(OLD, conf, reservations=FLEX))) == 1
    assert unbuilt(of(NEW)) == []
    jobs = jobs_of({}, {}).assign(started_by=["submit", "main"])
    assert [text for text in unbuilt(of(NEW), jobs) if text.endswith("(1 jobs)")]
    assert unbuilt(of(OLD), jobs) == []
