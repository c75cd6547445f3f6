"""What predictions do to the schedule: schedulers x predictors x corrections on every trace with requests and users, by halves.

``python -m benchmarks.schedules`` prints the page; ``--write`` makes docs/schedules.md and its picture of it, ``--out FILE.parquet`` (or .csv) keeps every
number. Each simulation is kept under ``--keep`` when it is finished, so that an interrupted run goes on where it was; what is kept is used only with
the same code and the same jobs. ``--predictor``, ``--scheduler`` and ``--correction`` ask for other combinations. Needs the traces under ``--shared``.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.pages import HOUSE, SHARED, code, made_by
from features.cleaning import CleanTrace, clean
from features.errors import InputError
from pipelines.ingest.swf import read_swf
from sim import evaluate, simulate
from sim.frontier import Policy, Sums, change, halves, part, weekly
from sim.metrics import Ratio
from sim.scratch import Scratch

TRACES: dict[str, tuple[str, int | None]] = {
    "KTH-SP2": ("KTH-SP2-filtered.swf.gz", None),
    "SDSC-SP2": ("SDSC-SP2-filtered.swf.gz", 128),
    "LANL-CM5": ("LANL-CM5-1994-4.1-cln.swf.gz", None),
    "CERIT": ("CERIT-wagap-2013.swf.gz", 1600 + 576),
    "ALCF-Theta": ("ALCF-Theta-2022-chunks.swf.gz", 4360),
}
"""File and processors of the traces that have requests, users, and jobs that wait."""
SCHEDULERS = ("EASY", "EASY-SJBF", "JustBF", "SAF-JustBF", "LAF-JustBF")
AGEING = (
    *("EASY-WFP1", "EASY-WFP3", "EASY-UNICEF"),
    *("EASY(reservations=2)-SJBF", "EASY(reservations=2)-WFP3", "EASY(reservations=4)-SJBF", "EASY(reservations=4)-WFP3"),
)
"""More to choose from: backfill orders in which waiting counts, and more than one reservation."""
LEARNED = ("last2", "hierarchy", "sp2", "sp3", "sp4", "knn", "okcm", "nag", "cv-triple")
NIGHTLY = {"lightgbm": ("tsafrir",), "svr": ("tsafrir",), "quantile": ("conditional", "conditional(when=pass)")}
"""Predictors that are retrained every night inside the simulation, with their corrections: they take seconds to minutes, not milliseconds. On ``STUDIED``
``quantile`` is simulated with ``SCHEDULERS``, the others with the first two of these; elsewhere only ``quantile`` with those two."""
STUDIED = ("KTH-SP2", "SDSC-SP2")
CORRECTIONS = ("requested", "tsafrir", "doubling", "conditional")
NEVER_OUTLIVED = ("requested", "requested*2", "clairvoyant")
"""Predictors that no job outlives: there is nothing to correct."""
DOUBLED = ("EASY", "EASY-SJBF")
"""Twice the request has been proposed for these."""
METRICS = ("mean_bounded_slowdown", "awf_s", "p2sf_s", "mean_wait_s", "underprediction_rate")
PARTS = ("first half", "second half", "whole")
BASE = Policy("EASY", "requested")


@dataclass(frozen=True)
class Results:
    """Weekly sums of every policy on one trace, by part; ``seconds`` of each simulation, ``jobs`` of each part."""

    title: str
    trace: CleanTrace
    sums: dict[str, dict[Policy, Sums]]
    seconds: dict[Policy, float]

    def candidates(self, schedulers: Sequence[str]) -> list[Policy]:
        """What a site could run: all policies with these schedulers but the clairvoyant ones."""
        known = [policy for policy in self.sums["whole"] if not policy.predictor.startswith("clairvoyant")]
        return [policy for policy in known if policy.scheduler in schedulers]

    def schedulers(self, ageing: bool) -> list[str]:
        """Those of :data:`AGEING` or those that are not, in the order in which they were asked for."""
        known = dict.fromkeys(policy.scheduler for policy in self.sums["whole"])
        return [scheduler for scheduler in known if (scheduler in AGEING) == ageing]


def policies(schedulers: Sequence[str], learned: Sequence[str], corrections: Sequence[str]) -> list[Policy]:
    """Every combination worth simulating, plain EASY and the baselines of each scheduler first; a correction is varied where there is one."""
    asked = [BASE, Policy("EASY", "clairvoyant"), Policy("EASY-SJBF", "clairvoyant")]
    for scheduler in schedulers:
        asked += [Policy(scheduler, "requested"), Policy(scheduler, "clairvoyant")]
        asked += [Policy(scheduler, "requested*2")] if scheduler in DOUBLED else []
        asked += [Policy(scheduler, *each) for each in product(learned, corrections) if each[0] not in NEVER_OUTLIVED]
    return list(dict.fromkeys(asked))


def nightly(title: str) -> list[Policy]:
    """The policies with predictors that are retrained every night, on the trace ``title``."""
    if title not in STUDIED:
        return [Policy(scheduler, "quantile", NIGHTLY["quantile"][-1]) for scheduler in SCHEDULERS[:2]]
    wide = [Policy(scheduler, "quantile", each) for scheduler in SCHEDULERS for each in NIGHTLY["quantile"]]
    return wide + [Policy(scheduler, name, *NIGHTLY[name]) for scheduler in SCHEDULERS[:2] for name in ("lightgbm", "svr")]


def load(title: str, shared: Path, quick: bool = False) -> CleanTrace:
    """One cleaned trace; the first 5,000 jobs of it if ``quick``."""
    file, procs = TRACES[title]
    trace = clean(read_swf(shared / "traces" / file), procs)
    return trace if not quick else CleanTrace(**{**vars(trace), "jobs": trace.jobs.iloc[:5000]})


_memory = threading.local()


def simulated(trace: CleanTrace, policy: Policy) -> tuple[dict[str, dict[str, Ratio]], float]:
    """Weekly sums by part, of the whole trace simulated once, and the simulation's seconds."""
    if not hasattr(_memory, "scratch"):
        _memory.scratch = Scratch()
    schedule = simulate(
        trace.jobs, procs=trace.procs, trace=trace.name, scratch=_memory.scratch, clock=trace.clock, **policy._asdict()
    )
    first, second = halves(len(trace.jobs))
    parts = (part(schedule, first), part(schedule, second), schedule)
    return {name: weekly(each) for name, each in zip(PARTS, parts, strict=True)}, schedule.simulate_s


