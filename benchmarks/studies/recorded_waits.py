"""Measure how much of CERIT's recorded wait a model of its machine explains.

``python -m benchmarks.studies.recorded_waits`` prints the card; ``--write`` makes docs/studies/recorded-waits.md, its picture and its
data: ``recorded-waits.csv`` a row a machine of ``benchmarks/studies/machines``, each adding to the one above it, the last with 256 for 320;
``recorded-waits-record.csv`` shares of the recorded seconds of waiting. Needs CERIT's log under ``--shared``. What inferred rules explain of four
logs is read from ``recorded-waits-rules.csv``.

Simulated: EASY with requested times, 5 replays with submissions moved by up to 60 s, other schedulers one replay as recorded. A row is what
``queuecast simulate CERIT-wagap-2013.swf.gz --machine benchmarks/studies/machines/FILE.toml --json`` gives with ``--shake --seed 0`` to ``4``.
``same`` is the share of the recorded seconds that the same job waits in the first replay, too, ``correlation`` Spearman's, job by job.

In the record: the log names the node of every processor, so what was free is known at every moment. ``without`` counts the seconds that jobs
waited while they would not have fitted, each asking for more than the one above; nodes are in service from their first to their last use.
``limit``: with the job more would have been held than its user or class ever held. Requested memory is of the whole job.
"""

from __future__ import annotations

import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from benchmarks.common.card import Card, parser, read_rows, rows_of, show, write_rows
from benchmarks.common.pages import STUDIES
from benchmarks.studies.recorded_room import Log, by_outcome, log_of, node_lists, on_all, seconds_of_waits, used
from features.jobs.cleaning import clean
from features.jobs.shaking import SHAKE_S
from pipelines.ingest.machine_file import read_machine
from pipelines.ingest.swf import read_swf
from pipelines.report.style import INK, MUTED, encode, figure
from sim.machine.description import Cluster, Machine
from sim.schedule import Schedule
from sim.simulate import simulate

RULES = STUDIES / "data" / "recorded-waits-rules.csv"
ENDLESS = "inferred rule on endless processors"
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

ALONE, AFTER = "alone, on all nodes described", "after all that waited longer, on all nodes described"
FEW, MANY = "after others, jobs on few processors first", "after others, jobs on many first"
RECORD = STUDIES / "data" / "recorded-waits-record.csv"
FAILS = "Not in the log: disk space, reservations, holds, fair share, down nodes. Limits on users are assumed."


def simulated(path: Path, replays: int) -> pd.DataFrame:
    """Simulate every machine: a row each, with the mean waits of the replays under EASY and of others."""
    trace, rows = read_swf(path), []
    for name, file in STEPS.items():
        machine = None if file is None else read_machine(MACHINES / f"{file}.toml")
        size, holds = (POOL, None) if machine is None else (machine.procs, machine.holds)
        jobs = clean(trace, size, holds=holds).jobs
        replayed = [simulate(jobs, procs=size, machine=machine, shake_s=SHAKE_S, seed=seed) for seed in range(replays)]
        waits, recorded = [wait_s(each).mean() for each in replayed], jobs["wait_s"].to_numpy(np.float64)
        row = {"machine": name, "file": file or "", "mean_wait_s": np.mean(waits), "low": min(waits), "high": max(waits)}
        row |= {
            "of_record": np.mean(waits) / recorded.mean(),
            "same": np.minimum(wait_s(replayed[0]), recorded).sum() / recorded.sum(),
        }
        row["correlation"] = spearmanr(wait_s(replayed[0]), recorded).statistic
        rows.append(row | {each: wait_s(simulate(jobs, procs=size, machine=machine, scheduler=each)).mean() for each in OTHERS})
    return pd.DataFrame(rows)


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


