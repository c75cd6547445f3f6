"""The table ``runtime_features``: what models of runtimes are trained from, one row a job.

A row has only what was known when its job was submitted. Serving computes the same columns by the same code from a
snapshot of users and groups (:func:`states_at`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from features.deferred import pd
from features.jobs import like_jobs
from features.jobs.history import events_of, walk
from features.jobs.like_jobs import columns_of, history
from features.jobs.schema import alike, masked


def distinct(jobs: pd.DataFrame) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Return, by level, the keys that ``jobs`` fill, for levels that they tell apart.

    Keys that are empty throughout a trace are left out. Of levels with the same keys left the first is returned.
    """
    first: dict[tuple[str, ...], tuple[str, ...]] = {}
    for level in like_jobs.LEVELS:
        present = tuple(key for key in level if not jobs[key].isna().all())
        if present:
            first.setdefault(present, level)
    return {level: present for present, level in first.items()}


def numbered(jobs: pd.DataFrame, levels: tuple[tuple[str, ...], ...]) -> tuple[np.ndarray, int]:
    """Return each job's group at each level of keys, int64 [jobs, levels], and their number.

    Groups of all levels are numbered from 0; -1 is none.
    """
    groups = np.full((len(jobs), len(levels)), -1, np.int64)
    count, codes = 0, {key: pd.factorize(jobs[key])[0] for key in {key for level in levels for key in level}}
    for position, level in enumerate(levels):
        if not level:
            continue
        complete = np.all([codes[key] >= (0 if key in like_jobs.PEOPLE else -1) for key in level], axis=0)
        group = alike([codes[key][complete] for key in level])
        groups[complete, position] = group + count
        count += int(group.max(initial=-1)) + 1
    return groups, count


FEATURES = ("requested_s", "procs", *columns_of(), like_jobs.SPREAD, *like_jobs.HISTORY)
"""Columns of :func:`runtime_features` behind the keys, in order."""


class States(NamedTuple):
    """Users and groups of like jobs at one instant.

    Registered models predict from them without a trace.

    ``users`` has a row for each user with known jobs: ``user at_s`` and the columns of ``STATE``, null where undefined.
    ``groups`` has a row for each group with an ended job: ``level`` (index in ``LEVELS``), the keys that the level has,
    ``ended``, ``last_end_s``, and ``runtime_0_log_s`` to ``runtime_15_log_s``, a ring of the last runtimes.
    """

    users: pd.DataFrame
    groups: pd.DataFrame


def runtime_features(
    jobs: pd.DataFrame,
    start_s: np.ndarray,
    local_s: np.ndarray,
    end_s: np.ndarray | None = None,
    *,
    rows: np.ndarray | None = None,
    known_s: np.ndarray | None = None,
) -> pd.DataFrame:
    """Return the features of each submission, float64 [jobs], columns ``FEATURES``.

    Arguments and errors are those of :func:`features.jobs.history.events_of`; the result has the index of ``jobs``. A
    job has completed if end_s <= submit_s, and is running if start_s < submit_s < end_s; runtimes are those of ``jobs``
    even if ``end_s`` is later. ``procs`` are requested processors, also in the running jobs' ``occupied_procs`` and
    ``running_mean_procs``; ``mean_allocated_procs`` uses allocated processors if recorded, else requested. A job
    without a user has no history, like the first job of a new user. Missing values are NaN.

    With ``known_s`` int64 [rows], ascending, the submissions ``rows`` are described by what accounting held at that
    instant: the jobs that had ended.
    """
    events = events_of(jobs, start_s, local_s, end_s)
    keys, count = numbered(jobs, _present(jobs))
    state, like, *_ = walk(events, keys, count, rows=rows, known_s=known_s, running=known_s is None)
    del keys, _  # groups take as much memory as the table
    questions = events if rows is None else events[rows]
    now = questions["submit_s"] if known_s is None else np.maximum(questions["submit_s"], known_s)
    matrix = np.empty((len(questions), len(FEATURES)))
    matrix[:, 0], matrix[:, 1] = questions["requested_s"], questions["procs"]
    of_people = 2 + like.shape[1]
    alike = matrix[:, 2:of_people]
    alike[:] = like
    del like
    alike[alike == like_jobs.UNKNOWN] = np.nan
    columns = dict(zip(like_jobs.STATE, state.T, strict=True))
    local_s = questions["local_s"].astype(np.float64)
    for column, values in enumerate(history(columns, matrix[:, 1], now.astype(np.float64), local_s).values(), of_people):
        matrix[:, column] = values
    return pd.DataFrame(matrix, index=jobs.index if rows is None else jobs.index[rows], columns=list(FEATURES), copy=False)


