"""Numbers of the sessions and batches of a trace."""

from __future__ import annotations

from dataclasses import dataclass

from features.jobs.dependencies import OPEN, Graph
from sim.users.sessions import Batches


@dataclass(frozen=True)
class Facts:
    """Numbers of users, sessions, batches and jobs.

    ``as_recorded`` counts jobs that wait for none, ``of_several`` jobs whose batch waits for several batches. Jobs that name no
    user are counted only in ``as_recorded``, ``jobs`` and ``unnamed``.
    """

    users: int
    sessions: int
    batches: int
    jobs: int
    unnamed: int
    as_recorded: int
    of_several: int

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
    return Facts(
        users=int(batches.person[-1]) + 1 - unnamed if len(batches.person) else 0,
        sessions=int(batches.session[-1]) + 1 - unnamed if len(batches.session) else 0,
        batches=len(batches.session) - unnamed,
        jobs=len(waits.batch),
        unnamed=unnamed,
        as_recorded=int((waits.after_s == OPEN).sum()),
        of_several=int((waits.parents > 1)[waits.batch].sum()),
    )
