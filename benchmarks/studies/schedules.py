"""Measure what predictions do to the schedule, on every trace with requests and users.

``python -m benchmarks.studies.schedules`` prints the page; ``--write`` makes docs/studies/schedules.md, its
picture and its data, ``--out FILE.parquet`` (or .csv) keeps every number elsewhere: schedulers x predictors x corrections, by halves. Each
simulation is kept under ``--keep`` when it is finished, so that an interrupted run goes on where it was; what is
kept is used only with the same code and the same jobs. ``--predictor``, ``--scheduler`` and ``--correction`` ask
for other combinations. Needs the traces under ``--shared``.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pandas as pd

from benchmarks.common.pages import HOUSE, SHARED, STUDIES, made_by
from benchmarks.common.replays import PARTS, REPLAYS, all_replayed
from benchmarks.common.tables import write_page
from features.jobs.cleaning import CleanTrace, clean
from pipelines.ingest.swf import read_swf
from sim import evaluate, simulate
from sim.campaigns.policy_frontier import Sums, change
from sim.policy import Policy

TRACES: dict[str, tuple[str, int | None]] = {
    "KTH-SP2": ("KTH-SP2-filtered.swf.gz", None),
    "SDSC-SP2": ("SDSC-SP2-filtered.swf.gz", 128),
    "LANL-CM5": ("LANL-CM5-1994-4.1-cln.swf.gz", None),
    "CERIT": ("CERIT-wagap-2013.swf.gz", 1600 + 576),
    "ALCF-Theta": ("ALCF-Theta-2022-chunks.swf.gz", 4360),
}
"""File and processors of the traces that have requests, users, and jobs that wait."""
SCHEDULERS = ("EASY", "EASY-SJBF", "JustBF")
AGEING = ("EASY-WFP3",)
"""More to choose from: a backfill order in which waiting counts."""
LEARNED = ("last2", "hierarchy", "sp3", "knn", "okcm", "nag")
NIGHTLY = ("lightgbm", "quantile")
"""Predictors that are retrained every night inside the simulation: they take seconds, not milliseconds. On ``STUDIED``, with the first two schedulers."""
STUDIED = ("KTH-SP2",)
CORRECTIONS = ("tsafrir", "conditional(when=pass)")
"""The same for every predictor, or there would be no comparison."""
NEVER_OUTLIVED = ("requested", "requested*2", "clairvoyant")
"""Predictors that no job outlives: there is nothing to correct."""
DOUBLED = ("EASY", "EASY-SJBF")
"""Twice the request has been proposed for these."""
METRICS = ("mean_bounded_slowdown", "awf_s", "p2sf_s", "mean_wait_s", "underprediction_rate")
BASE = Policy("EASY", "requested")


@dataclass(frozen=True)
class Results:
    """Weekly sums of every policy on one trace, by part.

    ``seconds`` of each simulation, ``jobs`` of each part.
    """

    title: str
    trace: CleanTrace
    sums: Mapping[str, Mapping[Policy, Sums]]
    seconds: Mapping[Policy, float]

    def candidates(self, schedulers: Sequence[str]) -> list[Policy]:
        """What a site could run: all policies with these schedulers but the clairvoyant ones."""
        known = [policy for policy in self.sums["whole"] if not policy.predictor.startswith("clairvoyant")]
        return [policy for policy in known if policy.scheduler in schedulers]

    def schedulers(self, ageing: bool) -> list[str]:
        """Return those of :data:`AGEING` or those that are not, as they were asked for."""
        known = dict.fromkeys(policy.scheduler for policy in self.sums["whole"])
        return [scheduler for scheduler in known if (scheduler in AGEING) == ageing]


def policies(schedulers: Sequence[str], learned: Sequence[str], corrections: Sequence[str]) -> list[Policy]:
    """Every combination worth simulating.

    Plain EASY and the baselines of each scheduler first; a correction is varied where there is one.
    """
    asked = [BASE, Policy("EASY", "clairvoyant"), Policy("EASY-SJBF", "clairvoyant")]
    for scheduler in schedulers:
        asked += [Policy(scheduler, "requested"), Policy(scheduler, "clairvoyant")]
        asked += [Policy(scheduler, "requested*2")] if scheduler in DOUBLED else []
        asked += [Policy(scheduler, *each) for each in product(learned, corrections) if each[0] not in NEVER_OUTLIVED]
    return list(dict.fromkeys(asked))


def nightly(title: str) -> list[Policy]:
    """The policies with predictors that are retrained every night, on the trace ``title``."""
    return [Policy(*each) for each in product(SCHEDULERS[:2], NIGHTLY, CORRECTIONS)] if title in STUDIED else []


def load(title: str, shared: Path, quick: bool = False) -> CleanTrace:
    """One cleaned trace; the first 5,000 jobs of it if ``quick``."""
    file, procs = TRACES[title]
    trace = clean(read_swf(shared / "traces" / file), procs)
    return trace if not quick else CleanTrace(**{**vars(trace), "jobs": trace.jobs.iloc[:5000]})


def run(
    title: str,
    trace: CleanTrace,
    asked: Iterable[Policy],
    folder: Path | None = None,
    workers: int | None = None,
    quiet: bool = False,
    replays: int = 1,
) -> Results:
    """Replay ``asked`` on ``trace``, up to ``replays`` times each.

    By :func:`benchmarks.common.replays.all_replayed`; one replay is of the trace as recorded.
    """
    return Results(title, trace, *all_replayed(title, trace, asked, folder, replays, workers, quiet))


def best_corrections(results: Results) -> list[Policy]:
    """Choose the correction for each scheduler and predictor on the first half.

    It has the lowest mean bounded slowdown there, and is the first of equals.
    """
    values = {policy: sums["mean_bounded_slowdown"].value() for policy, sums in results.sums["first half"].items()}
    best: dict[tuple[str, str], Policy] = {}
    for policy in values:
        held = best.get(policy[:2])
        if held is None or values[policy] < values[held]:
            best[policy[:2]] = policy
    return list(best.values())


def tidy(results: Results) -> pd.DataFrame:
    """Return every number, a row for each part, policy, metric and baseline.

    ``against`` is plain EASY with requested times, or the same scheduler's requested or exact times; ``relative low high`` are
    changes, null where the baseline is 0 (``low`` and ``high`` also below 5 weeks).
    """
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
                row = {"trace": results.trace.name, "part": name, **policy.names(), "best_correction": policy in chosen}
                rows.append(row | {"metric": metric, "against": against} | change(sums[policy], sums[reference], metric)._asdict())
    return pd.DataFrame(rows).astype(dict.fromkeys(("value", "baseline", "relative", "low", "high"), "float64"))


def save(table: pd.DataFrame, path: Path) -> None:
    """One file, .csv or Parquet, written atomically."""
    unfinished = path.with_name(f".{path.name}.part")
    if path.suffix == ".csv":
        table.to_csv(unfinished, index=False)
    else:
        table.to_parquet(unfinished, index=False, compression="zstd")
    os.replace(unfinished, path)


def jobs_hardly_wait(shared: Path) -> str:
    """Why LLNL-Atlas is left out, in numbers."""
    read = read_swf(shared / "traces" / "LLNL-Atlas-2006-2.1-cln.swf.gz")
    said = []
    for missing in ("drop", "queue-max"):
        trace = clean(read, missing_request=missing)
        record = evaluate(simulate(trace.jobs, procs=trace.procs))
        said.append(f"{record['mean_wait_s']:.1f} s on average over {len(trace.jobs):,} jobs")
    return (
        f"jobs hardly wait there with EASY and requested times, {said[0]}, or {said[1]} if those without a request get the longest"
    )


def main(argv: Sequence[str] | None = None, say: Callable[[str], None] = print) -> None:
    from benchmarks.studies.schedules_page import draw, frontiers, matters, page

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--shared", type=Path, default=SHARED, help="where traces/ is")
    parser.add_argument("--trace", action="append", choices=TRACES, help="only this one; may be given again")
    parser.add_argument("--scheduler", action="append", help=f"instead of {' '.join(SCHEDULERS + AGEING)}")
    parser.add_argument("--predictor", action="append", help=f"instead of {' '.join(LEARNED)}")
    parser.add_argument("--correction", action="append", help=f"instead of {' '.join(CORRECTIONS)}")
    parser.add_argument("--replays", type=int, default=REPLAYS, help="of each policy; fewer of predictors retrained every night")
    parser.add_argument("--keep", type=Path, default=HOUSE / ".queuecast" / "replays", help="where finished replays are kept")
    parser.add_argument("--workers", type=int, help="threads, by default one a core")
    parser.add_argument("--out", type=Path, help="every number as one table, .parquet or .csv")
    parser.add_argument(
        "--frontier", action="store_true", help="print only what is chosen on the first half, and what it gives on the second"
    )
    parser.add_argument("--write", action="store_true", help="write docs/studies/schedules.md and .png")
    parser.add_argument("--quick", action="store_true", help="5,000 jobs of KTH-SP2, two schedulers, two predictors: does it run?")
    options = parser.parse_args(argv)
    if options.quick:
        options.trace, options.scheduler, options.predictor = ["KTH-SP2"], ["EASY", "EASY-SJBF"], ["last2", "sp2"]
    asked = policies(options.scheduler or SCHEDULERS + AGEING, options.predictor or LEARNED, options.correction or CORRECTIONS)
    made = []
    for title in options.trace or TRACES:
        trace = load(title, options.shared, options.quick)
        more = [] if options.predictor or options.correction or options.quick else nightly(title)
        made.append(run(title, trace, [*asked, *more], options.keep, options.workers, replays=options.replays))
    if options.out:
        save(pd.concat([tidy(each) for each in made], ignore_index=True), options.out)
    if options.frontier:
        say("\n".join(line for each in made for line in [f"## {each.title}", "", *frontiers(each)]))
        return
    text = page(made, jobs_hardly_wait(options.shared), made_by("studies.schedules", argv), options.replays)
    if not options.write:
        say(text)
        return
    write_page(STUDIES / "schedules.md", text, matters)
    save(pd.concat([tidy(each) for each in made], ignore_index=True), STUDIES / "data" / "schedules.parquet")
    draw(made, STUDIES / "schedules.png")


if __name__ == "__main__":
    main()
