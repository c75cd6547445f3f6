"""Ask whatif of logs whose true rule is known, and hold its intervals against the true changes.

``python -m benchmarks.studies.known_rules`` writes ``docs/studies/data/known-rules.csv``: a row a log and candidate. Each of the logs, of the
generated workload, is decided by a known rule, partly one that nothing can infer: jobs that the log does not list, holds, limits of
executables. The rule is inferred, candidates are judged from it, and the true rule is replayed with the same change: ``true`` is the change of the
mean wait on the jobs judged. ``low high`` are whatif's, ``replays_low replays_high`` those before what is unexplained makes them wider.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from benchmarks.common.card import write_rows
from benchmarks.common.pages import STUDIES
from features.clock import DAY_S, Clock
from features.jobs.cleaning import clean
from pipelines.ingest.slurm_jobs import SlurmJobs
from pipelines.ingest.workload import Workload, generate
from pipelines.workflows.what_if import measure, read_candidates
from sim.campaigns.maps import serial
from sim.rule_change import as_site, change_rule
from sim.rules.infer import infer, recorded, replayed
from sim.rules.rule import MONDAY_S, Limit, Rule

PROCS, JOBS, SEEDS, REPLICATES = 64, 6_000, 5, 6
ASKED = ("a tenth more nodes", "no closings", "start what fits", "plan for all", "short jobs fill gaps", "small areas first")
CLOSINGS = tuple(day * DAY_S + hour * 3600 for day in range(5) for hour in (8, 17))


@dataclass(frozen=True)
class Truth:
    """What decides a log: a rule, seconds for which each job is held, and jobs that the log does not list."""

    rule: Rule
    held_s: np.ndarray
    unlisted: pd.DataFrame

    def waits(self, jobs: pd.DataFrame, rule: Rule) -> np.ndarray:
        """Return the wait of each job of the log under ``rule`` in place of the true one, float64 [jobs]."""
        table = pd.concat([jobs.assign(submit_s=jobs["submit_s"] + self.held_s), self.unlisted], ignore_index=True)
        order = np.argsort(table["submit_s"].to_numpy(np.int64), kind="stable")
        waits = np.empty(len(table))
        waits[order] = replayed(rule, table.iloc[order].reset_index(drop=True))
        return np.asarray(waits[: len(jobs)] + self.held_s)


def truths(jobs: pd.DataFrame, rng: np.random.Generator) -> dict[str, Callable[[], Truth]]:
    """Return what may decide a log, by name; the last four cannot be inferred."""
    easy, none, free = Rule(PROCS, origin_s=MONDAY_S), jobs.iloc[:0], np.zeros(len(jobs), np.int64)
    some = np.isin(jobs["user"].cat.codes.to_numpy() % 7, (1, 2))

    def unlisted() -> pd.DataFrame:
        rows = jobs.iloc[np.sort(rng.choice(len(jobs), len(jobs) // 150, replace=False))]
        length = rng.integers(12 * 3600, 48 * 3600, len(rows))
        return rows.assign(job_id=rows["job_id"] + len(jobs), procs=PROCS // 2, runtime_s=length, requested_s=length)

    return {
        "EASY": lambda: Truth(easy, free, none),
        "closings": lambda: Truth(replace(easy, closings=CLOSINGS), free, none),
        "small areas first": lambda: Truth(replace(easy, algorithm="SAF-EASY-SPF"), free, none),
        "Conservative": lambda: Truth(replace(easy, algorithm="Conservative"), free, none),
        "jobs not listed": lambda: Truth(easy, free, unlisted()),
        "holds": lambda: Truth(easy, np.where(rng.random(len(jobs)) < 0.15, rng.integers(0, DAY_S, len(jobs)), 0), none),
        "holds of some users": lambda: Truth(easy, np.where(some, rng.integers(0, 8 * 3600, len(jobs)), 0), none),
        "limit of executables": lambda: Truth(replace(easy, limits=(Limit(("executable",), "processors", 24),)), free, none),
    }


def asked(name: str, seed: int) -> list[dict[str, object]]:
    """Draw a log, decide it by the truth ``name``, and ask what its rule says of changes."""
    jobs = clean(generate(Workload(jobs=JOBS, procs=PROCS, users=50, load=0.7, seed=seed)), PROCS).jobs
    truth = truths(jobs, np.random.default_rng(seed))[name]()
    waits = truth.waits(jobs, truth.rule)
    log = recorded(jobs.assign(wait_s=waits.astype(np.int64)), PROCS, Clock(MONDAY_S))
    site, table = as_site(infer(log).rule, log, name)
    tried = [each for each in read_candidates() if each.name in ASKED]
    first = int(table["submit_s"].iloc[log.first])
    comparison = measure(site, SlurmJobs(table, (), name), tried, REPLICATES, 60, 0, serial, lambda done, of: None, first)
    rows: list[dict[str, object]] = []
    for candidate, effect in comparison.effects.items():
        changed = change_rule(comparison.candidates[candidate], truth.rule, table)
        then = truth.waits(jobs, changed.site) if changed is not None and isinstance(changed.site, Rule) else waits
        of, alone = effect.metrics["mean_wait_s"], comparison.replayed[candidate].metrics["mean_wait_s"]
        row = {
            "truth": name,
            "seed": seed,
            "candidate": candidate,
            "true": then[log.first :].mean() / waits[log.first :].mean() - 1,
        }
        row |= {"replayed": of.relative, "low": of.low, "high": of.high, "replays_low": alone.low, "replays_high": alone.high}
        share = comparison.left.share if comparison.left is not None else None
        rows.append(row | {"verdict": comparison.verdicts[candidate], "unexplained": share})
    return rows


def main() -> None:
    """Run as a program."""
    names = truths(clean(generate(Workload(jobs=100, procs=PROCS, users=9)), PROCS).jobs, np.random.default_rng(0))
    rows = pd.DataFrame([row for name in names for seed in range(SEEDS) for row in asked(name, seed)])
    write_rows(STUDIES / "data" / "known-rules.csv", rows)
    for ends in (("replays_low", "replays_high"), ("low", "high")):
        low, high = (rows[end] for end in ends)
        held, sure = (low <= rows["true"]) & (rows["true"] <= high), (low > 0) | (high < 0)
        wrong = sure & ((rows["true"] < 0) != (high < 0))
        table = rows.assign(held=held, sure=sure, wrong=wrong).groupby("truth", sort=False)
        print(ends, table[["held", "sure", "wrong"]].sum().assign(rows=table.size()), sep="\n")


if __name__ == "__main__":
    main()
