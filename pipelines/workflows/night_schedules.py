"""Schedules of the last days with a champion's and a challenger's answers as served."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from features.clock import DAY_S
from features.jobs.cleaning import CleanTrace
from models.registry.accounting import Accounting
from models.registry.as_served import CHAMPION
from models.runtime.protocol import TablePredictor
from pipelines.workflows.judging import Schedules
from sim.campaigns.campaign import Campaign, campaign_schedules
from sim.metrics.comparison import compare
from sim.schedule import Schedule

COMPARED_DAYS = 30
"""Days of submissions that the comparison simulates, also before a first night."""
SCHEDULERS = ("EASY", "EASY-SJBF")
REPLICATES, SHAKE_S = 10, 60
"""Replays behind a veto, and max seconds by which submissions move: one replay of a chaotic schedule is one draw."""
_CHALLENGER = "challenger"


def recent_rows(known: Accounting, first_s: int) -> np.ndarray:
    """Return rows of the jobs submitted in the last ``COMPARED_DAYS`` days.

    And not before ``first_s``.
    """
    since = max(known.until_s - COMPARED_DAYS * DAY_S, first_s)
    return np.flatnonzero(known.jobs["submit_s"].to_numpy(np.int64) >= since)


def served_schedules(
    clean: CleanTrace,
    known: Accounting,
    rows: np.ndarray,
    answers: dict[str, pd.Series],
    served: pd.DataFrame,
    schedulers: Sequence[str],
    *,
    requested: bool = False,
    replicates: int = 1,
) -> list[Schedule]:
    """Return schedules of the jobs ``rows`` with ``answers``, and if asked with ``requested``.

    ``answers`` are seconds by name in the order of ``served``. Several ``replicates`` are shaken (:data:`SHAKE_S`), the same for
    all.
    """
    jobs = clean.jobs.iloc[rows].reset_index(drop=True)
    there, here = job_keys(jobs.assign(end_s=known.end_s[rows])), job_keys(served)
    place = here.get_indexer(there)
    if (place < 0).any():
        raise ValueError(f"{int((place < 0).sum())} of {len(rows)} jobs were not answered")
    tables = [_table(name, each.to_numpy(np.float64)[place]) for name, each in answers.items()]
    predictors = (*(("requested",) if requested else ()), *tables)
    shake_s = SHAKE_S if replicates > 1 else 0
    asked = Campaign(tuple(schedulers), predictors, seeds=tuple(range(replicates)), shake_s=shake_s)
    return campaign_schedules(jobs, asked, procs=clean.procs, trace=clean.name, generated=clean.generated, clock=clean.clock)


def _table(name: str, seconds: np.ndarray) -> TablePredictor:
    return TablePredictor(name, lambda _: seconds)


def against_the_champion(
    clean: CleanTrace,
    known: Accounting,
    served: pd.DataFrame,
    trained_until_s: int,
    schedulers: Sequence[str] = SCHEDULERS,
    *,
    resamples: int = 2000,
    seed: int = 0,
) -> Schedules:
    """Return a comparison of a challenger's schedules with the champion's.

    Of the last jobs submitted after the champion was trained. Rows are those of :func:`sim.metrics.comparison.compare` for each
    of ``schedulers``, the champion's schedules the baseline, over shaken replicates and weeks (``resamples`` and ``seed`` are the
    bootstrap's); none where there are no such jobs.
    """

    def of(name: str) -> pd.DataFrame:
        rows = recent_rows(known, max(trained_until_s + 1, int(served["at_s"].min()))) if len(served) else np.empty(0, np.intp)
        if len(rows) == 0:
            return pd.DataFrame()
        answers = {CHAMPION: served[CHAMPION].fillna(served["requested"]), _CHALLENGER: served[name]}
        made = served_schedules(clean, known, rows, answers, served, schedulers, replicates=REPLICATES)
        tables = []
        for scheduler in schedulers:
            pair = [each for each in made if each.scheduler == scheduler]
            table = compare(pair, (scheduler, CHAMPION), resamples=resamples, seed=seed)
            tables.append(table[table["predictor"] == _CHALLENGER])
        return pd.concat(tables, ignore_index=True)

    return of


def job_keys(jobs: pd.DataFrame) -> pd.MultiIndex:
    """Return unique keys of jobs: number, submission, end, and a counter of equal ones."""
    names = ["job_id", "submit_s", "end_s"]
    return pd.MultiIndex.from_frame(jobs[names].assign(again=jobs.groupby(names).cumcount()))
