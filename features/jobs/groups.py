"""Groups of like jobs, at each level of :mod:`features.jobs.like_jobs`."""

from __future__ import annotations

import numpy as np

from features.deferred import pd
from features.jobs.like_jobs import LEVELS, PEOPLE
from features.jobs.schema import alike


def distinct(jobs: pd.DataFrame) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Return, by level, the keys that ``jobs`` fill, for levels that they tell apart.

    Keys that are empty throughout a trace are left out. Of levels with the same keys left the first is returned.
    """
    first: dict[tuple[str, ...], tuple[str, ...]] = {}
    for level in LEVELS:
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
        complete = np.all([codes[key] >= (0 if key in PEOPLE else -1) for key in level], axis=0)
        group = alike([codes[key][complete] for key in level])
        groups[complete, position] = group + count
        count += int(group.max(initial=-1)) + 1
    return groups, count
