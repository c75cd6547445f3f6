"""States of a trace's queue before a date and, of a run, after it, as a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from features.jobs.cleaning import CleanTrace
from features.jobs.schema import recorded_end_s
from models.packed.start_predictor import STARTS
from models.starts.model import Questions
from models.starts.states import FEATURES
from models.starts.training import LEARNED
from pipelines.dated.dated import Dated
from pipelines.dated.history import History
from pipelines.storage.lake import Lake
from sim.ahead import Ahead
from sim.history_starts import RECORDED
from sim.questions import PLAN, as_table, ask, from_states, moments, queued

TABLE = "queue_states"
FEWEST = 500
"""Questions whose jobs have started, below which nothing is learned."""
MOST_JUDGED = 1_000
"""Questions after a run's date that are asked, evenly spread."""
_WARM_JOBS = 3_000
"""Jobs before the first question from which runtimes are predicted."""


class Asked(NamedTuple):
    """Questions of a trace, by time, and the starts of all its jobs, int64 [jobs] seconds."""

    questions: Questions
    start_s: np.ndarray


def keep_states(
    lake: Lake, clean: CleanTrace, users: History, date: Dated, progress: Callable[[int, int], object], seed: int = 0
) -> str:
    """Write the table ``queue_states``; return why it is empty, if it is.

    The last ``LEARNED`` questions before the date and, of a run, ``MOST_JUDGED`` of those that follow. What an earlier version holds of
    moments before any job that it did not know is not asked again.
    """
    why, row, at = "", np.arange(0), np.arange(0)
    if users.source != RECORDED:
        why = "waits are not recorded, so there is nothing to learn starts from"
    else:
        row, at = _wanted(clean, users.start_s, date)
        if (came := int((users.start_s[row] <= date.until_s).sum())) < FEWEST:
            why = f"{came:,} questions before the date came true: {FEWEST} are needed"
    if why:
        lake.write_for(clean, TABLE, pd.DataFrame({"job_id": np.arange(0), "at_s": np.arange(0)}), {"why": why})
        return why
    job_id, old = clean.jobs["job_id"].to_numpy(), _known(lake, clean, users.start_s, seed)
    wanted = pd.MultiIndex.from_arrays([job_id[row], at], names=old.index.names)
    new = ~wanted.isin(old.index)
    table = old[old.index.isin(wanted)]
    if new.any():
        first = max(int(row[new].min()) - _WARM_JOBS, 0)
        some = replace(clean, jobs=clean.jobs.iloc[first:].reset_index(drop=True))
        start = users.start_s[first:]
        jobs = queued(some, start, recorded_end_s(some.jobs, start), seed)
        asked = ask(jobs, row[new] - first, at[new], Ahead(clean.procs, seed=seed), clean.clock, progress)
        fresh = as_table(asked, job_id[first:]).set_index(wanted.names)
        table = pd.concat([table, fresh]) if len(table) else fresh
    table = table.loc[wanted].reset_index()
    before = int((clean.jobs["submit_s"] < at[0]).sum())
    lake.write_for(clean, TABLE, table, {"why": "", "before": before, "seed": seed, "asked_anew": int(new.sum())})
    return ""


def _wanted(clean: CleanTrace, start_s: np.ndarray, date: Dated) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and seconds of the questions, by time."""
    submit = clean.jobs["submit_s"].to_numpy(np.int64)
    row, at = (each[-LEARNED:] for each in moments(submit, start_s, 0, date.until_s))
    if not date.follows:
        return row, at
    later = moments(submit, start_s, date.until_s, int(submit[-1]) + 1)
    chosen = np.unique(np.linspace(0, len(later[0]) - 1, min(MOST_JUDGED, len(later[0]))).astype(np.int64))
    return np.concatenate((row, later[0][chosen])), np.concatenate((at, later[1][chosen]))


def _known(lake: Lake, clean: CleanTrace, start_s: np.ndarray, seed: int) -> pd.DataFrame:
    """Return the questions of an earlier version that are still right, by job and second."""
    empty = pd.DataFrame(columns=["job_id", "at_s", *FEATURES, *STARTS, PLAN], dtype=np.float64)
    table, marks = lake.read(TABLE, clean.name) if lake.has(TABLE, clean.name) else (empty, {"why": "none yet"})
    submit = clean.jobs["submit_s"].to_numpy(np.int64)
    other = bool(marks["why"]) or marks["seed"] != seed or list(table.columns) != list(empty.columns)
    if other or int((submit < table["at_s"].iloc[0]).sum()) != marks["before"]:
        table = empty
    else:
        unknown = (submit >= table["at_s"].iloc[0]) & ~np.isin(clean.jobs["job_id"].to_numpy(), table["job_id"].to_numpy())
        table = table[table["at_s"] < submit[unknown].min(initial=1 << 60)]
    return table.set_index(["job_id", "at_s"])


def read_states(lake: Lake, clean: CleanTrace, users: History) -> Asked | None:
    """Return the questions that :func:`keep_states` wrote; None where there are none."""
    table, marks = lake.read_for(clean, TABLE)
    if marks["why"]:
        return None
    row = pd.Index(clean.jobs["job_id"]).get_indexer(table["job_id"])
    return Asked(from_states(table, row.astype(np.int64)), users.start_s)
