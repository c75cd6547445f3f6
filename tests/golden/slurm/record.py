"""Record six small workloads on a real Slurm, twice each, for the tests of its model.

    python -m tests.golden.slurm.record [NAME ...]

Needs root, Debian's packages slurm-wlm, slurmdbd, mariadb-server and munge, and the scripts that start a Slurm of emulated nodes in
the shared material. Both runs of a workload go on at the same time, from empty databases, in real time: six to twelve minutes. Kept of
each: the site's files, the accounting, and the lines of slurmctld's log that hold the phases of its clocks. Jobs are ``sleep``; users,
nodes and requests are generated.
"""

from __future__ import annotations

import csv
import gzip
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from tests.conftest import SHARED

HERE = Path(__file__).parent
RUNS = ("A", "B")
FORMAT = (
    "JobID,JobIDRaw,User,Account,Partition,QOS,State,Submit,Eligible,Start,End,ElapsedRaw,TimelimitRaw,ReqCPUS,ReqMem,ReqTRES,"
    "NodeList,Priority,Constraints,Flags,Reservation,Reason,SubmitLine"
)
LOGGED = (
    "_slurm_rpc_submit_batch_(?:het_)?job: JobId=|sched: Running job scheduler|sched: Allocate JobId|_attempt_backfill: (beginning|no jobs)"
    "|sched/backfill: |priority/multifactor: init: |[Pp]reempt|[Rr]equeue|_job_complete: JobId=\\S+ (done|WEXIT)"
    "|Created reservation=|update_node: node|slurmctld version"
)
COLUMNS = ["submit_s", "user", "account", "partition", "qos", "tasks", "nodes", "mem_mb", "gpus", "constraint", "limit_min"]
COLUMNS += ["runtime_s", "name", "array", "after", "extra"]
COMMON = """\
AccountingStorageEnforce=associations,limits,qos
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=10,bf_resolution=60,bf_window=240,bf_max_job_test=1000,bf_continue,sched_interval=30,default_queue_depth=1000,sched_min_interval=500000
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
PriorityType=priority/multifactor
PriorityDecayHalfLife=0-1
PriorityCalcPeriod=1
PriorityMaxAge=0-1
PriorityWeightAge=20000
PriorityWeightFairshare=50000
PriorityWeightJobSize=10000
PriorityWeightPartition=10000
PriorityWeightQOS=50000
NodeName=DEFAULT CPUs=8 RealMemory=32000 State=UNKNOWN
NodeName=n[1-6]
"""
DEBUG = "SlurmctldDebug=debug2\nDebugFlags=Backfill\n"
USERS = "add account physics Fairshare=60\nadd account biology Fairshare=40\n"
ALL = "add user u1,u2,u3 account=physics qos={0}\nadd user u5,u6,u7 account=biology qos={0}\n"
BATCH = "PartitionName=batch Nodes=n[1-6] Default=YES DefMemPerCPU=2000 MaxTime=1-0\n"
TIERS = f"""\
{BATCH}PartitionName=urgent Nodes=n[3-4] PriorityTier=10 DefMemPerCPU=2000 MaxTime=1-0
PartitionName=short Nodes=n[4-6] PriorityTier=5 PriorityJobFactor=10 DefMemPerCPU=2000 MaxTime=2
"""
Job = dict[str, Any]


class Workload(NamedTuple):
    """A cluster's configuration and accounts, its jobs, and what an administrator does at which second."""

    conf: str
    accounts: str
    jobs: Callable[[random.Random], Iterator[Job]]
    events: tuple[tuple[int, str], ...] = ()


def _some(draw: random.Random, count: int, seconds: float, longest: int = 60) -> Iterator[Job]:
    """Draw plain jobs: most small, some of many nodes, limits of one to four minutes."""
    for at in sorted(draw.uniform(0, seconds) for _ in range(count)):
        user = draw.choice(("u1", "u1", "u2", "u3", "u5", "u5", "u6", "u7"))
        tasks = draw.choice((1, 1, 2, 2, 4, 4, 6, 8, 8, 12, 16, 24, 32))
        limit = draw.choice((1, 1, 2, 2, 3, 4))
        job = {"submit_s": round(at, 1), "user": user, "account": "physics" if user < "u4" else "biology", "qos": "normal"}
        job |= {"tasks": tasks, "limit_min": limit, "runtime_s": round(draw.uniform(5, min(55 * limit, longest))), "name": "plain"}
        if draw.random() < 0.15:
            job["mem_mb"] = draw.choice((4000, 9000, 20000))
        if draw.random() < 0.2 and tasks >= 4:
            job["nodes"] = draw.choice((2, 3)) if tasks < 24 else 4
        yield job


