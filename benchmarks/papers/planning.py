"""Replay contended intervals under PlanRS and OrigBF, after table 1 of Klusacek & Chlumsky (2017).

``python -m benchmarks.papers.planning`` prints the page docs/studies/planning.md, ``--write`` makes it, its pictures and the tables
beside it. Needs CERIT, KTH-SP2 and SDSC-SP2 under ``--shared``; ``--keep`` keeps what was simulated. ``--again`` simulates intervals
only for rows that docs/studies/data/planning.csv has not; ``--whole 0`` takes what the page says of whole traces as it stands there. The page
itself is in :mod:`benchmarks.papers.planning_page`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from benchmarks.common.pages import SHARED, STUDIES, kept
from features.clock import DAY_S
from features.jobs.cleaning import CleanTrace, clean
from features.jobs.schema import fingerprint
from features.jobs.shaking import SHAKE_S
from pipelines.ingest.machine_file import read_machine
from pipelines.ingest.read import read_trace
from pipelines.storage.atomic import replacing
from pipelines.storage.lake import Lake
from pipelines.workflows.planning import keep_planned, kept_planned, plan_trace
from sim.kernel.scratch import Scratch
from sim.machine.description import Machine
from sim.metrics.predictability import predictability
from sim.metrics.schedule_metrics import evaluate
from sim.metrics.user_fairness import fairness
from sim.policy import Policy
from sim.schedule import Schedule
from sim.simulate import simulate, simulate_policy

BASE, PLANNER = "OrigBF", "PlanRS"
PLAN, UNFAIR = "PlanRS(iterations=0)", "PlanRS(fairness=0)"
BESIDE = ("EASY", "Conservative", PLAN, UNFAIR, "PlanRS(preset=program)")
"""Other schedulers: which share is the plan's, the search's, its weight of fairness's, and what the released program does."""
RENEWED = "OrigBF(reservations=anew)"
"""The baseline whose reservations are made anew whenever the queues are ordered; the paper's are kept."""
READINGS = (
    RENEWED,
    *(f"OrigBF({option}{renewed})" for option in ("priority=long", "queues=one") for renewed in ("", ",reservations=anew")),
)
"""Other readings of the baseline, of which the paper says little."""
SORTS = ("EASY-SJBF", "SPF-EASY", "SPF-JustBF", "SAF-EASY")
"""Plain sorts of the queue by requested time, or by requested time times processors: what is gained without a search."""
SQUEEZE, REPLICATES, WHOLE_REPLICATES, FEW, SORTED = 7.0, 20, 2, 3, 5
"""At most ``SORTED`` replicates of plain sorts, and ``FEW`` of all others but the planner and its two baselines."""
INTERVAL_DAYS = 7
"""At least five days, says the paper."""
LEAST_JOBS = 50
LOOPS = ("open", "closed")
METRICS = (
    "mean_wait_s",
    "mean_bounded_slowdown",
    "longest_wait_s",
    "utilization",
    "carried_load",
    "nuwt_mean",
    "nuwt_sd",
    "complaints",
    "predicted_start_error_s",
)
_PUBLISHED = "plan_rs_published.csv"
PAGE, DATA = STUDIES / "planning.md", STUDIES / "data" / "planning.csv"


@dataclass(frozen=True)
class Source:
    """A trace with its machine, and the loads at which its intervals are taken, one after the other.

    ``published`` begins the names of the paper's intervals of that system; "" for none.
    """

    title: str
    file: str
    procs: int
    loads: tuple[float, ...]
    published: str = ""
    machine: str = ""

    def read(self, shared: Path) -> tuple[CleanTrace, Machine | None]:
        """Return the cleaned trace without jobs that no cluster could hold, and its machine."""
        trace = clean(read_trace(str(shared / "traces" / self.file), procs=self.procs))
        if not self.machine:
            return trace, None
        machine = read_machine(shared / "traces" / self.machine)
        possible = machine.could_hold(trace.jobs) != 0
        return replace(trace, jobs=trace.jobs[possible].reset_index(drop=True)), machine


CERIT = Source("CERIT", "CERIT-wagap-2013.swf.gz", 2176, (1.0, 3.0, 3.0, 3.0), "zewura", "CERIT-wagap-2013.machines")
KTH = Source("KTH-SP2", "KTH-SP2-filtered.swf.gz", 100, (1.0, 1.0), "kth-sp2")
SDSC = Source("SDSC-SP2", "SDSC-SP2-filtered.swf.gz", 128, (1.0, 1.0))
SOURCES = (CERIT, KTH, SDSC)
WHOLE = (CERIT, KTH)


@dataclass(frozen=True)
class Interval:
    """Jobs submitted in some days of a trace.

    They begin ``day`` days after its first submission; ``waiting`` is the mean number of waiting jobs under EASY, begun with an empty
    machine, in that time.
    """

    name: str
    trace: CleanTrace
    machine: Machine | None
    load: float
    day: int
    waiting: float