def in_the_record(path: Path) -> pd.DataFrame:
    """Return what the record itself says: ``kind what value``, shares of the recorded seconds of waiting but where ``kind`` is ``fact``."""
    lists, whole = node_lists(path), read_machine(MACHINES / "cerit-small-first.toml")
    machine, order = used(whole, lists)
    jobs = clean(read_swf(path), POOL, holds=machine.holds).jobs
    log, procs = log_of(jobs, lists, order), jobs["procs"].to_numpy(np.int64)
    recorded, restricted, in_all = jobs["wait_s"].to_numpy(np.float64), by_outcome(machine, jobs, log), on_all(whole, machine, log)
    by_submission, total = np.arange(len(jobs)), recorded.sum()
    without = seconds_of_waits(machine, jobs, log).without
    also = {
        FEW: seconds_of_waits(machine, jobs, log, together=ranked(procs)).without,
        MANY: seconds_of_waits(machine, jobs, log, together=ranked(-procs)).without,
        "after others, with the restrictions marked *": seconds_of_waits(
            *restricted, log, idle=False, together=by_submission
        ).without,
        ALONE: seconds_of_waits(whole, jobs, in_all).without,
        AFTER: seconds_of_waits(whole, jobs, in_all, together=by_submission).without,
        "alone, if every idle node was down": seconds_of_waits(machine, jobs, log, idle=False).without,
    }
    limits = {
        name: seconds_of_waits(machine, jobs, log, columns, in_jobs=in_jobs).kept for name, (columns, in_jobs) in KEPT.items()
    }
    either, (per_job, per_node) = machine.could_hold(jobs) == 3, placements_beyond_memory(machine, jobs, log)
    of_users = pd.DataFrame({"user": jobs["user"], "wait": recorded, "without": without}).groupby("user", observed=True).sum()
    of_users = of_users.sort_values("wait", ascending=False)
    facts = {
        "jobs": len(jobs),
        "mean wait, s": recorded.mean(),
        "jobs that waited over a minute": (recorded > 60).mean(),
        "most processors a user held": peak_of_users(jobs, log),
        "correlation of waits with the user's submissions of 24 hours": spearmanr(
            submitted_before(jobs, 86_400), recorded
        ).statistic,
        "jobs for either cluster that ran on small nodes": (log.node[log.begin[:-1]][either] < machine.clusters[0].count).mean(),
        "waiting of three users": of_users["wait"].iloc[:3].sum() / total,
        "waiting without room of one user": of_users["without"].max() / without.sum(),
        "placements beyond a node's memory, memory being of the job": per_job,
        "placements beyond a node's memory, memory being of each node": per_node,
    }
    rows = [("without", name, share) for name, share in lacking(machine, jobs, log).items()]
    rows += [("without", name, seconds.sum() / total) for name, seconds in also.items()]
    rows += [("limit", name, seconds.sum() / total) for name, seconds in limits.items()] + [
        ("fact", *fact) for fact in facts.items()
    ]
    return pd.DataFrame(rows, columns=["kind", "what", "value"])


def card(rows: pd.DataFrame, record: pd.DataFrame, rules: pd.DataFrame, made_by: str) -> Card:
    """Return the card, a row a machine."""
    share = record.set_index("what")["value"]
    of = rows.fillna({"file": ""}).set_index("file")["of_record"]
    pool, mixed, plain, served = (of[name] for name in ("", "cerit-small-first", "cerit", "cerit-used"))
    by_rule = rules[rules["log"] == "CERIT"].set_index("rule")["correlation"]
    waits = [f"{row.mean_wait_s:,.0f} ({row.low:,.0f} to {row.high:,.0f})" for row in rows.itertuples()]
    table = {
        "machine": rows["machine"].str.rstrip("*†"),
        "EASY's mean wait, s": waits,
        "of the record": rows["of_record"].map("{:.1%}".format),
    }
    return Card(
        question="How much of CERIT's recorded wait does its machine explain?",
        answer=f"On one pool, EASY gives {pool:.1%} of the recorded wait; with clusters, nodes, memory and exclusive nodes {mixed:.0%} to "
        f"{plain:.0%}, depending on which nodes are filled first; on only the nodes that the log ever used {served:.0%}. In the record, a waiting "
        f"job had no room on these nodes for {share[EXACT]:.1%} of the time if placed alone, for {share[FEW]:.0%} to {share[MANY]:.0%} if placed after "
        "others that waited, by their order.",
        picture="recorded-waits.png",
        picture_caption="Left: mean waits, whiskers over replays; right: recorded waiting by what was lacking",
        table=pd.DataFrame(table | {"by the same jobs": rows["same"].map("{:.1%}".format)}),
        table_caption=f"{share['jobs']:,.0f} jobs, mean wait {share['mean wait, s']:,.0f} s; {REPLAYS} replays. Each row "
        "adds to the row above (the last: 256 for 320). By the same jobs: share of recorded seconds that the same job waits there:",
        fails=f"Only the outcome shows which nodes were in service: on all nodes described, a job alone lacks room for {share[ALONE]:.0%} of "
        f"the time, after others for {share[AFTER]:.0%}. Three users did {share['waiting of three users']:.0%} of the waiting. Correlation with later "
        f"waits: inferred rule (`recorded_rules`) {by_rule['inferred rule']:.2f}, on endless processors {by_rule[ENDLESS]:.2f}, the user's past waits "
        f"{by_rule['past waits of the user']:.2f}, the user's waiting jobs {by_rule['waiting jobs of the user']:.2f}. {FAILS}",
        data=["recorded-waits.csv", RECORD.name, RULES.name],
        made_by=made_by,
    )


def ranked(key: np.ndarray) -> np.ndarray:
    """Return the rank of each job by ``key``, then by submission, int64 [jobs]."""
    return np.argsort(np.argsort(key, kind="stable"), kind="stable")


