"""Judge predicted starts on the second halves of logs, with models renewed each 30 days and calibrated each midnight.

``python -m benchmarks.studies.start_halves --log kth-sp2 --rule EASY`` prints the figures of a log as ``recorded`` or under
``EASY``. Questions are those at each submission (one in ``EVERY``); settings were chosen on first halves. Each 30 days a model
learns from the ``LEARNED`` questions before; what it reads, and the first calibration, come from the answers of the month before.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.common.pages import SHARED
from features.clock import DAY_S
from features.jobs.cleaning import clean
from features.jobs.schema import recorded_end_s, start_s
from models.packed.start_distribution import EDGES_S, LEVELS, at_levels, at_waits, given_waiting
from models.packed.start_predictor import HAZARD, POOLED
from models.runtime.distribution import losses
from models.starts.evaluation import INTERVALS, MONTH_S, WAITED_S
from models.starts.model import Questions, Uncalibrated, best_kind, fit, uncalibrated
from models.starts.training import ENOUGH, LEARNED, calibrate
from pipelines.readers.read import read_trace
from sim.simulation import simulate
from sim.starts.ahead import Ahead
from sim.starts.closings import drained
from sim.starts.questions import ask, queued

LOGS = {
    "kth-sp2": ("KTH-SP2-1996-2.1-cln.swf.gz", 100),
    "alcf-theta": ("ALCF-Theta-2022-chunks.swf.gz", 4360),
    "lanl-cm5": ("LANL-CM5-1994-4.1-cln.swf.gz", 1024),
}
"""Files and processors."""
EVERY = {"kth-sp2": 2, "alcf-theta": 2, "lanl-cm5": 8}
"""Of so many jobs in a row one is asked about; all of them run and wait."""


def questions(shared: Path, log: str, rule: str) -> tuple[Questions, np.ndarray, int]:
    """Return the questions of a log, the starts of its jobs, and the second at which its second half begins."""
    file, procs = LOGS[log]
    trace = clean(read_trace(str(shared / "traces" / file)), procs=procs)
    begun = start_s(trace.jobs)
    assert begun is not None
    end = recorded_end_s(trace.jobs, begun)
    if rule == "EASY":
        begun = simulate(trace.jobs, procs=procs).jobs["start_s"].to_numpy(np.int64)
        end = begun + trace.jobs["runtime_s"].to_numpy(np.int64)
    jobs = queued(trace, begun, end)
    until_s = int(jobs.submit[len(jobs.submit) // 2])
    pool = drained(trace.jobs, procs, trace.clock, begun, end, until_s)
    rows = np.arange(0, len(jobs.submit), EVERY[log])
    return ask(jobs, rows, jobs.submit[rows], Ahead(procs, pool=pool), trace.clock), jobs.start, until_s


def months(asked: Questions, start: np.ndarray, first_s: int) -> Iterator[tuple[np.ndarray, Uncalibrated]]:
    """Yield rows and uncalibrated distributions of a month, by a model of what came before, from one before ``first_s`` on."""
    for begin in range(first_s - MONTH_S, int(asked.at_s[-1]) + 1, MONTH_S):
        here = np.flatnonzero((asked.at_s >= begin) & (asked.at_s < begin + MONTH_S))
        before = np.flatnonzero(asked.at_s < begin)[-LEARNED:]
        if len(here) and len(before):
            model = fit(HAZARD, asked.take(before), start, begin - 1, 0)
            yield here, uncalibrated(model, asked.take(here))


def answered(asked: Questions, start: np.ndarray, first_s: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows asked about from ``first_s`` on, and their distributions, calibrated each midnight."""
    rows, answers = list[np.ndarray](), list[np.ndarray]()
    old, before = np.zeros(0, np.int64), dict[str, np.ndarray]()
    for here, distributions in months(asked, start, first_s):
        if asked.at_s[here[0]] >= first_s:
            outcomes = asked.take(old).waited(start, int(asked.at_s[here[0]]) - 1)
            kind = best_kind(before, *outcomes)[0] if len(old) else POOLED
            both = np.concatenate((old, here))
            chances = np.concatenate([*([before[kind]] if len(old) else []), distributions[kind]])
            day, own = asked.at_s[here] // DAY_S, distributions[kind].copy()
            for midnight in (np.unique(day) * DAY_S).tolist():
                past = (asked.at_s[both] < midnight) & (asked.at_s[both] >= midnight - MONTH_S)
                if past.sum() >= ENOUGH:
                    outcomes = asked.take(both[past]).waited(start, midnight - 1)
                    age_s = (midnight - asked.at_s[both[past]]).astype(np.float64)
                    today = day == midnight // DAY_S
                    own[today] = calibrate(chances[past], *outcomes, age_s).apply(own[today])
            rows.append(here)
            answers.append(own)
        old, before = here, dict(distributions)
    return np.concatenate(rows), np.concatenate(answers)


def figures(chances: np.ndarray, waited_s: np.ndarray, month: np.ndarray) -> dict[str, float]:
    """Return loss (h) and coverage of the jobs that waited over a minute, given that they wait; the worst month's distance."""
    waits = waited_s > WAITED_S
    place = np.abs(at_waits(given_waiting(chances[waits]), waited_s[waits]) - 0.5)
    held = {f"held_{share:.0%}": float((place <= share / 2).mean()) for share in INTERVALS}
    worst = [abs((place[month[waits] == each] <= 0.4).mean() - 0.8) for each in np.unique(month[waits])]
    loss_s = losses(at_levels(chances, np.array(LEVELS)), np.array(LEVELS), waited_s)[waits].mean()
    hour = chances[:, int(np.searchsorted(EDGES_S, 3600.0))]
    brier = float(((hour - (waited_s <= 3600)) ** 2).mean())
    return {"waited": int(waits.sum()), "loss_h": float(loss_s / 3600), **held, "worst_month": float(max(worst)), "brier_1h": brier}


def main() -> None:
    """Print the figures of a log."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--log", choices=LOGS, default="kth-sp2")
    options.add_argument("--rule", choices=("recorded", "EASY"), default="recorded")
    options.add_argument("--shared", type=Path, default=SHARED)
    given = options.parse_args()
    asked, start, first_s = questions(given.shared, given.log, given.rule)
    rows, chances = answered(asked, start, first_s)
    waited_s = (start[asked.row[rows]] - asked.at_s[rows]).astype(np.float64)
    print(given.log, given.rule, figures(chances, waited_s, (asked.at_s[rows] - first_s) // MONTH_S))


if __name__ == "__main__":
    main()