def intervals(source: Source, shared: Path, days: int = INTERVAL_DAYS) -> list[Interval]:
    """Return the contended intervals of ``source``: one a load, none overlapping another."""
    trace, machine = source.read(shared)
    submit = trace.jobs["submit_s"].to_numpy(np.int64)
    found: list[Interval] = []
    for load in source.loads:
        candidates = sorted(_contended(trace, machine, load, days), reverse=True)
        waiting, day = next(each for each in candidates if all(abs(each[1] - other.day) >= days for other in found))
        first, last = np.searchsorted(submit, submit[0] + np.array([day, day + days]) * DAY_S)
        part = replace(trace, jobs=trace.jobs.iloc[first:last].reset_index(drop=True))
        found.append(Interval(f"{source.title} {len(found) + 1}", part, machine, load, day, waiting))
    return found


def _contended(trace: CleanTrace, machine: Machine | None, load: float, days: int) -> Iterator[tuple[float, int]]:
    """Yield the mean number of waiting jobs of every interval that begins a whole number of days after the first."""
    submit, scratch = trace.jobs["submit_s"].to_numpy(np.int64), Scratch()
    for day in range(int((submit[-1] - submit[0]) // DAY_S) - days + 1):
        first, last = np.searchsorted(submit, submit[0] + np.array([day, day + days]) * DAY_S)
        if last - first >= LEAST_JOBS:
            jobs = trace.jobs.iloc[first:last].reset_index(drop=True)
            made = simulate(jobs, procs=trace.procs, machine=machine, load=load, scratch=scratch).jobs
            yield float((made["start_s"] - made["submit_s"]).sum() / (days * DAY_S / load)), day


def measured(interval: Interval, scheduler: str, seed: int) -> pd.DataFrame:
    """Simulate one replicate of an interval, squeezed and shaken; return its metrics in one row."""
    policy = Policy(scheduler, seed=seed, shake_s=SHAKE_S, load=interval.load, squeeze=SQUEEZE)
    made = simulate_policy(interval.trace.jobs, policy, procs=interval.trace.procs, machine=interval.machine, plans=True)
    row = {"interval": interval.name, "scheduler": scheduler, "seed": seed, "jobs": len(made.jobs)} | of_schedule(made)
    return pd.DataFrame([row])


def of_schedule(made: Schedule) -> dict[str, Any]:
    """Return the metrics that the paper speaks of."""
    wait = (made.jobs["start_s"] - made.jobs["submit_s"]).to_numpy(np.float64)
    metrics = evaluate(made)
    found = {name: wait.max() if name == "longest_wait_s" else metrics[name] for name in METRICS}
    found["nuwt_below_1"] = fairness(made)["nuwt_below_1"]
    found["started_by_first_plan"] = predictability(made).get("started_by_first_plan", np.nan)
    return {**found, "within_mean": float((wait <= wait.mean()).mean()), "seconds": made.simulate_s}


def table_1(
    shared: Path,
    replicates: int,
    keep: Path | None,
    workers: int,
    schedulers: Sequence[str] = (BASE, PLANNER, *BESIDE, *READINGS, *SORTS),
    known: pd.DataFrame | None = None,
) -> tuple[list[Interval], pd.DataFrame]:
    """Return the intervals, and a row for each of them, scheduler and seed; rows that are ``known`` are not simulated."""
    found = [each for source in SOURCES for each in intervals(source, shared)]
    most = dict.fromkeys((BASE, PLANNER, RENEWED), replicates) | dict.fromkeys(SORTS, SORTED)
    asked = [(each, name, seed) for name in schedulers for each in found for seed in range(min(replicates, most.get(name, FEW)))]
    rows: dict[Any, pd.DataFrame] = {} if known is None else dict(list(known.groupby(["interval", "scheduler", "seed"])))

    def row(point: tuple[Interval, str, int]) -> pd.DataFrame:
        each, name, seed = point
        if (each.name, name, seed) in rows:
            return rows[each.name, name, seed]
        make = partial(measured, each, name, seed)
        settings = (fingerprint(each.trace.jobs), each.trace.procs, repr(each.machine), each.load, name, seed)
        made = make() if keep is None else kept(keep, "papers.planning", settings, make)
        print(f"\r{each.name}, {name}, seed {seed}: {made['seconds'].iloc[0]:.1f} s\033[K", end="", file=sys.stderr, flush=True)
        return made

    with ThreadPoolExecutor(workers) as pool:
        return found, pd.concat(pool.map(row, asked), ignore_index=True)


def changes(table: pd.DataFrame, base: str = BASE, confidence: float = 0.95) -> pd.DataFrame:
    """Return the mean change to ``base`` by interval, scheduler and metric, over paired seeds.

    Columns ``interval scheduler metric base value change low high better seeds``: ``low`` and ``high`` are Student's interval of the
    mean of the seeds' changes, ``better`` counts seeds with a lower value.
    """
    rows = []
    for (interval, scheduler), part in table.groupby(["interval", "scheduler"], sort=False):
        against = table[(table["interval"] == interval) & (table["scheduler"] == base)].set_index("seed")
        mine = part.set_index("seed")
        for metric in METRICS:
            change = (mine[metric] / against[metric] - 1.0).dropna().to_numpy(np.float64)
            change = change[np.isfinite(change)]
            reach = np.nan
            if len(change) > 1:
                reach = float(stats.t.ppf(0.5 + confidence / 2, len(change) - 1) * change.std(ddof=1) / np.sqrt(len(change)))
            mean = float(change.mean()) if len(change) else np.nan
            found = {"base": against[metric].mean(), "value": mine[metric].mean(), "change": mean, "low": mean - reach}
            found |= {"high": mean + reach, "better": int((change < 0).sum()), "seeds": len(change)}
            rows.append({"interval": interval, "scheduler": scheduler, "metric": metric} | found)
    return pd.DataFrame(rows)


@dataclass(frozen=True)
class Whole:
    """Schedules of a whole trace, and each job's share of the machine's memory, float64 [jobs]; None where it is not scarce."""

    trace: CleanTrace
    schedules: list[Schedule]
    memory_share: np.ndarray | None


def _memory_share(trace: CleanTrace, machine: Machine | None) -> np.ndarray | None:
    if machine is None:
        return None
    total = sum(kind.count * (kind.memory_kib or 0) for cluster in machine.clusters for kind in cluster.nodes)
    return trace.jobs["memory_kib"].to_numpy(np.float64, na_value=np.nan) / total


def whole_traces(
    shared: Path, replicates: int, keep: Path, schedulers: Sequence[str] = (BASE, PLANNER, "EASY")
) -> dict[str, Whole]:
    """Return schedules of whole traces with open and closed users, by title; kept in a lake under ``keep``."""
    found = {}
    for source in WHOLE:
        trace, machine = source.read(shared)
        lake = Lake(keep / "whole" / f"{source.title}-{replicates}-{'-'.join(schedulers)}")
        if not lake.has("planned_schedules", trace.name):
            said = partial(_said, source.title)
            lake.write_clean(trace)
            keep_planned(lake, trace, plan_trace(trace, schedulers, LOOPS, replicates, said, machine))
        found[source.title] = Whole(trace, kept_planned(lake, trace), _memory_share(trace, machine))
    return found


def _said(title: str, done: int, total: int) -> None:
    print(f"\r{title}: {done} of {total} schedules\033[K", end="", file=sys.stderr, flush=True)


def published(shared: Path) -> pd.DataFrame:
    """Return table 1 of the paper: ``workload`` and the two relative changes in per cent."""
    return pd.read_csv(shared / "reference" / _PUBLISHED)


def main() -> None:
    """Simulate what is not kept, and print or write the page."""
    from benchmarks.papers.planning_page import page, page_again, pictures

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shared", type=Path, default=SHARED, help="where traces/ and reference/ are")
    parser.add_argument("--write", action="store_true", help="write the page, its pictures and its data")
    parser.add_argument("--again", action="store_true", help="simulate only rows of intervals that planning.csv has not")
    parser.add_argument("--replicates", type=int, default=REPLICATES, help="seeds of the intervals")
    parser.add_argument(
        "--whole", type=int, default=WHOLE_REPLICATES, help="seeds of whole traces; 0: what the page says of them stays"
    )
    parser.add_argument("--keep", type=Path, help="folder of what was simulated, which is used again")
    parser.add_argument("--workers", type=int, default=1, help="threads")
    options = parser.parse_args()
    known = pd.read_csv(DATA) if options.again else None
    found, table = table_1(options.shared, options.replicates, options.keep, options.workers, known=known)
    drawn: Mapping[str, bytes] = {}
    if options.whole == 0:
        text = page_again(found, table, PAGE.read_text(encoding="utf-8"), published(options.shared))
    else:
        with TemporaryDirectory() as folder:
            whole = whole_traces(options.shared, options.whole, options.keep or Path(folder))
        text, drawn = page(found, table, whole, published(options.shared)), pictures(whole) if options.write else {}
    if not options.write:
        print(text)
        return
    data = table.to_csv(index=False, float_format="%.6g").encode()
    files = {PAGE: text.encode(), DATA: data} | {STUDIES / name: image for name, image in drawn.items()}
    for path, content in files.items():
        with replacing(path) as unfinished:
            unfinished.write_bytes(content)


if __name__ == "__main__":
    main()