def kept(trace: CleanTrace, policy: Policy, folder: Path, jobs: str) -> tuple[dict[str, dict[str, Ratio]], float]:
    """:func:`simulated`, from ``folder`` if it was done before with the same code on the same ``jobs`` (their hash), else done and put there."""
    identity = "\n".join((code(), jobs, *policy))
    path = folder / f"{hashlib.sha256(identity.encode()).hexdigest()[:32]}.npz"
    if path.exists():
        with np.load(path) as held:
            sums: dict[str, dict[str, Ratio]] = {name: {} for name in PARTS}
            for key in held.files:
                if key != "seconds":
                    name, metric = key.split("/")
                    sums[name][metric] = Ratio(*held[key])
            return sums, float(held["seconds"])
    sums, seconds = simulated(trace, policy)
    arrays: dict[str, Any] = {f"{name}/{metric}": np.stack(ratio) for name, each in sums.items() for metric, ratio in each.items()}
    unfinished = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}.part")
    with open(unfinished, "wb") as file:
        np.savez(file, seconds=np.array(seconds), **arrays)
    os.replace(unfinished, path)
    return sums, seconds


def jobs_hash(trace: CleanTrace) -> str:
    """A hash of the machine and its jobs."""
    rows = pd.util.hash_pandas_object(trace.jobs, index=False).to_numpy()
    return hashlib.sha256(f"{trace.procs}\n".encode() + rows.tobytes()).hexdigest()


def run(
    title: str,
    trace: CleanTrace,
    asked: Iterable[Policy],
    folder: Path | None = None,
    workers: int | None = None,
    quiet: bool = False,
) -> Results:
    """Simulate ``asked`` on ``trace`` in ``workers`` threads, by default one a core; progress goes to standard error. An InputError names its policy."""
    asked = list(asked)
    make = partial(simulated, trace)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        make = partial(kept, trace, folder=folder, jobs=jobs_hash(trace))
    made: dict[Policy, tuple[dict[str, dict[str, Ratio]], float]] = {}
    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        waiting = {pool.submit(make, policy): policy for policy in asked}
        try:
            for count, future in enumerate(as_completed(waiting), 1):
                policy = waiting[future]
                try:
                    made[policy] = future.result()
                except InputError as error:
                    raise InputError(f"{title}, {policy}: {error}") from error
                if not quiet:
                    print(f"\r{title}: {count} of {len(asked)}, {policy}\033[K", end="", file=sys.stderr, flush=True)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    if not quiet:
        print(file=sys.stderr)
    sums: dict[str, dict[Policy, Sums]] = {name: {policy: made[policy][0][name] for policy in asked} for name in PARTS}
    return Results(title, trace, sums, {policy: made[policy][1] for policy in asked})


