"""Draw figures 1 to 8 of Klusacek & Chlumsky (2017) of whole traces.

``python -m benchmarks.papers.klusacek.whole_traces FOLDER`` simulates CERIT and KTH-SP2, which it needs under ``--shared``, and writes
the figures and a table of metrics into FOLDER. Schedulers that draw at random are simulated under several seeds. Users are open, and
submit when the trace says, or closed: they submit a batch of jobs when all jobs that it depends on have ended and their think time is
over (Zakay & Feitelson). NUWT of CERIT is also computed with memory: a job then uses the larger of its shares of processors and memory, as
in the released program, or their mean. Of figure 5 only searches are timed. Tables of such a run are in docs/studies/data/planning-whole.csv.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.common.pages import SHARED
from benchmarks.papers.klusacek import figures
from benchmarks.papers.klusacek.contended import BASE, CERIT, KTH, PLANNER, metrics_of
from features.jobs.cleaning import CleanTrace
from sim.machine.description import Machine
from sim.policy import Policy
from sim.replays import moved_by_seed
from sim.schedule import Schedule
from sim.simulation import simulate_policy

SCHEDULERS, LOOPS = (BASE, PLANNER, "EASY"), ("open", "closed")


def replicates(
    trace: CleanTrace, machine: Machine | None, seeds: int, schedulers: Sequence[str] = SCHEDULERS
) -> dict[str, list[Schedule]]:
    """Return the schedules of a whole trace by scheduler and users; those that draw at random have ``seeds``."""
    schedules: dict[str, list[Schedule]] = {}
    for loop in LOOPS:
        ends = "(ends=EASY)" if loop != LOOPS[0] and trace.jobs["wait_s"].isna().any() else ""
        for name in schedulers:
            label = name if loop == LOOPS[0] else f"{name}, {loop} users"
            for seed in range(seeds if moved_by_seed("requested", 0, [name]) else 1):
                policy = Policy(name, seed=seed, users=loop + ends)
                schedule = simulate_policy(
                    trace.jobs, policy, procs=trace.procs, clock=trace.clock, generated=trace.generated, machine=machine, plans=True
                )
                schedules.setdefault(label, []).append(schedule)
                print(f"{trace.name}: {label}, seed {seed}: {schedule.simulate_s:.1f} s", file=sys.stderr, flush=True)
    return schedules


def table(schedules: Mapping[str, Sequence[Schedule]], memory_share: np.ndarray | None = None) -> pd.DataFrame:
    """Return means over replicates of what the paper speaks of, a row a policy.

    ``memory_share`` is each job's share of the machine's memory, float64 [jobs].
    """
    rows = []
    for label, each in schedules.items():
        row = {"policy": label, **pd.DataFrame([metrics_of(one) for one in each]).mean()}
        if memory_share is not None:
            share = each[0].jobs["procs"] / each[0].procs
            memory = share.where(np.isnan(memory_share), memory_share)
            for reading, held in (("larger", np.maximum(share, memory)), ("mean", (share + memory) / 2)):
                row[f"nuwt_mean_{reading}"] = nuwt_mean(each[0], held)
        rows.append(row)
    return pd.DataFrame(rows)


def nuwt_mean(schedule: Schedule, held: pd.Series) -> float:
    """Return the mean NUWT over users whose jobs ``held`` such shares of the machine."""
    jobs = schedule.jobs
    each = pd.DataFrame({"wait": jobs["start_s"] - jobs["submit_s"], "used": held * schedule.procs * jobs["runtime_s"]})
    users = each.groupby(jobs["user"], observed=True).sum()
    return float((users["wait"] / users["used"]).mean())


def main() -> None:
    """Simulate both traces, and write table and figures of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where table and figures go")
    parser.add_argument("--shared", type=Path, default=SHARED, help="where traces/ is")
    parser.add_argument("--seeds", type=int, default=2, help="of schedulers that draw at random")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for source in (CERIT, KTH):
        trace, machine = source.read(options.shared)
        share = None
        if machine is not None:
            total = sum(kind.count * (kind.memory_kib or 0) for cluster in machine.clusters for kind in cluster.nodes)
            share = trace.jobs["memory_kib"].to_numpy(np.float64, na_value=np.nan) / total
        schedules = replicates(trace, machine, options.seeds)
        table(schedules, share).to_csv(options.folder / f"{source.title}.csv", index=False)
        for name, image in figures.drawn(schedules).items():
            (options.folder / f"{source.title}-{name}.png").write_bytes(image)


if __name__ == "__main__":
    main()
