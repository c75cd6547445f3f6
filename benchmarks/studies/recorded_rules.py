"""Hold inferred rules of four logs against what tells waits without any scheduler.

``python -m benchmarks.studies.recorded_rules`` writes ``docs/studies/data/recorded-waits-rules.csv``, a row a log and rule or baseline.

Rank correlations of what is told at submission with recorded waits, on what follows the first 60 % of each log, which chose the rule, the
number of past waits (of 1, 3, 10, 30) and all means. Past waits are those of jobs that had started by then, in the
record: such a baseline sees the queue as it was, a replay does not. On endless processors no job waits for another but by the rule's
limits. ``processors``, ``requested`` and ``area`` order jobs by their size alone.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd

from benchmarks.common.card import write_rows
from benchmarks.common.pages import SHARED, STUDIES
from features.clock import WEEK_S
from features.jobs.cleaning import clean
from pipelines.ingest.swf import read_swf
from sim.rules.explained import explained
from sim.rules.infer import Recorded, correlation, infer, off, recorded, replayed
from sim.rules.rule import queue_of

KTH = Path(__file__).parents[2] / "pipelines" / "sources" / "kth-sp2.swf.gz"
RULES = STUDIES / "data" / "recorded-waits-rules.csv"
LOGS: dict[str, tuple[str, int | None]] = {
    "KTH-SP2": (str(KTH), None),
    "ALCF-Theta": ("ALCF-Theta-2022-chunks.swf.gz", None),
    "LANL-CM5": ("LANL-CM5-1994-4.1-cln.swf.gz", None),
    "CERIT": ("CERIT-wagap-2013.swf.gz", 1600 + 576),
}
"""Files, and processors where the log does not say; CERIT is one pool."""
PAST, ENDLESS = "past waits of ", "inferred rule on endless processors"
_COUNTS = (1, 3, 10, 30)


def past_waits(of: np.ndarray, submit_s: np.ndarray, start_s: np.ndarray, count: int) -> np.ndarray:
    """Return the median of the last ``count`` waits known at each submission, float64 [jobs].

    Of jobs that agree in ``of`` and had started before; of all where there are none, and 0 where there are none at all.
    """
    waits_s: dict[int, deque[int]] = defaultdict(lambda: deque(maxlen=count))
    anyone: deque[int] = deque(maxlen=count)
    begun, at, medians_s = np.argsort(start_s, kind="stable"), 0, np.zeros(len(of))
    for row, now in enumerate(submit_s.tolist()):
        while at < len(begun) and start_s[begun[at]] < now:
            wait = int(start_s[begun[at]] - submit_s[begun[at]])
            waits_s[of[begun[at]]].append(wait)
            anyone.append(wait)
            at += 1
        medians_s[row] = median(waits_s[of[row]] or anyone or [0])
    return medians_s


def baselines(log: Recorded) -> dict[str, np.ndarray]:
    """Return what each baseline tells of each job, float64 [jobs]."""
    jobs, started, first = log.jobs, log.had_started, log.first
    submit, procs, requested = (jobs[name].to_numpy(np.int64) for name in ("submit_s", "procs", "requested_s"))
    user = pd.factorize(jobs["user"])[0]
    wait = pd.Series(log.wait_s[:first][started], dtype=float)
    holders = {"the user": user, "the width": procs, "all": np.zeros(len(jobs), np.int64)}
    predictions = {}
    for name, of in holders.items():
        tried = [past_waits(of, submit, log.start_s, count) for count in _COUNTS]
        predictions[PAST + name] = max(tried, key=lambda each: correlation(each[:first][started], wait.to_numpy()))
    waiting = np.zeros(len(jobs))
    for rows in pd.Series(user).groupby(user).indices.values():
        waiting[rows] = np.arange(len(rows)) - np.searchsorted(np.sort(log.start_s[rows]), submit[rows])
    predictions["waiting jobs of the user"] = waiting
    hour = (submit + (log.clock.origin_unix_s or 0)) % WEEK_S // 3600
    for name, of in {"the user": user, "the queue": pd.factorize(queue_of(jobs))[0], "the hour of the week": hour}.items():
        means = wait.groupby(of[:first][started]).mean()
        predictions[f"mean of {name}"] = pd.Series(of).map(means).fillna(wait.mean()).to_numpy()
    return predictions | {
        name: each.astype(float) for name, each in {"processors": procs, "requested": requested, "area": procs * requested}.items()
    }


def rules(shared: Path) -> pd.DataFrame:
    """Return a row for each log and rule or baseline, as :func:`sim.rules.explained.explained` has them."""
    tables = []
    for name, (file, procs) in LOGS.items():
        trace = clean(read_swf(shared / "traces" / file), procs)
        log = recorded(trace.jobs, trace.procs, trace.clock)
        rule, wait, later = infer(log).rule, log.wait_s.astype(float), slice(log.first, None)
        explained_rules, rows = explained(log, rule).rules, []
        endless = {ENDLESS: replayed(replace(rule, procs=10**7), log.jobs)}
        for told_by, prediction in (endless | baselines(log)).items():
            of: dict[str, object] = {"rule": told_by, "first": correlation(prediction[: log.first], wait[: log.first])}
            of["correlation"] = correlation(prediction[later], wait[later])
            if told_by.startswith((ENDLESS, PAST, "mean of")):
                of |= {"mean_wait_s": prediction[later].mean(), "off": off(log.jobs.iloc[later], prediction[later], wait[later])}
                of["same"] = np.minimum(prediction[later], wait[later]).sum() / wait[later].sum()
            rows.append(of)
        record = pd.DataFrame([{"rule": "recorded", "mean_wait_s": wait[later].mean()}])
        tables.append(pd.concat([record, explained_rules, pd.DataFrame(rows)]).assign(log=name))
    return pd.concat(tables)[["log", *tables[0].columns[:-1]]]


if __name__ == "__main__":
    write_rows(RULES, rules(SHARED))