def best_corrections(results: Results) -> list[Policy]:
    """For each scheduler and predictor the correction with the least mean bounded slowdown on the first half, the first of equals."""
    values = {policy: sums["mean_bounded_slowdown"].value() for policy, sums in results.sums["first half"].items()}
    best: dict[tuple[str, str], Policy] = {}
    for policy in values:
        held = best.get(policy[:2])
        if held is None or values[policy] < values[held]:
            best[policy[:2]] = policy
    return list(best.values())


def tidy(results: Results) -> pd.DataFrame:
    """Every number: a row for each part, policy, metric and baseline, ``against`` plain EASY with requested times, or the same scheduler's
    requested or exact times; ``relative low high`` are changes, null where the baseline is 0 (``low`` and ``high`` also below 5 weeks)."""
    chosen = set(best_corrections(results))
    rows = []
    for name in PARTS:
        sums = results.sums[name]
        for policy, metric in product(sums, METRICS):
            references = {
                "EASY / requested": BASE,
                "same scheduler / requested": Policy(policy.scheduler, "requested"),
                "same scheduler / clairvoyant": Policy(policy.scheduler, "clairvoyant"),
            }
            for against, reference in references.items():
                row = {"trace": results.trace.name, "part": name, **policy._asdict(), "best_correction": policy in chosen}
                rows.append(row | {"metric": metric, "against": against} | change(sums[policy], sums[reference], metric)._asdict())
    return pd.DataFrame(rows).astype(dict.fromkeys(("value", "baseline", "relative", "low", "high"), "float64"))


def save(table: pd.DataFrame, path: Path) -> None:
    """One file, .csv or Parquet, written atomically."""
    unfinished = path.with_name(f".{path.name}.part")
    if path.suffix == ".csv":
        table.to_csv(unfinished, index=False)
    else:
        table.to_parquet(unfinished, index=False)
    os.replace(unfinished, path)


def nobody_waits(shared: Path) -> str:
    """Why LLNL-Atlas is left out, in numbers."""
    read = read_swf(shared / "traces" / "LLNL-Atlas-2006-2.1-cln.swf.gz")
    said = []
    for missing in ("drop", "queue-max"):
        trace = clean(read, missing_request=missing)
        record = evaluate(simulate(trace.jobs, procs=trace.procs))
        said.append(f"{record['mean_wait_s']:.1f} s on average over {len(trace.jobs):,} jobs")
    return f"hardly anybody waits there with EASY and requested times, {said[0]}, or {said[1]} if those without a request get the longest"


def main(argv: Sequence[str] | None = None, say: Callable[[str], None] = print) -> None:
    from benchmarks.schedules_page import draw, frontiers, page

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--shared", type=Path, default=SHARED, help="where traces/ is")
    parser.add_argument("--trace", action="append", choices=TRACES, help="only this one; may be given again")
    parser.add_argument("--scheduler", action="append", help=f"instead of {' '.join(SCHEDULERS + AGEING)}")
    parser.add_argument("--predictor", action="append", help=f"instead of {' '.join(LEARNED)}")
    parser.add_argument("--correction", action="append", help=f"instead of {' '.join(CORRECTIONS)}")
    parser.add_argument("--keep", type=Path, default=HOUSE / ".queuecast" / "schedules", help="where finished simulations are kept")
    parser.add_argument("--workers", type=int, help="threads, by default one a core")
    parser.add_argument("--out", type=Path, help="every number as one table, .parquet or .csv")
    parser.add_argument(
        "--frontier", action="store_true", help="print only what is chosen on the first half, and what it gives on the second"
    )
    parser.add_argument("--write", action="store_true", help="write docs/schedules.md and .png")
    parser.add_argument("--quick", action="store_true", help="5,000 jobs of KTH-SP2, two schedulers, two predictors: does it run?")
    options = parser.parse_args(argv)
    if options.quick:
        options.trace, options.scheduler, options.predictor = ["KTH-SP2"], ["EASY", "EASY-SJBF"], ["last2", "sp2"]
    asked = policies(options.scheduler or SCHEDULERS + AGEING, options.predictor or LEARNED, options.correction or CORRECTIONS)
    made = []
    for title in options.trace or TRACES:
        trace = load(title, options.shared, options.quick)
        more = [] if options.predictor or options.correction or options.quick else nightly(title)
        made.append(run(title, trace, [*asked, *(each for each in more if each not in asked)], options.keep, options.workers))
    if options.out:
        save(pd.concat([tidy(each) for each in made], ignore_index=True), options.out)
    if options.frontier:
        say("\n".join(line for each in made for line in [f"## {each.title}", "", *frontiers(each)]))
        return
    text = page(made, nobody_waits(options.shared), made_by("schedules", argv))
    if not options.write:
        say(text)
        return
    (HOUSE / "docs" / "schedules.md").write_text(text, encoding="utf-8")
    draw(made, HOUSE / "docs" / "schedules.png")


if __name__ == "__main__":
    main()
