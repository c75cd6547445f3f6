"""Measure how much of CERIT's recorded wait a model of its machine explains.

``python -m benchmarks.studies.recorded_waits`` prints the page; ``--write`` makes docs/studies/recorded-waits.md, its picture and its
data. The machines are those of ``benchmarks/studies/machines``. Needs CERIT's log under ``--shared``.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from benchmarks.common.pages import SHARED, STUDIES, made_by
from benchmarks.common.tables import markdown, write_page
from benchmarks.studies.recorded_room import Log, by_outcome, log_of, node_lists, on_all, seconds_of_waits, used
from features.jobs.cleaning import clean
from features.jobs.shaking import SHAKE_S
from pipelines.ingest.machine_file import read_machine
from pipelines.ingest.swf import read_swf
from pipelines.report.style import INK, MUTED, encode, figure
from sim.machine.description import Cluster, Machine
from sim.schedule import Schedule
from sim.simulate import simulate

MACHINES = Path(__file__).parent / "machines"
LOG, POOL = "CERIT-wagap-2013.swf.gz", 1600 + 576
STEPS = {
    "one pool": None,
    "two pools, with pins": "cerit-pools",
    "+ nodes and processors a node": "cerit-nodes",
    "+ memory": "cerit-memory",
    "+ exclusive nodes": "cerit",
    "small nodes first": "cerit-small-first",
    "+ only nodes ever used*": "cerit-used",
    "+ a user at most 320 processors†": "cerit-user-320",
    "+ a user at most 256 processors†": "cerit-user-256",
}
"""What is added step by step, and the file that describes it."""
REPLAYS = 5
OTHERS = ("List", "OrigBF(reservations=anew)")
EXACT, STRICT = "with nothing else there, if exclusive", "on those that were not idle*"
TOGETHER = "all of it, after starting all that waited longer‡"
KEPT = {
    "processors of its user": (("user",), False),
    "jobs of its user": (("user",), True),
    "processors of its class": (("queue",), False),
    "processors of its user in its class": (("user", "queue"), False),
}
"""Limits that may have kept jobs with room: columns that hold, and whether jobs are counted."""

TEXT = """# How much of CERIT's recorded wait does its machine explain?

{answer}

![Mean waits by machine, and what was missing while jobs waited](recorded-waits.png)

*Left: mean wait under EASY with requested times; whiskers are the shortest and longest of {replays} replays, the line is the record. Right: the recorded
seconds of waiting, by what the machine lacked at that moment.*

{made} The machines: `benchmarks/studies/machines`, in the form of [machines.md](../machines.md).

## Simulated on the machine

{jobs:,} jobs over {days:.0f} days; a job waited {recorded:,.0f} s on average, {waited:.0%} of the jobs longer than a minute. EASY, requested times, {replays}
replays with submissions moved by up to {shake} s; the others one replay as recorded (`OrigBF`: what the site ran at the time, as far as it is published, but
its reservations were kept).
Each row adds to the one above it; the last has 256 for 320.

{simulated}

Each row is made by `queuecast simulate CERIT-wagap-2013.swf.gz --machine benchmarks/studies/machines/FILE.toml --json`, with `--shake --seed 0` to `{last}`,
the first with `--procs {pool}`. "Of the record" is the mean wait over the recorded one. The next two columns compare waits job by
job in the first replay: "by the same jobs" is the share of the recorded seconds that the same job waits in the simulation, too; correlation is
Spearman's. For comparison: how many jobs its user had submitted in the 24 hours before correlates with a job's recorded wait by {crowd:.2f}.

\\* Known from the outcome alone: the description has 20 and 48 nodes, the log ever used {nodes}.
† Assumed: the log states no limits, and its users held up to {most:,} processors.

## In the record itself

The log names the node of every processor, so what was free is known at every moment of the record. Of all seconds that jobs waited there, so many passed while
the job would not have fitted; each row asks for more than the one above. Nodes are in service from their first to their last use.

{record}