def submitted_before(jobs: pd.DataFrame, seconds: int) -> np.ndarray:
    """Return how many jobs its user had submitted in so many seconds before each job, int64 [jobs]."""
    submit, count = jobs["submit_s"].to_numpy(np.int64), np.zeros(len(jobs), np.int64)
    for rows in jobs.groupby("user", observed=True).indices.values():
        count[rows] = np.arange(len(rows)) - np.searchsorted(submit[rows], submit[rows] - seconds)
    return count


def placements_beyond_memory(machine: Machine, jobs: pd.DataFrame, log: Log) -> tuple[int, int]:
    """Return how many recorded placements exceed a node's memory, that of a job being for the job, and for each of its nodes."""
    capacity = machine.arrays_for(jobs)[0].capacity[:, 1]
    row = np.repeat(np.arange(len(jobs)), np.diff(log.begin))
    submit, wait = (jobs[name].to_numpy(np.int64) for name in ("submit_s", "wait_s"))
    start = (submit + wait)[row]
    end = start + (jobs["runtime_s"] + jobs["overrun_s"]).to_numpy(np.int64)[row]
    counts = []
    for taken in (log.memory, jobs["memory_kib"].to_numpy(np.int64)[row]):
        count = 0
        for node in range(len(capacity)):
            mine = log.node == node
            change = np.concatenate([taken[mine], -taken[mine]])
            begins = np.repeat([1, 0], mine.sum())
            order = np.lexsort((begins, np.concatenate([start[mine], end[mine]])))
            count += int(((np.cumsum(change[order]) > capacity[node]) & (begins[order] == 1)).sum())
        counts.append(count)
    return counts[0], counts[1]


def peak_of_users(jobs: pd.DataFrame, log: Log) -> int:
    """Return the most processors that a user ever held in the record."""
    user, procs = jobs["user"].cat.codes.to_numpy(), jobs["procs"].to_numpy(np.int64)
    held = pd.DataFrame({"user": user[log.of % len(jobs)], "procs": procs[log.of % len(jobs)], "kind": log.kind})
    held = held[held["kind"].isin([1, 3])]
    return int(held["procs"].where(held["kind"] == 3, -held["procs"]).groupby(held["user"]).cumsum().max())


def draw(rows: pd.DataFrame, record: pd.DataFrame) -> bytes:
    """Draw mean waits by machine, and recorded seconds of waiting by what the machine lacked."""
    with figure(10.5, 3.6, generated=False) as canvas:
        left, right = canvas.subplots(1, 2, width_ratios=(3, 2))
        recorded = record.set_index("what")["value"]["mean wait, s"]
        means, low, high = (rows[name].to_numpy() for name in ("mean_wait_s", "low", "high"))
        place = np.arange(len(rows))
        left.barh(place, means, color="#0072b2", xerr=[means - low, high - means], error_kw={"ecolor": INK, "elinewidth": 1})
        left.axvline(recorded, color="#d55e00", linewidth=1.4)
        left.text(recorded, -0.75, "recorded", color="#d55e00", ha="right", va="bottom", fontsize=8)
        left.set_yticks(place, rows["machine"].str.rstrip("*†"))
        left.invert_yaxis()
        left.set_xlabel("mean wait under EASY, s")
        left.grid(axis="y", visible=False)
        missing = record[record["kind"] == "without"].iloc[: list(record["what"]).index(TOGETHER) + 1]
        shares = missing["value"].to_numpy()
        right.barh(np.arange(len(shares)), 100 * shares, color="#009e73")
        right.barh(np.arange(len(shares)), 100 * (1 - shares), left=100 * shares, color=MUTED, alpha=0.35)
        for at, share in enumerate(shares):
            right.text(100 * share + 1, at, f"{share:.1%}", va="center", fontsize=8)
        right.set_yticks(
            np.arange(len(shares)),
            [textwrap.fill(name.rstrip("*‡"), 34) for name in missing["what"]],
        )
        right.invert_yaxis()
        right.set_xlim(0, 100)
        right.set_xlabel("of recorded seconds of waiting, %")
        right.set_title("seconds without room", fontsize=9)
        right.grid(axis="y", visible=False)
        return encode(canvas, "png")


def main() -> None:
    """Run as a program."""
    options = parser(__doc__).parse_args()
    path = options.shared / "traces" / LOG

    def compute() -> pd.DataFrame:
        if options.write:
            write_rows(RECORD, in_the_record(path))
        return simulated(path, REPLAYS)

    rows, made_by = rows_of(options, "studies.recorded_waits", "recorded-waits.csv", compute)
    record = read_rows(RECORD) if options.write or options.card else in_the_record(path)
    show(card(rows, record, read_rows(RULES), made_by), "recorded-waits", options)
    if options.write or options.card:
        (STUDIES / "recorded-waits.png").write_bytes(draw(rows, record))


if __name__ == "__main__":
    main()
