"""Replay contended intervals under PlanRS and OrigBF, after table 1 of Klusacek & Chlumsky (2017).

They plan every waiting job, move random jobs of the plan once a minute, and keep moves that improve waits, slowdowns and fairness
between users (``PlanRS``). Their baseline is the backfilling that they had before (``OrigBF``: queues by requested time, in each the user
with the least usage first, a reservation for each job). They publish changes of mean wait and mean bounded slowdown on eight
contended intervals, which they do not state, so these are ours: of each trace the 7 days in which most jobs wait under EASY, begun
with an empty machine, none overlapping another. All times are divided by 7, requests are what users stated. HPC2N, and the paper's
trace of January to April 2015, are not to be had: SDSC-SP2 stands in for HPC2N. CERIT is December 2012 to March 2013 on its two
clusters, with memory, properties and whole nodes. It hardly waits at its recorded load, as limits that are not in the file held its jobs
back: in three intervals times between submissions are divided by 3, which is a study of contention.

``PlanRS`` and both baselines have 20 replicates each, other schedulers fewer: seed i moves every submission by up to 60 s, the same
for all schedulers, and draws the search's moves. A change is the mean over pairs of replicates with Student's 95 % interval; replicates are
of the same week, so an interval holds what chance moves within it and says nothing of other weeks. The paper says little of its
baseline: here a reservation is kept when the queues are ordered, and ``reservations=anew`` makes all of them anew at each pass.

``python -m benchmarks.papers.klusacek.contended`` prints changes, ``--write`` writes docs/studies/data/planning.csv, the card and its picture;
``--card`` makes card and picture of the data as they lie there. Needs CERIT,
KTH-SP2 and SDSC-SP2 under ``--shared``. ``--keep`` keeps rows that were simulated; ``--again`` simulates only rows that the data have not.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.ticker import PercentFormatter
from scipy.special import stdtrit

from benchmarks.common.card import Card, parser, study
from benchmarks.common.pages import STUDIES, kept
from features.clock import DAY_S
from features.jobs.cleaning import CleanTrace, clean
from features.jobs.schema import fingerprint
from features.limits import SHAKE_S
from pipelines.readers.machine_file import read_machine
from pipelines.readers.read import read_trace
from pipelines.report.page import INK, MUTED, encode, figure
from sim.kernel.scratch import Scratch
from sim.machine.description import Machine
from sim.metrics.schedule_metrics import evaluate
from sim.policy import Policy
from sim.schedule import Schedule
from sim.simulation import simulate, simulate_policy

BASE, PLANNER = "OrigBF", "PlanRS"
PLAN, UNFAIR = "PlanRS(iterations=0)", "PlanRS(fairness=0)"
BESIDE = ("EASY", "Conservative", PLAN, UNFAIR)
"""Other schedulers: which share is the plan's, the search's, and its weight of fairness's."""
RENEWED = "OrigBF(reservations=anew)"
"""The baseline whose reservations are made anew whenever the queues are ordered; the paper's are kept."""
SAF = "SAF-EASY"
SORTS = ("EASY-SJBF", "SPF-EASY", "SPF-JustBF", SAF)
"""Plain sorts of the queue by requested time, or by requested time times processors: what is gained without a search."""
SQUEEZE, REPLICATES, FEW, SORTED = 7.0, 20, 3, 5
"""At most ``SORTED`` replicates of plain sorts, and ``FEW`` of all others but the planner and its two baselines."""
INTERVAL_DAYS = 7
"""At least five days, says the paper."""
LEAST_JOBS = 50
METRICS = (
    "mean_wait_s",
    "mean_bounded_slowdown",
    "longest_wait_s",
    "utilization",
    "carried_load",
    "nuwt_mean",
    "nuwt_sd",
)
DATA = STUDIES / "data" / "planning.csv"


@dataclass(frozen=True)
class Source:
    """A trace with its machine, and the loads at which its intervals are taken, one after the other."""

    title: str
    file: str
    procs: int
    loads: tuple[float, ...]
    machine: str = ""

    def read(self, shared: Path) -> tuple[CleanTrace, Machine | None]:
        """Return the cleaned trace without jobs that no cluster could hold, and its machine."""
        trace = clean(read_trace(str(shared / "traces" / self.file), procs=self.procs))
        if not self.machine:
            return trace, None
        machine = read_machine(shared / "traces" / self.machine)
        possible = machine.could_hold(trace.jobs) != 0
        return replace(trace, jobs=trace.jobs[possible].reset_index(drop=True)), machine


CERIT = Source("CERIT", "CERIT-wagap-2013.swf.gz", 2176, (1.0, 3.0, 3.0, 3.0), "CERIT-wagap-2013.machines")
KTH = Source("KTH-SP2", "KTH-SP2-filtered.swf.gz", 100, (1.0, 1.0))
SDSC = Source("SDSC-SP2", "SDSC-SP2-filtered.swf.gz", 128, (1.0, 1.0))
SOURCES = (CERIT, KTH, SDSC)


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
    chosen: list[Interval] = []
    for load in source.loads:
        candidates = sorted(_contended(trace, machine, load, days), reverse=True)
        waiting, day = next(each for each in candidates if all(abs(each[1] - other.day) >= days for other in chosen))
        first, last = np.searchsorted(submit, submit[0] + np.array([day, day + days]) * DAY_S)
        part = replace(trace, jobs=trace.jobs.iloc[first:last].reset_index(drop=True))
        chosen.append(Interval(f"{source.title} {len(chosen) + 1}", part, machine, load, day, waiting))
    return chosen


