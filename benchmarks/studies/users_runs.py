"""Replays of the study of users that react: loops, predictors, halves, rules of sessions, and their means."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from benchmarks.common import policy_frontier
from benchmarks.common.pages import kept
from features.jobs.cleaning import CleanTrace, clean
from features.jobs.schema import fingerprint
from pipelines.ingest.swf import read_swf
from sim.campaigns.campaign import run_campaign
from sim.kernel.scratch import Scratch
from sim.metrics.schedule_metrics import ratios
from sim.policy import Policy
from sim.replays import user_facts
from sim.settings import Campaign
from sim.simulate import simulate, simulate_policy
from sim.users.names import LOOPS, RULES, Users

TRACES = {"KTH-SP2": "KTH-SP2-1996-2.1-cln.swf.gz", "LANL-CM5": "LANL-CM5-1994-4.1-cln.swf.gz", "CERIT": "CERIT-wagap-2013.swf.gz"}
SIMULATED = ("KTH-SP2", "LANL-CM5")
CERIT_PROCS = 2176
SCHEDULERS = ("Strict", "EASY", "EASY-SJBF", "JustBF", "SPF-EASY")
PREDICTORS = {
    "requested": "requested",
    "requested*2": "requested",
    "clairvoyant": "requested",
    "last2": "tsafrir",
    "okcm": "tsafrir(steps=okcm)",
    "hierarchy": "tsafrir",
    "knn": "tsafrir",
    "nag": "tsafrir",
    "sp": "conditional",
    "quantile": "conditional",
}
"""Each with its correction."""
NIGHTLY = ("quantile",)
"""Retrained every night inside the simulation; takes half a minute a replay."""
HALVES = ("first half", "second half")
"""Sections of the table: the same ranking among half of the jobs."""
UNTIL = {"half": 0.5, "nine tenths": 0.9, "99 %": 0.99, "all": 1.0}
"""Shares of the jobs that have ended when the load carried so far is taken."""
CHOICES = (
    "closed",
    "closed(rule=max)",
    "closed(rule=arrival)",
    "closed(rule=arrival,session=3600)",
    "semi-open",
    "semi-open(rule=max)",
    "semi-open(rule=arrival,session=3600)",
)
"""Rules and thresholds by which sessions and batches may be found."""
METRICS = {
    "mean_wait_s": "mean wait, s",
    "mean_bounded_slowdown": "bounded slowdown",
    "carried_load": "carried load",
    "throughput_per_day": "jobs a day",
}
SHAKE_S, REPLAYS, NIGHTLY_REPLAYS = 60, 20, 3


def traces(shared: Path) -> dict[str, CleanTrace]:
    """Return the traces by their titles."""
    jobs_of = {}
    for title, file in TRACES.items():
        jobs_of[title] = clean(read_swf(shared / "traces" / file), CERIT_PROCS if title == "CERIT" else None)
    return jobs_of


def replays(trace: CleanTrace, asked: Campaign, keep: Path | None) -> pd.DataFrame:
    """Return the rows of a campaign, from ``keep`` if they were made before."""

    def make() -> pd.DataFrame:
        return run_campaign(trace.jobs, asked, procs=trace.procs, trace=trace.name, clock=trace.clock)

    return make() if keep is None else kept(keep, "studies.users", (fingerprint(trace.jobs), trace.procs, asked), make)


def loads(jobs_of: Mapping[str, CleanTrace], count: int, keep: Path | None) -> pd.DataFrame:
    """Return replays of all schedulers in all loops, by requested times."""
    tables = []
    for title in SIMULATED:
        for loop in LOOPS:
            schedulers = SCHEDULERS if title == "KTH-SP2" else SCHEDULERS[1:4]
            asked = Campaign(schedulers=schedulers, seeds=tuple(range(count)), shake_s=SHAKE_S, users=loop)
            tables.append(replays(jobs_of[title], asked, keep).assign(title=title, section="loads"))
    return pd.concat(tables, ignore_index=True)


def ranking(trace: CleanTrace, count: int, keep: Path | None) -> pd.DataFrame:
    """Return replays of all predictors under EASY-SJBF in all loops."""
    tables = []
    for loop in LOOPS:
        for predictor, correction in PREDICTORS.items():
            seeds = range(min(count, NIGHTLY_REPLAYS) if predictor in NIGHTLY else count)
            asked = Campaign(
                schedulers=("EASY-SJBF",),
                predictors=(predictor,),
                corrections=(correction,),
                seeds=tuple(seeds),
                shake_s=SHAKE_S,
                users=loop,
            )
            tables.append(replays(trace, asked, keep).assign(title="KTH-SP2", section="ranking"))
    return pd.concat(tables, ignore_index=True)


def by_halves(trace: CleanTrace, count: int, keep: Path | None) -> pd.DataFrame:
    """Return the bounded slowdown of each half of the jobs; predictors without ``NIGHTLY``."""

    def make() -> pd.DataFrame:
        scratch, rows = Scratch(), []
        for loop, (predictor, correction), seed in product(LOOPS, PREDICTORS.items(), range(count)):
            if predictor not in NIGHTLY:
                asked = Policy("EASY-SJBF", predictor, correction, seed=seed, shake_s=SHAKE_S, users=loop)
                schedule = simulate_policy(trace.jobs, asked, procs=trace.procs, clock=trace.clock, scratch=scratch)
                for section, jobs in zip(HALVES, policy_frontier.halves(len(trace.jobs)), strict=True):
                    value = ratios(policy_frontier.part(schedule, jobs))["mean_bounded_slowdown"].value()
                    rows.append((section, "KTH-SP2", loop, "EASY-SJBF", predictor, value))
        return pd.DataFrame(rows, columns=["section", "title", "users", "scheduler", "predictor", "mean_bounded_slowdown"])

    return make() if keep is None else kept(keep, "studies.users", (fingerprint(trace.jobs), trace.procs, count, *PREDICTORS), make)


def carried(trace: CleanTrace) -> pd.DataFrame:
    """Return the load carried under EASY until so many jobs (``UNTIL``) have ended.

    Also on a machine on which no job waits.
    """
    rows = []
    for name, loop, procs in (
        ("open", "open", trace.procs),
        ("closed", "closed", trace.procs),
        ("closed, no waits", "closed", 10**6),
    ):
        jobs = simulate(trace.jobs, procs=procs, users=loop).jobs
        start, submit = (jobs[column].to_numpy(np.float64) for column in ("start_s", "submit_s"))
        end = start + jobs["runtime_s"].to_numpy(np.float64)
        for until, share in UNTIL.items():
            last = np.quantile(end, share, method="higher")
            work = (jobs["procs"] * np.maximum(np.minimum(end, last) - start, 0)).sum()
            rows.append((name, until, work / (trace.procs * (last - submit.min()))))
    return pd.DataFrame(rows, columns=["users", "until", "load"]).pivot(index="users", columns="until", values="load")


def sessions(jobs_of: Mapping[str, CleanTrace]) -> pd.DataFrame:
    """Return sessions and batches of each trace by each rule.

    ``as_recorded`` counts jobs submitted as recorded, ``of_several`` those whose batch waits for several batches, ``beyond_swf`` those
    whose wait one preceding job and a think time (SWF's fields 17 and 18) cannot state.
    """
    columns = ["users", "sessions", "batches", "jobs", "as_recorded", "of_several", "beyond_swf"]
    rows = []
    for title, rule in product(jobs_of, RULES):
        facts = user_facts(jobs_of[title].jobs, Users("closed", rule=rule))
        rows.append([title, rule, *(getattr(facts, column) for column in columns)])
    return pd.DataFrame(rows, columns=["trace", "rule", *columns])


def choices(trace: CleanTrace, count: int, keep: Path | None) -> pd.DataFrame:
    """Return replays of EASY-SJBF with users found by other rules."""
    asked = [Campaign(schedulers=("EASY-SJBF",), seeds=tuple(range(count)), shake_s=SHAKE_S, users=users) for users in CHOICES]
    tables = [replays(trace, each, keep).assign(title="KTH-SP2", section="choices") for each in asked]
    return pd.concat(tables, ignore_index=True)


def means(table: pd.DataFrame) -> pd.DataFrame:
    """Return means over replays with 95 % t intervals, a row a policy, loop and metric."""
    rows = []
    keys = ["section", "title", "users", "scheduler", "predictor"]
    for policy, rows_of in table.reindex(columns=[*keys, *METRICS]).groupby(keys, sort=False):
        for metric in METRICS:
            values = rows_of[metric].dropna().to_numpy(np.float64)
            if len(values) == 0:
                continue
            half = 0.0
            if len(values) > 1:
                half = float(stdtrit(len(values) - 1, 0.975)) * values.std(ddof=1) / len(values) ** 0.5
            rows.append([*policy, metric, len(values), values.mean(), values.mean() - half, values.mean() + half])
    return pd.DataFrame(rows, columns=[*keys, "metric", "replays", "mean", "low", "high"])
