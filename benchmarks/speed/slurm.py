"""Measure a replay of a generated year under Slurm: processor seconds, times real time, and memory.

500 nodes of 48 processors, backfilling with Slurm's defaults, multifactor priority with fair tree; 2,000 jobs a day, of which a fifth
are tasks of arrays, with hours and days of high load and at most 3,000 jobs waiting. Run with
``python -m benchmarks.speed.slurm [--days N] [--seed N] [--load SHARE]``.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
import pandas as pd

from sim.site.replay import replay
from sim.slurm.files import read_site
from sim.slurm.site import Site

NODES, CPUS, DAILY, DAY_S = 500, 48, 2_000, 86_400
ACCOUNTS, USERS = 20, 10
CONF = f"""\
ClusterName=generated
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
PriorityType=priority/multifactor
PriorityWeightAge=1000
PriorityWeightFairshare=10000
PriorityWeightJobSize=500
PriorityWeightQOS=2000
NodeName=n[001-{NODES}] CPUs={CPUS} RealMemory=192000
PartitionName=batch Nodes=ALL Default=YES MaxTime=7-0 DefMemPerCPU=2000
"""


def site() -> Site:
    """Return the site: 20 accounts of 10 users each."""
    accounts = "".join(f"Account - 'a{a}':Fairshare={1 + a % 5}\n" for a in range(ACCOUNTS))
    users = "".join(
        f"Parent - 'a{a}'\n" + "".join(f"User - 'u{a * USERS + u}':Fairshare=1\n" for u in range(USERS)) for a in range(ACCOUNTS)
    )
    return read_site({"slurm.conf": CONF, "accounts.dump": f"Parent - 'root'\n{accounts}{users}"}, "generated")


def jobs(days: int, seed: int = 0, load: float = 0.85) -> pd.DataFrame:
    """Return the jobs of so many days, whose processor-seconds are the share ``load`` of what the machine has."""
    random = np.random.default_rng(seed)
    count = days * DAILY
    arrays = random.random(count) < 0.002  # where an array of 100 tasks begins
    first = np.arange(count) - np.minimum(*_since(arrays))
    hour = np.array([0.4] * 8 + [1.6] * 10 + [0.9] * 6)
    week = np.array([1.2, 1.2, 1.2, 1.2, 1.0, 0.6, 0.6])
    rate = (np.tile(hour, days) * np.repeat(week[np.arange(days) % 7], 24)).cumsum()
    at = np.sort(random.random(count)) * rate[-1]
    submit = (np.interp(at, np.r_[0, rate], np.arange(len(rate) + 1) * 3600)).astype(np.int64)[first]
    cpus = np.array([1, 4, 16, 48, 96, 192, 480, 1920])[random.choice(8, count, p=(0.3, 0.15, 0.15, 0.18, 0.1, 0.08, 0.03, 0.01))][
        first
    ]
    runtime = np.clip(random.lognormal(8.2, 1.6, count), 10, 5 * DAY_S)
    runtime *= load * days * DAY_S * NODES * CPUS / (runtime * cpus).sum()
    limit = np.minimum(np.ceil(np.clip(runtime, 60, 7 * DAY_S) * random.choice([1, 1.5, 3, 8], count) / 1800) * 1800, 7 * DAY_S)
    runtime = np.minimum(runtime, limit)
    user = np.minimum(random.zipf(1.3, count) - 1, ACCOUNTS * USERS - 1)[first]
    tasks = first != np.arange(count)
    tasks |= np.isin(np.arange(count), first[tasks])
    return pd.DataFrame(
        {
            **{"job_id": np.arange(count).astype(str), "group": first + 1, "task": np.where(tasks, np.arange(count) - first, -1)},
            **{"submit_s": 1_700_000_000 + submit, "eligible_s": -1, "held_s": -1, "runtime_s": runtime.astype(np.int64)},
            **{"limit_s": limit.astype(np.int64), "least_limit_s": limit.astype(np.int64), "cpus": cpus},
            **{"user": np.char.add("u", user.astype(str)).astype(object), "partition": "batch", "qos": "normal"},
            **{"account": np.char.add("a", (user // USERS).astype(str)).astype(object), "min_nodes": -(-cpus // CPUS)},
            **{"max_nodes": 0, "memory_node": 0, "memory_cpu": 2000, "gpus": 0, "features": "", "exclusive": False, "throttle": 0},
            **{"after": "", "nice": 0, "reservation": "", "licenses": "", "requeues": False, "cancel_s": -1, "killed": False},
        }
    )


def _since(begins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how far each job lies behind the last begin of an array, and that of jobs beyond its 100 tasks: 0."""
    rows = np.arange(len(begins))
    since = rows - np.maximum.accumulate(np.where(begins, rows, 0))
    return since, np.where((since < 100) & begins.cumsum().astype(bool), since, 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--load", type=float, default=0.85)
    given = parser.parse_args()
    where, table = site(), jobs(given.days, given.seed, given.load)
    replay(where, jobs(1), 0)  # load the compiled code
    began = time.process_time()
    schedule = replay(where, table, 0)
    seconds = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    wait = schedule.start_s - table["submit_s"]
    started, submitted = np.sort(schedule.start_s), np.sort(table["submit_s"].to_numpy())
    waiting = np.arange(1, len(table) + 1) - np.searchsorted(started, submitted)
    print(
        f"{len(table):,} jobs in {given.days} days: {seconds:.1f} s of a processor, {given.days * DAY_S / seconds:,.0f} times real time, "
        f"{peak:,.0f} MiB; mean wait {wait.mean():,.0f} s, at most {waiting.max():,} waiting; {schedule.passes:,} passes, {schedule.cycles:,} cycles"
    )


if __name__ == "__main__":
    main()
