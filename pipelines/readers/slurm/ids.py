"""Slurm's job ids: ``7``, steps ``7.batch``, array tasks ``7_3``, parts ``7+1``.

Pending array tasks share a line such as ``7_[8-20%4]``; ``7+1`` is a component of a heterogeneous job.
"""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from pipelines.readers.delimited import BEYOND, AccountingTable
from pipelines.readers.text import counted

_PENDING = re.compile(r"\d+_\[([^\]]*)\](?:\+\d+)?")
TASKS = re.compile(r"(\d{1,18})(?:-(\d{1,18})(?::(\d{1,18}))?)?", re.ASCII)
_COMPONENT = re.compile(r"(\d+(?:_\d+)?)\+\d+")
_ID = re.compile(r"\d+(?:_(?:\d+|\[[^\]]*\]))?(?:\+\d+)?(?:\.\S+)?", re.ASCII)
RAW = ("jobidraw", "jobid", "job_id")
"""Columns of the job's id, in lower case: the first present one is read."""
_WRITTEN = ("jobid", "job_id", "jobidraw")
"""The same, the most detailed first."""


def is_id(text: str) -> bool:
    """Tell whether ``text`` can be a job's or a step's id."""
    return _ID.fullmatch(text) is not None


def job_steps(table: AccountingTable) -> np.ndarray:
    """Return which lines are steps of jobs, bool [rows]."""
    steps = np.zeros(table.rows, bool)
    for name in ("jobid", "jobidraw"):
        if name in table:
            steps |= table.matches(name, lambda text: "." in text.rpartition("]")[2])
    return steps


def job_ids(table: AccountingTable, name: str, jobs: np.ndarray, notes: list[str]) -> np.ndarray:
    """Return int64 ids of the ``jobs`` (bool [rows]) by the column ``name``.

    They number the distinct ids from 1 if not all are whole numbers; for JobIDRaw that raises InputError.
    """
    numbered = table.matches(name, _is_number)
    if not numbered[jobs].all():
        if name == "jobidraw":
            table.refuse(name, jobs & ~numbered, "is not a whole number")
        notes.append(
            "Job ids are not all whole numbers (array or heterogeneous jobs, and no JobIDRaw): jobs are numbered from 1 instead."
        )
        return 1 + pd.factorize(table.texts(name)[0][jobs])[0]
    ids = table.mapped(name, lambda texts: np.array([_number(text) for text in texts], np.int64))[jobs]
    counted(notes, "Job ids that an earlier line has too", len(ids) - len(np.unique(ids)))
    return ids


def written_ids(table: AccountingTable, ids: np.ndarray, jobs: np.ndarray) -> object:
    """Return the ids of the ``jobs`` as the file writes them, null where equal to ``ids``."""
    codes, distinct = table.texts(table.column(*_WRITTEN))
    texts = pd.Series(np.array(distinct, object)[codes[jobs]])
    return pd.Categorical(texts.where(texts != pd.Series(ids).astype(str)).astype("str"))


def _is_number(text: str) -> bool:
    return text.isdecimal() and text.isascii()


def _number(text: str) -> int:
    return -1 if not _is_number(text) else int(text) if len(text) <= 18 else BEYOND


def tasks_in(text: str) -> tuple[list[range], bool] | None:
    """Return the array tasks in an id such as ``7_[1-9:2,12%4]``, and whether it names all.

    Slurm cuts long lists with ``...``. Returns None for an id of any other kind.
    """
    match = _PENDING.fullmatch(text)
    if match is None:
        return None
    numbers, all_told = list[range](), True
    for piece in match[1].partition("%")[0].split(","):
        tasks = TASKS.fullmatch(piece.strip())
        if tasks is None:
            all_told = False
            continue
        first, last, step = int(tasks[1]), int(tasks[2] or tasks[1]), int(tasks[3] or 1)
        numbers.append(range(first, max(last, first) + 1, max(step, 1)))
    return numbers, all_told


def count_tasks(numbers: list[range]) -> int:
    """Return how many tasks the ranges of :func:`tasks_in` have."""
    return sum(map(len, numbers))


def note_kinds(table: AccountingTable, jobs: np.ndarray, ended: np.ndarray, notes: list[str]) -> None:
    """Note how many array tasks share lines, and how many components jobs have.

    ``ended`` tells which of the ``jobs`` (bool [rows]) have ended, bool [jobs].
    """
    name = table.find(*_WRITTEN)
    if name is None:
        return
    codes, distinct = table.texts(name)
    codes = codes[jobs]
    lines = np.bincount(codes, minlength=len(distinct))
    for over, what in ((False, "had not started"), (True, "ended together")):
        counts = np.bincount(codes[ended == over], minlength=len(distinct))
        sharing = [(int(counts[code]), shared) for code, text in enumerate(distinct) if counts[code] and (shared := tasks_in(text))]
        if sharing:
            least = "" if all(all_told for _, (_, all_told) in sharing) else "at least "
            tasks = sum(times * count_tasks(numbers) for times, (numbers, _) in sharing)
            notes.append(
                f"Array tasks that {what} share a line, which is read as one job: {sum(times for times, _ in sharing):,} for "
                f"{least}{tasks:,} tasks."
            )
    whole = {match[1]: 0 for code, text in enumerate(distinct) if lines[code] and (match := _COMPONENT.fullmatch(text))}
    if whole:
        parts = sum(int(lines[code]) for code, text in enumerate(distinct) if _COMPONENT.fullmatch(text))
        notes.append(f"Components of heterogeneous jobs are read as jobs of their own: {parts:,} of {len(whole):,} jobs.")
