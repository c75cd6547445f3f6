"""Sessions, batches and what they wait for, in plain Python, as :mod:`sim.users` defines them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.oracle.scheduler import Waits


class Batch(NamedTuple):
    """Places of jobs, and the number of the user's session."""

    jobs: list[int]
    session: int


def batches(submit: Sequence[int], end: Sequence[int], jobs: list[int], session_s: int, rule: str) -> list[Batch]:
    """Return the batches of one user's ``jobs``, which are in order of submission."""
    batched = [Batch([jobs[0]], 0)]
    for place in range(1, len(jobs)):
        job, before = jobs[place], jobs[place - 1]
        ended = max(end[other] for other in jobs[:place]) if rule == "max" else end[before]
        think = submit[job] - ended
        away = submit[job] - submit[before] if rule == "arrival" else think
        session = batched[-1].session + (away > session_s)
        if session == batched[-1].session and think < 0:
            batched[-1].jobs.append(job)
        else:
            batched.append(Batch([job], session))
    return batched


def waits(
    user: Sequence[Any], submit: Sequence[int], end: Sequence[int], loop: str, session_s: int, rule: str
) -> list[Waits | None]:
    """Return for each job what it waits for, None if it is submitted as recorded."""
    waiting: list[Waits | None] = [None] * len(submit)
    for name in dict.fromkeys(user):
        mine = [job for job in range(len(submit)) if user[job] == name and name is not None]
        every = batches(submit, end, mine, session_s, rule) if mine else []

        def ended(batch: Batch) -> int:
            return max(end[job] for job in batch.jobs)

        def depends(later: Batch, batch: Batch) -> bool:
            return ended(batch) <= submit[later.jobs[0]]

        for batch in every:
            chosen = [other for other in every if depends(batch, other)]
            inside = [other for other in chosen if other.session == batch.session]
            as_recorded = loop == "semi-open" and not inside
            chosen = inside if loop == "semi-open" and inside else chosen
            parents = [other for other in chosen if not any(depends(third, other) for third in chosen)]
            for job in batch.jobs if parents else []:
                begin = submit[batch.jobs[0]] if as_recorded else max(map(ended, parents))
                rows = [row for other in parents for row in other.jobs]
                waiting[job] = Waits(rows, submit[job] - begin, submit[job] if as_recorded else 0)
    return waiting
