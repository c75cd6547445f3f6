"""Batches and what they wait for, in plain Python, as :mod:`sim.users` defines them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from tests.oracle.scheduler import Waits


def batches(submit: Sequence[int], end: Sequence[int], jobs: list[int]) -> list[list[int]]:
    """Return the batches of one user's ``jobs``, which are in order of submission."""
    batched = [[jobs[0]]]
    for before, job in itertools.pairwise(jobs):
        if submit[job] < end[before]:
            batched[-1].append(job)
        else:
            batched.append([job])
    return batched


def waits(user: Sequence[Any], submit: Sequence[int], end: Sequence[int]) -> list[Waits | None]:
    """Return for each job what it waits for, None if it is submitted as recorded."""
    waiting: list[Waits | None] = [None] * len(submit)
    for name in dict.fromkeys(user):
        mine = [job for job in range(len(submit)) if user[job] == name and name is not None]
        every = batches(submit, end, mine) if mine else []

        def ended(batch: list[int]) -> int:
            return max(end[job] for job in batch)

        def depends(later: list[int], batch: list[int]) -> bool:
            return ended(batch) <= submit[later[0]]

        for batch in every:
            chosen = [other for other in every if depends(batch, other)]
            parents = [other for other in chosen if not any(depends(third, other) for third in chosen)]
            for job in batch if parents else []:
                waiting[job] = Waits([row for other in parents for row in other], submit[job] - max(map(ended, parents)))
    return waiting
