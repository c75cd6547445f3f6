"""States of a trace's queue before a date and, for a run, after it, as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from features.jobs.cleaning import CleanTrace
from features.jobs.schema import recorded_end_s
from models.packed.queue_state import FEATURES
from models.packed.start_predictor import EASY, SLURM, STARTS
from models.registry.accounting import Accounting
from models.starts.model import Questions
from models.starts.training import LEARNED
from pipelines.lake.tables import Lake
from pipelines.training.cutoff import Cutoff
from pipelines.training.queue_moments import moments_of
from sim.starts.ahead import Ahead
from sim.starts.closings import closed, drained
from sim.starts.history_starts import RECORDED
from sim.starts.questions import PLAN, as_table, ask, from_states, moments, queued

TABLE = "queue_states"
Progress = Callable[[int, int], object]
FEWEST = 500
"""Min number of questions whose jobs have started. With fewer, nothing is learned."""
MOST_JUDGED = 1_000
"""Max number of questions after a run's date, evenly spread."""
_WARM_JOBS = 3_000
"""Number of jobs before the first question from which runtimes are predicted."""


class QueueQuestions(NamedTuple):
    """Questions of a trace, by time.

    ``start_s`` int64 [jobs] are the starts of all its jobs; ``ahead`` is what ran ahead: EASY, Slurm, or the text of a pool with closings.
    """

    questions: Questions
    start_s: np.ndarray
    ahead: str = EASY


def keep_states(lake: Lake, clean: CleanTrace, records: Accounting, date: Cutoff, progress: Progress, seed: int = 0) -> str:
    """Write the table ``queue_states`` and return ""; or write nothing and return the reason.

    It has the last ``LEARNED`` questions before the date and, for a run, ``MOST_JUDGED`` later ones. Kept snapshots of the queue
    add those of :mod:`pipelines.training.queue_moments`; a Slurm site has only these. Questions of an earlier version are reused if
    their moments are before any job that is new since then.
    """
    why, rows, origin_s = "", rows_by_number(clean.jobs), clean.origin_unix_s or 0
    moments, single, whole = None, _none(), _none()
    if records.source != RECORDED:
        why = "waits are not recorded, so there is nothing to learn starts from"
    else:
        moments = moments_of(clean, records, date)
        if moments is None or moments.site is None:
            row, at = _wanted(clean, records.start_s, date)
            single = pd.MultiIndex.from_arrays([clean.jobs["job_id"].to_numpy()[row], at], names=single.names)
            single = single[single.isin(rows.index, level=0)]
        if moments is not None:
            pairs = [(job, at - origin_s) for at, jobs in moments.wanted() for job in jobs if job in rows.index]
            whole = pd.MultiIndex.from_tuples(pairs, names=single.names).difference(single) if pairs else whole
        came = int((records.start_s[rows[single.append(whole).get_level_values(0)]] <= date.until_s).sum())
        if came < FEWEST:
            why = f"{came:,} question{'s' * (came != 1)} before the date came true: {FEWEST} are needed"
    if why:
        return why
    ahead = SLURM if moments is not None and moments.site is not None else _ahead(lake, clean, records.start_s, date)
    old, wanted = _kept_questions(lake, clean, records.start_s, {"seed": seed, "ahead": ahead}), single.append(whole)
    single, whole = (each[~each.isin(old.index)] for each in (single, whole))
    tables = [old[old.index.isin(wanted)]]
    if len(single):
        tables.append(_asked(clean, records.start_s, single, rows, ahead, seed, progress))
    if moments is not None and len(whole):
        tables.append(moments.asked(whole, origin_s, ahead, seed, progress))
    table = pd.concat([each for each in tables if len(each)]).loc[wanted].reset_index()
    table = table.iloc[np.lexsort((rows[table["job_id"]], table["at_s"]))].reset_index(drop=True)
    marks = {"why": "", "known": len(clean.jobs), "known_s": int(recorded_end_s(clean.jobs, records.start_s).max())}
    marks |= {"until_s": date.until_s, "seed": seed, "ahead": ahead, "asked_anew": len(single) + len(whole)}
    lake.write_for(clean, TABLE, table, marks)
    return ""


