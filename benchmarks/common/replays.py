"""Replay whole traces with shaken submissions, and keep the weekly sums.

A policy is replayed with several seeds (:mod:`features.jobs.shaking`); replay i of every policy has the
same moves. Predictors that are retrained every night take seconds a replay and get fewer, each with its
own seed of learning. Sums are kept by :func:`benchmarks.common.pages.kept`.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.common.pages import kept
from benchmarks.common.policy_frontier import Sums, halves, part, replicated, weekly, weeks_of
from features.errors import InputError
from features.jobs.cleaning import CleanTrace
from features.jobs.schema import fingerprint
from features.jobs.shaking import SHAKE_S
from sim.kernel.scratch import Scratch
from sim.metrics.schedule_metrics import Ratio
from sim.policy import Policy
from sim.simulate import simulate_policy

LEARNERS = ("lightgbm", "svr", "quantile")
"""Predictors that are retrained every night inside the simulation."""
REPLAYS, LEARNERS_REPLAYS = 20, 3
PARTS = ("first half", "second half", "whole")

_memory = threading.local()


def replays_of(policy: Policy, most: int = REPLAYS) -> int:
    """How many replays a policy gets: ``most``, and fewer where its predictor takes seconds."""
    slow = policy.predictor.partition("(")[0] in LEARNERS
    return min(most, LEARNERS_REPLAYS) if slow else most


def one_replay(trace: CleanTrace, policy: Policy, seed: int, shake_s: int) -> pd.DataFrame:
    """Weekly sums of one replay.

    ``seed part metric week numerator denominator``, and its ``seconds``.
    """
    if not hasattr(_memory, "scratch"):
        _memory.scratch = Scratch()
    schedule = simulate_policy(
        trace.jobs,
        policy._replace(seed=seed, shake_s=shake_s),
        procs=trace.procs,
        trace=trace.name,
        scratch=_memory.scratch,
        clock=trace.clock,
    )
    submit = trace.jobs["submit_s"].to_numpy(np.int64)
    first, second = halves(len(trace.jobs))
    tables = []
    for name, rows in zip(PARTS, (first, second, first | second), strict=True):
        for metric, sums in weekly(part(schedule, rows), week=weeks_of(submit[rows])).items():
            columns = {"week": np.arange(len(sums.numerator)), "numerator": sums.numerator, "denominator": sums.denominator}
            tables.append(pd.DataFrame(columns).assign(part=name, metric=metric))
    return pd.concat(tables, ignore_index=True).assign(seed=seed, seconds=schedule.simulate_s)


def replayed(trace: CleanTrace, policy: Policy, replays: int, folder: Path | None, jobs: str) -> tuple[dict[str, Sums], float]:
    """Weekly sums [replays, weeks] by part and metric, and the mean seconds of a simulation.

    ``jobs`` is the fingerprint of the trace's jobs.

    One replay alone is of the trace as recorded.
    """
    shake_s = SHAKE_S if replays > 1 else 0
    tables = []
    for seed in range(replays):
        make = partial(one_replay, trace, policy, seed, shake_s)
        settings = (jobs, trace.procs, *policy.names().values(), seed, shake_s)
        tables.append(make() if folder is None else kept(folder, "common.replays", settings, make))
    sums = {name: replicated([_sums(table[table["part"] == name]) for table in tables]) for name in PARTS}
    return sums, float(np.mean([table["seconds"].iloc[0] for table in tables]))


def _sums(table: pd.DataFrame) -> dict[str, Ratio]:
    groups = table.groupby("metric", sort=False)
    return {str(metric): Ratio(rows["numerator"].to_numpy(), rows["denominator"].to_numpy()) for metric, rows in groups}


def all_replayed(
    title: str,
    trace: CleanTrace,
    asked: Iterable[Policy],
    folder: Path | None = None,
    most: int = REPLAYS,
    workers: int | None = None,
    quiet: bool = False,
) -> tuple[Mapping[str, Mapping[Policy, Sums]], dict[Policy, float]]:
    """Return sums of ``asked`` by part, and seconds of a simulation.

    In ``workers`` threads, by default one a core; an InputError names its policy.
    """
    asked, jobs = list(dict.fromkeys(asked)), fingerprint(trace.jobs)
    by_policy: dict[Policy, tuple[dict[str, Sums], float]] = {}
    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        waiting = {pool.submit(replayed, trace, policy, replays_of(policy, most), folder, jobs): policy for policy in asked}
        try:
            for count, future in enumerate(as_completed(waiting), 1):
                policy = waiting[future]
                try:
                    by_policy[policy] = future.result()
                except InputError as error:
                    raise InputError(f"{title}, {policy}: {error}") from error
                if not quiet:
                    print(f"\r{title}: {count} of {len(asked)}, {policy}\033[K", end="", file=sys.stderr, flush=True)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    if not quiet:
        print(file=sys.stderr)
    return {name: {policy: by_policy[policy][0][name] for policy in asked} for name in PARTS}, {
        policy: by_policy[policy][1] for policy in asked
    }
