"""Backfill skips looks that an earlier search of its cycle proves futile: every start stays what it is without."""

import numpy as np
import pandas as pd
import pytest

from sim.site.replay import Replay, replay
from sim.slurm import begin
from sim.slurm.files import read_site
from sim.slurm.site import Site

CONF = """\
ClusterName=generated
SchedulerType=sched/backfill
SchedulerParameters=bf_window=2880,bf_max_job_test=500
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
PriorityType=priority/multifactor
PriorityWeightAge=1000
PriorityWeightJobSize=500
NodeName=n[01-30] CPUs=16 RealMemory=64000 Feature=old
NodeName=n[31-40] CPUs=32 RealMemory=128000 Feature=new
PartitionName=batch Nodes=ALL Default=YES MaxTime=2-0 DefMemPerCPU=2000
PartitionName=short Nodes=n[20-40] MaxTime=04:00:00 DefMemPerCPU=2000
"""
"""Partitions share nodes of two kinds, so searches in one cycle are about different nodes."""


def site() -> Site:
    users = "".join(f"User - 'u{user}':Fairshare=1\n" for user in range(9))
    accounts = f"Parent - 'root'\nAccount - 'a':Fairshare=1\nParent - 'a'\n{users}"
    return read_site({"slurm.conf": CONF, "accounts.dump": accounts}, "generated")


def crowded(seed: int, count: int = 800) -> pd.DataFrame:
    """Return jobs that wait in a deep queue, with features, whole nodes, more memory and limits that may shrink."""
    random = np.random.default_rng(seed)
    limit = random.choice([600, 1800, 3600, 7200, 14400], count)
    short, wish = random.random(count) < 0.3, random.choice(["", "new", "old"], count, p=[0.7, 0.15, 0.15])
    cpus = random.choice([1, 4, 16, 32, 64, 160, 320], count, p=[0.25, 0.2, 0.2, 0.15, 0.1, 0.07, 0.03])
    cpus = np.where(wish == "new", np.minimum(cpus, 160), np.where(wish == "old", np.minimum(cpus, 64), cpus))
    return pd.DataFrame(
        {
            **{"job_id": np.arange(count).astype(str), "group": np.arange(count) + 1, "task": -1, "eligible_s": -1, "held_s": -1},
            **{"submit_s": 1_700_000_000 + np.sort(random.integers(0, 86_400, count)), "limit_s": limit, "cpus": cpus},
            **{"runtime_s": np.maximum((limit * random.random(count)).astype(np.int64), 5), "account": "a", "qos": "normal"},
            **{"least_limit_s": np.where(random.random(count) < 0.1, np.maximum(limit // 2, 600), limit)},
            **{"user": np.char.add("u", random.integers(0, 9, count).astype(str)).astype(object), "features": wish.astype(object)},
            **{"partition": np.where(short, "short", "batch").astype(object), "memory_cpu": random.choice([2000, 4000], count)},
            **{"min_nodes": 1, "max_nodes": 0, "memory_node": 0, "gpus": 0, "exclusive": random.random(count) < 0.05},
            **{"throttle": 0, "after": "", "nice": 0, "reservation": "", "licenses": "", "requeues": False, "cancel_s": -1},
            "killed": False,
        }
    )


@pytest.mark.parametrize("seed", range(2))
def test_no_start_changes_when_nothing_is_noted(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    noted, allocate = [], begin._scratch

    def replayed(room_for_notes: int) -> Replay:
        def allocated(*arguments):
            room, plans = allocate(*arguments)
            noted.append(room.futile[:room_for_notes])
            return room._replace(futile=noted[-1]), plans

        monkeypatch.setattr(begin, "_scratch", allocated)
        return replay(site(), crowded(seed), seed)

    skipping, looking = replayed(128), replayed(0)
    assert noted[0].any(), "no search was noted"
    np.testing.assert_array_equal(skipping.start_s, looking.start_s)
    np.testing.assert_array_equal(skipping.nodes, looking.nodes)