def _array(draw: random.Random, kinds: tuple[str, ...]) -> Job:
    return {"array": draw.choice(kinds), "tasks": draw.choice((1, 2, 4)), "nodes": "", "runtime_s": 20, "name": "array"}


def _tiers(draw: random.Random) -> Iterator[Job]:
    for job in _some(draw, 90, 200):
        names = draw.choice(("batch", "batch", "batch", "urgent", "short", "batch,short", "batch,urgent", "short,urgent,batch"))
        job["partition"] = names
        if "short" in names:
            job |= {"limit_min": min(job["limit_min"], 2), "runtime_s": min(job["runtime_s"], 100), "tasks": min(job["tasks"], 16)}
        if "urgent" in names:
            job["tasks"] = min(job["tasks"], 16)
        yield job


def _dependent(draw: random.Random) -> Iterator[Job]:
    for row, job in enumerate(_some(draw, 75, 200)):
        kind = draw.random()
        if kind < 0.15:
            job |= _array(draw, ("0-3", "0-5%2", "0-7%3"))
        elif kind < 0.35 and row:
            job["after"] = draw.randrange(row)
        elif kind < 0.45:
            job["extra"] = f"--begin=now+{draw.choice((30, 45, 60, 90))}"
        elif kind < 0.55:
            job["extra"] = f"--nice={draw.choice((1000, 5000, 20000))}"
        elif kind < 0.62:
            job |= {"extra": "--hold", "name": "held"}
        yield job


def _with_outages(draw: random.Random) -> Iterator[Job]:
    for job in _some(draw, 70, 200):
        job["tasks"] = min(job["tasks"], 16)
        if job["account"] == "physics" and draw.random() < 0.15 and job["submit_s"] > 40:
            job |= {"extra": "--reservation=course", "tasks": min(job["tasks"], 8), "nodes": ""}
        elif draw.random() < 0.5:
            job["extra"] = "--no-requeue"
        yield job


def _preempting(draw: random.Random) -> Iterator[Job]:
    for job in _some(draw, 75, 200, 90):
        job["qos"] = draw.choice(("normal", "normal", "low", "low", "scavenger", "scavenger", "high"))
        if job["qos"] == "high":
            job |= {"tasks": draw.choice((8, 12, 16, 24)), "runtime_s": min(job["runtime_s"], 40)}
        elif job["qos"] in ("low", "scavenger"):
            job |= {"limit_min": max(job["limit_min"], 2), "runtime_s": draw.randrange(40, 90)}
        job["name"] = job["qos"]
        yield job


def _limited(draw: random.Random) -> Iterator[Job]:
    for job in _some(draw, 80, 200):
        kind = draw.random()
        if kind < 0.2:
            job |= {"qos": "group", "tasks": min(job["tasks"], 8), "nodes": ""}
        elif kind < 0.4:
            job |= {"qos": "each", "tasks": min(job["tasks"], 8), "nodes": ""}
        elif kind < 0.55:
            job["extra"] = f"--licenses={draw.choice(('fluent', 'fluent:2', 'ansys', 'ansys:2,fluent'))}"
        elif kind < 0.65:
            job |= {"extra": "--exclusive", "tasks": min(job["tasks"], 12)}
        elif kind < 0.75:
            job |= {"limit_min": 6, "extra": "--time-min=2"}
        elif kind < 0.82:
            job |= {"limit_min": 1, "runtime_s": 130}
        yield job