def states_at(jobs: pd.DataFrame, start_s: np.ndarray, at_s: int, end_s: np.ndarray | None = None, running: bool = True) -> States:
    """Return users and groups at ``at_s`` (trace seconds).

    Arguments and errors are those of :func:`features.jobs.history.events_of`. A job is known if it had ended by
    ``at_s`` or, with ``running``, was running.
    """
    present = _present(jobs)
    keys, count = numbered(jobs, present)
    walked = walk(events_of(jobs, start_s, None, end_s), keys, count, rows=np.zeros(0, np.int64), until_s=at_s, running=running)
    state = pd.DataFrame(walked.users, columns=list(like_jobs.STATE))
    has_jobs = ((state["completed_jobs"] > 0) | (state["running_jobs"] > 0)).to_numpy()
    names = jobs["user"].cat.categories[: len(has_jobs)][has_jobs].astype("str")
    state = state[has_jobs].reset_index(drop=True)
    whole = [name for name in like_jobs.STATE if name.endswith(("_jobs", "_s", "procs"))]
    users = state.assign(**{name: masked(state[name].fillna(0).to_numpy(), state[name].notna().to_numpy()) for name in whole})
    users.insert(0, "user", names.to_numpy())
    users.insert(1, "at_s", np.int64(at_s))
    return States(users, _groups(jobs, keys, present, walked.groups))


def _present(jobs: pd.DataFrame) -> tuple[tuple[str, ...], ...]:
    """Return for each level the keys that the trace fills."""
    filled = {key for level in distinct(jobs).values() for key in level}
    return tuple(tuple(key for key in level if key in filled) for level in like_jobs.LEVELS)


def _groups(jobs: pd.DataFrame, keys: np.ndarray, present: tuple[tuple[str, ...], ...], states: np.ndarray) -> pd.DataFrame:
    tables = []
    for number, level in enumerate(present):
        group, row = np.unique(keys[:, number], return_index=True)
        row = row[(group >= 0) & (states[group, like_jobs.COUNT] > 0)]
        table = jobs[list(level)].iloc[row].reset_index(drop=True).reindex(columns=list(like_jobs.KEYS))
        tables.append(table.assign(level=np.int64(number), number=keys[row, number]))
    table = pd.concat(tables, ignore_index=True)
    text = {name: table[name].astype("str") for name in like_jobs.KEYS[:3]}
    number_keys = {name: table[name].astype("Int64") for name in like_jobs.KEYS[3:]}
    past = states[table["number"].to_numpy(np.int64)]
    ring = np.where(
        np.arange(like_jobs.RECENT) < past[:, [like_jobs.COUNT]],
        past[:, like_jobs.RING : like_jobs.RING + like_jobs.RECENT],
        np.nan,
    )
    ends = {"ended": past[:, like_jobs.COUNT].astype(np.int64), "last_end_s": past[:, like_jobs.LAST_END].astype(np.int64)}
    runtimes = {f"runtime_{slot}_log_s": ring[:, slot] for slot in range(like_jobs.RECENT)}
    return pd.DataFrame({"level": table["level"], **text, **number_keys, **ends, **runtimes})
