"""Jobs that wait for another job: SWF's preceding job and think time as rows of a table.

In Feitelson's SWF a job may name one job whose end it waits for, and the seconds between that end and its own submission.
Archives mostly leave both fields empty; some fill them with one constant, which states nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from features.errors import InputError


class Preceding(NamedTuple):
    """Rows waited for (``row``, -1: none) and think times (``think_s``, else 0), int64 [jobs].

    ``named`` counts jobs that name a preceding one, ``absent`` those whose preceding job is missing from the table,
    ``not_earlier`` those whose preceding job is not above them (itself, or later): these are submitted as recorded.
    ``without_think_s`` counts jobs that wait and state no think time.
    """

    row: np.ndarray
    think_s: np.ndarray
    named: int
    absent: int
    not_earlier: int
    without_think_s: int

    def notes(self) -> list[str]:
        """Return what was made of the columns, in whole sentences."""
        count = int((self.row >= 0).sum())
        notes = [f"{count:,} jobs are submitted when the job they name has ended, after their think time."]
        for number, what in (
            (self.absent, "name a preceding job that is not there, and are submitted as recorded"),
            (self.not_earlier, "name themselves or a job further down as the preceding one, and are submitted as recorded"),
            (self.without_think_s, "state no think time, which counts as 0 s"),
        ):
            if number:
                notes.append(f"{number:,} jobs {what}.")
        return notes


def preceding_rows(jobs: pd.DataFrame) -> Preceding:
    """Return the dependencies that ``preceding_job`` and ``think_s`` of a jobs table state.

    Raises InputError if all jobs name the same job, itself included, and if the named job_id is not unique.
    """
    total = len(jobs)
    named = jobs["preceding_job"]
    names = named.notna().to_numpy() & (named.fillna(0) > 0).to_numpy()
    row = np.full(total, -1, np.int64)
    wanted = named[names].to_numpy(np.int64)
    ids = pd.Index(jobs["job_id"].to_numpy(np.int64))
    if total > 1 and names.all() and (wanted == wanted[0]).all() and wanted[0] in ids:
        raise InputError(
            f"dependencies: all {total:,} jobs name job {wanted[0]} as the preceding one (SWF field 17), itself among them: the column is "
            "filled in, and states no dependencies"
        )
    twice = np.unique(ids[ids.duplicated()].to_numpy())
    ambiguous = np.isin(wanted, twice)
    if ambiguous.any():
        raise InputError(
            f"dependencies: job {wanted[int(np.argmax(ambiguous))]} precedes another, and several jobs have that number"
        )
    found = pd.Series(np.arange(total), index=ids)[~ids.duplicated()].reindex(wanted).fillna(-1).to_numpy(np.int64)
    at = np.flatnonzero(names)
    absent = found < 0
    not_earlier = found >= at
    row[at] = np.where(absent | not_earlier, -1, found)
    waits = row >= 0
    think = jobs["think_s"]
    stated = think.notna().to_numpy() & (think.fillna(-1) >= 0).to_numpy()
    return Preceding(
        row,
        np.where(waits & stated, think.fillna(0).to_numpy(np.int64), 0),
        len(wanted),
        int(absent.sum()),
        int(not_earlier.sum()),
        int((waits & ~stated).sum()),
    )