‡ At every moment anew, in order of submission; {few:.0%} if jobs on few processors go first, {many:.0%} if those on many do, and {most_lacking:.0%} with the
restrictions marked *. None of these is a bound: the queues are as deep as the site let them grow, and jobs started earlier would have held nodes later.

All this is on the nodes ever used, which the outcome alone tells. Had those never used been in service too, a job alone would have lacked room in
{all_alone:.1%} of the seconds waited, and after all that waited longer in {all_together:.0%}.

A constant limit may have kept back a job that had room alone: if with it more would have been held than ever was. That is so in these shares of the seconds
waited:

{kept}

## What follows

{follows}

What this does not show: disk space, reservations, holds by users, virtual machines and jobs that are not in the log; a node that was idle because it was down
(if every idle node was, the machine lacked something in {idle:.1%} of the waiting); the order in which the site took jobs, which was fair share. Requested
memory is taken as of the whole job: with each node of a job taking all of it, {per_node} more placements than {per_job} of {placements:,} in the log would
exceed the memory of their node. {both} jobs ran in both clusters at once, which no job does here.
"""


FOLLOWS = """* Where a waiting job alone had no room, it was memory that was missing, not processors. {one:.0%} of that time was one user's.
* Three users of {users} did {three:.0%} of all the waiting. Alone their jobs lacked room in {of_three:.0%} of it, those of all others in
  {of_others:.0%}. Without the tenth of jobs that waited longest it is {usual:.0%} instead of {exact:.0%}.
* Constant limits on users or classes, at the most they ever held, explain {kept:.1%} of the waiting at most: when jobs were kept back, the same user
  and class held less than at another time. It was no constant limit of this kind. A limit of 256 processors a user would bring a simulation to
  {limited:.0%} of the record, but users held more than that.
