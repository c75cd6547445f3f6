"""Judge starts told around a burst of one user's jobs and around a closed machine, beside the same answers without.

``python -m benchmarks.studies.starts_altered`` prints a row a log, alteration and window; ``--write`` keeps them beside the card of starts.
The logs run under EASY, altered as :func:`benchmarks.studies.starts.case` says, and settings and protocol are those of that study. Questions
are about the same jobs with and without, and of them only jobs of other users are judged: ``before``, asked in the day before the first of
the burst starts or the machine closes; ``during``, until its last one ends or the machine opens; ``after``, in the three days from then on.
Without the alteration the same windows are judged of the log under EASY. Nothing announces the alteration.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.common.card import parser, write_rows
from benchmarks.common.pages import STUDIES
from benchmarks.studies.starts import EVERY, LOGS, Case, case, judged
from benchmarks.studies.starts_card import ALTERED, BURST, MAINTENANCE
from benchmarks.studies.starts_measures import covered
from features.clock import DAY_S
from models.packed.start_distribution import EDGES_S
from models.starts.evaluation import WAITED_S, ranked_scores
from models.starts.training import LEARNED
from sim.ahead import Ahead
from sim.questions import ask


def answers(of: Case, jobs: np.ndarray, first_s: int) -> pd.DataFrame:
    """Return answers of our model from ``first_s`` on about ``jobs`` (numbers), and every so many of those that were added."""
    numbers, every = of.trace.jobs["job_id"].to_numpy(), EVERY[of.log]
    added = np.flatnonzero(of.added)[::every]
    rows = np.union1d(np.flatnonzero(np.isin(numbers, jobs)), added)
    asked = ask(of.jobs, rows, of.jobs.submit[rows], Ahead(of.trace.procs), of.clock)
    table = pd.concat(judged(of, asked, first_s), ignore_index=True)
    return table.assign(job_id=numbers[table["row"]], added=of.added[table["row"]])


def windows(span: tuple[int, int]) -> dict[str, tuple[int, int]]:
    """Return the seconds in which is asked, by name, of what begins and ends in ``span``."""
    begins, ends = span
    return {"before": (begins - DAY_S, begins), "during": span, "after": (ends, ends + 3 * DAY_S)}


def measured(asked: pd.DataFrame) -> dict[str, float]:
    """Return how good answers are: ranked score, held 80 % intervals of those that waited, Brier score of 1 h, mean wait."""
    chances, wait = asked[[f"chance {edge:g}" for edge in EDGES_S]].to_numpy(np.float64), asked["waited_s"].to_numpy(np.float64)
    hour, waited = int(np.searchsorted(EDGES_S, 3_600)), wait > WAITED_S
    coverage = covered(chances, wait, asked["at_s"].to_numpy(np.int64), int(asked["at_s"].min())) if waited.any() else None
    held = np.nan if coverage is None else coverage[(coverage["month"] < 0) & (coverage["share"] == 0.8)]["covered"].iloc[0]
    brier = ((chances[:, hour] - (wait <= 3_600)) ** 2).mean()
    scores = {"ranked": ranked_scores(chances, wait).mean(), "held_80": held, "brier_1h": brier, "came_1h": (wait <= 3_600).mean()}
    return {"answers": len(wait), "waited": int(waited.sum()), **scores, "mean_wait_s": wait.mean()}


def compared(shared: Path, log: str) -> Iterator[dict[str, object]]:
    """Yield the rows of a log: each alteration and window, ``with`` it and without."""
    plain = case(shared, log, "EASY")
    half, every = len(plain.jobs.submit) // 2, EVERY[log]
    jobs = plain.trace.jobs["job_id"].to_numpy()[max(half - LEARNED * every, 0) :: every]
    first_s = int(plain.jobs.submit[half])
    without = answers(plain, jobs, first_s)
    for rule in (BURST, MAINTENANCE):
        of = case(shared, log, rule)
        altered = answers(of, jobs, first_s)
        for window, (since, until) in windows(of.span).items():
            there = altered[~altered["added"] & (altered["at_s"] >= since) & (altered["at_s"] < until)]
            beside = without[without["job_id"].isin(there["job_id"])]
            for name, each in (("with", there), ("without", beside)):
                yield {"log": log, "alteration": rule, "window": window, "told": name, **measured(each)}


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--log", action="append", choices=list(LOGS), help="kth-sp2 and alcf-theta by default")
    options = arguments.parse_args()
    logs = options.log or ["kth-sp2", "alcf-theta"]
    rows = pd.DataFrame([row for log in logs for row in compared(options.shared, log)])
    print(rows.to_string(index=False))
    if options.write:
        write_rows(STUDIES / "data" / ALTERED, rows)


if __name__ == "__main__":
    main()
