"""Schedules of the last days with a champion's and a challenger's answers as served."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from features.clock import DAY_S
from features.jobs.cleaning import CleanTrace
from models.packed.methods import PREDICTED, Requested
from models.registry.accounting import Accounting
from models.registry.as_served import CHAMPION, quantile_columns
from models.runtime.protocol import TablePredictor
from pipelines.dated.judge import Schedules
from sim.campaigns.campaign import campaign_schedules
from sim.metrics.comparison import compare
from sim.schedule import Schedule
from sim.settings import Campaign

COMPARED_DAYS = 30
"""Days of submissions that the comparison simulates, also before a first night."""
SCHEDULERS = ("EASY", "EASY-SJBF")
"""Simulated every night; by these a challenger's schedules are judged, too."""
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
    answers: Mapping[str, pd.DataFrame],
    served: pd.DataFrame,
    schedulers: Sequence[str],
    *,
    named: Sequence[str] = (),
    replicates: int = 1,
) -> list[Schedule]:
    """Return schedules of the jobs ``rows`` with predictors ``named`` and with ``answers``.

    ``answers`` by name are seconds in the order of ``served``: a column ``PREDICTED``, and one a level in (0, 1) where there are
    quantiles. Several ``replicates`` are shaken (:data:`SHAKE_S`), the same for all.
    """
    jobs = clean.jobs.iloc[rows].reset_index(drop=True)
    there, here = job_keys(jobs.assign(end_s=known.end_s[rows])), job_keys(served)
    place = here.get_indexer(there)
    if (place < 0).any():
        raise ValueError(f"{int((place < 0).sum())} of {len(rows)} jobs were not answered")
    tables = [_table(name, each.iloc[place].reset_index(drop=True)) for name, each in answers.items()]
    shake_s = SHAKE_S if replicates > 1 else 0
    asked = Campaign(schedulers=tuple(schedulers), predictors=(*named, *tables), seeds=tuple(range(replicates)), shake_s=shake_s)
    return campaign_schedules(jobs, asked, procs=clean.procs, trace=clean.name, generated=clean.generated, clock=clean.clock)


def _table(name: str, told: pd.DataFrame) -> TablePredictor:
    seconds, quantiles = told[PREDICTED].to_numpy(np.float64), told.drop(columns=PREDICTED)
    return TablePredictor(name, lambda _: seconds, quantiles=None if quantiles.empty else lambda _: quantiles)


def champion_answers(served: pd.DataFrame, stand_in: str) -> pd.DataFrame:
    """Return what the champion answered, as :func:`served_schedules` takes it.

    In the order of ``served``. Jobs without its answer have that of the method ``stand_in``, or their request where ``served``
    has no such column. Where a distribution is told of some jobs, the others have their point at all levels.
    """
    stand_in = stand_in if stand_in in served else Requested.name
    absent, known = served[CHAMPION].isna(), quantile_columns(stand_in)
    told = pd.DataFrame({PREDICTED: served[CHAMPION].where(~absent, served[stand_in])})
    for level, column in quantile_columns(CHAMPION).items():
        told[level] = served[column].where(~absent, served[known[level]] if level in known else np.nan)
    if told.drop(columns=PREDICTED).isna().all(axis=None):
        return told[[PREDICTED]]
    return told.apply(lambda column: column.fillna(told[PREDICTED]))


def against_the_champion(
    clean: CleanTrace,
    known: Accounting,
    served: pd.DataFrame,
    trained_until_s: int,
    schedulers: Sequence[str] = SCHEDULERS,
) -> Schedules:
    """Return a comparison of a challenger's schedules with the champion's.

    Of the last jobs submitted after the champion was trained. Rows are those of :func:`sim.metrics.comparison.compare` for each
    of ``schedulers``, the champion's schedules the baseline, over shaken replicates and weeks; none where there are no such jobs.
    """

    def of(name: str) -> pd.DataFrame:
        rows = recent_rows(known, max(trained_until_s + 1, int(served["at_s"].min()))) if len(served) else np.empty(0, np.intp)
        if len(rows) == 0:
            return pd.DataFrame()
        seconds = {CHAMPION: served[CHAMPION].fillna(served["requested"]), _CHALLENGER: served[name]}
        answers = {method: each.to_frame(PREDICTED) for method, each in seconds.items()}
        made = served_schedules(clean, known, rows, answers, served, schedulers, replicates=REPLICATES)
        tables = []
        for scheduler in schedulers:
            pair = [each for each in made if each.scheduler == scheduler]
            table = compare(pair, (scheduler, CHAMPION))
            tables.append(table[table["predictor"] == _CHALLENGER])
        return pd.concat(tables, ignore_index=True)

    return of


def job_keys(jobs: pd.DataFrame) -> pd.MultiIndex:
    """Return unique keys of jobs: number, submission, end, and a counter of equal ones."""
    names = ["job_id", "submit_s", "end_s"]
    return pd.MultiIndex.from_frame(jobs[names].assign(again=jobs.groupby(names).cumcount()))