def _everything(draw: random.Random) -> Iterator[Job]:
    for row, job in enumerate(_some(draw, 100, 230, 70)):
        kind = draw.random()
        job["partition"] = draw.choice(("batch", "batch", "batch", "batch,short", "urgent", "short"))
        short = "short" in job["partition"]
        if short:
            job |= {"limit_min": min(job["limit_min"], 2), "runtime_s": min(job["runtime_s"], 100), "tasks": min(job["tasks"], 16)}
        if "urgent" in job["partition"]:
            job["tasks"] = min(job["tasks"], 16)
        job["qos"] = draw.choice(("normal", "normal", "normal", "low", "low", "high", "each"))
        if job["qos"] == "high":
            job["tasks"] = min(job["tasks"], 16)
        elif job["qos"] == "each":
            job |= {"tasks": min(job["tasks"], 8), "nodes": ""}
        elif job["qos"] == "low":
            job["limit_min"] = 2 if short else max(job["limit_min"], 2)
        if kind < 0.10:
            job |= _array(draw, ("0-3", "0-5%2"))
        elif kind < 0.22 and row:
            job["after"] = draw.randrange(row)
        elif kind < 0.27:
            job["extra"] = f"--begin=now+{draw.choice((30, 60))}"
        elif kind < 0.33:
            job |= {"extra": "--exclusive", "tasks": min(job["tasks"], 12)}
        elif kind < 0.40:
            job["extra"] = f"--licenses={draw.choice(('fluent', 'fluent:2'))}"
        elif kind < 0.46:
            job |= {"limit_min": 2 if short else 4, "extra": "--time-min=1"}
        elif kind < 0.52:
            job["extra"] = f"--nice={draw.choice((2000, 8000))}"
        elif kind < 0.56:
            job |= {"extra": "--hold", "name": "held"}
        if job["tasks"] > 24 and job["partition"] != "batch":
            job["tasks"] = 16
        yield job


WAITING = "squeue -h -t PENDING -n plain -o %F | sort -un | paste -sd,"
"""A job that is held while it or a task of its array runs leaves accounting for good."""
WORKLOADS = {
    "tiers": Workload(
        COMMON + TIERS,
        USERS + ALL.format("normal"),
        _tiers,
        ((400, "scancel --state=PENDING --name=plain"),),  # some ask for more nodes than their partition has
    ),
    "jobs": Workload(
        COMMON + BATCH,
        USERS + ALL.format("normal"),
        _dependent,
        (
            *((100, "scontrol release jobname=held"), (120, f"scontrol hold $({WAITING})"), (150, "scontrol release jobname=plain")),
            *((160, "scontrol release jobname=held"), (215, "scontrol release jobname=held")),
        ),
    ),
    "outages": Workload(
        COMMON + BATCH,
        USERS + ALL.format("normal"),
        _with_outages,
        (
            (1, "scontrol create reservation reservationname=service starttime=now+150 duration=2 nodes=n1,n2 users=root flags=maint,ignore_jobs"),
            (2, "scontrol create reservation reservationname=course starttime=now+60 duration=4 nodes=n6 accounts=physics flags=ignore_jobs"),
            (70, "scontrol update nodename=n5 state=drain reason=disk"),
            (100, "scontrol update nodename=n3 state=drain reason=fan"),
            (130, "scontrol update nodename=n4 state=down reason=lost"),
            (160, "scontrol update nodename=n5 state=resume"),
            (175, "scontrol update nodename=n4 state=resume"),
            (220, "scontrol update nodename=n3 state=resume"),
        ),
    ),
    "preemption": Workload(
        f"PreemptType=preempt/qos\nPreemptMode=REQUEUE\n{COMMON}{BATCH}",
        "modify qos normal set Priority=10\nadd qos low Priority=5\nadd qos scavenger Priority=1 PreemptMode=cancel GraceTime=10\n"
        "add qos high Priority=100 Preempt=low,scavenger\n" + USERS + ALL.format("normal,low,scavenger,high"),
        _preempting,
        ((420, "scancel --state=PENDING --name=low"),),
    ),
    "mixed": Workload(
        f"Licenses=fluent:3\nPreemptType=preempt/qos\nPreemptMode=REQUEUE\nEpilog=@EPILOG@\n{COMMON}{TIERS}",
        "modify qos normal set Priority=10\nadd qos low Priority=5\nadd qos high Priority=100 Preempt=low\n"
        "add qos each MaxTRESPerUser=cpu=12 MaxJobsPerUser=4\n" + USERS + ALL.format("normal,low,high,each"),
        _everything,
        (
            (2, "scontrol create reservation reservationname=service starttime=now+140 duration=2 nodes=n1 users=root flags=maint,ignore_jobs"),
            (80, "scontrol update nodename=n6 state=drain reason=disk"),
            (110, "scontrol release jobname=held"),
            (170, "scontrol update nodename=n6 state=resume"),
            (240, "scontrol release jobname=held"),
            (420, "scancel --state=PENDING --name=plain --partition=urgent"),  # some ask for more nodes than it has
            (520, "scancel --state=PENDING"),
        ),
    ),
    "limits": Workload(
        f"Licenses=fluent:3,ansys:2\nEpilog=@EPILOG@\n{COMMON}{BATCH}",
        "add qos group GrpTRES=cpu=12\nadd qos each MaxTRESPerUser=cpu=8 MaxJobsPerUser=3\n" + USERS + ALL.format("normal,group,each"),
        _limited,
    ),
}  # fmt: skip


