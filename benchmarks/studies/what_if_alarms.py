"""Count how often ``queuecast whatif`` is sure of candidates that change nothing.

Each site is generated: a share of the nodes and submissions of ``benchmarks.speed.slurm``, a load, 6 to 28 days, one to three partitions.
Candidates are shams. *Idle* ones change a name, or a limit that no job reaches. *Noise* is today's site replayed with other phases of
Slurm's clocks than its pair, or with other phases and other moves of submissions: exactly nothing, and no start is the same. *Nearly
nothing* is a second of bf_interval, or a thousandth of a weight. All statistics are the product's, with its 8 pairs of replays. Questions:
*all* shams, screened in a long log; *control*, five beside the end of backfill, which must be found; and these on the first *three days*, too
few for intervals over days, of more sites. ``--write`` writes the card and its rows, ``--card`` the card of the rows that are there.
"""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from benchmarks.common.card import Card, parser, study
from benchmarks.speed import slurm
from pipelines.ingest.slurm_jobs import SlurmJobs
from pipelines.workflows import what_if
from sim.campaigns.maps import serial
from sim.site_change import Candidate, Changed, change
from sim.site_replay import starts
from sim.slurm.files import read_site
from sim.slurm.site import Site
from sim.what_if import HERE, WEIGHED, shaken

SITES, SHORT_SITES, REPLICATES, SHAKE_S = 20, 40, 8, 60
DAYS = (6, 10, 14, 21, 28)
CONTROL = Candidate("no backfill", slurm={"SchedulerType": "sched/builtin"})
NOISE, IDLE, NEARLY = "noise", "idle", "nearly nothing"
SHAMS = {
    "renamed": IDLE,
    **{f"other phases {row}": NOISE for row in range(1, 5)},
    **{f"other phases and submissions {row}": NOISE for row in range(1, 5)},
}
MADE = (
    Candidate("a time limit that no job reaches", partitions={"*": {"MaxTime": "30-0"}}),
    Candidate("a QOS limit that no job reaches", qos={"normal": {"GrpTRES": "cpu=10000000"}}),
    Candidate("bf_interval=31", scheduler={"bf_interval": 31}),
    Candidate("PriorityWeightAge=1001", slurm={"PriorityWeightAge": 1001}),
)
QUESTIONS = {
    "all": [*MADE, *(Candidate(name) for name in SHAMS if name[-1] not in "34")],
    "control": [CONTROL, MADE[2], *(Candidate(name) for name in SHAMS if name[-1] in "34")],
}
SHORT = "three days"
QUESTIONS[SHORT] = QUESTIONS["control"]
KINDS = {**SHAMS, **dict(zip((each.name for each in MADE), (IDLE, IDLE, NEARLY, NEARLY), strict=True)), CONTROL.name: "control"}


