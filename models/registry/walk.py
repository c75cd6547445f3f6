"""Replay accounting with a predictor of the simulator, event by event.

The kernel's memory then is the model: in the registry a predictor learns by the simulator's own code.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from features.jit import njit
from models.packed.groups import KEYS, Groups
from models.registry.accounting import REMEMBERED_JOBS, Accounting
from models.runtime import job_features
from models.runtime.protocol import CompiledPredictor


class _Jobs(NamedTuple):
    """The kernel's columns, int64 [jobs]."""

    submit: np.ndarray
    runtime: np.ndarray
    requested: np.ndarray
    procs: np.ndarray


class Walk:
    """Jobs in order of their ends, and a predictor's memory that learns event by event.

    ``rows`` are the jobs of ``accounting`` by end; ``alike`` the levels of a trained model: keys missing there are not read.
    """

    def __init__(
        self,
        accounting: Accounting,
        rows: np.ndarray,
        predictor: CompiledPredictor,
        alike: tuple[tuple[str, ...], ...] | None = None,
    ) -> None:
        jobs = accounting.jobs.iloc[rows]
        if alike is not None:
            looked_at = {key for level in alike for key in level}
            jobs = jobs.assign(
                **{key: jobs[key].cat.set_categories([]) for key in ("user", "group", "executable") if key not in looked_at}
            )
        self.jobs, self.end, self.predictor = jobs, accounting.end_s[rows], predictor
        self.alike = tuple(job_features.levels_of(jobs))
        self.submit = jobs["submit_s"].to_numpy(np.int64)
        self.columns = _Jobs(*(jobs[name].to_numpy(np.int64) for name in ("submit_s", "runtime_s", "requested_s", "procs")))
        self.memory = predictor.memory(jobs)._replace(row=np.arange(len(jobs)))
        time, number = np.concatenate((self.end, self.submit)), np.tile(np.arange(len(jobs)), 2)
        submitted = np.repeat([0, 1], len(jobs))  # within a second, ends come first
        order = np.lexsort((number, submitted, time))
        self.time, self.event = time[order], (2 * number + submitted)[order]
        self.gone = 0

    def events(self, until_s: int) -> np.ndarray:
        """Return the events since the last call, up to ``until_s``.

        Each is twice a job's number, plus one for a submission.
        """
        begin, self.gone = self.gone, int(np.searchsorted(self.time, until_s, side="right"))
        return self.event[begin : self.gone]

    def go(self, until_s: int) -> None:
        """Process submissions and ends up to ``until_s``."""
        _events(self.memory, self.columns, self.end, self.events(until_s))

    def retrain(self, at_s: int) -> None:
        """Retrain as the simulator does at midnight."""
        ended = np.arange(np.searchsorted(self.end, at_s, side="right"))
        assert self.predictor.retrain is not None
        self.memory = self.predictor.retrain(self.memory, ended, self.columns.runtime)

    def groups(self, at_s: int) -> Groups:
        """Return the groups with an ended job so far; ValueError if there are none."""
        memory, tables = self.memory, []
        for number, level in enumerate(self.alike):
            group, row = np.unique(memory.keys[:, number], return_index=True)
            row = row[(group >= 0) & (memory.users[group, job_features.COUNT] > 0)]
            table = self.jobs[list(level)].iloc[row].reset_index(drop=True).reindex(columns=list(KEYS))
            tables.append(table.assign(level=np.int64(number), group_number=memory.keys[row, number]))
        if not tables:
            raise ValueError("no job has ended")
        table = pd.concat(tables, ignore_index=True)
        text = {name: table[name].astype("str") for name in KEYS[:3]}
        whole = {name: table[name].astype("Int64") for name in KEYS[3:]}
        past = memory.users[table["group_number"].to_numpy(np.int64)]
        return Groups(self.alike, pd.DataFrame({"level": table["level"], **text, **whole, **_remembered(past)}), at_s)


def by_end(accounting: Accounting) -> np.ndarray:
    """Return the rows of all jobs in order of their ends."""
    return np.lexsort((accounting.start_s, accounting.end_s))


def ended_by(accounting: Accounting, at_s: int) -> np.ndarray:
    """Return the rows of the most recent jobs ended by ``at_s``, by end."""
    order = by_end(accounting)
    last = int(np.searchsorted(accounting.end_s[order], at_s, side="right"))
    return order[max(last - REMEMBERED_JOBS, 0) : last]


def ended_since(accounting: Accounting, trained_s: int, at_s: int, submitted_s: int) -> np.ndarray:
    """Return rows of a training's jobs and of jobs ended since, by end.

    The training was at ``trained_s``. The later jobs ended by ``at_s``. All were submitted by ``submitted_s``.
    """
    order = by_end(accounting)
    trained, last = np.searchsorted(accounting.end_s[order], [trained_s, at_s], side="right")
    order = order[max(int(trained) - REMEMBERED_JOBS, 0) : int(last)]
    return order[accounting.jobs["submit_s"].to_numpy(np.int64)[order] <= submitted_s]


def _remembered(states: np.ndarray) -> dict[str, np.ndarray]:
    """Return the groups' state for ``job_features.describe``, from rows of ``Memory.users``."""
    ring, recent = job_features.RING, job_features.RECENT
    ended = states[:, job_features.COUNT].astype(np.int64)
    each, some = np.arange(len(states)), np.minimum(ended, recent)
    second_last = np.where(ended > 1, states[each, ring + (ended - 2) % recent], job_features.UNKNOWN)
    return {
        "ended": ended,
        "last_end_s": states[:, job_features.LAST_END].astype(np.int64),
        "last": states[each, ring + (ended - 1) % recent],
        "second_last": second_last,
        "median": states[each, job_features.SORTED + some // 2],
        "quartile": states[each, job_features.SORTED + some // 4],
        "third_quartile": states[each, job_features.SORTED + 3 * some // 4],
    }


@njit
def _events(memory, jobs, end, events):
    """Process ``events`` in order."""
    for event in events:
        job = event // 2
        if event % 2 == 1:
            job_features.describe(memory, job, jobs)
        else:
            job_features.remember(memory, job, jobs.runtime[job], end[job])