def write_jobs(workload: Workload, seed: str, place: Path) -> Path:
    """Write the jobs and events of a workload for ``submit``; the same each time."""
    file = place / "jobs.csv"
    with file.open("w", newline="") as text:
        rows = csv.DictWriter(text, COLUMNS, restval="")
        rows.writeheader()
        rows.writerows(workload.jobs(random.Random(f"{seed} 1")))
    if workload.events:
        # some commands fail in some runs: a lost node may be back by itself, a job to be held may run
        (place / "jobs.csv.events").write_text("".join(f"{at}|sh -c '{command} || true'\n" for at, command in workload.events))
    return file


def record(workload: Workload, name: str, run: str, port: int, seed: str = "", kept: Path = HERE) -> None:
    """Run a workload once on a Slurm of its own, and keep what it wrote; ``seed`` draws its jobs, by default its name."""
    tools = SHARED / "slurm"
    with tempfile.TemporaryDirectory() as text:
        place = Path(text)
        place.chmod(0o755)
        epilog = place / "epilog"
        epilog.write_text("#!/bin/sh\nsleep 2\n")
        epilog.chmod(0o755)
        (place / "cluster.conf").write_text(DEBUG + workload.conf.replace("@EPILOG@", str(epilog)))
        (place / "cluster.accounts").write_text(workload.accounts)
        jobs, slurm = write_jobs(workload, seed or name, place), place / "slurm"
        settings = {**os.environ, "BASE_PORT": str(port), "SLURM_CONF": str(slurm / "slurm.conf")}

        def ask(*command: str) -> str:
            return subprocess.run(command, env=settings, capture_output=True, text=True, check=True).stdout

        began = time.strftime("%Y-%m-%dT%H:%M:%S")
        subprocess.run([tools / "up", slurm, place / "cluster.conf"], env=settings, check=True, stdout=subprocess.DEVNULL)
        try:
            reservations: dict[str, str] = {}
            with subprocess.Popen([tools / "submit", jobs, place / "out"], env=settings) as submitting:
                while submitting.poll() is None:
                    for line in ask("scontrol", "-o", "show", "reservation").splitlines():
                        if named := re.match(r"ReservationName=(\S+)", line):
                            reservations[named[1]] = line
                    time.sleep(5)
            site = kept / f"{name}-{run}"
            shutil.rmtree(site, ignore_errors=True)
            site.mkdir()
            ask("sacctmgr", "dump", "parity", f"file={site / 'accounts.dump'}")
            conf = workload.conf.replace("@EPILOG@", "/etc/slurm/epilog")
            (site / "slurm.conf").write_text(f"ClusterName={name}\n{conf}")
            (site / "qos.txt").write_text(ask("sacctmgr", "-P", "show", "qos"))
            (site / "events.txt").write_text(ask("sacctmgr", "-P", "show", "event", f"start={began}"))
            shutil.copy(place / "out.sshare", site / "sshare.txt")
            if reservations:
                (site / "reservations.txt").write_text("".join(f"{line}\n" for line in reservations.values()))
            if "Epilog=" in conf:
                (site / "epilog.txt").write_text("2\n")
            accounting = ask("sacct", "--allusers", "--parsable2", "--duplicates", f"--starttime={began}", f"--format={FORMAT}")
            (kept / f"{name}-{run}.txt").write_text(accounting)
            with (
                (slurm / "log" / "slurmctld.log").open(errors="replace") as log,
                gzip.open(kept / f"{name}-{run}.log.gz", "wt") as out,
            ):
                out.writelines(line for line in log if re.search(LOGGED, line))
        finally:
            subprocess.run([tools / "down", slurm], check=False)
            time.sleep(5)


def record_twice(workloads: list[tuple[Workload, str]], seed: str = "", kept: Path = HERE) -> None:
    """Record workloads, with their names, twice each, all at the same time."""
    runs = [(workload, name, run) for workload, name in workloads for run in RUNS]
    with ThreadPoolExecutor(len(runs)) as threads:
        futures = []
        for at, each in enumerate(runs):
            futures.append(threads.submit(record, *each, 26_800 + 200 * at, seed, kept))
            time.sleep(7.3)  # munged is started once for all; and their clocks' phases differ
        for future in futures:
            future.result()


def main(names: list[str]) -> None:
    """Record the named workloads, or all."""
    for name in names or list(WORKLOADS):
        record_twice([(WORKLOADS[name], name)])
        print(f"{name}: recorded twice", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