def _contended(trace: CleanTrace, machine: Machine | None, load: float, days: int) -> Iterator[tuple[float, int]]:
    """Yield the mean number of waiting jobs of every interval that begins a whole number of days after the first."""
    submit, scratch = trace.jobs["submit_s"].to_numpy(np.int64), Scratch()
    for day in range(int((submit[-1] - submit[0]) // DAY_S) - days + 1):
        first, last = np.searchsorted(submit, submit[0] + np.array([day, day + days]) * DAY_S)
        if last - first >= LEAST_JOBS:
            jobs = trace.jobs.iloc[first:last].reset_index(drop=True)
            alone = simulate(jobs, procs=trace.procs, machine=machine, load=load, scratch=scratch).jobs
            yield float((alone["start_s"] - alone["submit_s"]).sum() / (days * DAY_S / load)), day


def measured(interval: Interval, scheduler: str, seed: int) -> pd.DataFrame:
    """Simulate one replicate of an interval, squeezed and shaken; return its metrics in one row."""
    policy = Policy(scheduler, seed=seed, shake_s=SHAKE_S, load=interval.load, squeeze=SQUEEZE)
    schedule = simulate_policy(interval.trace.jobs, policy, procs=interval.trace.procs, machine=interval.machine)
    row = {"interval": interval.name, "scheduler": scheduler, "seed": seed, "jobs": len(schedule.jobs)} | metrics_of(schedule)
    return pd.DataFrame([row])


def metrics_of(schedule: Schedule) -> dict[str, Any]:
    """Return the metrics that the paper speaks of."""
    wait = (schedule.jobs["start_s"] - schedule.jobs["submit_s"]).to_numpy(np.float64)
    metrics = evaluate(schedule)
    row = {name: wait.max() if name == "longest_wait_s" else metrics[name] for name in METRICS}
    work = schedule.jobs["procs"] * schedule.jobs["runtime_s"]
    waited, used = (values.groupby(schedule.jobs["user"], observed=True).sum() for values in (pd.Series(wait), work))
    row["nuwt_below_1"] = float((waited < used).mean())
    return {**row, "within_mean": float((wait <= wait.mean()).mean()), "seconds": schedule.simulate_s}


def table_1(
    shared: Path,
    replicates: int,
    keep: Path | None,
    workers: int,
    schedulers: Sequence[str] = (BASE, PLANNER, *BESIDE, RENEWED, *SORTS),
    earlier: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Return a row for each interval, scheduler and seed; rows of ``earlier`` are not simulated."""
    taken = [each for source in SOURCES for each in intervals(source, shared)]
    most = dict.fromkeys((BASE, PLANNER, RENEWED), replicates) | dict.fromkeys(SORTS, SORTED)
    asked = [(each, name, seed) for name in schedulers for each in taken for seed in range(min(replicates, most.get(name, FEW)))]
    rows: dict[Any, pd.DataFrame] = {} if earlier is None else dict(list(earlier.groupby(["interval", "scheduler", "seed"])))

    def row(point: tuple[Interval, str, int]) -> pd.DataFrame:
        each, name, seed = point
        if (each.name, name, seed) in rows:
            return rows[each.name, name, seed]
        make = partial(measured, each, name, seed)
        settings = (fingerprint(each.trace.jobs), each.trace.procs, repr(each.machine), each.load, name, seed)
        measures = make() if keep is None else kept(keep, "papers.klusacek.contended", settings, make)
        print(f"\r{each.name}, {name}, seed {seed}: {measures['seconds'].iloc[0]:.1f} s\033[K", end="", file=sys.stderr, flush=True)
        return measures

    with ThreadPoolExecutor(workers) as pool:
        return pd.concat(pool.map(row, asked), ignore_index=True)


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
                reach = float(stdtrit(len(change) - 1, 0.5 + confidence / 2) * change.std(ddof=1) / np.sqrt(len(change)))
            mean = float(change.mean()) if len(change) else np.nan
            row = {"base": against[metric].mean(), "value": mine[metric].mean(), "change": mean, "low": mean - reach}
            row |= {"high": mean + reach, "better": int((change < 0).sum()), "seeds": len(change)}
            rows.append({"interval": interval, "scheduler": scheduler, "metric": metric} | row)
    return pd.DataFrame(rows)


def card(table: pd.DataFrame, provenance: str) -> Card:
    """Return the card of the rows of :func:`table_1`; its answer counts the cells of its table."""
    against = {BASE: changes(table), "anew": changes(table, RENEWED), SAF: changes(table[table["seed"] < SORTED], SAF)}
    shown = pd.DataFrame(
        {
            "interval": table["interval"].unique(),
            **{f"{words}, {base}": _cells(against[base], metric) for base, metric, words in _COLUMNS},
        }
    )
    count = {name: _counts(shown[name]) for name in shown.columns[1:]}
    return Card(
        question="Does planning with random search beat conservative backfilling?",
        answer=f"Sure changes under `{PLANNER}` in {len(shown)} contended weeks: against `{BASE}`, which keeps reservations like the paper's baseline, "
        f"mean wait is {count[f'wait, {BASE}']}, bounded slowdown {count[f'slowdown, {BASE}']}, longest wait {count[f'longest, {BASE}']}. Against "
        f"`{RENEWED}`, mean wait is {count['wait, anew']}, slowdown {count['slowdown, anew']}; against a plain sort (`{SAF}`), mean wait is "
        f"{count[f'wait, {SAF}']}.",
        table=shown,
        table_caption=f"Mean changes under `{PLANNER}`: over {REPLICATES} replicates against `{BASE}`, and with `reservations=anew`; over {SORTED} against "
        f"`{SAF}`. Bold: the 95 % interval excludes 0. The paper: wait -7 to -81 %, slowdown -33 to -90 %.",
        fails="The baseline decides, and the paper says little about it. At CERIT's recorded load jobs hardly wait, so CERIT 2 to 4 have triple load. "
        "Replicates are of the same weeks, chosen for contention. planning-whole.csv has whole traces, NUWT of users, complaints and each claim of "
        "the paper. Utilization rises only with closed users; large jobs pay (AWF, P2SF rise; not in the data). Rows of plain sorts and "
        "`reservations=anew` are from commit d0e2cf6a30; their longest waits have five replicates.",
        data=["planning.csv", "planning-whole.csv"],
        made_by=provenance,
        picture="planning.png",
        picture_caption=f"Change of the mean wait under {PLANNER}, with 95 % intervals over replicates.",
    )


_COLUMNS = (
    (BASE, "mean_wait_s", "wait"),
    (BASE, "mean_bounded_slowdown", "slowdown"),
    (BASE, "longest_wait_s", "longest"),
    ("anew", "mean_wait_s", "wait"),
    ("anew", "mean_bounded_slowdown", "slowdown"),
    (SAF, "mean_wait_s", "wait"),
)
"""Columns of the card: what the planner is compared with, and in what."""


def _cells(changed: pd.DataFrame, metric: str) -> list[str]:
    """Return the planner's change in each interval, bold where it is beyond doubt."""
    mine = changed[(changed["scheduler"] == PLANNER) & (changed["metric"] == metric)]
    texts = [f"{change:+.0%}" for change in mine["change"]]
    sure = (mine["high"] < 0) | (mine["low"] > 0)
    return [f"**{text}**" if beyond else text for text, beyond in zip(texts, sure, strict=True)]


def _counts(cells: Sequence[str]) -> str:
    """Say in how many cells the change is lower and higher beyond doubt."""
    return " and ".join(
        f"{word} in {sum(cell.startswith(f'**{sign}') for cell in cells)}" for word, sign in (("lower", "-"), ("higher", "+"))
    )


def draw(table: pd.DataFrame) -> bytes:
    """Draw the change of the mean wait by interval, against both baselines."""
    with figure(9.0, 3.2, generated=False) as drawing:
        panel = drawing.subplots()
        for place, (base, colour) in enumerate(((BASE, INK), (RENEWED, "#0072b2"))):
            changed = changes(table, base)
            mine = changed[(changed["scheduler"] == PLANNER) & (changed["metric"] == "mean_wait_s")]
            reach = np.abs(mine[["low", "high"]].to_numpy().T - mine["change"].to_numpy())
            x = np.arange(len(mine)) + 0.16 * (2 * place - 1)
            panel.errorbar(x, mine["change"], reach, fmt="o", color=colour, capsize=3, label=f"against {base}")
        panel.axhline(0.0, color=MUTED, linewidth=0.8)
        panel.set_xticks(range(len(mine)), mine["interval"])
        panel.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
        panel.set_title("change of the mean wait")
        panel.legend()
        return encode(drawing, "png")


def main(argv: Sequence[str] | None = None) -> None:
    """Simulate what is missing; print the changes, or write data, card and picture."""
    arguments = parser(__doc__)
    arguments.add_argument("--again", action="store_true", help="simulate only rows that planning.csv has not")
    arguments.add_argument("--replicates", type=int, default=REPLICATES, help="seeds of the planner and its baselines")
    arguments.add_argument("--keep", type=Path, help="folder of rows that were simulated, which are used again")
    arguments.add_argument("--workers", type=int, default=1, help="threads")
    options = arguments.parse_args(argv)

    def compute() -> pd.DataFrame:
        earlier = pd.read_csv(DATA) if options.again else None
        return table_1(options.shared, options.replicates, options.keep, options.workers, earlier=earlier)

    if options.write or options.card:
        study(options, "papers.klusacek.contended", DATA.name, compute, card, draw)
        return
    table = compute()
    print(pd.concat([changes(table), changes(table, RENEWED)]).to_string())


if __name__ == "__main__":
    main()