def generated(seed: int) -> tuple[Site, pd.DataFrame]:
    """Return a site and its jobs, one of so many that fit a share of the nodes."""
    random = np.random.default_rng([seed, 0xA1A])
    share, days = int(random.integers(16, 41)), int(random.choice(DAYS))
    nodes, load, partitions = slurm.NODES // share, random.uniform(0.55, 0.75), int(random.integers(1, 4))
    conf = slurm.CONF.replace(f"n[001-{slurm.NODES}]", f"n[001-{nodes:03}]") + "AccountingStorageEnforce=limits\n"
    conf += f"PartitionName=short Nodes=n[001-{nodes // 3:03}] MaxTime=4:00:00 DefMemPerCPU=2000 PriorityJobFactor=10\n" * (
        partitions > 1
    )
    conf += f"PartitionName=urgent Nodes=n[{nodes // 2:03}-{nodes:03}] PriorityTier=5 DefMemPerCPU=2000\n" * (partitions > 2)
    site = read_site({"slurm.conf": conf, "qos.txt": "Name|Priority|GrpTRES\nnormal|0|cpu=1000000\n"}, f"site {seed}")
    table = slurm.jobs(days, seed, load)
    kept = random.random(int(table["group"].max()) + 1) < 1 / share
    table = table[kept[table["group"]]].reset_index(drop=True)
    cpus = table["cpus"].clip(upper=nodes * slurm.CPUS // 5)
    longer = load * days * slurm.DAY_S * site.procs / (table["runtime_s"] * cpus).sum()
    limit = (np.ceil(table["limit_s"] * longer / 1800).astype(np.int64) * 1800).clip(upper=7 * slurm.DAY_S)
    runtime = np.minimum((table["runtime_s"] * longer).astype(np.int64).clip(lower=1), limit)
    chosen = random.random(len(table))
    partition = np.where((partitions > 1) & (limit <= 4 * 3600) & (chosen < 0.5), "short", "batch").astype(object)
    partition[(chosen > 0.97) & (partitions > 2)] = "urgent"
    wide = np.where(partition == "batch", nodes, nodes // 3) * slurm.CPUS // 5
    cpus = np.minimum(cpus, wide)
    times = {"runtime_s": runtime, "limit_s": limit, "least_limit_s": limit, "start_s": table["submit_s"]}
    return site, table.assign(cpus=cpus, min_nodes=-(-cpus // slurm.CPUS), partition=partition, **times)


def sham_change(candidate: Candidate, site: Site, jobs: pd.DataFrame, seed: int = 0) -> Changed | None:
    """Return a sham, or what the product makes of any other candidate."""
    name, other = candidate.name, jobs.copy()
    if name not in SHAMS:
        return change(candidate, site, jobs, seed)
    if name == "renamed":
        parts = {f"{each}-new": replace(part, name=f"{each}-new") for each, part in site.partitions.items()}
        return Changed(replace(site, partitions=parts), jobs.assign(partition=jobs["partition"] + "-new"), (name,), frozenset())
    other.attrs = {"phases": 1000 * int(name[-1]), "moves": 1000 * int(name[-1]) * ("submissions" in name)}
    return Changed(site, other, (name,), frozenset())


def measured() -> pd.DataFrame:
    """Return a row for each site, question and candidate: its kind, verdict, and change of the mean wait with its interval."""
    with (
        patch.object(what_if, "change", sham_change),
        patch("sim.what_if.shaken", lambda jobs, by_s, seed: shaken(jobs, by_s, seed + jobs.attrs.get("moves", 0))),
        patch(
            "sim.what_if.starts",
            lambda site, jobs, seed, requests: starts(site, jobs, seed + jobs.attrs.get("phases", 0), requests),
        ),
    ):
        asked = [(seed, question) for seed in range(SHORT_SITES) for question in QUESTIONS if seed < SITES or question == SHORT]
        return pd.concat([answered(seed, question) for seed, question in asked], ignore_index=True)


def answered(seed: int, question: str) -> pd.DataFrame:
    """Return the rows of a site and a question."""
    site, table = generated(seed)
    days = round(np.ptp(table["submit_s"]) / slurm.DAY_S)
    of = table[table["submit_s"] < table["submit_s"].min() + 3 * slurm.DAY_S].reset_index(drop=True) if question == SHORT else table
    jobs = SlurmJobs(of, (), site.name)
    comparison = what_if.measure(site, jobs, QUESTIONS[question], REPLICATES, SHAKE_S, seed, serial, lambda done, of: None)
    about = {"site": seed, "nodes": len(site.nodes), "partitions": len(site.partitions), "jobs": len(table), "days": days}
    rows = pd.DataFrame([each for each in what_if.records(comparison) if each["metric"] == WEIGHED[0]])
    rows = rows.assign(**about, question=question, split=comparison.split, kind=rows["candidate"].map(KINDS))
    return rows[[*about, "question", "split", "candidate", "kind", "verdict", "change", "low", "high"]]


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each question: alarms among its sites, how far intervals of shams reach, and where the control was found.

    In brackets also those that are sure of these very jobs alone.
    """
    cells = []
    for name, part in rows.groupby("question", sort=False):
        judged, right = part[part["kind"].isin((NOISE, NEARLY)) & part["low"].notna()], part[part["kind"] == "control"]
        reach, worse = ((judged["high"] - judged["low"]) / 2).median(), (right["verdict"] == "worse").sum()
        here = right["verdict"].str.removesuffix(HERE) == "worse"
        controls = f"{worse} ({here.sum()})/{len(right)}" if len(right) else "–"
        cells.append([name, f"{alarms(part)} ({alarms(part, HERE)})/{part['site'].nunique()}", f"{reach:.1%}", controls])
    return pd.DataFrame(cells, columns=["question", "alarms (here)", "reach", "control found (here)"])


def alarms(rows: pd.DataFrame, more: str = "") -> int:
    """Count the sites in which a sham is surely better or worse; with ``more`` behind these words, too."""
    words = rows["verdict"].str.removesuffix(more)
    return int(rows[(rows["kind"] != "control") & words.isin(("better", "mixed", "worse"))]["site"].nunique())


def card(rows: pd.DataFrame, how: str) -> Card:
    """Return the card of the study."""
    sites, idle, days = (
        rows["site"].nunique(),
        rows[rows["kind"] == IDLE],
        rows[(rows["kind"] == "control") & (rows["question"] == "control")],
    )
    of_all = rows[rows["question"] != SHORT]
    rates = [binomtest(alarms(part), part["site"].nunique()).proportion_ci(0.95).high for part in (of_all, rows)]
    return Card(
        question="How often is whatif falsely sure?",
        answer=f"In {alarms(of_all)} of {of_all['site'].nunique()} generated sites (95 %: at most {rates[0]:.0%}); with three-day logs too, "
        f"in {alarms(rows)} of {sites} (at most {rates[1]:.0%}). "
        f"Of {len(idle)} renamed partitions and unreached limits, whatif calls {(idle['verdict'] == 'changes nothing here').sum()} idle.",
        table=table(rows),
        table_caption="Other shams: today's settings under other phases and submissions, one second of bf_interval, a thousandth of a weight; five "
        "beside a control, no backfill. (here): also if sure for these jobs alone. Reach: half the median interval:",
        fails=f"In 6 to 28 days one or two decide: intervals over days miss the control (median {days['change'].median():+.0%}) "
        f"in {(days['verdict'] != 'worse').sum()} of {len(days)} sites; whatif is sure for these jobs alone in "
        f"{(days['verdict'].str.removesuffix(HERE) == 'worse').sum()}. Over three days, intervals are over replays.",
        data=["what-if-alarms.csv"],
        made_by=how,
    )


def main() -> None:
    study(parser(__doc__).parse_args(), "studies.what_if_alarms", "what-if-alarms.csv", measured, card)


if __name__ == "__main__":
    main()