* The order in which clusters are filled matters as much as memory. Of the jobs that either cluster could hold the site ran {small:.0%} on the one
  with small nodes."""


class Row(NamedTuple):
    """One machine: mean waits of the replays under EASY, and what the first one shares with the record."""

    name: str
    file: str
    jobs: int
    waits: list[float]
    correlation: float
    same: float
    others: list[float]


def simulated(path: Path, replays: int, others: Sequence[str]) -> list[Row]:
    """Simulate every machine."""
    trace, rows = read_swf(path), []
    for name, file in STEPS.items():
        machine = None if file is None else read_machine(MACHINES / f"{file}.toml")
        size, holds = (POOL, None) if machine is None else (machine.procs, machine.holds)
        jobs = clean(trace, size, holds=holds).jobs
        made = [simulate(jobs, procs=size, machine=machine, shake_s=SHAKE_S, seed=seed) for seed in range(replays)]
        waits = [float(wait_s(each).mean()) for each in made]
        recorded = jobs["wait_s"].to_numpy(np.float64)
        correlation = float(spearmanr(wait_s(made[0]), recorded).statistic)
        same = float(np.minimum(wait_s(made[0]), recorded).sum() / recorded.sum())
        rest = [float(wait_s(simulate(jobs, procs=size, machine=machine, scheduler=each)).mean()) for each in others]
        rows.append(Row(name, file or "", len(jobs), waits, correlation, same, rest))
    return rows


def wait_s(schedule: Schedule) -> np.ndarray:
    """Return the wait of each job, float64 [jobs]."""
    return (schedule.jobs["start_s"] - schedule.jobs["submit_s"]).to_numpy(np.float64)


def lacking(machine: Machine, jobs: pd.DataFrame, log: Log) -> dict[str, float]:
    """Return the share of recorded seconds of waits without room, by what is asked for, each more than the one before."""
    pool = Machine("pool", (Cluster("all", tuple(kind for cluster in machine.clusters for kind in cluster.nodes)),), asked=())
    nodes = ("properties", "nodes", "procs_per_node")
    outcome = by_outcome(machine, jobs, log)
    asked: dict[str, tuple[Machine, pd.DataFrame, dict[str, Any]]] = {
        "processors of the whole machine": (pool, jobs, {}),
        "of a cluster it may use": (replace(machine, asked=("properties",)), jobs, {}),
        "on nodes, so many on each": (replace(machine, asked=nodes), jobs, {}),
        "with its memory": (replace(machine, asked=(*nodes, "memory_kib")), jobs, {}),
        EXACT: (machine, jobs, {}),
        "on nodes that its class and properties ever got*": (*outcome, {}),
        STRICT: (*outcome, {"idle": False}),
        TOGETHER: (machine, jobs, {"together": np.arange(len(jobs))}),
    }
    total = float(jobs["wait_s"].sum())
    return {name: seconds_of_waits(of, table, log, **how).without.sum() / total for name, (of, table, how) in asked.items()}


def page(path: Path, rows: list[Row], others: Sequence[str], command: str) -> tuple[str, dict[str, float]]:
    """Return the page as Markdown, and the shares of recorded waiting by what was missing."""
    lists = node_lists(path)
    machine, order = used(read_machine(MACHINES / "cerit-small-first.toml"), lists)
    jobs = clean(read_swf(path), POOL, holds=machine.holds).jobs
    log = log_of(jobs, lists, order)
    recorded = jobs["wait_s"].to_numpy(np.float64)
    missing = lacking(machine, jobs, log)
    kept = {
        name: seconds_of_waits(machine, jobs, log, columns, in_jobs=in_jobs).kept.sum() / recorded.sum()
        for name, (columns, in_jobs) in KEPT.items()
    }
    restricted = by_outcome(machine, jobs, log)
    together = seconds_of_waits(*restricted, log, idle=False, together=np.arange(len(jobs))).without.sum() / recorded.sum()
    few, many = (
        seconds_of_waits(machine, jobs, log, together=ranked(sign * jobs["procs"].to_numpy(np.int64))).without.sum()
        / recorded.sum()
        for sign in (1, -1)
    )
    whole = read_machine(MACHINES / "cerit-small-first.toml")
    in_all = on_all(whole, machine, log)
    all_alone, all_together = (
        seconds_of_waits(whole, jobs, in_all, together=how).without.sum() / recorded.sum() for how in (None, np.arange(len(jobs)))
    )
    same = next(row.same for row in rows if row.file == "cerit-used")
    idle = seconds_of_waits(machine, jobs, log, idle=False).without.sum() / recorded.sum()
    shares = {row.file: np.mean(row.waits) / recorded.mean() for row in rows}
    head = [
        *("machine", "FILE", "EASY: mean wait, s", "of the record", "by the same jobs", "correlation"),
        *(f"{name}: mean wait, s" for name in others),
    ]
    cells = [
        [
            row.name,
            row.file or "-",
            f"{np.mean(row.waits):,.0f} ({min(row.waits):,.0f} to {max(row.waits):,.0f})",
            f"{np.mean(row.waits) / recorded.mean():.1%}",
            f"{row.same:.1%}",
            f"{row.correlation:.2f}",
            *(f"{each:,.0f}" for each in row.others),
        ]
        for row in rows
    ]
    cells.append(["the record", "-", f"{recorded.mean():,.0f}", "100.0%", "100.0%", "1.00", *[""] * len(rows[0].others)])
    either = machine.could_hold(jobs) == 3
    small = float((log.node[log.begin[:-1]][either] < machine.clusters[0].count).mean())
    over = placements_beyond_memory(machine, jobs, log)
    told = {
        "answer": (
            f"On one pool jobs would wait under EASY {shares['']:.1%} of what they did. With clusters, nodes, memory and exclusive nodes it is "
            f"{shares['cerit-small-first']:.0%} to {shares['cerit']:.0%}, by the order in which clusters are filled, and {shares['cerit-used']:.0%} "
            f"on the nodes alone that the log ever used. But these are other waits: of the recorded seconds the same jobs wait {same:.0%} there. "
            f"In the record itself a waiting job alone had no room on these nodes in {missing[EXACT]:.0%} of the time, and in {few:.0%} to {many:.0%} after "
            f"others that waited, by the order in which they are taken. With the nodes of the description "
            f"that were never used it is {all_alone:.0%} and {all_together:.0%}. So "
            "what the machine explains depends on the nodes that were in service, and those are known from the outcome alone."
        ),
        "made": command,
        "replays": len(rows[0].waits),
        "last": len(rows[0].waits) - 1,
        "pool": POOL,
        "shake": SHAKE_S,
        "jobs": len(jobs),
        "days": np.ptp(jobs["submit_s"].to_numpy()) / 86_400,
        "recorded": recorded.mean(),
        "waited": (recorded > 60).mean(),
        "simulated": markdown(head, cells, keys=2),
        "nodes": " and ".join(str(cluster.count) for cluster in machine.clusters[::-1]),
        "most": int(peak_of_users(jobs, log)),
        "record": markdown(["without", "of the seconds waited"], [[name, f"{share:.1%}"] for name, share in missing.items()]),
        "kept": markdown(
            ["limit, at the most ever held", "of the seconds waited"], [[name, f"{share:.2%}"] for name, share in kept.items()]
        ),
        "follows": follows(shares, max(kept.values()), jobs, seconds_of_waits(machine, jobs, log).without, small),
        "crowd": float(spearmanr(submitted_before(jobs, 86_400), recorded).statistic),
        "few": few,
        "many": many,
        "all_alone": all_alone,
        "all_together": all_together,
        "idle": idle,
        "most_lacking": together,
        "per_job": over[0],
        "per_node": over[1] - over[0],
        "placements": len(log.node),
        "both": sum(len({order.index(node) < machine.clusters[0].count for node in set(nodes)}) > 1 for nodes in lists.values()),
    }
    return TEXT.format(**told), missing


def ranked(key: np.ndarray) -> np.ndarray:
    """Return the rank of each job by ``key``, then by submission, int64 [jobs]."""
    return np.argsort(np.argsort(key, kind="stable"), kind="stable")


def submitted_before(jobs: pd.DataFrame, seconds: int) -> np.ndarray:
    """Return how many jobs its user had submitted in so many seconds before each job, int64 [jobs]."""
    submit, count = jobs["submit_s"].to_numpy(np.int64), np.zeros(len(jobs), np.int64)
    for rows in jobs.groupby("user", observed=True).indices.values():
        count[rows] = np.arange(len(rows)) - np.searchsorted(submit[rows], submit[rows] - seconds)
    return count


def follows(shares: dict[str, float], kept: float, jobs: pd.DataFrame, without: np.ndarray, small: float) -> str:
    """Say what was found; ``without`` [jobs]: seconds in which a job alone had no room."""
    table = pd.DataFrame({"user": jobs["user"], "wait": jobs["wait_s"].to_numpy(np.float64), "without": without})
    users = table.groupby("user", observed=True)[["wait", "without"]].sum().sort_values("wait", ascending=False)
    longest, others = users.iloc[:3].sum(), users.iloc[3:].sum()
    usual = table.sort_values("wait", kind="stable").iloc[: -(len(table) // 10)].sum(numeric_only=True)
    return FOLLOWS.format(
        kept=kept,
        users=len(users),
        three=longest["wait"] / users["wait"].sum(),
        of_three=longest["without"] / longest["wait"],
        of_others=others["without"] / others["wait"],
        one=users["without"].max() / users["without"].sum(),
        usual=usual["without"] / usual["wait"],
        exact=users["without"].sum() / users["wait"].sum(),
        limited=shares["cerit-user-256"],
        small=small,
    )


def placements_beyond_memory(machine: Machine, jobs: pd.DataFrame, log: Log) -> tuple[int, int]:
    """Return how many recorded placements exceed a node's memory, that of a job being for the job, and for each of its nodes."""
    capacity = machine.arrays_for(jobs)[0].capacity[:, 1]
    row = np.repeat(np.arange(len(jobs)), np.diff(log.begin))
    submit, wait = (jobs[name].to_numpy(np.int64) for name in ("submit_s", "wait_s"))
    start = (submit + wait)[row]
    end = start + (jobs["runtime_s"] + jobs["overrun_s"]).to_numpy(np.int64)[row]
    found = []
    for taken in (log.memory, jobs["memory_kib"].to_numpy(np.int64)[row]):
        count = 0
        for node in range(len(capacity)):
            mine = log.node == node
            change = np.concatenate([taken[mine], -taken[mine]])
            begins = np.repeat([1, 0], mine.sum())
            order = np.lexsort((begins, np.concatenate([start[mine], end[mine]])))
            count += int(((np.cumsum(change[order]) > capacity[node]) & (begins[order] == 1)).sum())
        found.append(count)
    return found[0], found[1]