def _ahead(lake: Lake, clean: CleanTrace, start_s: np.ndarray, date: Cutoff) -> str:
    """Return what runs queues of a pool ahead: EASY, or the text of a pool with closings.

    A night keeps that of the previous table. So does a run, unless the jobs ended by its date keep to others.
    """
    marks: Mapping[str, Any] = _before(lake, clean)[1]
    before = marks.get("ahead", EASY)
    if marks["why"] or before == SLURM or marks.get("until_s", 0) > date.until_s:
        before = EASY
    elif date.night:
        return str(before)
    end_s = recorded_end_s(clean.jobs, start_s)
    pool = drained(clean.jobs, clean.procs, clean.clock, start_s, end_s, date.until_s, closed(before, clean.procs))
    return EASY if pool is None else pool.text


def rows_by_number(jobs: pd.DataFrame) -> pd.Series:
    """Return the row of each job by its number, without numbers that several rows share.

    Accounting lists a requeued job once for each of its runs.
    """
    return pd.Series(np.arange(len(jobs)), jobs["job_id"])[~jobs["job_id"].duplicated(keep=False).to_numpy()]


def _none() -> pd.MultiIndex:
    return pd.MultiIndex.from_arrays([np.arange(0), np.arange(0)], names=["job_id", "at_s"])


def _asked(
    clean: CleanTrace, start_s: np.ndarray, wanted: pd.MultiIndex, rows: pd.Series, ahead: str, seed: int, progress: Progress
) -> pd.DataFrame:
    """Return the table of questions about single jobs, by job and second, on one pool."""
    row, at = rows[wanted.get_level_values(0)].to_numpy(), wanted.get_level_values(1).to_numpy(np.int64)
    there = int((recorded_end_s(clean.jobs, start_s) > at.min()).argmax())  # runs or waits at the first question
    first = min(max(int(row.min()) - _WARM_JOBS, 0), there)
    some = replace(clean, jobs=clean.jobs.iloc[first:].reset_index(drop=True))
    start = start_s[first:]
    jobs = queued(some, start, recorded_end_s(some.jobs, start), seed)
    asked = ask(jobs, row - first, at, Ahead(clean.procs, seed=seed, pool=closed(ahead, clean.procs)), clean.clock, progress)
    return as_table(asked, some.jobs["job_id"].to_numpy()).set_index(list(wanted.names))


def _wanted(clean: CleanTrace, start_s: np.ndarray, date: Cutoff) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and seconds of the questions, by time."""
    submit = clean.jobs["submit_s"].to_numpy(np.int64)
    row, at = (each[-LEARNED:] for each in moments(submit, start_s, min(int(submit[0]), 0), date.until_s))
    if not date.follows:
        return row, at
    later = moments(submit, start_s, date.until_s, int(submit[-1]) + 1)
    chosen = np.unique(np.linspace(0, len(later[0]) - 1, min(MOST_JUDGED, len(later[0]))).astype(np.int64))
    return np.concatenate((row, later[0][chosen])), np.concatenate((at, later[1][chosen]))


def _kept_questions(lake: Lake, clean: CleanTrace, start_s: np.ndarray, made_with: dict[str, object]) -> pd.DataFrame:
    """Return the questions of an earlier version that are still valid, by job and second.

    At a Slurm site all are valid: its accounting also lists running and waiting jobs.
    """
    empty, (table, marks) = _empty(), _before(lake, clean)
    new = recorded_end_s(clean.jobs, start_s) > marks.get("known_s", -1)
    same = not marks["why"] and {**marks, **made_with, "known": int((~new).sum())} == marks
    if not same or list(table.columns) != list(empty.columns):
        table = empty
    elif made_with["ahead"] != SLURM:
        table = table[table["at_s"] < clean.jobs["submit_s"].to_numpy(np.int64)[new].min(initial=1 << 60)]
    return table.set_index(["job_id", "at_s"])


def _empty() -> pd.DataFrame:
    return pd.DataFrame(columns=["job_id", "at_s", *FEATURES, *STARTS, PLAN], dtype=np.float64)


def _before(lake: Lake, clean: CleanTrace) -> tuple[pd.DataFrame, Mapping[str, Any]]:
    """Return the published table and its metadata, or an empty one."""
    published = lake.published()
    return published.read(TABLE, clean.name) if published.has(TABLE, clean.name) else (_empty(), {"why": "none yet"})


def read_states(lake: Lake, clean: CleanTrace, records: Accounting) -> QueueQuestions:
    """Return the questions that :func:`keep_states` wrote."""
    table, marks = lake.read_for(clean, TABLE)
    row = rows_by_number(clean.jobs)[table["job_id"]].to_numpy(np.int64)
    return QueueQuestions(from_states(table, row), records.start_s, marks.get("ahead", EASY))
