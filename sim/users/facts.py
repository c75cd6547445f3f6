"""Numbers of the sessions, batches and think times of a trace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from features.jobs.dependencies import OPEN, Graph
from sim.users.sessions import Batches


@dataclass(frozen=True)
class Facts:
    """Numbers of users, sessions, batches and jobs.

    ``median_think_s`` is that of batches which begin no session (None: there are none). ``as_recorded`` counts jobs that wait for
    none, ``of_several`` jobs whose batch waits for several batches (at most ``most``), and ``beyond_swf`` jobs whose wait SWF's
    fields 17 and 18 cannot state. Jobs that name no user are counted only in ``as_recorded``, ``jobs`` and ``unnamed``.
    """

    users: int
    sessions: int
    batches: int
    jobs: int
    unnamed: int
    median_think_s: int | None
    as_recorded: int
    of_several: int
    most: int
    beyond_swf: int

    def notes(self) -> list[str]:
        """Return the facts in whole sentences."""
        notes = [
            f"{self.users:,} reacting users, in {self.sessions:,} sessions of {self.batches:,} batches: {self.jobs - self.as_recorded:,} of "
            f"{self.jobs:,} jobs are submitted when batches have ended, {self.of_several:,} when several have; the others as recorded."
        ]
        if self.unnamed:
            notes.append(f"{self.unnamed:,} jobs name no user, and are submitted as recorded.")
        return notes


def facts_of(waits: Graph, batches: Batches, unnamed: int) -> Facts:
    """Return the facts of a graph and its batches; ``unnamed`` jobs have no user."""
    inside = np.append(False, batches.session[1:] == batches.session[:-1])
    think = batches.think_s[inside & (batches.think_s >= 0)]
    waiting = waits.after_s != OPEN
    return Facts(
        users=int(batches.person[-1]) + 1 - unnamed if len(batches.person) else 0,
        sessions=int(batches.session[-1]) + 1 - unnamed if len(batches.session) else 0,
        batches=len(batches.session) - unnamed,
        jobs=len(waits.batch),
        unnamed=unnamed,
        median_think_s=int(np.median(think)) if len(think) else None,
        as_recorded=int((~waiting).sum()),
        of_several=int((waits.parents > 1)[waits.batch].sum()),
        most=int(waits.parents.max(initial=0)),
        beyond_swf=int((waiting & (waits.stated_rows() < 0)).sum()),
    )