def peak_of_users(jobs: pd.DataFrame, log: Log) -> int:
    """Return the most processors that a user ever held in the record."""
    user, procs = jobs["user"].cat.codes.to_numpy(), jobs["procs"].to_numpy(np.int64)
    held = pd.DataFrame({"user": user[log.of % len(jobs)], "procs": procs[log.of % len(jobs)], "kind": log.kind})
    held = held[held["kind"].isin([1, 3])]
    return int(held["procs"].where(held["kind"] == 3, -held["procs"]).groupby(held["user"]).cumsum().max())


def draw(rows: list[Row], recorded: float, missing: dict[str, float], path: Path) -> None:
    """Draw mean waits by machine, and recorded seconds of waiting by what the machine lacked."""
    with figure(10.5, 3.6, generated=False) as canvas:
        left, right = canvas.subplots(1, 2, width_ratios=(3, 2))
        means = np.array([np.mean(row.waits) for row in rows])
        low, high = (np.array([how(row.waits) for row in rows]) for how in (min, max))
        place = np.arange(len(rows))
        left.barh(place, means, color="#0072b2", xerr=[means - low, high - means], error_kw={"ecolor": INK, "elinewidth": 1})
        left.axvline(recorded, color="#d55e00", linewidth=1.4)
        left.text(recorded, -0.75, "recorded", color="#d55e00", ha="right", va="bottom", fontsize=8)
        left.set_yticks(place, [row.name for row in rows])
        left.invert_yaxis()
        left.set_xlabel("mean wait under EASY, s")
        left.grid(axis="y", visible=False)
        shares = np.array(list(missing.values()))
        right.barh(np.arange(len(shares)), 100 * shares, color="#009e73")
        right.barh(np.arange(len(shares)), 100 * (1 - shares), left=100 * shares, color=MUTED, alpha=0.35)
        for at, share in enumerate(shares):
            right.text(100 * share + 1, at, f"{share:.1%}", va="center", fontsize=8)
        right.set_yticks(
            np.arange(len(shares)),
            [textwrap.fill(name, 34) for name in missing],
        )
        right.invert_yaxis()
        right.set_xlim(0, 100)
        right.set_xlabel("of recorded seconds of waiting, %")
        right.set_title("seconds without room", fontsize=9)
        right.grid(axis="y", visible=False)
        path.write_bytes(encode(canvas, "png"))


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the page, its picture and its data")
    parser.add_argument("--replays", type=int, default=REPLAYS, help="replays under EASY")
    parser.add_argument("--scheduler", nargs="*", default=OTHERS, help="others than EASY; Conservative takes ten minutes")
    parser.add_argument("--shared", type=Path, default=SHARED, help="folder with traces/")
    options = parser.parse_args()
    path = options.shared / "traces" / LOG
    rows = simulated(path, options.replays, options.scheduler)
    text, missing = page(path, rows, options.scheduler, made_by("studies.recorded_waits"))
    if not options.write:
        print(text)
        return
    write_page(STUDIES / "recorded-waits.md", text)
    jobs = clean(read_swf(path), POOL).jobs
    draw(rows, float(jobs["wait_s"].mean()), missing, STUDIES / "recorded-waits.png")


if __name__ == "__main__":
    main()
