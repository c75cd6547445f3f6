"""Users' reactions by name, and the batches of jobs that a batch waits for.

The closed loop is that of Zakay & Feitelson. A user's jobs are taken in order of submission. A job that is submitted
before the user's previous one has ended does not wait for that end: it belongs to the same batch. Any other job begins
a batch ("Preserving user behavior characteristics in trace-based simulation of parallel job scheduling", MASCOTS 2014).

A batch depends on the earlier batches of its user all of whose jobs had ended when it was submitted. Of these it waits
for those on which no other of them depends. When all of them have ended and the user has thought, its jobs follow with
the recorded times between them. The think time is that between the last of those ends and the batch's first submission.
So if every job starts when it is recorded to have started, every job is submitted at its recorded time. A batch that
depends on none is submitted as recorded: a user's first, and batches submitted while all the user's earlier ones still
ran.

"Had ended before" is an order of intervals. So the batches that a batch waits for are neighbours by their ends, and
those that wait for a batch are neighbours by their submissions: no list of pairs is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from features.errors import InputError
from features.jobs.dependencies import OPEN, Graph
from models.runtime.options import Option, named, read

OPEN_LOOP, CLOSED = LOOPS = ("open", "closed")
RECORDED = "recorded"


@dataclass(frozen=True)
class Users:
    """How users react: the ``loop``, and where jobs' ends come from.

    ``ends`` is ``recorded``, or names the scheduler that simulates them from requests and recorded submissions.
    """

    loop: str = OPEN_LOOP
    ends: str = RECORDED


@lru_cache(maxsize=256)
def users(name: str) -> Users:
    """Return the users called ``name``, such as ``closed(ends=EASY)``.

    InputError with the known names for any other. ``open`` takes no options, because submissions are as recorded.
    """
    try:
        loop, options = named(name)
        if loop not in LOOPS:
            raise InputError(f"known: {', '.join(LOOPS)}, with an option as in closed(ends=EASY)")
        if loop == OPEN_LOOP and options:
            raise InputError("takes no options, because submissions are as recorded")
        values = read(options, {"ends": Option(RECORDED)})
    except InputError as error:
        raise InputError(f"users {name!r}: {error}") from error
    return Users(loop, values["ends"])


class Batches(NamedTuple):
    """The batches of a trace, int64: by user, and for each user in order of submission.

    ``of_job`` [jobs] numbers them; the rest is [batches]. ``person`` numbers users; a job of an unknown user is a user
    and a batch of its own. ``submit_s`` is the first submission, ``end_s`` the last end.
    """

    of_job: np.ndarray
    person: np.ndarray
    submit_s: np.ndarray
    end_s: np.ndarray


def batches(user: np.ndarray, submit_s: np.ndarray, end_s: np.ndarray) -> Batches:
    """Return the batches of jobs in order of submission; int64 [jobs], ``user`` -1 if unknown."""
    if len(user) == 0:
        return Batches(*[np.zeros(0, np.int64)] * 4)
    own = np.where(user < 0, user.max() + 1 + np.arange(len(user)), user)
    order = np.argsort(own, kind="stable")
    own, submit, end = own[order], submit_s[order], end_s[order]
    other = np.append(True, own[1:] != own[:-1])
    first = other | np.append(True, submit[1:] >= end[:-1])
    of_job = np.empty(len(user), np.int64)
    of_job[order] = np.cumsum(first) - 1
    at = np.flatnonzero(first)
    return Batches(of_job, np.cumsum(other)[at] - 1, submit[at], np.maximum.reduceat(end, at))


def graph(user: np.ndarray, submit_s: np.ndarray, end_s: np.ndarray) -> tuple[Graph, Batches]:
    """Return what jobs wait for, and their batches.

    Int64 [jobs] in order of submission; ``user`` is a code, -1 for unknown: such jobs wait for none.
    """
    batched = batches(user, submit_s, end_s)
    every, person = np.arange(len(batched.person)), batched.person
    if len(every) == 0:
        return Graph(batched.of_job, *[every] * 5), batched
    origin = int(batched.submit_s.min())
    span = int(batched.end_s.max()) - origin + 2
    submit, end = (
        person * span + seconds - origin + 1 for seconds in (batched.submit_s, batched.end_s)
    )  # person * span: before all
    by_end = np.argsort(end, kind="stable")
    ends, latest = end[by_end], np.maximum.accumulate(submit[by_end])
    ended = np.searchsorted(ends, submit, "right")
    # the latest submission among batches ended by then: another one depends on those that ended before it
    bar = np.maximum(np.append(latest, 0)[ended - 1], person * span)
    parents = ended - np.searchsorted(ends, bar, "right")
    think_s = submit - np.append(ends, 0)[ended - 1]
    after_s = np.where(parents > 0, think_s, OPEN)[batched.of_job]
    after_s += np.where(after_s == OPEN, 0, submit_s - batched.submit_s[batched.of_job])
    first, last = np.searchsorted(submit, end, "left"), np.searchsorted(bar, end, "left")
    return Graph(batched.of_job, after_s, parents, every, first, last), batched


@dataclass(frozen=True)
class Facts:
    """Numbers of users, batches and jobs.

    ``as_recorded`` counts jobs that wait for none, ``of_several`` jobs whose batch waits for several batches. Jobs that
    name no user are counted only in ``as_recorded``, ``jobs`` and ``unnamed``.
    """

    users: int
    batches: int
    jobs: int
    unnamed: int
    as_recorded: int
    of_several: int

    def notes(self) -> list[str]:
        """Return the facts in whole sentences."""
        notes = [
            f"{self.users:,} reacting users, in {self.batches:,} batches: {self.jobs - self.as_recorded:,} of "
            f"{self.jobs:,} jobs are submitted when batches have ended, {self.of_several:,} when several have; the others as recorded."
        ]
        if self.unnamed:
            notes.append(f"{self.unnamed:,} jobs name no user, and are submitted as recorded.")
        return notes


def facts_of(waits: Graph, batches: Batches, unnamed: int) -> Facts:
    """Return the facts of a graph and its batches; ``unnamed`` jobs have no user."""
    return Facts(
        users=int(batches.person[-1]) + 1 - unnamed if len(batches.person) else 0,
        batches=len(batches.person) - unnamed,
        jobs=len(waits.batch),
        unnamed=unnamed,
        as_recorded=int((waits.after_s == OPEN).sum()),
        of_several=int((waits.parents > 1)[waits.batch].sum()),
    )
