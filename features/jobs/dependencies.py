"""Jobs that wait for others: graphs of batches, and SWF's preceding job and think time.

In Feitelson's SWF a job may name one job whose end it waits for, and the seconds between that end and its own
submission. Archives mostly leave both fields empty. Some fill them with one constant, which states no dependency. The
users of Zakay & Feitelson (:mod:`sim.users`) submit batches of jobs, and a batch may wait for several others. That
needs a :class:`Graph`; the two SWF fields can express only part of it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from features.deferred import pd
from features.errors import InputError

OPEN = -1
"""Value in ``Graph.after_s``: the job waits for no other job and is submitted as recorded."""


class Graph(NamedTuple):
    """Batches of jobs, and the batches that each waits for; int64.

    ``batch`` [jobs] numbers the batches. A job is submitted ``after_s`` [jobs] seconds after the last end of the
    batches that its batch waits for, or :data:`OPEN` if its batch waits for none (the same for all jobs of a batch).
    ``parents`` [batches] counts the batches that a batch waits for. The batches that wait for batch b are
    ``child[first_child[b] : last_child[b]]``, both [batches]; such slices may overlap.
    """

    batch: np.ndarray
    after_s: np.ndarray
    parents: np.ndarray
    child: np.ndarray
    first_child: np.ndarray
    last_child: np.ndarray

    def of_rows(self, rows: np.ndarray) -> Graph:
        """Return the graph with its jobs reordered: job i is job ``rows[i]`` of this graph."""
        return self._replace(batch=self.batch[rows], after_s=self.after_s[rows])


class Preceding(NamedTuple):
    """Row of the preceding job (``row``, -1: none) and think time (``think_s``), int64 [jobs].

    ``think_s`` is 0 for jobs without one. ``named`` counts jobs that name a preceding job, ``absent`` those whose
    preceding job is missing from the table, ``not_earlier`` those whose preceding job is not above them (itself, or
    later); the last two are submitted as recorded. ``without_think_s`` counts jobs that wait and state no think time.
    """

    row: np.ndarray
    think_s: np.ndarray
    named: int
    absent: int
    not_earlier: int
    without_think_s: int

    def graph(self) -> Graph:
        """Return the dependencies as a graph with one batch for each job."""
        total, waits = len(self.row), self.row >= 0
        child = np.argsort(self.row, kind="stable")[total - int(waits.sum()) :]
        first, last = (np.searchsorted(self.row[child], np.arange(total), side) for side in ("left", "right"))
        after_s = np.where(waits, self.think_s, OPEN)
        return Graph(np.arange(total), after_s, waits.astype(np.int64), child, first, last)

    def notes(self) -> list[str]:
        """Return whole sentences on how the two columns were interpreted."""
        count = int((self.row >= 0).sum())
        notes = [f"{count:,} jobs are submitted when the job they name has ended, after their think time."]
        for number, what in (
            (self.absent, "name a preceding job that the trace lacks, and are submitted as recorded"),
            (self.not_earlier, "name themselves or a later job as the preceding one, and are submitted as recorded"),
            (self.without_think_s, "state no think time, which counts as 0 s"),
        ):
            if number:
                notes.append(f"{number:,} jobs {what}.")
        return notes


def preceding_rows(jobs: pd.DataFrame) -> Preceding:
    """Return the dependencies stated in columns ``preceding_job`` and ``think_s``.

    Raises InputError if all jobs name the same job, itself included, or if the job_id of a named job is not unique.
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
    preceding = pd.Series(np.arange(total), index=ids)[~ids.duplicated()].reindex(wanted).fillna(-1).to_numpy(np.int64)
    at = np.flatnonzero(names)
    absent = preceding < 0
    not_earlier = preceding >= at
    row[at] = np.where(absent | not_earlier, -1, preceding)
    waits = row >= 0
    think = jobs["think_s"]
    has_think_time = think.notna().to_numpy() & (think.fillna(-1) >= 0).to_numpy()
    return Preceding(
        row,
        np.where(waits & has_think_time, think.fillna(0).to_numpy(np.int64), 0),
        len(wanted),
        int(absent.sum()),
        int(not_earlier.sum()),
        int((waits & ~has_think_time).sum()),
    )
